"""Columns that tell the classes by themselves: labels in disguise, as a rule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from hotview._types import Array, IntArray
from hotview.data.columns import ViewColumns
from hotview.data.data import Data

__all__ = ["Separation", "find_leaks", "leakage_warnings", "measure_separation"]

_MIN_ROWS, _MIN_PER_CLASS = 30, 5  # a column right in 84 % is so in all of 20 too often
_MAX_ERRORS = 0.01  # share of rows
_RIVAL_RUNS = 0.4  # runs of equal classes beyond one per class, relative to random order
_FEW_RIVALS, _FEW_LEAKS = 2, 3
_MOST_LEAKS = 0.25  # share of columns
_FALSE_ALARMS = 0.001  # expected number per fit, if no column knew the classes
_MAX_ROWS, _MIN_SAMPLE = 1000, 200  # of a view that are read
_MAX_CELLS = 2_000_000  # of a view that are sorted
_MAX_COLUMNS = 50_000  # of a view that are read, evenly spaced
_MAX_VALUES = 50  # different values of a column that is taken as a category
_CHUNK = 512  # columns that are sorted at once
_LISTED = 5  # columns that are named


@dataclass(frozen=True)
class Separation:
    """How well one column alone separates the classes.

    Parameters
    ----------
    n_errors : int
        Number of rows whose class is not that of their value or interval.
    log_chance : float
        Logarithm of a bound on the probability that a column that is independent of the classes
        does as well.
    """

    n_errors: int
    log_chance: float


@dataclass(frozen=True)
class Leak:
    """A column that separates the classes of `n_rows` rows, but for `n_errors`."""

    view: str
    column: str
    n_rows: int
    n_errors: int


def leakage_warnings(data: Data) -> Iterator[str]:
    """Warning about columns that alone tell the class of nearly every labeled row.

    There is none where the classes are easy: where more than three columns, and a quarter of all,
    do so; or where more than two others, and more than do so, separate the classes nearly as well.

    Parameters
    ----------
    data : Data
        Rows and labels that are not scanned yet.

    Yields
    ------
    str
        At most one warning.
    """
    leaks, n_columns, n_rivals = find_leaks(data)
    n_leaks = len(leaks)
    is_easy = n_leaks > max(_FEW_LEAKS, _MOST_LEAKS * n_columns)
    if n_leaks == 0 or is_easy or n_rivals > max(_FEW_RIVALS, n_leaks):
        return
    listed = "; ".join(
        f"{leak.column} of view {leak.view!r} ({leak.n_rows - leak.n_errors} of {leak.n_rows} rows)"
        for leak in leaks[:_LISTED]
    )
    more = f"; and {len(leaks) - _LISTED} more" if len(leaks) > _LISTED else ""
    yield (
        f"Columns alone tell the class of nearly every labeled row: {listed}{more}. Are they known "
        "when you predict? A column that is made from the label, or recorded after it, has to be "
        "dropped: new rows would be predicted worse than all scores promise."
    )


def find_leaks(data: Data) -> tuple[list[Leak], int, int]:
    """Find columns that alone separate the classes.

    For every column, the rows are divided by its value into intervals, one more than there are
    classes, or, where it has few values or is categorical, by each of them; a missing value is a
    value. A column leaks if the classes of at most 1 % of the rows differ from that of their part,
    and a bound on the probability that this is chance, times the number of columns, is below 0.001.
    At least 30 rows are needed, and 5 of every class; rows of rarer classes count as errors. Of
    rows of one person, one is taken, and of many rows a sample.

    Parameters
    ----------
    data : Data
        Rows and labels that are not scanned yet.

    Returns
    -------
    leaks : list of Leak
        The columns.
    n_columns : int
        Number of columns that were compared with the classes.
    n_rivals : int
        Number of other columns that separate the classes nearly as well: sorted by them, classes
        change at most 0.4 times as often as in random order, beyond once per class. As many as do
        so with permuted classes are subtracted. It is 0 if there is no leak.
    """
    found: list[tuple[Leak, Separation, int]] = []
    views, n_columns = [], 0
    for s, (name, rows) in enumerate(data.views.items() if data.targets is not None else ()):
        X, codes, n_rare = _labeled_rows(data, s)
        view = _ViewSearch(name, X, codes, n_rare, rows.columns)
        if len(codes) >= _MIN_ROWS and codes.max() > 0 and view.n_errors >= 0:
            views.append(view)
            n_columns += view.n_columns
            found += [(leak, s, int(codes.max()) + 1) for leak, s in view.search()]
    limit = math.log(_FALSE_ALARMS)
    leaks = [
        leak
        for leak, separation, n_classes in found
        if separation.log_chance + math.log(n_columns * (n_classes + 1)) <= limit
    ]
    n_rivals = sum(view.count_rivals() for view in views) - len(leaks) if leaks else 0
    return leaks, n_columns, max(n_rivals, 0)


def _labeled_rows(data: Data, s: int) -> tuple[Array, IntArray, int]:
    """Return labeled rows of view s, one per group, as `_keep_classes` does."""
    rows, codes = data.views[data.names[s]], data.codes[s]
    n_columns, random = rows.tables[0].n_columns, np.random.default_rng(0)
    limit = max(_MIN_SAMPLE, min(_MAX_ROWS, _MAX_CELLS // n_columns))
    parts = []
    for part in (data.links[:, s], data.unlinked(s)):
        chosen = part[random.permutation(np.flatnonzero(codes[part] >= 0))]
        if data.groups is not None:
            group = data.groups[s][chosen]
            chosen = chosen[np.sort(np.unique(group, return_index=True)[1])]
        parts.append(np.sort(chosen[:limit]))
    read = np.sort(np.concatenate(parts))
    return _keep_classes(rows.read(read), codes[read])


def _keep_classes(X: Array, codes: IntArray) -> tuple[Array, IntArray, int]:
    """Return rows that have the view, sorted by class, and classes that are numbered anew.

    Rows of rare classes, which say too little, are left out; the last value is their number.
    """
    present = np.flatnonzero(~np.isnan(X).all(axis=1))
    present = present[np.argsort(codes[present], kind="stable")]
    counts = np.bincount(codes[present], minlength=1)
    kept = present[counts[codes[present]] >= _MIN_PER_CLASS]
    return X[kept], np.unique(codes[kept], return_inverse=True)[1], len(present) - len(kept)


class _ViewSearch:
    """The search for columns of one view that separate the classes."""

    def __init__(
        self, name: str, X: Array, codes: IntArray, n_rare: int, columns: ViewColumns
    ) -> None:
        self.name, self.codes, self.n_rare = name, codes, n_rare
        self.X = np.where(np.isnan(X), -np.inf, X)  # a missing value is a value of its own
        self.columns = columns
        self.n_rows = len(codes) + n_rare
        self.n_errors = int(_MAX_ERRORS * self.n_rows) - n_rare  # nothing tells rare classes
        self.n_columns = X.shape[1] if columns.columns is None else len(columns.columns)

    def search(self) -> Iterator[tuple[Leak, Separation]]:
        """Columns that separate the classes, and how well."""
        for name, encoded, categorical in self._sources():
            values = self.X[:, encoded.start]
            if categorical:
                block = self.X[:, encoded]
                values = np.where(block[:, 0] == -np.inf, -1, block.argmax(axis=1))
                values[block.max(axis=1) == 0] = -2  # of no known category
            separation = measure_separation(values, self.codes, ordered=not categorical)
            if separation is not None and separation.n_errors <= self.n_errors:
                n_errors = separation.n_errors + self.n_rare
                yield Leak(self.name, name, self.n_rows, n_errors), separation

    def _sources(self) -> Iterator[tuple[str, slice, bool]]:
        """Name and encoded columns of categorical columns, and of numeric ones worth a look."""
        starts = np.arange(self.X.shape[1])
        names = [f"{j} (counted from 0)" for j in starts]
        if self.columns.columns is not None:
            own = self.columns.columns
            edges = np.cumsum([0, *(column.width for column in own)])
            for column, start, stop in zip(own, edges, edges[1:], strict=False):
                if column.categories is not None and stop > start:
                    yield repr(column.name), slice(int(start), int(stop)), True
            numeric = [k for k, column in enumerate(own) if column.categories is None]
            starts, names = edges[numeric], [repr(own[k].name) for k in numeric]
        every = max(1, math.ceil(len(starts) / _MAX_COLUMNS))
        starts, names = starts[::every], names[::every]
        for first in range(0, len(starts), _CHUNK):
            chunk = starts[first : first + _CHUNK]
            for k in np.flatnonzero(self._may_separate(self.X[:, chunk])):
                start = int(chunk[k])
                yield names[first + k], slice(start, start + 1), False

    def count_rivals(self) -> int:
        """Number of encoded columns that nearly sort the rows by class, beyond chance."""
        random = np.random.default_rng(0)
        rows = random.permutation(len(self.codes))  # equal values are in random order
        X, codes, n_rivals = self.X[rows], self.codes[rows], 0
        shares = np.bincount(codes) / len(codes)
        n_runs = len(shares) + _RIVAL_RUNS * (len(codes) * (1 - (shares**2).sum()) - len(shares))
        permuted = random.permutation(codes)
        for first in range(0, X.shape[1], _CHUNK):
            order = np.argsort(X[:, first : first + _CHUNK], axis=0, kind="stable")
            for target, sign in ((codes, 1), (permuted, -1)):
                is_changed = np.diff(target[order], axis=0) != 0
                n_rivals += sign * int((is_changed.sum(axis=0) + 1 <= n_runs).sum())
        return n_rivals

    def _may_separate(self, X: Array) -> Array:
        """Whether columns meet what separating the classes requires, by sorting them once.

        Every row of another class among equal values is an error, and every error makes at most
        two more runs of equal classes.
        """
        order = np.argsort(X, axis=0, kind="stable")  # equal values stay sorted by class
        values, codes = np.take_along_axis(X, order, axis=0), self.codes[order]
        is_equal, is_changed = values[1:] == values[:-1], codes[1:] != codes[:-1]
        n_values = (~is_equal).sum(axis=0) + 1
        n_runs = is_changed.sum(axis=0) + 1
        n_mixed = (is_equal & is_changed).sum(axis=0)
        few_runs = n_runs <= self.codes.max() + 2 + 2 * self.n_errors
        few_values = n_values <= min(_MAX_VALUES, len(X) // 4)
        found: Array = (n_values > 1) & (n_mixed <= self.n_errors) & (few_runs | few_values)
        return found


def measure_separation(values: Array, codes: IntArray, *, ordered: bool) -> Separation | None:
    r"""Measure how well the values of one column tell the classes.

    Of all :math:`n! / \prod_k n_k!` orders of the labels, those are counted, at most, that some
    assignment of classes to the parts of the column describes with as few errors.

    Parameters
    ----------
    values : ndarray of shape (n,)
        The column; equal values are one part.
    codes : ndarray of int64 of shape (n,)
        Classes from 0, of which each occurs.
    ordered : bool
        Whether values may also be divided into intervals.

    Returns
    -------
    Separation or None
        By values or by intervals, whichever is less likely by chance; None where values are too
        many to be parts, and are not ordered.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.data.leakage import measure_separation
    >>> codes = np.repeat([0, 1], 10)
    >>> found = measure_separation(np.arange(20.0), codes, ordered=True)
    >>> found.n_errors, round(np.exp(-found.log_chance))  # 20! / (10! 10!) orders, 2 are sorted
    (0, 92378)
    """
    n, n_classes = len(codes), int(codes.max()) + 1
    _, parts = np.unique(values, return_inverse=True)
    n_parts = int(parts.max()) + 1
    counts = np.zeros((n_parts, n_classes), dtype=np.int64)
    np.add.at(counts, (parts, codes), 1)
    n_orders = gammaln(n + 1) - gammaln(counts.sum(axis=0) + 1).sum()

    def measured(n_errors: int, log_assignments: float) -> Separation:
        flips = gammaln(n + 1) - gammaln(n_errors + 1) - gammaln(n - n_errors + 1)
        flips += n_errors * math.log(max(n_classes - 1, 1))
        return Separation(n_errors, float(log_assignments + flips - n_orders))

    found = []
    if n_parts <= min(_MAX_VALUES + 2, n // 4):
        n_errors = n - int(counts.max(axis=1).sum())
        found.append(measured(n_errors, n_parts * math.log(n_classes)))
    if ordered:
        for n_intervals, n_errors in enumerate(_interval_errors(counts), start=1):
            # Class sizes determine all cuts but those of intervals beyond one per class.
            free = max(n_intervals - n_classes, 0) * math.log(n_parts)
            free += (n_classes - 1) * math.log(2 * n_errors + 1)
            patterns = math.log(n_classes) + (n_intervals - 1) * math.log(n_classes - 1)
            found.append(measured(n_errors, patterns + free))
    return min(found, key=lambda separation: separation.log_chance, default=None)


def _interval_errors(counts: IntArray) -> list[int]:
    """Fewest errors with 1, 2, … intervals of consecutive parts, by dynamic programming."""
    n_classes = counts.shape[1]
    before = np.vstack([np.zeros(n_classes, dtype=np.int64), counts.cumsum(axis=0)])
    correct = before.max(axis=1)  # of the first parts, by one interval
    errors = [int(before[-1].sum() - correct[-1])]
    for _ in range(n_classes):
        gain = np.maximum.accumulate(correct[:, None] - before, axis=0)
        correct = (gain + before).max(axis=1)  # the last interval may be empty
        errors.append(int(before[-1].sum() - correct[-1]))
    return errors
