"""One bar over all trainings, with the time left."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["TrainingsBar"]

_LINES = 10  # where a bar cannot be drawn
_HOURS = 24 * 3600.0  # of speed that the time left is estimated from: trainings end in bunches


class TrainingsBar:
    r"""A bar over trainings of different length; ten lines where the output is a file.

    Parameters
    ----------
    n_trainings : int
        How many there are.
    work : float
        What they take in all, in any unit.
    console : Console or None, default=None
        Where to draw; None is the standard error stream.

    Examples
    --------
    >>> import io
    >>> from rich.console import Console
    >>> from paper.progress import TrainingsBar
    >>> console = Console(file=io.StringIO())
    >>> with TrainingsBar(20, 60.0, console) as bar:
    ...     bar.advance(10, 30.0)
    >>> console.file.getvalue()
    '10/20 trainings, about 0 s left\n'
    """

    def __init__(self, n_trainings: int, work: float, console: Console | None = None) -> None:
        self.n_trainings, self.work = n_trainings, work
        self.n_done, self.work_done, self.printed_tenths = 0, 0.0, 0
        self.console = console or Console(stderr=True)
        self.draws = self.console.is_terminal
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.draws,
            speed_estimate_period=_HOURS,
        )
        self.task = self.progress.add_task(self._count(), total=work)
        self.start = time.perf_counter()

    def __enter__(self) -> TrainingsBar:
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.draws:  # rich 14.0 would print an empty line
            self.progress.stop()

    def advance(self, n_trainings: int, work: float) -> None:
        """Tell that trainings ended.

        Parameters
        ----------
        n_trainings : int
            How many.
        work : float
            Their share of the work.
        """
        self.n_done, self.work_done = self.n_done + n_trainings, self.work_done + work
        self.progress.update(self.task, advance=work, description=self._count())
        tenths = int(_LINES * self.work_done / self.work)
        if not self.draws and tenths > self.printed_tenths:
            self.console.print(f"{self._count()}, about {self._left()} left", highlight=False)
        self.printed_tenths = tenths

    def _count(self) -> str:
        return f"{self.n_done}/{self.n_trainings} trainings"

    def _left(self) -> str:
        elapsed = time.perf_counter() - self.start
        seconds = elapsed * max(0.0, self.work - self.work_done) / self.work_done
        return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
