"""Rows of a view, taken as they are needed: large tables are not copied, and none is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from hotview._types import IntArray
from hotview._validation import ViewTable
from hotview.training.columns import Columns, n_present
from hotview.training.process_group import ProcessGroup
from hotview.training.row_sharding import RowShard, ShardAssignment

__all__ = ["ViewRows"]

_CHUNK = 4096  # rows encoded together
_DEVICE_SHARE = 0.25  # of an accelerator's free memory that one view may take
_SMALL = 2**26  # bytes of a view that are kept as they are needed, on the CPU


class ViewRows:
    """The rows of one view that hold anything, from one table or more, numbered through.

    Parameters
    ----------
    tables : sequence of ViewTable
        Where the rows are.
    columns : Columns
        How they are standardized when they are taken.
    device : torch.device
        Where they are needed. An accelerator with room for all rows gets all of them at once.
    present : sequence of ndarray of int64 or None, or None, default=None
        Which rows of every table to number; None takes all of it, or all of all.
    often : bool, default=False
        Whether rows are taken again and again, so that a small table is standardized only once.
    once : bool, default=False
        Whether every row is taken only once, so that an accelerator does not get all of them.
    ranks : ProcessGroup or None, default=None
        The processes that all have these rows and take the same samples of them; None is this one
        alone.
    """

    def __init__(
        self,
        tables: Sequence[ViewTable],
        columns: Columns,
        device: torch.device,
        present: Sequence[IntArray | None] | None = None,
        *,
        often: bool = False,
        once: bool = False,
        ranks: ProcessGroup | None = None,
    ) -> None:
        self.tables, self.columns, self.device = list(tables), columns, device
        self.ranks = ranks or ProcessGroup()
        # Where no row is left out, a row's number is its place, and no list is needed.
        self.present = present or [None] * len(self.tables)
        self.starts = np.cumsum([0, *map(n_present, self.tables, self.present)])
        #: all rows, standardized, where there is room for them
        self.ready: Tensor | None = None
        if (not once and self._fits_on_device()) or (often and self._is_small()):
            self.ready = self._standardize_all()

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.tables[0].n_columns

    @property
    def is_far(self) -> bool:
        """Whether there are many rows, and they are taken from where the caller has them."""
        return self.ready is None and len(self) * self.n_columns * 4 > _SMALL

    def take(self, rows: IntArray, out: Tensor | None = None) -> Tensor:
        """Return rows by number, standardized, in float32, on the device; in `out` if given."""
        if self.ready is not None:
            where = torch.from_numpy(rows).to(self.device, non_blocking=True)
            return torch.index_select(self.ready, 0, where, out=out)
        X = self._gather(rows).to(self.device)
        return X if out is None else out.copy_(X)

    def take_together(self, rows: IntArray) -> Tensor:
        """Rows as of `take`, the same in all processes, which have to ask for them together.

        Where a row costs as much as all around it, as in a parquet file, each process takes those
        that it trains on, and they tell each other.
        """
        is_lazy = any(table.is_lazy for table in self.tables)
        if self.ready is not None or not (self.ranks.is_shared and is_lazy):
            return self.take(rows)
        share = RowShard.of([self.starts], self.ranks.rank, self.ranks.size)
        deal = ShardAssignment.of(share.owners(0, rows), share.size)
        own = self._gather(rows[deal.places[share.rank]]).to(self.device)
        sizes = [len(places) * self.n_columns for places in deal.places]
        every = torch.cat(self.ranks.gather(own.reshape(-1), sizes))
        return every.view(-1, self.n_columns)[torch.from_numpy(deal.back).to(self.device)]

    def part(self, start: int, stop: int) -> Tensor:
        """Rows one after the other, as of `take`, but to be read only; they are not picked out."""
        if self.ready is not None:
            return self.ready[start:stop]
        if len(self.tables) == 1 and self.present[0] is None:
            return self.columns.apply(self.tables[0].rows(slice(start, stop))).to(self.device)
        return self.take(np.arange(start, min(stop, len(self))))

    def _standardize_all(self) -> Tensor:
        """All rows, written where they stay: parts that wait for each other would take twice it."""
        X = torch.empty(len(self), self.n_columns, dtype=torch.float32, device=self.device)
        start = 0
        for part in self.chunks():
            X[start : start + len(part)] = part
            start += len(part)
        return X

    def _gather(self, rows: IntArray) -> Tensor:
        if len(self.tables) == 1:
            return self._take_from(0, rows)
        X = torch.empty(len(rows), self.n_columns, dtype=torch.float32)
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for i in range(len(self.tables)):
            mine = np.flatnonzero(owner == i)
            if len(mine) > 0:
                X[torch.from_numpy(mine)] = self._take_from(i, rows[mine] - self.starts[i])
        return X

    def chunks(self, size: int = _CHUNK) -> Iterator[Tensor]:
        """All rows, in order, a few at a time."""
        for start in range(0, len(self), size):
            yield self.part(start, start + size)

    def touch(self, start: int, end: int) -> None:
        """Let the system read rows that will soon be taken, where they are in a mapped file."""
        for i, table in enumerate(self.tables):
            present, first = self.present[i], int(self.starts[i])
            here = slice(max(start - first, 0), min(end, int(self.starts[i + 1])) - first)
            if here.stop > here.start and present is not None:
                here = slice(int(present[here.start]), int(present[here.stop - 1]) + 1)
            if here.stop > here.start:
                table.touch(here)

    def _take_from(self, i: int, rows: IntArray) -> Tensor:
        present = self.present[i]
        return self.columns.apply(self.tables[i].rows(rows if present is None else present[rows]))

    def _is_small(self) -> bool:
        return self.device.type == "cpu" and len(self) * self.n_columns * 4 <= _SMALL

    def _fits_on_device(self) -> bool:
        if self.device.type != "cuda":
            return False
        free, _ = torch.cuda.mem_get_info(self.device)
        return len(self) * self.n_columns * 4 <= _DEVICE_SHARE * free
