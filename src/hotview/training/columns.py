"""What is known about the columns of a view, found in one pass over its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from hotview._types import Array, IntArray
from hotview._validation import Table

__all__ = ["Columns", "Scan", "check_finite", "scan_tables"]

_CHUNK = 2**21  # entries looked at together
_LARGEST = float(np.finfo(np.float32).max)


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
        standard = exact - mean
        standard /= scale
        return torch.from_numpy(np.ascontiguousarray(standard, dtype=np.float32))


@dataclass(frozen=True)
class Scan:
    """What one pass over a view's tables found.

    Parameters
    ----------
    columns : Columns
        How to standardize.
    present : list of ndarray of int64
        The rows of each table that hold anything; others are NaN throughout.
    constant : ndarray of int64
        Columns with a single value.
    """

    columns: Columns
    present: list[IntArray]
    constant: IntArray


def scan_tables(
    name: str, tables: Sequence[Table], *, standardize: bool, impute: str | None
) -> Scan:
    """Look at all rows of a view once: means, scales, what is missing and what is not finite.

    Parameters
    ----------
    name : str
        The view, for errors.
    tables : sequence of Table
        Its rows, in one or more tables with the same columns.
    standardize : bool
        Whether columns are to have mean 0 and variance 1.
    impute : {None, "mean"}
        What to do with NaN in a row that is not NaN throughout.

    Returns
    -------
    Scan
        What was found.
    """
    scanner = _Scanner(name)
    present = [scanner.look_at(table) for table in tables]
    scanner.refuse_what_is_not_finite(impute)
    n_rows = sum(len(rows) for rows in present)
    if n_rows < 2:
        raise ValueError(
            f"Expected view {name!r} to have at least 2 rows with values, but it has {n_rows}. "
            "Leave the view out, or give it more rows."
        )
    mean, variance, scale = (
        np.asarray(values)
        for values in (scanner.scaler.mean_, scanner.scaler.var_, scanner.scaler.scale_)
    )
    _check_statistics(name, mean, variance, standardize)
    columns = Columns(
        mean if standardize else np.zeros_like(mean),
        scale if standardize else np.ones_like(scale),
        mean if impute == "mean" else None,
    )
    # Where scikit-learn found nothing but rounding, it put 1 in the place of the deviation.
    return Scan(columns, present, np.flatnonzero(np.abs(scale**2 - variance) > 0.5 * scale**2))


def check_finite(name: str, table: Table, impute: str | None) -> IntArray:
    """Refuse what is not finite, as `scan_tables` does; return the rows that hold anything."""
    scanner = _Scanner(name, keeps_statistics=False)
    present = scanner.look_at(table)
    scanner.refuse_what_is_not_finite(impute)
    return present


def chunks(table: Table) -> Iterator[tuple[int, Array]]:
    """Rows of a table, a few at a time, with the number of the first."""
    step = max(1, _CHUNK // table.n_columns)
    for start in range(0, table.n_rows, step):
        yield start, table.rows(slice(start, start + step))


class _Scanner:
    """One pass over a view: statistics, and a count of what is not finite."""

    def __init__(self, name: str, *, keeps_statistics: bool = True) -> None:
        self.name, self.keeps_statistics = name, keeps_statistics
        self.scaler = StandardScaler()
        self.counts = {"NaN": 0, "infinity": 0}
        self.first: dict[str, tuple[int, int]] = {}

    def look_at(self, table: Table) -> IntArray:
        """Take in a table; return its rows that are not NaN throughout."""
        found = [self._look_at_rows(start, X) for start, X in chunks(table)]
        return np.concatenate(found)

    def _look_at_rows(self, start: int, X: Array) -> IntArray:
        exact = X.astype(np.float64)
        holes, infinite = np.isnan(exact), np.isinf(exact)
        rows = np.flatnonzero(~holes.all(axis=1))
        self._count("NaN", holes & ~holes.all(axis=1, keepdims=True), start)
        self._count("infinity", infinite, start)
        if self.keeps_statistics and len(rows) > 0 and self.counts["infinity"] == 0:
            with np.errstate(all="ignore"):  # what overflows is seen in the statistics
                self.scaler.partial_fit(exact[rows])
        return rows + start

    def _count(self, what: str, where: Array, start: int) -> None:
        n = int(where.sum())
        if n > 0 and what not in self.first:
            i, j = np.argwhere(where)[0]
            self.first[what] = int(i) + start, int(j)
        self.counts[what] += n

    def refuse_what_is_not_finite(self, impute: str | None) -> None:
        """Raise the error that says what is not finite, where, and what to do."""
        remedies = {"infinity": "Remove these entries or cap them."}
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


def _check_statistics(name: str, mean: Array, variance: Array, standardize: bool) -> None:
    empty = np.flatnonzero(np.isnan(mean))
    if len(empty) > 0:
        raise ValueError(
            f"Expected every column of view {name!r} to hold a value somewhere, but column "
            f"{empty[0]} is NaN in all rows, so that there is no mean to fill in. Drop the column."
        )
    if not np.isfinite(variance).all() or (not standardize and np.abs(mean).max() > _LARGEST):
        raise ValueError(
            f"Expected view {name!r} to hold numbers of ordinary size, but column "
            f"{int(np.argmax(~np.isfinite(variance)))} is too large to compute with. Rescale it."
        )
