"""The processes that train together: here one, which has all rows and asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from hotview._types import Array
from hotview.training.interrupt import AgreedInterrupt, Interrupt

__all__ = ["RankLostError", "Ranks"]

Told = TypeVar("Told")


class RankLostError(ConnectionError):
    """A process of a training is gone, and the others cannot go on without it.

    Parameters
    ----------
    text : str
        Which, and what to do.
    speaks : bool, default=True
        Whether this process is the one that should tell, of all that are left.

    Examples
    --------
    >>> from hotview.training.ranks import RankLostError
    >>> issubclass(RankLostError, OSError)
    True
    """

    def __init__(self, text: str, *, speaks: bool = True) -> None:
        super().__init__(text)
        self.speaks = speaks


class Ranks:
    """What a fit asks of the processes that it runs in, answered for a single one.

    Parameters
    ----------
    rank : int, default=0
        Which process this is.
    size : int, default=1
        How many there are.

    Examples
    --------
    >>> from hotview.training.ranks import Ranks
    >>> ranks = Ranks()
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
