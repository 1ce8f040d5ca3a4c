"""How many rows are done, for people who have been waiting."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["RowsBar"]

_PATIENCE = 2.0  # seconds without a word


class RowsBar:
    """A bar over rows that appears where they take longer than two seconds, on a terminal.

    Parameters
    ----------
    what : str
        What is done to them.
    n_rows : int
        How many there are.
    console : Console or None, default=None
        Where to draw; None is the standard error stream.

    Examples
    --------
    >>> from hotview.cli.progress import RowsBar
    >>> with RowsBar("predicting", 100) as bar:  # which takes no time
    ...     bar.advance(50)
    """

    def __init__(self, what: str, n_rows: int, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("rows, left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(what, total=n_rows)
        self.start = time.monotonic()
        self.shown = False

    def __enter__(self) -> RowsBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.shown:
            self.progress.stop()

    def advance(self, n: int) -> None:
        """Tell that rows are done."""
        self.progress.advance(self.task, n)
        if not self.shown and time.monotonic() - self.start > _PATIENCE:
            self.shown = True
            self.progress.start()
