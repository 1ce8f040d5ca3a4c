"""What is known about the columns of a view, found in one pass over its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview.training.process_group import ProcessGroup
from hotview.training.row_sharding import own_rows

__all__ = ["Columns", "Scan", "check_finite", "scan_tables"]

_CHUNK = 2**21  # entries looked at together
_FITTING = 2**17  # of a large table, which stay in a processor's cache until they are done with
_LARGE = 8  # chunks
EXTREME = 1e18  # whose square float32 can still hold


@dataclass(frozen=True)
class Columns:
    """How the rows of one view become what an encoder sees.

    Parameters
    ----------
    mean : ndarray of float64
        Subtracted, where columns are standardized; 0 where not.
    scale : ndarray of float64
        Divided by; 1 for columns that are constant.
    fill : ndarray of float64 or None
        What takes the place of NaN; None where NaN is an error.
    """

    mean: Array
    scale: Array
    fill: Array | None

    def apply(self, X: Array) -> Tensor:
        """Fill, standardize and convert to float32; `X` itself is not changed."""
        exact = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        if self.fill is not None and np.isnan(exact).any():
            # A row without any value is an absent one; it stays recognizable.
            holes = np.isnan(exact) & ~np.isnan(exact).all(axis=1, keepdims=True)
            exact = np.where(holes, self.fill.astype(exact.dtype), exact)
        mean, scale = self.mean.astype(exact.dtype), self.scale.astype(exact.dtype)
        off = (self.mean - mean).astype(exact.dtype)  # what float32 has rounded off the mean
        # The first operation makes a copy; the others are torch's, twice as fast on narrow rows.
        standard = torch.from_numpy(exact - mean)
        standard.sub_(torch.from_numpy(off)).div_(torch.from_numpy(scale))
        return standard.to(torch.float32).contiguous()


@dataclass(frozen=True)
class Scan:
    """What one pass over a view's tables found.

    Parameters
    ----------
    columns : Columns
        How to standardize.
    present : list of ndarray of int64 or None
        The rows of each table that hold anything; others are NaN throughout. None: all do.
    constant : ndarray of int64
        Columns with a single value.
    """

    columns: Columns
    present: list[IntArray | None]
    constant: IntArray


def scan_tables(
    name: str,
    tables: Sequence[ViewTable],
    *,
    standardize: bool,
    impute: str | None,
    ranks: ProcessGroup | None = None,
) -> Scan:
    """Look at all rows of a view once: means, scales, what is missing and what is not finite.

    Parameters
    ----------
    name : str
        The view, for errors.
    tables : sequence of ViewTable
        Its rows, in one or more tables with the same columns.
    standardize : bool
        Whether columns are to have mean 0 and variance 1.
    impute : {None, "mean"}
        What to do with NaN in a row that is not NaN throughout.
    ranks : ProcessGroup or None, default=None
        The processes that share the looking, each at its own rows; None is this one alone.

    Returns
    -------
    Scan
        What was found.
    """
    ranks, scanner = ranks or ProcessGroup(), _Scanner(name)
    own = [own_rows(table.n_rows, ranks.rank, ranks.size) for table in tables]
    absent = [scanner.look_at(table, rows) for table, rows in zip(tables, own, strict=True)]
    if ranks.is_shared:
        scanner.hear_of_others(ranks, tables[0].n_columns)
        absent = [np.concatenate(ranks.collect(rows)) for rows in absent]
    present = list(map(_rows_but, tables, absent))
    scanner.refuse_what_is_not_finite(impute)
    n_rows = sum(map(n_present, tables, present))
    if n_rows < 2:
        raise ValueError(
            f"Expected view {name!r} to have at least 2 rows with values, but it has {n_rows}. "
            "Leave the view out, or give it more rows."
        )
    statistics = scanner.statistics
    _check_statistics(name, statistics, standardize)
    mean, constant = statistics.mean, statistics.constant
    columns = Columns(
        mean if standardize else np.zeros_like(mean),
        np.where(constant | (not standardize), 1.0, np.sqrt(statistics.variance)),
        mean if impute == "mean" else None,
    )
    return Scan(columns, present, np.flatnonzero(constant))


def n_present(table: ViewTable, rows: IntArray | None) -> int:
    """How many rows of a table hold anything."""
    return table.n_rows if rows is None else len(rows)


def check_finite(
    name: str, table: ViewTable, impute: str | None, columns: Columns | None = None
) -> IntArray:
    """Refuse what is not finite, as `scan_tables` does; return the rows that hold anything."""
    scanner = _Scanner(name, keeps_statistics=False, columns=columns)
    absent = scanner.look_at(table, slice(0, table.n_rows))
    scanner.refuse_what_is_not_finite(impute)
    present = _rows_but(table, absent)
    return np.arange(table.n_rows) if present is None else present


def _rows_but(table: ViewTable, absent: IntArray) -> IntArray | None:
    """Rows of a table that are not absent; None if none is."""
    return np.delete(np.arange(table.n_rows), absent) if len(absent) > 0 else None


def chunks(table: ViewTable, within: slice | None = None) -> Iterator[tuple[int, Array]]:
    """Rows of a table, or those of a slice, a few at a time, with the number of the first."""
    within = within or slice(0, table.n_rows)
    # What is stored elsewhere, or sparse, is slow to read in small pieces.
    is_array = table.is_array or table.is_lazy
    is_large = is_array and table.n_rows * table.n_columns > _LARGE * _CHUNK
    step = max(1, (min(_FITTING, _CHUNK) if is_large else _CHUNK) // table.n_columns)
    for start in range(within.start, within.stop, step):
        yield start, table.rows(slice(start, min(start + step, within.stop)))


class _Statistics:
    """Means and variances of columns over chunks of rows; NaN is passed over.

    Chunks are merged as in Chan, Golub and LeVeque (1983). (scikit-learn's ``partial_fit`` gives
    NaN where a chunk holds no value of a column.)
    """

    def __init__(self) -> None:
        self.n, self.mean, self.squares = np.zeros(()), np.zeros(()), np.zeros(())

    def add(self, X: Array) -> None:
        """Take in some rows, in float64."""
        known = ~np.isnan(X)
        n = known.sum(0)
        mean = np.where(known, X, 0).sum(0) / np.maximum(n, 1)
        self._merge(n, mean, np.where(known, X - mean, 0))

    def add_whole(self, X: Array, mean: Array) -> None:
        """Take in rows without NaN, in float64, whose mean is known; they are overwritten."""
        X -= mean
        self._merge(np.full(X.shape[1], len(X)), mean, X)

    def _merge(self, n: Array, mean: Array, gap: Array) -> None:
        """Take in rows less their mean, which are overwritten."""
        rounded_off = np.square(gap.sum(0)) / np.maximum(n, 1)
        self.combine(n, mean, np.square(gap, out=gap).sum(0) - rounded_off)

    def combine(self, n: Array, mean: Array, squares: Array) -> None:
        """Take in rows by their number, mean and squared distances from it, of every column."""
        delta, share = mean - self.mean, n / np.maximum(self.n + n, 1)
        self.squares = self.squares + squares + np.square(delta) * self.n * share
        self.mean = self.mean + delta * share
        self.n = self.n + n

    @property
    def variance(self) -> Array:
        """Variance of every column."""
        variance: Array = self.squares / np.maximum(self.n, 1)
        return variance

    @property
    def constant(self) -> Array:
        """Which columns vary by no more than rounding, as scikit-learn decides it."""
        eps = np.finfo(np.float64).eps
        bound = self.n * eps * self.variance + np.square(self.n * self.mean * eps)
        constant: Array = self.variance <= bound
        return constant


class _Scanner:
    """One pass over a view: statistics, and a count of what is not finite."""

    def __init__(
        self, name: str, *, keeps_statistics: bool = True, columns: Columns | None = None
    ) -> None:
        self.name, self.keeps_statistics, self.columns = name, keeps_statistics, columns
        self.statistics = _Statistics()
        self.counts = {"NaN": 0, "infinity": 0, "extreme values": 0}
        self.first: dict[str, tuple[int, int]] = {}

    def look_at(self, table: ViewTable, rows: slice) -> IntArray:
        """Take in some rows of a table; return those that are NaN throughout."""
        absent = [self._look_at_rows(start, X) for start, X in chunks(table, rows)]
        return np.concatenate([np.empty(0, dtype=np.int64), *absent])

    def hear_of_others(self, ranks: ProcessGroup, n_columns: int) -> None:
        """Take in what other processes have seen in other rows."""
        seen = (self.statistics.n, self.statistics.mean, self.statistics.squares)
        mine = np.concatenate([np.broadcast_to(x, n_columns) for x in seen])
        self.statistics = _Statistics()
        for theirs in ranks.collect(mine.astype(np.float64)):
            self.statistics.combine(*theirs.reshape(3, n_columns))
        for what, n in self.counts.items():
            found = ranks.collect(np.array([n, *self.first.get(what, (0, 0))]))
            self.counts[what] = sum(int(one[0]) for one in found)
            places = [(int(one[1]), int(one[2])) for one in found if one[0] > 0]
            if places:
                self.first[what] = places[0]

    def _look_at_rows(self, start: int, X: Array) -> IntArray:
        """Take in some rows; return those that are NaN throughout."""
        nobody = np.empty(0, dtype=np.int64)
        if not self.keeps_statistics and self._is_ordinary(X):
            return nobody
        exact = X.astype(np.float64, order="C")
        if self.keeps_statistics:
            with np.errstate(all="ignore"):
                mean = exact.mean(0)
            if np.isfinite(mean).all():  # which it is not where any entry is not
                self._add(exact, mean)
                return nobody
        return self._look_closely(start, exact)

    def _add(self, exact: Array, mean: Array | None) -> None:
        if self.counts["infinity"] > 0:  # then there will be an error
            return
        with np.errstate(all="ignore"):  # what overflows is seen in the statistics
            if mean is None:
                self.statistics.add(exact)
            else:
                self.statistics.add_whole(exact, mean)

    def _is_ordinary(self, X: Array) -> bool:
        """Whether all entries are finite, and none is extreme."""
        with np.errstate(all="ignore"):
            # The smallest and the largest of some numbers are NaN where any is. Those of all
            # columns together are found several times faster, and hardly ever leave a doubt.
            return self._is_within(np.array([[X.min()], [X.max()]], dtype=np.float64)) or (
                self._is_within(np.stack([X.min(axis=0), X.max(axis=0)]).astype(np.float64))
            )

    def _is_within(self, ends: Array) -> bool:
        if self.columns is None:
            return bool((np.abs(ends) < np.inf).all())
        size = np.abs((ends - self.columns.mean) / self.columns.scale)
        return bool((size <= EXTREME).all())

    def _look_closely(self, start: int, exact: Array) -> IntArray:
        holes = np.isnan(exact)
        absent = np.asarray(holes.all(axis=1))
        self._count("NaN", holes & ~absent[:, None], start)
        self._count("infinity", np.isinf(exact), start)
        if self.columns is not None:
            with np.errstate(all="ignore"):  # what overflows is extreme
                size = np.abs((exact - self.columns.mean) / self.columns.scale)
            self._count("extreme values", (size > EXTREME) & ~np.isinf(exact), start)
        if self.keeps_statistics and not absent.all():
            self._add(exact[~absent], None)
        return np.flatnonzero(absent) + start

    def _count(self, what: str, where: Array, start: int) -> None:
        n = int(where.sum())
        if n > 0 and what not in self.first:
            i, j = np.argwhere(where)[0]
            self.first[what] = int(i) + start, int(j)
        self.counts[what] += n

    def refuse_what_is_not_finite(self, impute: str | None) -> None:
        """Raise the error that says what is not finite, where, and what to do."""
        remedies = {
            "infinity": "Remove these entries or cap them.",
            "extreme values": "They are beyond anything at fit; remove these entries or cap them.",
        }
        if impute is None:
            remedies["NaN"] = (
                "impute='mean' fills NaN from the training means; a row that is NaN throughout "
                "the view counts as absent."
            )
        for what, remedy in remedies.items():
            if n := self.counts[what]:
                i, j = self.first[what]
                raise ValueError(
                    f"Expected view {self.name!r} to hold finite numbers, but it contains {what} "
                    f"in {n} {'entry' if n == 1 else 'entries'}, the first in row {i}, column {j}. "
                    f"{remedy}"
                )


def _check_statistics(name: str, statistics: _Statistics, standardize: bool) -> None:
    empty = np.flatnonzero(statistics.n == 0)
    if len(empty) > 0:
        raise ValueError(
            f"Expected every column of view {name!r} to hold a value somewhere, but column "
            f"{empty[0]} is NaN in all rows, so that there is no mean to fill in. Drop the column."
        )
    typical = np.hypot(statistics.mean, np.sqrt(statistics.variance))  # root of the mean square
    too_large = np.flatnonzero(~(typical < (np.inf if standardize else EXTREME)))
    if len(too_large) > 0:
        raise ValueError(
            f"Expected view {name!r} to hold numbers of ordinary size, but column {too_large[0]} "
            "is too large to compute with. Rescale it."
        )
