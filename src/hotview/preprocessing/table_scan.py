"""One pass over the tables of a view: statistics of columns, absent rows, invalid values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from hotview._processes import all_gather_arrays, is_distributed
from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview.preprocessing.column_scaler import (
    WIDE,
    ColumnScaler,
    column_medians,
    is_in_memory,
    is_sparse,
    looks_like_counts,
    root_shares,
)
from hotview.preprocessing.drift import ColumnRanges, fit_ranges
from hotview.preprocessing.pca import component_weights, fit_components, looks_like_components
from hotview.preprocessing.rows import CHUNK, N_SAMPLE, chunks, n_present, own_rows, sample_rows

__all__ = ["TableScan", "check_finite", "scan_tables"]

_N_RANGES = 2**22  # entries of rows that determine the ranges of columns, where no others do
_N_LOOK = 1000  # rows by which counts are recognized

EXTREME = 1e18  # its square is still finite in float32
_NEGATIVE = "negative numbers"
_REDUCING = ("auto", "pca", "counts")  # kinds of preprocessing that reduce wide views


@dataclass(frozen=True)
class TableScan:
    """Result of one pass over a view's tables.

    Parameters
    ----------
    scaler : ColumnScaler
        How to preprocess rows.
    present : list of ndarray of int64 or None
        The rows of each table that hold a value; others are NaN throughout. None: all do.
    constant : ndarray of int64
        Columns with a single value.
    ranges : ColumnRanges
        Where the values of columns are.
    """

    scaler: ColumnScaler
    present: list[IntArray | None]
    constant: IntArray
    ranges: ColumnRanges


def scan_tables(
    name: str,
    tables: Sequence[ViewTable],
    *,
    preprocessing: str,
    impute: str | None,
    device: torch.device | None = None,
) -> TableScan:
    """Compute statistics and absent rows of a view, and validate that its values are finite.

    Several processes scan together, each its own rows.

    Parameters
    ----------
    name : str
        Name of the view, for errors.
    tables : sequence of ViewTable
        Its rows, in one or more tables with the same columns.
    preprocessing : {"auto", "pca", "counts", "components", "standardize", "none"}
        What is done to the columns; see `MultiViewClassifier`.
    impute : {None, "mean", "median", "mean+indicator", "median+indicator"}
        What to do with NaN in a row that is not NaN throughout. Medians are those of all rows
        where these are in memory, else of up to 10,000 rows, evenly spaced.
    device : torch.device or None, default=None
        Where components are computed; None is the CPU.

    Returns
    -------
    TableScan
        Scaler, present rows and constant columns.
    """
    is_wide = tables[0].n_columns > WIDE
    is_counts = preprocessing == "counts"
    if is_wide and preprocessing == "auto":
        is_counts = looks_like_counts(sample_rows(tables, limit=_N_LOOK))
    scanner = _Scanner(name, is_counts=is_counts)
    absent = [scanner.scan(table, own_rows(table)) for table in tables]
    if is_distributed():
        scanner.combine_ranks(tables[0].n_columns)
        absent = [np.concatenate(all_gather_arrays(rows)) for rows in absent]
    if scanner.counts[_NEGATIVE] > 0 and preprocessing == "auto":  # these are not counts after all
        return scan_tables(name, tables, preprocessing="pca", impute=impute, device=device)
    present = [
        np.delete(np.arange(table.n_rows), rows) if len(rows) > 0 else None
        for table, rows in zip(tables, absent, strict=True)
    ]
    scanner.raise_if_not_finite(impute, tables[0])
    n_rows = sum(map(n_present, tables, present))
    if n_rows < 2:
        raise ValueError(
            f"Expected view {name!r} to have at least 2 rows with values, but it has {n_rows}. "
            "Leave the view out, or give it more rows."
        )
    _check_moments(name, tables[0], scanner.moments, preprocessing != "none")
    sample: Any = np.empty((0, 0))
    if preprocessing == "auto" or (is_wide and preprocessing in _REDUCING):
        sample = sample_rows(tables, present)
    scaler = _make_scaler(scanner, sample, preprocessing)
    if impute is not None:
        fill = scanner.moments.mean
        if impute.startswith("median"):
            some = tables, present
            if not all(map(is_in_memory, tables)):
                some = [ViewTable(sample_rows(tables, present))], [None]
            medians = column_medians(*some, is_counts=scanner.is_counts)
            fill = np.where(np.isnan(medians), fill, medians)  # unknown in a sample of rows
        scaler = replace(scaler, fill=fill, impute=impute)
    if impute is not None and impute.endswith("+indicator"):
        scaler = _add_indicators(scaler, (n_rows - scanner.moments.n) / n_rows)
    if is_wide and preprocessing in _REDUCING:
        scaler = fit_components(scaler, sample, device or torch.device("cpu"))
    if sample.shape[1] == 0:
        n_compared = max(_N_LOOK // 10, _N_RANGES // tables[0].n_columns)
        sample = sample_rows(tables, present, min(N_SAMPLE, n_compared))
    ranges = fit_ranges(sample, is_counts=scanner.is_counts)
    return TableScan(scaler, present, np.flatnonzero(scanner.moments.constant), ranges)


def _make_scaler(scanner: _Scanner, sample: Any, preprocessing: str) -> ColumnScaler:
    """How to center and scale columns, by their moments and by some rows."""
    moments, kind = scanner.moments, "none" if preprocessing == "none" else "standardize"
    mean, scale = moments.mean, np.sqrt(moments.variance)
    if kind == "none":
        mean, scale = np.zeros_like(mean), np.ones_like(scale)
    elif scanner.is_counts:  # common words and genes vary most, but do not tell most
        kind, scale = "counts", np.sqrt(scale)
    elif preprocessing == "components" or (
        preprocessing == "auto" and not sparse.issparse(sample) and looks_like_components(sample)
    ):
        kind, scale = "components", 1 / component_weights(moments.variance)
    return ColumnScaler(mean, np.where(moments.constant, 1.0, scale), None, kind)


def _add_indicators(scaler: ColumnScaler, missing: Array) -> ColumnScaler:
    """Add indicators of columns by the share of every column that is missing."""
    columns = np.flatnonzero(missing > 0)
    if len(columns) == 0:
        return scaler
    mean, scale = missing[columns], np.sqrt(missing * (1 - missing))[columns]
    if scaler.kind == "none":
        mean, scale = np.zeros_like(mean), np.ones_like(scale)
    elif scaler.kind == "counts":
        scale = np.sqrt(scale)
    return replace(
        scaler,
        mean=np.concatenate([scaler.mean, mean]),
        scale=np.concatenate([scaler.scale, scale]),
        indicators=columns,
    )


def check_finite(
    name: str, table: ViewTable, impute: str | None, scaler: ColumnScaler | None = None
) -> IntArray:
    """Raise an error for values that are not finite; return the rows that hold a value."""
    rows = np.arange(table.n_rows)
    if table.is_array and 0 < table.data.size <= CHUNK and _is_ordinary(table.data, scaler):
        return rows
    is_counts = scaler is not None and scaler.is_counts
    scanner = _Scanner(name, computes_moments=False, scaler=scaler, is_counts=is_counts)
    absent = scanner.scan(table, slice(0, table.n_rows))
    scanner.raise_if_not_finite(impute, table)
    return np.delete(rows, absent)


def _is_ordinary(X: Any, scaler: ColumnScaler | None) -> bool:
    """Return whether all entries are finite and, once standardized, none is extreme."""
    if is_sparse(X):
        low, high = X.data.min(initial=0), X.data.max(initial=0)
        if scaler is None:
            return bool(np.isfinite([low, high]).all())
        if scaler.is_counts:
            return bool(low >= 0 and np.isfinite(high))
        size = max(abs(float(low)), abs(float(high))) + np.abs(scaler.mean).max()
        return bool(size / scaler.scale.min() <= EXTREME)
    if scaler is not None and scaler.is_counts:
        return bool((X >= 0).all() and np.isfinite(X).all())
    limit = np.finfo(np.float64).max if scaler is None else EXTREME
    # The extrema of all columns together are several times faster, and nearly always enough.
    for axis in (None, 0):
        ends = np.reshape([X.min(axis), X.max(axis)], (2, -1)).astype(np.float64)
        with np.errstate(all="ignore"):
            sizes = np.abs(ends) if scaler is None else _sizes(ends, scaler)
        if (sizes <= limit).all():
            return True
    return False


def _sizes(X: Array, scaler: ColumnScaler) -> Array:
    """Absolute values of entries, once standardized."""
    n = scaler.n_columns
    sizes: Array = np.abs((X - scaler.mean[:n]) / scaler.scale[:n])
    return sizes


class _RunningMoments:
    """Means and variances of columns over chunks of rows; NaN is left out.

    Chunks are merged as in Chan, Golub and LeVeque (1983). (scikit-learn's ``partial_fit`` gives
    NaN where a chunk holds no value of a column.)
    """

    def __init__(self) -> None:
        self.n, self.mean, self.squares = np.zeros(()), np.zeros(()), np.zeros(())

    def add(self, X: Array, mean: Array | None = None) -> None:
        """Add float64 rows; if they hold no NaN, their mean is given, and they are overwritten."""
        if mean is None:
            known = ~np.isnan(X)
            n = known.sum(0)
            mean = np.where(known, X, 0).sum(0) / np.maximum(n, 1)
            deviation = np.where(known, X - mean, 0)
        else:
            n, deviation = np.full(X.shape[1], len(X)), np.subtract(X, mean, out=X)
        rounding = np.square(deviation.sum(0)) / np.maximum(n, 1)
        self.merge(n, mean, np.square(deviation, out=deviation).sum(0) - rounding)

    def merge(self, n: Array, mean: Array, squares: Array) -> None:
        """Add rows, given their number, mean and sum of squared deviations in every column."""
        delta = mean - self.mean
        weight = n / np.maximum(self.n + n, 1)
        self.squares = self.squares + squares + np.square(delta) * self.n * weight
        self.mean = self.mean + delta * weight
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
    """Moments of a view's columns, and counts of values that are not finite."""

    def __init__(
        self,
        name: str,
        *,
        computes_moments: bool = True,
        scaler: ColumnScaler | None = None,
        is_counts: bool = False,
    ) -> None:
        self.name, self.computes_moments, self.scaler = name, computes_moments, scaler
        self.is_counts, self.moments = is_counts, _RunningMoments()
        self.counts = {"NaN": 0, "infinity": 0, "extreme values": 0, _NEGATIVE: 0}
        self.first: dict[str, tuple[int, int]] = {}

    def scan(self, table: ViewTable, rows: slice) -> IntArray:
        """Scan some rows of a table; return those that are NaN throughout."""
        with np.errstate(all="ignore"):  # overflows show in the moments, or count as extreme
            if sparse.issparse(table.data) and self._scan_sparse(table.data, rows):
                return np.empty(0, dtype=np.int64)
            absent = [self._scan_chunk(start, X) for start, X in chunks(table, rows)]
        return np.concatenate([np.empty(0, dtype=np.int64), *absent])

    def _scan_sparse(self, X: Any, rows: slice) -> bool:
        """Scan rows without making them dense; return whether they are ordinary."""
        X = X if rows == slice(0, X.shape[0]) else X[rows]
        if not _is_ordinary(X, self.scaler) or (self.is_counts and X.data.min(initial=0) < 0):
            return False
        step = max(1, CHUNK * X.shape[0] // max(X.nnz, 1))
        for start in range(0, X.shape[0] if self.computes_moments else 0, step):
            part = X[start : start + step]
            values = root_shares(part) if self.is_counts else part
            mean, variance = mean_variance_axis(sparse.csr_matrix(values.astype(np.float64)), 0)
            n = np.full(len(mean), part.shape[0])
            self.moments.merge(n, mean, variance * n)
        return True

    def _scan_chunk(self, start: int, X: Array) -> IntArray:
        none = np.empty(0, dtype=np.int64)
        if not self.computes_moments and _is_ordinary(X, self.scaler):
            return none
        exact = X.astype(np.float64, order="C")
        if self.is_counts:
            self._count(_NEGATIVE, exact < 0, start)
            self._count("infinity", np.isinf(exact), start)
            exact = root_shares(np.maximum(exact, 0)).astype(np.float64)
        if self.computes_moments:
            mean = exact.mean(0)
            if np.isfinite(mean).all():  # then all entries are
                if self.counts["infinity"] == 0:  # else there will be an error
                    self.moments.add(exact, mean)
                return none
        missing = np.isnan(exact)
        absent = np.asarray(missing.all(axis=1))
        self._count("NaN", missing & ~absent[:, None], start)
        self._count("infinity", np.isinf(exact), start)
        if self.scaler is not None:
            size = _sizes(exact, self.scaler)
            self._count("extreme values", (size > EXTREME) & ~np.isinf(exact), start)
        if self.computes_moments and self.counts["infinity"] == 0 and not absent.all():
            self.moments.add(exact[~absent])
        return np.flatnonzero(absent) + start

    def _count(self, what: str, where: Array, start: int) -> None:
        n = int(where.sum())
        if n > 0 and what not in self.first:
            i, j = np.argwhere(where)[0]
            self.first[what] = int(i) + start, int(j)
        self.counts[what] += n

    def combine_ranks(self, n_columns: int) -> None:
        """Merge the moments and counts of all ranks."""
        own = (self.moments.n, self.moments.mean, self.moments.squares)
        flat = np.concatenate([np.broadcast_to(x, n_columns) for x in own])
        self.moments = _RunningMoments()
        for moments in all_gather_arrays(flat.astype(np.float64)):
            self.moments.merge(*moments.reshape(3, n_columns))
        for what, n in self.counts.items():
            counts = all_gather_arrays(np.array([n, *self.first.get(what, (0, 0))]))
            self.counts[what] = sum(int(count[0]) for count in counts)
            places = [(int(i), int(j)) for count, i, j in counts if count > 0]
            if places:
                self.first[what] = places[0]

    def raise_if_not_finite(self, impute: str | None, table: ViewTable) -> None:
        """Raise an error for values that are not finite, with the first place and a remedy."""
        remedies = {
            "infinity": "Remove these entries or cap them.",
            "extreme values": "They are beyond anything at fit; remove these entries or cap them.",
            _NEGATIVE: "Pass counts from 0 on, as at fit, or fit with preprocessing='pca'.",
        }
        if impute is None:
            remedies["NaN"] = (
                "impute='mean' fills NaN from the training means, in this view alone "
                f"impute={{{self.name!r}: 'mean'}}; a row that is NaN throughout the view counts "
                "as absent."
            )
        for what, remedy in remedies.items():
            if n := self.counts[what]:
                i, column = self.first[what][0], table.describe_column(self.first[what][1])
                expected = "counts" if what == _NEGATIVE else "finite numbers"
                raise ValueError(
                    f"Expected view {self.name!r} to hold {expected}, but it contains {what} "
                    f"in {n} {'entry' if n == 1 else 'entries'}, the first in row {i}, column "
                    f"{column}. {remedy}"
                )


def _check_moments(
    name: str, table: ViewTable, moments: _RunningMoments, standardize: bool
) -> None:
    empty = np.flatnonzero(moments.n == 0)
    if len(empty) > 0:
        raise ValueError(
            f"Expected every column of view {name!r} to hold a value somewhere, but column "
            f"{table.describe_column(empty[0])} is NaN in all rows, so that there is nothing to "
            "fill in. Drop the column."
        )
    typical = np.hypot(moments.mean, np.sqrt(moments.variance))  # root of the mean square
    too_large = np.flatnonzero(~(typical < (np.inf if standardize else EXTREME)))
    if len(too_large) > 0:
        raise ValueError(
            f"Expected view {name!r} to hold numbers of ordinary size, but column "
            f"{table.describe_column(too_large[0])} is too large to compute with. Rescale it."
        )
