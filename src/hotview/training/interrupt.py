"""Ctrl-C, so that it stops after the current step instead of in the middle of it."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["AgreedInterrupt", "Interrupt"]


class Interrupt:
    """Remembers the first Ctrl-C while it is entered; the second one stops at once.

    Outside the main thread, where Python delivers no signals, it does nothing.

    Parameters
    ----------
    *signals : signal
        Those that count; Ctrl-C alone, if none is named.

    Examples
    --------
    >>> from hotview.training.interrupt import Interrupt
    >>> with Interrupt() as interrupt:
    ...     interrupt.asked
    False
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self.asked = False
        self._signals = signals or (signal.SIGINT,)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                before = signal.getsignal(number)
                # Who ignores Ctrl-C, or handles it outside Python, keeps to that.
                if callable(before) or (number != signal.SIGINT and before == signal.SIG_DFL):
                    self._before[number] = before
                    signal.signal(number, self._remember)
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
        while self._before:
            signal.signal(*self._before.popitem())


class AgreedInterrupt(Interrupt):
    """One of several processes' ear for Ctrl-C, which counts when all have heard of it.

    Examples
    --------
    >>> from hotview.training.interrupt import AgreedInterrupt
    >>> interrupt = AgreedInterrupt()
    >>> interrupt.heard, interrupt.asked
    (False, False)
    """

    def __init__(self, *signals: signal.Signals) -> None:
        super().__init__(*signals)
        #: whether this process has heard of it
        self.heard = False

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        self._restore()
