"""Comparison of new rows with training rows, column by column: units, ranges, missing values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hotview._codec import require, require_array
from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview.preprocessing.column_scaler import is_sparse, root_shares

__all__ = ["ColumnDrift", "ColumnRanges", "DriftReport", "ViewDrift", "compare_view", "fit_ranges"]

SHARES = (0.0, 0.005, 0.05, 0.5, 0.95, 0.995, 1.0)  # whose quantiles are kept
_MIN, _LOW, _FEW, _HALF, _MOST, _HIGH, _MAX = range(len(SHARES))
_N_ENTRIES = 2**22  # of rows that determine quantiles
_LEAST = 100  # rows that do, in any case
_CHUNK = 2**21  # entries that are compared together
_WIDENED, _WIDENED_FEW = 2.0, 5.0  # by which ranges are widened: of values, of few rows
_MANY = 20  # rows from which on medians and shares are compared
_POWER = 0.15  # most that the logarithm of a ratio may differ from a power of ten
_MAX_POWER = 9
_MISSING, _SHARE = 0.2, 0.4  # differences of shares that are told
_TAIL = 0.05  # share of values or rows far outside that is told
_N_ERRORS = 4.0  # standard errors by which a share must differ, besides
_ROUNDING = 1e-5
_N_NAMED = 3  # columns of a kind that are named


@dataclass(frozen=True)
class ColumnRanges:
    """Where the training values of the columns of a view are.

    Parameters
    ----------
    quantiles : ndarray of float32, shape (7, n_columns)
        Those of `SHARES`, rounded to about a hundredth of the range, because extremes are values of
        individuals; 0 for columns without any known value.
    mean : ndarray of float32, shape (n_columns,)
        Means of the values.
    missing : ndarray of float32, shape (n_columns,)
        Shares of cells that are NaN, among rows that hold a value.
    n_rows : int
        Number of rows that these are from.
    """

    quantiles: Array
    mean: Array
    missing: Array
    n_rows: int

    def __post_init__(self) -> None:
        n_columns = len(self.mean)
        require_array("quantiles", self.quantiles, (len(SHARES), n_columns), "float32")
        require_array("mean", self.mean, (n_columns,), "float32")
        require_array("missing", self.missing, (n_columns,), "float32", 0, 1)
        fits = bool((np.diff(self.quantiles, axis=0) >= 0).all()) and self.n_rows > 0
        require(fits, "its ranges of columns are none")

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """The range in which values are usual: the middle 99 %, widened by twice its width.

        No training value is outside. It is infinite for columns that have one value in nine rows
        of ten: what is rare is no error.
        """
        return self.widen(_WIDENED)

    def widen(self, factor: float) -> tuple[Array, Array]:
        """The middle 99 % of the values, widened by a multiple of its width on both sides."""
        q = self.quantiles.astype(np.float64)
        width = factor * (q[_HIGH] - q[_LOW])
        low, high = np.minimum(q[_MIN], q[_LOW] - width), np.maximum(q[_MAX], q[_HIGH] + width)
        slack = _ROUNDING * np.maximum(np.abs(low), np.abs(high))
        rare = (q[_FEW] == q[_MOST]) | (self.missing == 1)
        return np.where(rare, -np.inf, low - slack), np.where(rare, np.inf, high + slack)

    @property
    def is_binary(self) -> Array:
        """Which columns hold 0 and 1, as encoded categories do."""
        q = self.quantiles
        binary: Array = ((q == 0) | (q == 1)).all(axis=0) & (q[_MAX] > 0)
        return binary


def fit_ranges(sample: Any, *, is_counts: bool = False) -> ColumnRanges:
    """Find where the values of columns are, in some rows as they were given, none NaN throughout.

    Of counts, values are compared as shares in their row.
    """
    rows = _compared(sample, is_counts)
    if is_sparse(rows):  # NaN is left out
        ends = rows.nanmin(axis=0), rows.nanmax(axis=0)
        least, most = (np.asarray(end.toarray(), dtype=np.float64).ravel() for end in ends)
    else:
        least, most = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
    some = _thin(rows, max(_LEAST, _N_ENTRIES // rows.shape[1]))
    quantiles, mean, missing = _describe(some)
    quantiles[_MIN] = np.fmin(quantiles[_MIN], least)
    quantiles[_MAX] = np.fmax(quantiles[_MAX], most)
    quantiles = _round_quantiles(np.nan_to_num(quantiles))
    limit = np.finfo(np.float32).max
    quantiles, mean = (
        np.clip(x, -limit, limit).astype(np.float32) for x in (quantiles, np.nan_to_num(mean))
    )
    return ColumnRanges(quantiles, mean, missing.astype(np.float32), some.shape[0])


def _compared(X: Any, is_counts: bool) -> Any:
    """Rows as they are compared: counts as shares in their row."""
    if not is_counts:
        return X
    with np.errstate(invalid="ignore"):
        return root_shares(X) ** 2


def _thin(X: Any, n_most: int) -> Array:
    """At most so many rows, evenly spaced, dense and in float64."""
    rows = np.linspace(0, X.shape[0] - 1, min(X.shape[0], n_most)).astype(int)
    chosen = X[rows]
    dense: Array = (chosen.toarray() if is_sparse(chosen) else chosen).astype(np.float64)
    return dense


def _describe(X: Array) -> tuple[Array, Array, Array]:
    """Quantiles, means and missing shares of columns; NaN without any known value."""
    unknown = np.isnan(X)
    n = (~unknown).sum(axis=0)
    mean = np.where(unknown, 0.0, X).sum(axis=0) / np.where(n > 0, n, np.nan)
    ordered = np.sort(X, axis=0)  # NaN last
    place = np.multiply.outer(SHARES, np.maximum(n - 1, 0))
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, np.maximum(n - 1, 0))
    columns = np.arange(X.shape[1])
    low, high = ordered[below, columns], ordered[above, columns]
    quantiles = low + (place - below) * (high - low)
    return quantiles, mean, 1 - n / len(X)


def _round_quantiles(q: Array) -> Array:
    """Quantiles rounded to between a hundredth and a thousandth of the range, extremes outward."""
    width = q[_MAX] - q[_MIN]
    unit = 10.0 ** np.floor(np.log10(np.where(width > 0, width, 1.0))) / 100
    rounded = np.round(q / unit) * unit
    rounded[_MIN], rounded[_MAX] = np.floor(q[_MIN] / unit) * unit, np.ceil(q[_MAX] / unit) * unit
    whole = (q == np.round(q)) & (np.abs(q) < 1000)  # categories, and small counts
    found: Array = np.where(whole | (width == 0), q, rounded)
    return np.maximum.accumulate(found, axis=0)


@dataclass(frozen=True)
class ColumnDrift:
    """What differs in one column, given by its name in quotes or its number.

    `kind` is "unit" (values are a power of ten, `factor`, of those at fit), "range" (their median
    is outside of the range at fit), "tail" (many are), "missing" (cells are), "constant" (one value
    in all rows) or "share" (of a category). `value` is a median, value or share of the new rows,
    and `at_fit` of the training rows.
    """

    column: str
    kind: str
    value: float
    at_fit: float
    factor: float = 1.0


@dataclass(frozen=True)
class ViewDrift:
    """What differs in one view.

    `n_unusual` has the number of values of every row that are far outside of the training values,
    `columns` those that differ; `n_rows` counts rows that hold a value.
    """

    n_unusual: IntArray
    columns: list[ColumnDrift]
    n_rows: int
    n_columns: int


@dataclass(frozen=True)
class DriftReport:
    """How new rows differ from those of the fit.

    Parameters
    ----------
    views : dict of str to ViewDrift
        What differs, by view.

    Examples
    --------
    >>> import hotview as hv
    >>> from hotview.datasets import make_views
    >>> views = make_views(100, n_views=2, random_state=0).views
    >>> encoder = hv.MultiViewEncoder(max_epochs=1, random_state=0).fit(views)
    >>> encoder.check_drift(views).summary()
    []
    """

    views: dict[str, ViewDrift]

    @property
    def n_unusual(self) -> IntArray:
        """Number of unusual values of every row, in all views, whose rows have to be aligned."""
        total: IntArray = np.sum([view.n_unusual for view in self.views.values()], axis=0)
        return total

    def summary(self) -> list[str]:
        """Sentences about tables and columns that differ; none where nothing does."""
        return [
            f"View {name!r}: {text}"
            for name, view in self.views.items()
            for text in _sentences(view)
        ]


def _sentences(view: ViewDrift) -> Iterator[str]:
    for kind, say in _SENTENCES.items():
        found = [column for column in view.columns if column.kind == kind]
        yield from (say(column) for column in found[:_N_NAMED])
        if len(found) > _N_NAMED:
            names = ", ".join(column.column for column in found[_N_NAMED : 3 * _N_NAMED])
            more = "" if len(found) <= 3 * _N_NAMED else ", …"
            n_more = len(found) - _N_NAMED
            what = "column" if n_more == 1 else "columns"
            yield f"the same of {n_more:,} more {what} ({names}{more})."
    n = int((view.n_unusual > _TAIL * view.n_columns).sum())
    if n > 0 and n > _TAIL * view.n_rows:
        yield (
            f"{n:,} of {view.n_rows:,} rows have values far outside of those at fit, in up to "
            f"{int(view.n_unusual.max()):,} of {view.n_columns:,} columns. Check these before you "
            "trust what is predicted."
        )


_SENTENCES: Mapping[str, Any] = {
    "unit": lambda c: (
        f"values of {c.column} are about {_times(c.factor)} those at fit (median {c.value:.4g}, "
        f"at fit {c.at_fit:.4g}). Check the unit."
    ),
    "range": lambda c: (
        f"the median of {c.column} is {c.value:.4g}, outside of nearly all values at fit (median "
        f"{c.at_fit:.4g})."
    ),
    "tail": lambda c: f"{_percent(c.value)} of {c.column} are far outside of the values at fit.",
    "missing": lambda c: (
        f"{c.column} is missing in {_percent(c.value)} of the rows, at fit in {_percent(c.at_fit)}."
    ),
    "constant": lambda c: f"{c.column} is {c.value:.4g} in all rows; at fit it varies.",
    "share": lambda c: (
        f"{c.column} is 1 in {_percent(c.value)} of the rows, at fit in {_percent(c.at_fit)}."
    ),
}


def _times(factor: float) -> str:
    return f"{factor:,.0f} times" if factor > 1 else f"1/{1 / factor:,.0f} of"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def compare_view(
    table: ViewTable, ranges: ColumnRanges, *, is_counts: bool = False, names: Sequence[str] | None
) -> ViewDrift:
    """Compare the new rows of a view with those of the fit; names of columns are for messages."""
    n_unusual = np.zeros(table.n_rows, dtype=np.int64)
    outside = np.zeros(table.n_columns, dtype=np.int64)
    present = np.ones(table.n_rows, dtype=bool)
    step = max(1, _CHUNK // table.n_columns)
    for start in range(0, table.n_rows, step):
        rows = slice(start, min(start + step, table.n_rows))
        X = _compared(table.rows(rows, dense=False), is_counts)
        n_unusual[rows], by_column = _count_outside(X, ranges)
        outside += by_column
        if not is_sparse(X):
            present[rows] = ~np.isnan(X).all(axis=1)
    chosen = np.flatnonzero(present)
    n_rows = len(chosen)
    if n_rows == 0:
        return ViewDrift(n_unusual, [], 0, table.n_columns)
    n_most = max(_LEAST, _N_ENTRIES // table.n_columns)
    taken = chosen[np.linspace(0, n_rows - 1, min(n_rows, n_most)).astype(int)]
    sample = _thin(_compared(table.rows(taken, dense=False), is_counts), n_most)
    columns = [
        ColumnDrift(str(j + 1) if names is None else repr(names[j]), *found)
        for j, found in _find_drift(sample, outside / n_rows, ranges)
    ]
    return ViewDrift(n_unusual, columns, n_rows, table.n_columns)


def _count_outside(X: Any, ranges: ColumnRanges) -> tuple[IntArray, IntArray]:
    """Number of values outside of the usual range, by row and by column; NaN is not."""
    low, high = ranges.limits
    if not is_sparse(X):
        is_out = np.less(X, low) | np.greater(X, high)
        return is_out.sum(axis=1), is_out.sum(axis=0)
    zero_out = (low > 0) | (high < 0)  # columns in which an entry that is not stored is unusual
    n_rows, n_columns = X.shape
    of_rows = np.repeat(np.arange(n_rows), np.diff(X.indptr))
    is_out = (X.data < low[X.indices]) | (X.data > high[X.indices])
    change = is_out.astype(np.int64) - zero_out[X.indices]
    by_row = zero_out.sum() + np.bincount(of_rows, change, n_rows)
    by_column = zero_out * n_rows + np.bincount(X.indices, change, n_columns)
    return by_row.astype(np.int64), by_column.astype(np.int64)


def _find_drift(
    sample: Array, outside: Array, ranges: ColumnRanges
) -> Iterator[tuple[int, tuple[str, float, float, float]]]:
    """Columns that differ, by number: kind, value, value at fit and factor."""
    q, mean, missing = _describe(sample)
    fit, n = ranges.quantiles.astype(np.float64), (~np.isnan(sample)).sum(axis=0)
    known, many = (n > 0) & (ranges.missing < 1), n >= _MANY
    binary = known & ranges.is_binary & (q[_MIN] >= 0) & (q[_MAX] <= 1)
    factor = _find_factors(q, fit, many)
    varies = (fit[_FEW] < fit[_HALF]) & (fit[_HALF] < fit[_MOST])
    is_unit, is_far = _compare_medians(q, outside, factor, many, ranges)
    found: dict[str, tuple[Array, Array, Array]] = {
        "unit": (is_unit & known & ~binary, q[_HALF], fit[_HALF]),
        "range": (is_far & known & ~binary, q[_HALF], fit[_HALF]),
        "share": (binary & many & _differs(mean, ranges.mean, n, _SHARE), mean, ranges.mean),
        "constant": (varies & many & (q[_MIN] == q[_MAX]), q[_HALF], fit[_HALF]),
        "tail": ((outside > _TAIL) & many, outside, np.zeros_like(outside)),
    }
    done = np.zeros(len(n), dtype=bool)
    for kind, (where, value, at_fit) in found.items():
        for j in np.flatnonzero(where & ~done).tolist():
            yield j, (kind, float(value[j]), float(at_fit[j]), float(factor[j]))
        done |= where
    gone = _differs(missing, np.maximum(ranges.missing, 1 / ranges.n_rows), len(sample), _MISSING)
    for j in np.flatnonzero(gone & (missing > ranges.missing)).tolist():
        if len(sample) >= _MANY:
            yield j, ("missing", float(missing[j]), float(ranges.missing[j]), 1.0)


def _compare_medians(
    q: Array, outside: Array, factor: Array, many: Array, ranges: ColumnRanges
) -> tuple[Array, Array]:
    """Which columns are in another unit, and in which the median is outside of the range at fit.

    A factor alone is no error of unit: values have to be where few or no training values are, or
    their spread less than a tenth. Of few rows, values far outside are needed.
    """
    fit, median = ranges.quantiles.astype(np.float64), q[_HALF]
    is_far = np.where(
        many,
        _is_outside(median, fit[_LOW], fit[_HIGH]),
        _is_outside(median, *ranges.widen(_WIDENED_FEW)),
    )
    is_shifted = np.where(
        many,
        _is_outside(median, fit[_FEW], fit[_MOST]) | (factor < 0.1) | (outside > _TAIL),
        _is_outside(median, *ranges.limits),
    )
    return (is_far | is_shifted) & (factor != 1), is_far


def _differs(share: Array, at_fit: Array, n: Any, least: float) -> Array:
    """Whether shares differ by so much and by more than chance."""
    p = np.clip(at_fit, 0, 1)
    error = np.sqrt(p * (1 - p) / np.maximum(n, 1))
    different: Array = np.abs(share - at_fit) > np.maximum(least, _N_ERRORS * error)
    return different


def _is_outside(x: Array, low: Array, high: Array) -> Array:
    with np.errstate(invalid="ignore"):
        slack = _ROUNDING * np.fmax(np.abs(low), np.abs(high))
        outside: Array = (x < low - slack) | (x > high + slack)
    return outside


def _find_factors(q: Array, fit: Array, many: Array) -> Array:
    """Powers of ten between the values of columns and those at fit; 1 where there is none.

    Medians have to differ by it and, in many rows, spreads, too; or, where medians are close to 0,
    spreads alone.
    """
    with np.errstate(all="ignore"):
        spread, spread_fit = q[_MOST] - q[_FEW], fit[_MOST] - fit[_FEW]
        by_median, by_spread = np.log10(q[_HALF] / fit[_HALF]), np.log10(spread / spread_fit)
        power = np.round(np.where(np.isfinite(by_median), by_median, 0.0))
        other = np.round(np.where(np.isfinite(by_spread), by_spread, 0.0))
        fits = np.abs(by_median - power) <= _POWER
        fits &= ~many | (np.abs(by_spread - power) <= 2 * _POWER)
        near = np.abs(q[_HALF] - 10.0**other * fit[_HALF]) <= spread / 2
        fits_other = many & near & (np.abs(by_spread - other) <= _POWER)
        for a, b in ((_FEW, _HALF), (_HALF, _MOST)):  # not a tail alone; NaN if most values are 0
            half = np.log10((q[b] - q[a]) / (fit[b] - fit[a]))
            fits_other &= np.abs(half - other) <= 2 * _POWER
    found = np.where(fits, power, np.where(fits_other, other, 0.0))
    return np.asarray(10.0 ** np.where(np.abs(found) <= _MAX_POWER, found, 0.0))
