"""Similarity of views by the rows that are linked: kernel alignment, its null and its intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hotview._codec import require, require_array
from hotview._types import Array, IntArray
from hotview.similarity.alignment import (
    MAX_ROWS,
    MIN_ROWS,
    make_blocks,
    median_squared_distance,
    p_values,
    stable_groups,
)

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

N_COMPONENTS = 20  # principal components of a view on which kernels are computed
SIGNIFICANT = 0.05  # largest p-value of a pair of views that share information
_N_PERMUTATIONS, _N_HALVES = 999, 200
_LEVEL = 0.95  # of intervals
UNCERTAIN = 0.1  # lower end of an interval below which a similarity is uncertain
_MIN_FOUND, _MIN_FOUND_IN_TOTAL = 0.5, 0.9  # share of half-samples with the same groups
_N_DISTANCES = 1000  # rows from which the bandwidth is computed
_ROUNDING = 1e-4  # of a similarity
_CONTRADICTION = "its similarities of views contradict each other"


@dataclass(frozen=True)
class Pair:
    """Similarity of two views, given by index; NaN where too few rows are linked."""

    first: int
    second: int
    value: float
    low: float
    high: float
    p_value: float
    n_rows: int
    within: float = math.nan  # similarity within classes

    @property
    def is_known(self) -> bool:
        """Whether enough rows are linked to measure the similarity."""
        return math.isfinite(self.value)

    @property
    def is_significant(self) -> bool:
        """Whether the views measurably share information."""
        return self.p_value <= SIGNIFICANT

    @property
    def is_uncertain(self) -> bool:
        """Whether the interval reaches down to almost no similarity."""
        return self.low < UNCERTAIN


@dataclass(frozen=True)
class PairSimilarity:
    """Similarity of every pair of views, with intervals and p-values.

    Attributes
    ----------
    value : ndarray of shape (S, S)
        The similarity: about 0 for independent views, 1 on the diagonal; NaN for pairs with fewer
        than eight linked rows.
    low, high : ndarray of shape (S, S)
        Ends of the 95 % interval, from random halves of the linked rows.
    p_value : ndarray of shape (S, S)
        Share of permutations in which any pair stands out as much, this pair among them: adjusted
        for the number of pairs.
    n_rows : ndarray of int64, shape (S, S)
        Number of linked rows that were compared.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity import PairSimilarity, measure_similarity
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(40, 3))
    >>> found = measure_similarity([X, X + 1], classes=np.arange(40) % 2, random=random)
    >>> isinstance(found.within_classes, PairSimilarity), int(found.n_rows[0, 1])
    (True, 40)
    """

    value: Array
    low: Array
    high: Array
    p_value: Array
    n_rows: IntArray

    def __post_init__(self) -> None:
        S, known = len(self.value), np.isfinite(self.value)
        for name in ("value", "low", "high", "p_value"):
            x, least = getattr(self, name), 0.0 if name == "p_value" else -1 - _ROUNDING
            require_array(name, x, (S, S), "float64", least, 1 + _ROUNDING, or_nan=True)
            require(np.array_equal(np.isfinite(x), known), _CONTRADICTION)
        require_array("n_rows", self.n_rows, (S, S), "int64", 0, math.inf)
        fits = np.array_equal(self.value, self.value.T, equal_nan=True)
        fits = fits and bool((known.sum(axis=1) > 1).any())
        require(fits and bool((self.low[known] <= self.high[known]).all()), _CONTRADICTION)

    def pairs(self) -> list[Pair]:
        """Return all pairs of views, in the order of the views."""
        numbers = (self.value, self.low, self.high, self.p_value, self.n_rows)
        return [
            Pair(s, t, *(x[s, t].item() for x in numbers))
            for s, t in combinations(range(len(self.value)), 2)
        ]


@dataclass(frozen=True)
class ViewSimilarity(PairSimilarity):
    """What linked rows say about the views: similarities of all pairs, and groups that hold.

    Attributes
    ----------
    within_classes : PairSimilarity or None
        Similarity within classes: what views share beyond the class. None where too few linked rows
        have a label.
    groups : ndarray of int64, shape (S,), or None
        Group of every view, by the similarity within classes where it is known. None unless, in
        90 % of random halves of the linked rows, every pair within a group is more similar than
        every pair between groups, and the gap between them is at least 0.1; and with fewer than
        four views.
    stability : float
        Share of random halves of the linked rows in which the groups hold, or those that come
        closest; 0 if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity import ViewSimilarity, measure_similarity
    >>> random = np.random.default_rng(0)
    >>> a, b = random.normal(size=(2, 60, 3))
    >>> noise = 0.2 * random.normal(size=(4, 60, 3))
    >>> found = measure_similarity([a, b, a, b] + noise, random=random)
    >>> isinstance(found, ViewSimilarity), found.groups, found.stability
    (True, array([0, 1, 0, 1]), 1.0)
    """

    within_classes: PairSimilarity | None
    groups: IntArray | None
    stability: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.stability <= 1, "its stability is no share")
        S, within, groups = len(self.value), self.within_classes, self.groups
        require(within is None or len(within.value) == S, _CONTRADICTION)
        if groups is not None:
            require_array("groups", groups, (S,), "int64", 0, S - 1)
            order = np.unique(groups, return_index=True)[1]
            fits = groups[np.sort(order)].tolist() == list(range(len(order)))
            require(fits and 1 < len(order) < S, "its groups of views are none")

    def pairs(self) -> list[Pair]:
        """Return all pairs of views, in the order of the views, also within classes."""
        pairs = super().pairs()
        if self.within_classes is None:
            return pairs
        within = self.within_classes.pairs()
        return [replace(a, within=b.value) for a, b in zip(pairs, within, strict=True)]


class Rows(Protocol):
    """Rows of one view, which may be too many to be in memory together."""

    n_rows: int

    def take(self, rows: IntArray) -> Array:
        """Rows by number."""


def measure_similarity(
    points: Sequence[Array],
    bandwidths: Sequence[float] | None = None,
    classes: IntArray | None = None,
    *,
    random: np.random.Generator,
) -> ViewSimilarity | None:
    """Measure the similarity of views on linked rows.

    Parameters
    ----------
    points : sequence of ndarray of shape (n, d_s)
        Coordinates of every view; row i is the same individual in all views, NaN where absent. Of a
        pair with more than 100 linked rows the first are used, so that their order must be random.
    bandwidths : sequence of float or None, default=None
        Squared bandwidth of the Gaussian kernel of every view; None takes the median squared
        distance of its rows.
    classes : ndarray of int64, shape (n,), or None, default=None
        Class of every row, −1 where it is unknown.
    random : numpy Generator
        Source of permutations and half-samples.

    Returns
    -------
    ViewSimilarity or None
        None if no pair of views has eight linked rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity import measure_similarity
    >>> random = np.random.default_rng(0)
    >>> X, noise = random.normal(size=(2, 60, 3))
    >>> found = measure_similarity([X, -2 * X, noise], random=random)
    >>> found.value.round(1) + 0.0
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    >>> bool(found.p_value[0, 1] < 0.01), bool(found.p_value[0, 2] > 0.05)
    (True, True)
    """
    points = _check_points(points, classes)
    present = np.stack([~np.isnan(Z).any(axis=1) for Z in points], axis=1)
    if bandwidths is None:
        bandwidths = [
            median_squared_distance(Z[p][:_N_DISTANCES])
            for Z, p in zip(points, present.T, strict=True)
        ]
    total = _measure(points, bandwidths, present, None, random)
    if total is None:
        return None
    within = None
    if classes is not None:
        classes = np.asarray(classes)
        rows = np.flatnonzero(classes >= 0)
        Zs, known = [Z[rows] for Z in points], classes[rows]
        # Where classes are far apart, a kernel as wide as all rows would not see inside of them.
        narrow = [
            median_squared_distance(Z[p], known[p])
            for Z, p in zip(Zs, present[rows].T, strict=True)
        ]
        within = _measure(Zs, narrow, present[rows], known, random)
    is_within = within is not None and replaces_total(within[0], total[0])
    found = within if within is not None and is_within else total
    # What all views share, as the class, hides groups in the total: then the same must be found.
    min_found = _MIN_FOUND if is_within else _MIN_FOUND_IN_TOTAL
    groups, stability = stable_groups(found[0].value, found[1], min_found=min_found)
    return ViewSimilarity(
        **vars(total[0]),
        within_classes=None if within is None else within[0],
        groups=groups,
        stability=stability,
    )


def replaces_total(within: PairSimilarity, total: PairSimilarity) -> bool:
    """Whether groups are looked for within classes: half of the rows of every pair have one."""
    known = np.isfinite(total.value)
    return bool((within.n_rows[known] >= total.n_rows[known] / 2).all())


def _check_points(points: Sequence[Array], classes: IntArray | None) -> list[Array]:
    """Raise an error unless all views have the same rows."""
    arrays = [np.asarray(Z, dtype=np.float64) for Z in points]
    shapes = [Z.shape for Z in arrays]
    if len(arrays) < 2 or any(len(shape) != 2 for shape in shapes):
        raise ValueError(
            f"Expected two matrices or more, one per view, but their shapes are {shapes}. Pass one "
            "row per individual and one column per coordinate."
        )
    n_rows = [n for n, _ in shapes]
    if len({*n_rows, *(() if classes is None else (len(classes),))}) > 1:
        known = "" if classes is None else f", and of classes {len(classes)}"
        raise ValueError(
            "Expected the same rows in all views, and a class for each, but the numbers of rows "
            f"are {n_rows}{known}. Mark absent rows by NaN, and unknown classes by -1."
        )
    return arrays


def measure_linked_rows(
    views: Sequence[Rows],
    components: Sequence[PCA],
    links: IntArray,
    classes: IntArray | None = None,
    *,
    random: np.random.Generator,
) -> ViewSimilarity | None:
    """Measure the similarity of views, whose components and bandwidths are those of all their rows.

    Parameters
    ----------
    views : sequence of Rows
        The views.
    components : sequence of PCA
        Principal components of every view, fitted; the first 20 are used.
    links : ndarray of int64, shape (n, S)
        The row in every view of each individual who may be in several, −1 where absent.
    classes : ndarray of int64, shape (n,), or None, default=None
        Class of every individual, −1 where it is unknown.
    random : numpy Generator
        Source of samples and permutations.

    Returns
    -------
    ViewSimilarity or None
        As `measure_similarity`.
    """
    chosen = _sample_rows(links >= 0, classes, random)
    if len(chosen) < MIN_ROWS:
        return None
    points, bandwidths = [], []
    for s, (view, pca) in enumerate(zip(views, components, strict=True)):
        some = random.permutation(view.n_rows)[:_N_DISTANCES]
        bandwidths.append(median_squared_distance(_project(view, pca, some)))
        Z = _project(view, pca, np.maximum(links[chosen, s], 0))
        Z[links[chosen, s] < 0] = np.nan
        points.append(Z)
    known = None if classes is None else classes[chosen]
    return measure_similarity(points, bandwidths, known, random=random)


def _project(view: Rows, pca: PCA, rows: IntArray) -> Array:
    Z: Array = pca.transform(view.take(rows))[:, :N_COMPONENTS].astype(np.float64)
    return Z


def _sample_rows(present: Array, classes: IntArray | None, random: np.random.Generator) -> IntArray:
    """Linked rows in random order: of every pair 100, and 100 with a label."""
    order = random.permutation(len(present))
    keep = np.zeros(len(present), dtype=bool)
    for s, t in combinations(range(present.shape[1]), 2):
        both = present[:, s] & present[:, t]
        keep[order[both[order]][:MAX_ROWS]] = True
        if classes is not None:
            keep[order[(both & (classes >= 0))[order]][:MAX_ROWS]] = True
    return order[keep[order]]


def _measure(
    points: Sequence[Array],
    bandwidths: Sequence[float],
    present: Array,
    classes: IntArray | None,
    random: np.random.Generator,
) -> tuple[PairSimilarity, Array] | None:
    """Similarities of all pairs, and those in random halves of the rows."""
    blocks = make_blocks(points, bandwidths, present, classes)
    if not blocks:
        return None
    S = len(points)
    pairs = tuple(np.concatenate([block.pairs[i] for block in blocks]) for i in (0, 1))
    value = np.concatenate([block.align() for block in blocks])
    keys = random.random((_N_HALVES, len(present)))
    halves = np.array([np.concatenate([block.halve(u) for block in blocks]) for u in keys])
    # On the scale of Fisher's transformation, so that no interval goes beyond 1.
    edge, tail = 1 - 1e-9, (1 - _LEVEL) / 2
    z, z_halves = (np.arctanh(np.clip(x, -edge, edge)) for x in (value, halves))
    low, high = np.tanh(z + np.quantile(z_halves - z_halves.mean(axis=0), [tail, 1 - tail], axis=0))
    n_rows = np.concatenate([np.full(len(block.pairs[0]), len(block.rows)) for block in blocks])

    def fill(x: Array, diagonal: float = 1.0, absent: float = np.nan) -> Array:
        X = np.full((S, S), absent)
        X[pairs] = X[pairs[::-1]] = x
        np.fill_diagonal(X, diagonal)
        return X

    measured = PairSimilarity(
        fill(value),
        fill(low),
        fill(high),
        fill(p_values(blocks, _N_PERMUTATIONS, random), 0.0),
        np.where(np.eye(S, dtype=bool), present.sum(axis=0), fill(n_rows, absent=0.0)).astype(int),
    )
    return measured, np.stack([fill(x) for x in halves])
