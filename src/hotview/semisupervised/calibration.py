"""Scores of training rows to compare new rows with: conformal sets, and a scale of disagreement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hotview._codec import require
from hotview._types import Array, IntArray
from hotview._validation import check_share
from hotview.semisupervised.ridge import thin_rows
from hotview.semisupervised.super_learner import ScoresOutOfFold, SuperLearner

__all__ = [
    "MIN_ROWS",
    "ScoresByViews",
    "calibrate_super_learner",
    "check_alpha",
    "disagreement",
    "draw_subsets",
    "group_rows",
    "log_mean",
    "rows_needed",
    "score_sets",
]

MIN_ROWS = 20  # of a group of rows that is compared with alone
_MAX_ROWS = 1000  # of a group; more would not change its quantiles much
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ScoresByViews:
    """Sorted scores of training rows, by the views from which these were predicted.

    Parameters
    ----------
    groups : list of ndarray of float64
        Of rows with one view, by view; then of rows with several views but not all; last of rows
        with all.
    """

    groups: list[Array]

    @classmethod
    def collect(cls, parts: Sequence[tuple[IntArray, Array]], n_views: int) -> ScoresByViews:
        """Sort scores by group; see `group_rows`.

        Parameters
        ----------
        parts : sequence of (ndarray of int64, ndarray)
            Groups and scores of rows.
        n_views : int
            Number of views.
        """
        number = np.concatenate([np.empty(0, np.int64), *(group for group, _ in parts)])
        scores = np.concatenate([np.empty(0), *(score for _, score in parts)])
        found = [scores[number == g] for g in range(n_views + 2)]
        return cls([np.sort(thin_rows(x, _MAX_ROWS)).astype(np.float64) for x in found])

    def check(self, n_views: int, high: float, what: str) -> None:
        """Raise an error unless these are sorted scores from 0 to `high`, of as many views."""
        fits = len(self.groups) == n_views + 2
        for scores in self.groups:
            fits = fits and scores.ndim == 1 and scores.dtype == np.float64
            fits = fits and bool(((scores >= 0) & (scores <= high + 1e-6)).all())
            fits = fits and bool((np.diff(scores) >= 0).all())
        require(fits, f"its {what} of training rows are none")

    def of(self, group: int, n_least: int = MIN_ROWS) -> Array:
        """The scores of a group, or of all groups where it has fewer than so many."""
        own = self.groups[group] if group >= 0 else np.empty(0)
        return own if len(own) >= n_least else np.sort(np.concatenate(self.groups))

    def percentiles(self, values: Array, groups: IntArray) -> Array:
        """Per cent of the scores of the same group that are smaller; NaN without any score.

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
            Scores of new rows.
        groups : ndarray of int64, shape (n_rows,)
            Their groups.
        """
        found = np.full(len(values), np.nan)
        for group in np.unique(groups):
            scores, rows = self.of(int(group)), groups == group
            if len(scores) > 0:
                found[rows] = 100 * np.searchsorted(scores, values[rows]) / len(scores)
        return found


def group_rows(counts: Array) -> IntArray:
    """Number of the group of every row in `ScoresByViews`; −1 where no view counts.

    Parameters
    ----------
    counts : ndarray of bool, shape (n_rows, n_views)
        Which views count.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.calibration import group_rows
    >>> group_rows(np.array([[0, 1, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=bool))
    array([ 1,  3,  4, -1])
    """
    n_views, number = counts.shape[1], counts.sum(axis=1)
    group = np.where(number == 1, counts.argmax(axis=1), n_views)
    group = np.where((number == n_views) & (number > 1), n_views + 1, group)
    return np.where(number == 0, -1, group).astype(np.int64)


def check_alpha(alpha: float, name: str = "alpha") -> float:
    """Check that a share of sets that may miss the true class is between 0 and 1."""
    if check_share(name, alpha, below_one=True) == 0:
        raise ValueError(f"Expected {name} above 0, but it is 0. For 90 % coverage take 0.1.")
    return float(alpha)


def rows_needed(alpha: float) -> int:
    """Least number of calibration rows for which a set can leave out any class: 1/α − 1."""
    return math.ceil(1 / alpha - 1 - _ROUNDING)


def score_sets(
    P: Array, groups: IntArray, scores: ScoresByViews | None, alpha: float
) -> tuple[Array, int]:
    r"""Conformal prediction sets: the classes whose score 1 − p is not above a quantile of scores.

    The quantile is the k-th smallest of the n scores of training rows with the same views,
    :math:`k = \lceil (n + 1)(1 - α) \rceil`, or infinite where k > n. The most probable class is
    always in the set.

    Parameters
    ----------
    P : ndarray of shape (n_rows, n_classes)
        Probabilities.
    groups : ndarray of int64, shape (n_rows,)
        From `group_rows`.
    scores : ScoresByViews or None
        One minus the probability of the true class, of left-out rows; None is no row.
    alpha : float
        The share of sets that may miss the true class.

    Returns
    -------
    sets : ndarray of bool, shape (n_rows, n_classes)
        Which classes are in the set of every row.
    n_whole : int
        Number of rows whose sets hold all classes because training rows are too few.
    """
    sets, n_whole = np.ones(P.shape, dtype=bool), 0
    for group in np.unique(groups):
        rows, n_least = groups == group, max(MIN_ROWS, rows_needed(alpha))
        known = np.empty(0) if scores is None else scores.of(int(group), n_least)
        k = math.ceil((len(known) + 1) * (1 - alpha) - _ROUNDING)
        if k > len(known):
            n_whole += int(rows.sum())
        elif group >= 0:  # else the row has no view that tells anything
            sets[rows] = 1 - P[rows] <= known[k - 1] + _ROUNDING
    sets[np.arange(len(P)), P.argmax(axis=1)] = True
    return sets, n_whole


def draw_subsets(present: Array) -> Array:
    """Several but not all of the views of every row that has three or more, all sizes as likely.

    Parameters
    ----------
    present : ndarray of bool, shape (n_rows, n_views)
        Which views rows have.

    Returns
    -------
    ndarray of bool, shape (n_rows, n_views)
        Nothing in rows of fewer views. They do not depend on any random state.
    """
    random = np.random.default_rng(0)
    number = present.sum(axis=1)
    order = np.where(present, random.random(present.shape), 2.0).argsort(axis=1).argsort(axis=1)
    size = random.integers(2, np.maximum(number, 3))
    kept: Array = (order < size[:, None]) & (number > 2)[:, None]
    return kept


def calibrate_super_learner(
    folds: Sequence[ScoresOutOfFold],
    subsets: Sequence[ScoresOutOfFold],
    learners: Sequence[SuperLearner],
    n_views: int,
) -> ScoresByViews:
    """One minus the probability of the true class, of left-out rows.

    Parameters
    ----------
    folds : sequence of ScoresOutOfFold
        Scores by ensemble members that left out different labels.
    subsets : sequence of ScoresOutOfFold
        Those of the same rows, with some of their views; see `draw_subsets`.
    learners : sequence of SuperLearner
        Weights for every fold, which were fitted to others: those of the same labels would make
        scores too small.
    n_views : int
        Number of views.

    Returns
    -------
    ScoresByViews
        Of rows with the views that they have, with some of them, and with each alone.
    """
    parts = []
    for rows, some, learner in zip(folds, subsets, learners, strict=True):
        several = rows.present.sum(axis=1, keepdims=True) > 1
        versions = [rows, some]
        for s in range(n_views):  # each view alone, of rows that have another one, too
            alone = rows.present & several & (np.arange(n_views) == s)
            versions.append(replace(rows, present=alone))
        for x in versions:
            found = map(torch.from_numpy, (x.scores, x.joint, x.present))
            p = learner.combine(*found).exp().numpy()
            misses = np.clip(1 - p[np.arange(len(p)), x.target], 0.0, 1.0)
            parts.append((group_rows(x.present), misses))
    return ScoresByViews.collect(parts, n_views)


def log_mean(log_p: Tensor) -> Tensor:
    """Logarithm of the mean probabilities of all members."""
    return log_p.logsumexp(0) - math.log(len(log_p))


def disagreement(log_p: Tensor) -> Tensor:
    """Entropy of the mean probabilities less the mean entropy of the members."""
    p = log_p.exp()
    within = torch.special.entr(p).sum(2).mean(0)
    between: Tensor = torch.special.entr(p.mean(0)).sum(1) - within
    return between.clamp_min(0.0)
