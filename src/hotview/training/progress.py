"""Progress bar of a training."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

__all__ = ["ProgressBar", "wants_progress"]

_BAR_WIDTH = 72  # columns before the terms
_LINES = 10  # printed by a training where a bar cannot be drawn


def wants_progress(verbose: bool | str) -> bool:
    """Return whether to show progress; ``"auto"`` does in notebooks and at a prompt."""
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
    shown : bool
        Whether to show anything.
    """

    def __init__(self, n_steps: int, *, shown: bool) -> None:
        self.n_steps, self.shown = n_steps, shown
        self.console = Console(stderr=True)
        self.draws = self.console.is_terminal or self.console.is_jupyter
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[terms]}"),
            console=self.console,
            disable=not shown or not self.draws,
        )
        self.task = self.progress.add_task("training", total=n_steps, terms="")
        self.n_done = self.n_printed = 0

    def __enter__(self) -> ProgressBar:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def step(self, n: int = 1) -> None:
        """Advance by some steps."""
        self.n_done += n
        if self.shown:  # advancing a hidden bar takes time, too
            self.progress.advance(self.task, n)

    def epoch(self, row: dict[str, float], terms: list[str]) -> None:
        """Show the recorded values of an epoch."""
        if not self.shown:
            return
        shown = [f"{name} {row[name]:.3g}" for name in terms if name in row]
        text = "  ".join(shown)
        self.progress.update(self.task, terms=self._fit(shown))
        tenths = self.n_done * _LINES // self.n_steps
        if not self.draws and tenths > self.n_printed:
            self.print(f"epoch {int(row['epoch'])}, step {self.n_done}/{self.n_steps}: {text}")
        self.n_printed = tenths

    def _fit(self, terms: list[str]) -> str:
        """Return as many terms as fit beside the bar, which would shrink otherwise."""
        text, *rest = terms or [""]
        for term in rest:
            if len(text) + 2 + len(term) > self.console.width - _BAR_WIDTH:
                break
            text = f"{text}  {term}"
        return text

    def print(self, text: str) -> None:
        """Print a line, where progress is shown."""
        if self.shown:
            self.console.print(text, soft_wrap=True, highlight=False, markup=False)
