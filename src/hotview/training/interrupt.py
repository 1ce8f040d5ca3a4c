"""Ctrl-C, so that it stops after the current step instead of in the middle of it."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

__all__ = ["Interrupt"]


class Interrupt:
    """Remembers the first Ctrl-C while it is entered; the second one stops at once.

    Outside the main thread, where Python delivers no signals, it does nothing.

    Examples
    --------
    >>> from hotview.training.interrupt import Interrupt
    >>> with Interrupt() as interrupt:
    ...     interrupt.asked
    False
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: object = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):  # who ignores Ctrl-C, or handles it outside Python, keeps to that
                self._before = before
                signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()

    def _restore(self) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
            self._before = None
