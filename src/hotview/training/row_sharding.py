"""Which rows each of several processes reads, and whose rows make a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotview._types import IntArray

__all__ = ["RowShard", "ShardAssignment", "own_rows"]


def own_rows(n: int, rank: int, size: int) -> slice:
    """The rows of a table that one of several processes reads: as many for each, side by side.

    Parameters
    ----------
    n : int
        Rows of the table.
    rank : int
        Which process.
    size : int
        How many processes there are.

    Returns
    -------
    slice
        Its rows.

    Examples
    --------
    >>> from hotview.training.row_sharding import own_rows
    >>> [own_rows(5, rank, 2) for rank in (0, 1)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(n * rank // size, n * (rank + 1) // size)


@dataclass(frozen=True)
class RowShard:
    """The part of the rows of all views that one of several processes reads.

    Every table is divided by itself: were it the view, whoever has the first rows of it would have
    all that are linked, and with them all labels.

    Parameters
    ----------
    rank : int
        Which process.
    size : int
        How many processes there are.
    edges : list of ndarray of int64
        Where in the rows of every view the part of a process begins, table by table, and the end.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.training.row_sharding import RowShard
    >>> share = RowShard.of([np.array([0, 4, 10])], rank=1, size=2)  # tables of 4 and of 6 rows
    >>> share.owners(0, np.arange(10))
    array([0, 0, 1, 1, 0, 0, 0, 1, 1, 1])
    """

    rank: int
    size: int
    edges: list[IntArray]

    @classmethod
    def of(cls, starts: Sequence[IntArray], rank: int, size: int) -> RowShard:
        """Divide views, told by where their tables begin and end."""
        return cls(rank, size, [_edges(view, size) for view in starts])

    def owners(self, s: int, rows: IntArray) -> IntArray:
        """Who reads each of some rows of view s."""
        parts: IntArray = np.searchsorted(self.edges[s], rows, side="right") - 1
        owners: IntArray = parts % self.size
        return owners

    def pick(self, s: int, rows: IntArray) -> IntArray:
        """Those of some rows of view s that this process reads, in their order."""
        own: IntArray = rows[self.owners(s, rows) == self.rank]
        return own

    def clip(self, s: int, start: int, end: int) -> list[tuple[int, int]]:
        """Stretches of a stretch of rows of view s that this process reads."""
        own = range(self.rank, len(self.edges[s]) - 1, self.size)
        spans = [(self.edges[s][i], self.edges[s][i + 1]) for i in own]
        inside = [(max(start, int(first)), min(end, int(last))) for first, last in spans]
        return [(first, last) for first, last in inside if first < last]


def _edges(starts: IntArray, size: int) -> IntArray:
    tables = zip(starts[:-1].tolist(), np.diff(starts).tolist(), strict=True)
    inner = [start + own_rows(n, r, size).start for start, n in tables for r in range(size)]
    return np.array([*inner, starts[-1]], dtype=np.int64)


@dataclass(frozen=True)
class ShardAssignment:
    """Whose rows of one view make a batch.

    Parameters
    ----------
    places : list of ndarray of int64
        Where in the batch the rows of every process are.
    back : ndarray of int64
        Where each row of the batch is, when those of all processes lie one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.training.row_sharding import ShardAssignment
    >>> deal = ShardAssignment.of(np.array([1, 0, 1]), size=2)
    >>> [places.tolist() for places in deal.places], deal.back.tolist()
    ([[1], [0, 2]], [1, 0, 2])
    """

    places: list[IntArray]
    back: IntArray

    @classmethod
    def of(cls, owners: IntArray, size: int) -> ShardAssignment:
        """Sort the rows of a batch by their owners."""
        order = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=size)
        back = np.empty(len(owners), dtype=np.int64)
        back[order] = np.arange(len(owners))
        return cls(np.split(order, np.cumsum(counts)[:-1]), back)
