"""In which order rows come: all shuffled at once, or where they are many, window by window."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np

from hotview._types import IntArray

__all__ = ["Stream", "window_for"]

_AT_ONCE = 2**22  # numbers that are shuffled at once
_WINDOW = 2**20  # of more
_BLOCKS = 128  # of consecutive numbers in a window
_LARGE = 2**28  # bytes of rows that are drawn from in any order
_LEAST = 2**26  # bytes of the rows in a window, at least
_BATCHES = 100  # in a window, where they fit into what may be drawn in any order


def window_for(n_rows: int, n_columns: int, batch_size: int) -> int:
    """How many rows are shuffled together, so that a table on disk is read in long stretches.

    Up to 256 MB of rows are shuffled all at once. Of more, 64 MB are, or a hundred batches where
    that is more, up to 256 MB. (Of very many short rows a stream takes fewer, see there.)

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    n_columns : int
        Its columns.
    batch_size : int
        Rows of a batch.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> from hotview.training.row_streams import window_for
    >>> window_for(10**6, 64, 400), window_for(10**7, 64, 400), window_for(10**7, 64, 4096)
    (1000000, 262144, 409600)
    """
    row = 4 * n_columns
    if n_rows * row <= _LARGE:
        return max(1, n_rows)
    return max(1, _LEAST // row, min(_BATCHES * batch_size, _LARGE // row))


class Stream:
    """Numbers 0, …, n − 1 in random order, again and again, a batch at a time.

    A batch holds no number twice, and every number comes once before any comes again. A round is
    cut into windows, each of 128 blocks of consecutive numbers that are drawn at random; within a
    window every order is equally likely. With one window that is any order of all numbers.

    Parameters
    ----------
    n : int
        How many numbers.
    size : int
        How many of them in a batch, at most.
    random : numpy Generator
        Source of the order.
    window : int or None, default=None
        How many numbers are shuffled together; None takes all, or a million of more than four.
    """

    def __init__(
        self, n: int, size: int, random: np.random.Generator, window: int | None = None
    ) -> None:
        self.n, self.size, self.random = n, min(size, n), random
        if window is None or window > _AT_ONCE:
            window = n if n <= _AT_ONCE else _WINDOW
        self.block = n if window >= n else max(1, window // _BLOCKS)
        few = np.empty(0, dtype=np.int64)
        #: what is left of the windows that are open, in order
        self.rest: IntArray = few
        #: blocks of the windows that are not, in order
        self.blocks: IntArray = few
        #: numbers that come at the end of this round, having come at its beginning
        self.late: IntArray = few
        self._open_window()

    def next(self) -> IntArray:
        """The next batch."""
        while len(self.rest) < self.size:
            self._open_window()
        batch, self.rest = self.rest[: self.size], self.rest[self.size :]
        return batch

    @property
    def state(self) -> dict[str, IntArray]:
        """Where it stands, beside its generator; of one window that is what is left of it."""
        more = {"blocks": self.blocks, "late": self.late}
        return {"": self.rest, **{name: left for name, left in more.items() if len(left) > 0}}

    @state.setter
    def state(self, state: Mapping[str, IntArray]) -> None:
        few = np.empty(0, dtype=np.int64)
        rest, blocks, late = (state.get(name, few) for name in ("", "blocks", "late"))
        n_blocks = -(-self.n // self.block)
        for numbers, n in ((rest, self.n), (blocks, n_blocks), (late, self.n)):
            inside = (numbers >= 0) & (numbers < n)
            if numbers.dtype != np.int64 or numbers.ndim != 1 or not inside.all():
                raise ValueError("rows are drawn that there are not")
        self.rest, self.blocks, self.late = rest, blocks, late

    def twin(self, random: np.random.Generator) -> Stream:
        """One that goes on from here by itself, with a generator in the same state."""
        twin = copy.copy(self)  # arrays are replaced, never changed
        twin.random = random
        return twin

    def soon(self) -> list[tuple[int, int]]:
        """Spans of numbers in the next window, a share of them after every batch."""
        window = self.block * _BLOCKS
        used = max(0, window - len(self.rest))
        first, last = (_BLOCKS * max(0, x) // window for x in (used - self.size, used))
        starts = (self.blocks[first:last] * self.block).tolist()
        return [(start, min(start + self.block, self.n)) for start in starts]

    def _open_window(self) -> None:
        if len(self.blocks) == 0:
            self.blocks = self.random.permutation(-(-self.n // self.block))
            # What is in this batch already waits until the end of the new round.
            self.late = self.rest
        here, self.blocks = self.blocks[:_BLOCKS], self.blocks[_BLOCKS:]
        inside = (here[:, None] * self.block + np.arange(self.block)).ravel()
        order = self.random.permutation(inside[inside < self.n])
        if len(self.late) > 0:
            order = self._put_off(order)
        self.rest = np.concatenate([self.rest, order])
        if len(self.blocks) == 0:
            self.rest, self.late = np.concatenate([self.rest, self.late]), self.late[:0]

    def _put_off(self, order: IntArray) -> IntArray:
        """Leave out what comes late, and remember in which order it would have come."""
        late = np.zeros(self.n, dtype=bool)
        late[self.late] = True
        is_late = late[order]
        put_off = order[is_late]
        late[put_off] = False
        self.late = np.concatenate([self.late[late[self.late]], put_off])
        return order[~is_late]
