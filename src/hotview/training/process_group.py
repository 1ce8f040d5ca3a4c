"""The processes that train together: here one, which has all rows and asks nobody."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, TypeVar

import torch
from torch import Tensor

from hotview._types import Array

__all__ = ["AgreedInterrupt", "Interrupt", "ProcessGroup", "ProcessLostError"]

Told = TypeVar("Told")


class ProcessLostError(ConnectionError):
    """A process of a training is gone, and the others cannot go on without it.

    Parameters
    ----------
    text : str
        Which, and what to do.
    speaks : bool, default=True
        Whether this process is the one that should tell, of all that are left.

    Examples
    --------
    >>> from hotview.training.process_group import ProcessLostError
    >>> issubclass(ProcessLostError, OSError)
    True
    """

    def __init__(self, text: str, *, speaks: bool = True) -> None:
        super().__init__(text)
        self.speaks = speaks


class ProcessGroup:
    """What a fit asks of the processes that it runs in, answered for a single one.

    Parameters
    ----------
    rank : int, default=0
        Which process this is.
    size : int, default=1
        How many there are.

    Examples
    --------
    >>> from hotview.training.process_group import ProcessGroup
    >>> ranks = ProcessGroup()
    >>> ranks.is_first, ranks.first(lambda: 5)
    (True, 5)
    """

    #: where this process computes, if the others know
    device: torch.device | None = None
    #: whether rows are divided, be it among one
    is_shared = False
    #: who hears of Ctrl-C, and lets the others know
    ear: AgreedInterrupt | None = None

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @property
    def is_first(self) -> bool:
        """Whether this process writes, shows and decides."""
        return self.rank == 0

    def first(self, ask: Callable[[], Told]) -> Told:
        """What the first process says, in all of them: whatever JSON can hold, or its error."""
        return ask()

    def collect(self, array: Array) -> list[Array]:
        """Arrays of one dimension and one dtype from all processes, in their order."""
        return [array]

    def share(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of the first process, in all of them."""
        return tensors

    def gather(self, part: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Tensors of one dimension from all processes, whose sizes are known."""
        return [part]

    def average(self, tensor: Tensor) -> Tensor:
        """The mean of a tensor over all processes, in its place."""
        return tensor

    def listen(self) -> Interrupt:
        """Whoever hears of Ctrl-C."""
        return Interrupt()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let the others know what went wrong inside, before this process is gone."""
        yield


class Interrupt:
    """Remembers the first Ctrl-C while it is entered; the second one stops at once.

    Outside the main thread, where Python delivers no signals, it does nothing.

    Parameters
    ----------
    *signals : signal
        Those that count; Ctrl-C alone, if none is named.

    Examples
    --------
    >>> from hotview.training.process_group import Interrupt
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
    >>> from hotview.training.process_group import AgreedInterrupt
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
