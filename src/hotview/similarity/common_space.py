"""Whether latents of different views can be compared: nearness of held-out linked rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist

from hotview._codec import require, require_array
from hotview._messages import warn_user
from hotview._types import Array, IntArray

_SHARE = 0.05  # of the rows of a view that are the neighbors of a point
_LEVEL = 0.95  # of the interval


@dataclass(frozen=True)
class CommonSpace:
    """How near the latents of held-out linked rows are to each other, for every pair of views.

    Attributes
    ----------
    foscttm : ndarray of shape (S, S)
        Fraction of samples closer than the true match: of the rows of a view, those nearer to a
        point of the other view than the individual's own row; 0 is perfect, 0.5 chance. The mean
        of both directions; NaN where no held-out row has both views.
    neighbor_agreement : ndarray of shape (S, S)
        Share of the nearest 5 % of the rows of a view that the latents of an individual in both
        views have in common; 1 is perfect, 0.05 chance.
    n_rows : ndarray of int64, shape (S, S)
        Number of held-out linked rows.
    low, high : float
        95 % interval of the mean of `foscttm` over pairs, from the individuals.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity import CommonSpace, measure_common_space
    >>> Z = np.random.default_rng(0).normal(size=(60, 2))
    >>> found = measure_common_space([Z[:9], Z[:9]], [Z, Z])
    >>> isinstance(found, CommonSpace), float(found.foscttm[0, 1]), found.is_comparable
    (True, 0.0, True)
    """

    foscttm: Array
    neighbor_agreement: Array
    n_rows: IntArray
    low: float
    high: float

    def __post_init__(self) -> None:
        S, known = len(self.foscttm), np.isfinite(self.foscttm)
        fits = bool(known.any()) and not known.diagonal().any()
        for name in ("foscttm", "neighbor_agreement"):
            require_array(name, x := getattr(self, name), (S, S), "float64", 0, 1, or_nan=True)
            fits = fits and np.array_equal(np.isfinite(x), known)
            fits = fits and np.array_equal(x, x.T, equal_nan=True)
        require_array("n_rows", self.n_rows, (S, S), "int64", 0, math.inf)
        fits = fits and np.array_equal(known, self.n_rows > 0)
        fits = fits and np.array_equal(self.n_rows, self.n_rows.T)
        # Up to rounding, the interval is around the mean.
        fits = fits and 0 <= self.low <= self.high <= 1
        fits = fits and self.low - 1e-9 <= self.mean_foscttm <= self.high + 1e-9
        require(fits, "its measure of the common space contradicts itself")

    @property
    def mean_foscttm(self) -> float:
        """Mean over pairs of views."""
        return float(np.nanmean(self.foscttm))

    @property
    def mean_agreement(self) -> float:
        """Mean agreement of neighbors over pairs of views."""
        return float(np.nanmean(self.neighbor_agreement))

    @property
    def is_comparable(self) -> bool:
        """Whether the true match is nearer than by chance, beyond what chance explains."""
        return self.high < 0.5


def measure_common_space(linked: Sequence[Array], rows: Sequence[Array]) -> CommonSpace | None:
    """Measure how near latents of the same individuals are to each other.

    Parameters
    ----------
    linked : sequence of ndarray of shape (n, d)
        Latents of individuals in every view, NaN where absent. They must not have been aligned.
    rows : sequence of ndarray of shape (n_rows, d)
        Latents of other rows of every view.

    Returns
    -------
    CommonSpace or None
        None if no individual is in two views.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity import measure_common_space
    >>> random = np.random.default_rng(0)
    >>> a, b = random.normal(size=(2, 500, 5))  # unrelated
    >>> measure_common_space([a[:50], b[:50]], [a[50:], b[50:]]).is_comparable
    False
    """
    S, n = len(linked), len(linked[0])
    present = np.stack([np.isfinite(Z).all(axis=1) for Z in linked])
    foscttm, agreement = np.full((2, S, S), np.nan)
    n_rows = np.zeros((S, S), dtype=np.int64)
    own = np.full((len(list(combinations(range(S), 2))), n), np.nan)
    for pair, (s, t) in enumerate(combinations(range(S), 2)):
        has = np.flatnonzero(present[s] & present[t])
        n_rows[s, t] = n_rows[t, s] = len(has)
        if len(has) == 0:
            continue
        found = [_compare(linked[a][has], linked[b][has], rows[b]) for a, b in ((s, t), (t, s))]
        fractions, shared = np.mean(found, axis=0)
        own[pair, has] = fractions
        foscttm[s, t] = foscttm[t, s] = fractions.mean()
        agreement[s, t] = agreement[t, s] = shared.mean()
    if not np.isfinite(own).any():
        return None
    of_rows = np.nanmean(own[:, np.isfinite(own).any(axis=0)], axis=0)
    mean = float(np.nanmean(foscttm))
    half = 1.0  # of a single individual
    if len(of_rows) > 1:
        quantile = stats.t.ppf((1 + _LEVEL) / 2, len(of_rows) - 1)
        half = float(quantile * of_rows.std(ddof=1) / np.sqrt(len(of_rows)))
    return CommonSpace(foscttm, agreement, n_rows, max(0.0, mean - half), min(1.0, mean + half))


def average_common_spaces(found: Sequence[CommonSpace]) -> CommonSpace | None:
    """Means over ensemble members of what the same held-out rows show; None of none."""
    if not found:
        return None
    foscttm = np.mean([one.foscttm for one in found], axis=0)
    agreement = np.mean([one.neighbor_agreement for one in found], axis=0)
    low, high = np.mean([(one.low, one.high) for one in found], axis=0).tolist()
    return CommonSpace(foscttm, agreement, found[0].n_rows, low, high)


def _compare(Z: Array, match: Array, rows: Array) -> tuple[Array, Array]:
    """Fraction of rows nearer to Z than its match, and neighbors that Z and its match share."""
    # By one function, so that rows at the same distance are ties to the last bit.
    to_match, distances = np.split(cdist(Z, np.concatenate([match, rows])), [len(match)], axis=1)
    to_match, around_match = to_match.diagonal()[:, None], cdist(match, rows)
    has_own = (around_match == 0).any(axis=1)  # the match itself is no other row
    nearer = (distances < to_match).sum(axis=1)
    # Rows that are as far count half: latents that are all alike are at chance.
    ties = (distances == to_match).sum(axis=1) - has_own
    fractions = (nearer + ties / 2) / np.maximum(len(rows) - has_own, 1)
    k = max(1, round(_SHARE * len(rows)))
    shared = (_nearest(distances, k) * _nearest(around_match, k)).sum(axis=1) / k
    return fractions, shared


def _nearest(distances: Array, k: int) -> Array:
    """1 for the k nearest rows of every point, 0 for others; rows at equal distance share."""
    farthest = np.partition(distances, k - 1, axis=1)[:, k - 1, None]
    is_nearer, is_last = distances < farthest, distances == farthest
    left = k - is_nearer.sum(axis=1, keepdims=True)
    chosen: Array = is_nearer + is_last * (left / is_last.sum(axis=1, keepdims=True))
    return chosen


def warn_of_common_space(found: CommonSpace | None) -> None:
    """Warn if rows of different views cannot be compared in the common space, as far as known."""
    if found is None:
        why = (
            "fewer than 20 rows were linked, too few to measure it; without any, every "
            "rotation of a view matches the others as well. Link rows: "
            "MultiViewEncoder.fit(views, linked=rows)."
        )
    elif not found.is_comparable:
        why = (
            "held-out linked rows are as far apart as others (FOSCTTM "
            f"{found.mean_foscttm:.2f}, 95 % interval {found.low:.2f} to {found.high:.2f}; "
            "chance is 0.50). Link more "
            "rows, or let alignment_weight be above 0."
        )
    else:
        return
    warn_user(f"Rows of different views may not be comparable in the common space: {why}")
