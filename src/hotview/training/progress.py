"""Progress bars of trainings, predictions and evaluations."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from hotview._processes import rank

__all__ = ["ProgressBar", "track", "wants_progress"]

Item = TypeVar("Item")

_BAR_WIDTH = 72  # columns before the terms
_LINES = 10  # printed by a training where a bar cannot be drawn


def wants_progress(verbose: bool | str) -> bool:
    """Return whether to show progress; ``"auto"`` does in notebooks and at a prompt.

    Of several processes only the first shows any.
    """
    if rank() > 0:
        return False
    if verbose != "auto":
        return bool(verbose)
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


class ProgressBar:
    """A bar over all steps with the terms of the loss and the time left.

    Where the output is neither a terminal nor a notebook (a log file), it prints ten lines, or one
    per epoch where there are fewer.

    Parameters
    ----------
    n_steps : int
        Total number of steps.
    shown : bool, default=True
        Whether to show anything.
    description : str, default="training"
        Text before the bar.
    delay : float, default=0.0
        Seconds before the bar appears.
    transient : bool, default=False
        Whether the bar disappears at the end.
    console : Console or None, default=None
        Where to draw; None is the standard error stream.
    """

    def __init__(
        self,
        n_steps: int,
        *,
        shown: bool = True,
        description: str = "training",
        delay: float = 0.0,
        transient: bool = False,
        console: Console | None = None,
    ) -> None:
        self.n_steps, self.shown = n_steps, shown
        self.console = console or Console(stderr=True)
        self.draws = self.console.is_terminal or self.console.is_jupyter
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[terms]}"),
            console=self.console,
            transient=transient,
            disable=not shown or not self.draws,
        )
        self.task = self.progress.add_task(description, total=n_steps, terms="")
        self.n_done = self.n_printed = 0
        self.start_time: float | None = time.monotonic() + delay  # None once the bar is drawn

    def __enter__(self) -> ProgressBar:
        self._start_if_due()
        return self

    def _start_if_due(self) -> None:
        if self.start_time is not None and time.monotonic() >= self.start_time:
            self.start_time = None
            self.progress.start()

    def __exit__(self, *exception: object) -> None:
        # rich 14.0 ends a bar that is not drawn by an empty line.
        if self.start_time is None and not self.progress.disable:
            self.progress.stop()

    def step(self, n: int = 1) -> None:
        """Advance the bar."""
        self.n_done += n
        if self.shown:  # advancing a hidden bar takes time, too
            self.progress.advance(self.task, n)
            self._start_if_due()

    def epoch(self, row: dict[str, float], terms: list[str]) -> None:
        """Show the recorded values of an epoch."""
        if not self.shown:
            return
        first, *rest = [f"{name} {row[name]:.3g}" for name in terms if name in row] or [""]
        text, fitting = "  ".join([first, *rest]), first
        for term in rest:  # the bar would shrink beside more than fit
            if len(fitting) + 2 + len(term) > self.console.width - _BAR_WIDTH:
                break
            fitting = f"{fitting}  {term}"
        self.progress.update(self.task, terms=fitting)
        tenths = self.n_done * _LINES // self.n_steps
        if not self.draws and tenths > self.n_printed:
            self.print(f"epoch {int(row['epoch'])}, step {self.n_done}/{self.n_steps}: {text}")
        self.n_printed = tenths

    def print(self, text: str) -> None:
        """Print a line, where progress is shown."""
        if self.shown:
            self.console.print(text, soft_wrap=True, highlight=False, markup=False)


def track(items: Iterable[Item], description: str, *, shown: bool) -> Iterator[Item]:
    """Yield items under a bar that disappears at the end."""
    items = list(items)
    bar = ProgressBar(len(items), shown=shown, description=description, transient=True)
    with bar:
        for item in items:
            yield item
            bar.step()
