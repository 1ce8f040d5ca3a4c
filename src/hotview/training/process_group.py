"""The processes that train together, the rows that each reads, and the handling of Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray

__all__ = [
    "Interrupt",
    "ProcessGroup",
    "ProcessLostError",
    "RowShard",
    "RowsByRank",
    "catch_interrupt",
    "shard_of_rank",
]

Result = TypeVar("Result")


class ProcessLostError(ConnectionError):
    """A process of a training is gone, and the others cannot continue without it.

    Parameters
    ----------
    text : str
        Which process, and what to do.
    is_reporter : bool, default=True
        Whether this process is the one that prints the error, of all that are left.

    Examples
    --------
    >>> from hotview.training.process_group import ProcessLostError
    >>> issubclass(ProcessLostError, OSError)
    True
    """

    def __init__(self, text: str, *, is_reporter: bool = True) -> None:
        super().__init__(text)
        self.is_reporter = is_reporter


class ProcessGroup:
    """The collective operations of a fit, here for a single process.

    Parameters
    ----------
    rank : int, default=0
        Rank of this process.
    world_size : int, default=1
        Number of processes.

    Examples
    --------
    >>> from hotview.training.process_group import ProcessGroup
    >>> group = ProcessGroup()
    >>> group.is_rank_zero, group.on_rank_zero(lambda: 5)
    (True, 5)
    """

    #: device of this process, where the launcher has chosen it
    device: torch.device | None = None
    #: whether rows are sharded; also with a world size of 1
    is_distributed = False
    #: the handler of Ctrl-C while training, where processes have to agree on it
    interrupt: Interrupt | None = None

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank, self.world_size = rank, world_size
        #: whether this process writes files, shows progress and calls callbacks
        self.is_rank_zero = rank == 0

    def on_rank_zero(self, compute: Callable[[], Result]) -> Result:
        """Call `compute` on rank 0; return its result, which JSON can hold, or raise its error."""
        return compute()

    def all_gather_arrays(self, array: Array) -> list[Array]:
        """Return the one-dimensional arrays of all ranks, which share a dtype."""
        return [array]

    def broadcast(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of rank 0."""
        return tensors

    def all_gather(self, tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Return the one-dimensional tensors of all ranks, whose sizes are known."""
        return [tensor]

    def all_reduce_mean(self, tensor: Tensor) -> Tensor:
        """Return the mean of a tensor over all ranks, in place."""
        return tensor

    def catch_interrupt(self) -> AbstractContextManager[Interrupt]:
        """Return a handler of Ctrl-C."""
        return catch_interrupt()

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Report an error that is raised inside to the other ranks."""
        yield


@dataclass
class Interrupt:
    """Whether Ctrl-C was received, and whether the fit is to stop.

    Parameters
    ----------
    received : bool, default=False
        Whether this process has received the signal.
    requested : bool, default=False
        Whether to stop; several processes stop once all have agreed on it.
    """

    received: bool = False
    requested: bool = False


@contextmanager
def catch_interrupt(*signals: signal.Signals, agreed: bool = False) -> Iterator[Interrupt]:
    """Record the first Ctrl-C inside; the second one stops at once.

    Outside the main thread, where Python delivers no signals, it does nothing.

    Parameters
    ----------
    *signals : signal
        Signals to handle; Ctrl-C alone by default.
    agreed : bool, default=False
        Whether a signal is only received, because processes have to agree on the request.

    Yields
    ------
    Interrupt
        What was received so far.

    Examples
    --------
    >>> from hotview.training.process_group import catch_interrupt
    >>> with catch_interrupt() as interrupt:
    ...     interrupt.requested
    False
    """
    interrupt, before = Interrupt(), dict[signal.Signals, Any]()

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    def handle(number: int, frame: FrameType | None) -> None:
        interrupt.received, interrupt.requested = True, not agreed
        restore()

    if threading.current_thread() is threading.main_thread():
        for number in signals or (signal.SIGINT,):
            handler = signal.getsignal(number)
            # A program that ignores Ctrl-C, or handles it outside Python, keeps doing so.
            if callable(handler) or (number != signal.SIGINT and handler == signal.SIG_DFL):
                before[number] = handler
                signal.signal(number, handle)
    try:
        yield interrupt
    finally:
        restore()


def shard_of_rank(n: int, rank: int, world_size: int) -> slice:
    """Return the contiguous rows of a table that one rank reads.

    Parameters
    ----------
    n : int
        Number of rows of the table.
    rank : int
        Rank of the process.
    world_size : int
        Number of processes.

    Returns
    -------
    slice
        Its rows, of equal number for all ranks up to rounding.

    Examples
    --------
    >>> from hotview.training.process_group import shard_of_rank
    >>> [shard_of_rank(5, rank, 2) for rank in (0, 1)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(n * rank // world_size, n * (rank + 1) // world_size)


@dataclass(frozen=True)
class RowShard:
    """The rows of all views that one rank reads.

    Every table is divided by itself. If the whole view were, the rank with its first rows would
    have all linked rows, and with them all labels.

    Parameters
    ----------
    rank : int
        Rank of the process.
    world_size : int
        Number of processes.
    edges : list of ndarray of int64
        Where in the rows of every view the part of each rank begins, table by table, and the end.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.training.process_group import RowShard
    >>> shard = RowShard.of([np.array([0, 4, 10])], rank=1, world_size=2)  # tables of 4 and 6 rows
    >>> shard.owners(0, np.arange(10))
    array([0, 0, 1, 1, 0, 0, 0, 1, 1, 1])
    """

    rank: int
    world_size: int
    edges: list[IntArray]

    @classmethod
    def of(cls, starts: Sequence[IntArray], rank: int, world_size: int) -> RowShard:
        """Divide views, given where their tables begin and end."""
        edges, ranks = [], range(world_size)
        for view in starts:
            tables = zip(view[:-1].tolist(), np.diff(view).tolist(), strict=True)
            inner = [t + shard_of_rank(n, r, world_size).start for t, n in tables for r in ranks]
            edges.append(np.array([*inner, view[-1]], dtype=np.int64))
        return cls(rank, world_size, edges)

    def owners(self, s: int, rows: IntArray) -> IntArray:
        """Return the rank that reads each of some rows of view s."""
        parts: IntArray = np.searchsorted(self.edges[s], rows, side="right") - 1
        owners: IntArray = parts % self.world_size
        return owners

    def select(self, s: int, rows: IntArray) -> IntArray:
        """Return those of some rows of view s that this rank reads, in their order."""
        own: IntArray = rows[self.owners(s, rows) == self.rank]
        return own


@dataclass(frozen=True)
class RowsByRank:
    """The rows of one view in a batch, grouped by the rank that reads them.

    Parameters
    ----------
    positions : list of ndarray of int64
        Positions in the batch of the rows of every rank.
    inverse : ndarray of int64
        Position of each row of the batch in the concatenation of the rows of all ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.training.process_group import RowsByRank
    >>> rows = RowsByRank.of(np.array([1, 0, 1]), world_size=2)
    >>> [positions.tolist() for positions in rows.positions], rows.inverse.tolist()
    ([[1], [0, 2]], [1, 0, 2])
    """

    positions: list[IntArray]
    inverse: IntArray

    @classmethod
    def of(cls, owners: IntArray, world_size: int) -> RowsByRank:
        """Group the rows of a batch by their owners."""
        order = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=world_size)
        inverse = np.empty(len(owners), dtype=np.int64)
        inverse[order] = np.arange(len(owners))
        return cls(np.split(order, np.cumsum(counts)[:-1]), inverse)
