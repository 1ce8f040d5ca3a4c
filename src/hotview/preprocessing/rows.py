"""Rows of a view, loaded as they are needed: large tables are not copied, and none is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from hotview._processes import (
    all_gather,
    all_gather_arrays,
    is_distributed,
    rank,
    shard_of_rank,
    world_size,
)
from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview.preprocessing.column_scaler import ColumnScaler

__all__ = [
    "RowShard",
    "RowsByRank",
    "ViewRows",
    "chunks",
    "n_present",
    "own_rows",
    "sample_rows",
]

CHUNK = 2**21  # entries of a chunk of a table
N_SAMPLE = 10_000  # maximum number of rows that determine statistics of columns
_N_SAMPLED_ENTRIES = 2**27  # and maximum number of their entries, if they are not sparse
_CACHED = 2**17  # entries of a chunk of a large table, which stay in the processor's cache
_MANY = 8  # chunks of a large table
_TOGETHER = 4096  # rows standardized together
_MEMORY_FRACTION = 0.25  # of an accelerator's free memory that one view may take
_SMALL = 2**26  # bytes of a view that is standardized only once, on the CPU
_REDUCED = 2**30  # the same of a view that is reduced


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
    >>> from hotview.preprocessing.rows import RowShard
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
    >>> from hotview.preprocessing.rows import RowsByRank
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


class ViewRows:
    """The rows of one view that hold a value, from one table or more, numbered consecutively.

    Parameters
    ----------
    tables : sequence of ViewTable
        The tables.
    scaler : ColumnScaler
        Standardizes rows when they are loaded.
    device : torch.device
        Device of the loaded rows. An accelerator with enough memory holds all of them at once.
    present : sequence of ndarray of int64 or None, or None, default=None
        Which rows of every table to number; None takes all of it, or all of all.
    often : bool, default=False
        Whether rows are loaded again and again, so that a small table is standardized only once.
    once : bool, default=False
        Whether every row is loaded only once, so that an accelerator does not hold all of them.
    """

    def __init__(
        self,
        tables: Sequence[ViewTable],
        scaler: ColumnScaler,
        device: torch.device,
        present: Sequence[IntArray | None] | None = None,
        *,
        often: bool = False,
        once: bool = False,
    ) -> None:
        self.tables, self.scaler, self.device = list(tables), scaler, device
        # Where no row is left out, row numbers are those of the table, and no list is needed.
        self.present = present or [None] * len(self.tables)
        self.starts = np.cumsum([0, *map(n_present, self.tables, self.present)])
        self.n_rows, self.n_columns = int(self.starts[-1]), scaler.n_outputs
        #: raises an error for invalid entries, where these are not validated yet
        self.check: Callable[[], object] | None = None
        #: all rows, standardized, where memory suffices
        self.ready: Tensor | None = None
        n_bytes = 4 * self.n_rows * self.n_columns
        if device.type == "cuda" and not once:
            free, _ = torch.cuda.mem_get_info(device)
            is_kept = n_bytes <= _MEMORY_FRACTION * free
        else:
            limit = _SMALL if scaler.components is None else _REDUCED
            is_kept = device.type == "cpu" and often and n_bytes <= limit
        if is_kept:  # filled in place: a list of parts would take twice the memory
            X = torch.empty(self.n_rows, self.n_columns, dtype=torch.float32, device=device)
            for start in range(0, self.n_rows, _TOGETHER):
                X[start : start + _TOGETHER] = self.part(start, start + _TOGETHER)
            self.ready = X

    def take(self, rows: IntArray, out: Tensor | None = None) -> Tensor:
        """Return rows by number, standardized, in float32, on the device; in `out` if given."""
        if self.ready is not None:
            where = torch.from_numpy(rows).to(self.device, non_blocking=True)
            return torch.index_select(self.ready, 0, where, out=out)
        X = self._gather(rows).to(self.device)
        return X if out is None else out.copy_(X)

    def take_on_all_ranks(self, rows: IntArray) -> Tensor:
        """Return rows as `take` does, the same on all ranks, which have to call it together.

        Where a single row is as expensive as its neighborhood, as in a parquet file, each rank
        loads the rows of its shard, and the ranks gather them.
        """
        is_lazy = any(table.is_lazy for table in self.tables)
        if self.ready is not None or not is_lazy or not is_distributed():
            return self.take(rows)
        shard = RowShard.of([self.starts], rank(), world_size())
        by_rank = RowsByRank.of(shard.owners(0, rows), world_size())
        own = self._gather(rows[by_rank.positions[rank()]]).to(self.device)
        sizes = [len(positions) * self.n_columns for positions in by_rank.positions]
        gathered = torch.cat(all_gather(own.reshape(-1), sizes)).view(-1, self.n_columns)
        return gathered[torch.from_numpy(by_rank.inverse).to(self.device)]

    def part(self, start: int, stop: int) -> Tensor:
        """Return consecutive rows as `take` does, as a read-only view where possible."""
        if self.ready is not None:
            return self.ready[start:stop]
        if len(self.tables) == 1 and self.present[0] is None:
            rows = self.tables[0].rows(slice(start, stop), dense=False)
            return self.scaler.transform(rows).to(self.device)
        return self.take(np.arange(start, min(stop, self.n_rows)))

    def _gather(self, rows: IntArray) -> Tensor:
        if len(self.tables) == 1:
            return self._load(0, rows)
        X = torch.empty(len(rows), self.n_columns, dtype=torch.float32)
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for i in range(len(self.tables)):
            mine = np.flatnonzero(owner == i)
            if len(mine) > 0:
                X[torch.from_numpy(mine)] = self._load(i, rows[mine] - self.starts[i])
        return X

    def _load(self, i: int, rows: IntArray) -> Tensor:
        """Return rows of table i, standardized."""
        present = self.present[i]
        chosen = rows if present is None else present[rows]
        return self.scaler.transform(self.tables[i].rows(chosen, dense=False))


def n_present(table: ViewTable, rows: IntArray | None) -> int:
    """Return the number of rows of a table that hold a value."""
    return table.n_rows if rows is None else len(rows)


def own_rows(table: ViewTable) -> slice:
    """Return the rows of a table that this process scans."""
    return shard_of_rank(table.n_rows, rank(), world_size())


def sample_rows(
    tables: Sequence[ViewTable],
    present: Sequence[IntArray | None] | None = None,
    limit: int = N_SAMPLE,
) -> Any:
    """Rows of the tables, evenly spaced, as many as the limits allow; sparse if all tables are."""
    present = present or [None] * len(tables)
    is_sparse = all(sparse.issparse(table.data) for table in tables)
    n = limit if is_sparse else min(limit, _N_SAMPLED_ENTRIES // tables[0].n_columns)
    total, parts = sum(map(n_present, tables, present)), []
    for table, rows in zip(tables, present, strict=True):
        n_rows = n_present(table, rows)
        n_chosen = min(n_rows, max(1, n * n_rows // total))
        chosen = np.linspace(0, n_rows - 1, n_chosen).astype(int)
        chosen = chosen if rows is None else rows[chosen]
        if not (table.is_lazy and is_distributed()):
            parts.append(table.rows(chosen, dense=not is_sparse))
            continue
        shard = own_rows(table)
        own = table.rows(chosen[(chosen >= shard.start) & (chosen < shard.stop)])
        gathered = all_gather_arrays(own.astype(np.float64).ravel())
        parts.append(np.concatenate(gathered).reshape(-1, table.n_columns))
    return sparse.csr_array(sparse.vstack(parts)) if is_sparse else np.concatenate(parts)


def chunks(table: ViewTable, within: slice | None = None) -> Iterator[tuple[int, Array]]:
    """Yield the rows of a table, or those of a slice, in chunks, with the number of the first."""
    within = within or slice(0, table.n_rows)
    # Files and sparse tables are slow to read in small pieces.
    is_array = table.is_array or table.is_lazy
    is_large = is_array and table.n_rows * table.n_columns > _MANY * CHUNK
    step = max(1, (min(_CACHED, CHUNK) if is_large else CHUNK) // table.n_columns)
    for start in range(within.start, within.stop, step):
        yield start, table.rows(slice(start, min(start + step, within.stop)))
