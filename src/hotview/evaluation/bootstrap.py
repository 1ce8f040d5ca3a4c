"""Bootstrap intervals of metrics, over rows or over groups of rows.

Every metric is computed from weights of the rows: of the rows as they are, and of resamples, in
which the weight of a row is multiplied by the number of times that it is drawn. Statistics are
functions of a matrix of weights with a column per resample: many are computed at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.stats import norm
from scipy.stats import t as student

from hotview._types import Array, IntArray
from hotview.evaluation.metrics import N_BINS, Z_95, Estimate, Proportion, wilson_interval

#: Number of resamples, and the least of large tables.
_MAX_RESAMPLES, _MIN_RESAMPLES = 1_000, 200
#: Number of multiplications above which there are fewer resamples.
_BUDGET = 200_000_000
#: Entries of a block of weights.
_BLOCK = 2**21
#: Number of quantiles that scores of large tables are rounded to in resamples.
_MAX_SCORES = 2_000
_SEED = 0

#: Computes metrics by name from weights of shape (n_rows, n_resamples); the last axis is kept.
Statistics = Callable[[Array], dict[str, Array]]


@dataclass(frozen=True)
class RowSample:
    """Weights of rows, and the groups that are resampled as a whole.

    Parameters
    ----------
    weights : ndarray
        Weight of every row; positive in total.
    groups : ndarray of int64 or None, default=None
        Number of the group of every row; None if every row is drawn by itself.
    """

    weights: Array
    groups: IntArray | None = None

    def take(self, rows: Array) -> RowSample:
        """Return some of the rows."""
        groups = None
        if self.groups is not None:
            groups = np.unique(self.groups[rows], return_inverse=True)[1]
        return RowSample(self.weights[rows], groups)

    @property
    def n_units(self) -> int:
        """Number of rows, or of groups."""
        return len(self.weights) if self.groups is None else int(self.groups.max()) + 1

    @property
    def n_effective(self) -> float:
        """Kish's number of rows of equal weight that are as informative."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    def resamples(self, n_resamples: int) -> Iterator[Array]:
        """Yield blocks of weights; the first column of all is that of the rows as they are."""
        random, n = np.random.default_rng(_SEED), self.n_units
        n_block = max(1, _BLOCK // len(self.weights))
        yield self.weights[:, None]
        for start in range(0, n_resamples, n_block):
            size = min(n_block, n_resamples - start)
            counts = np.empty((size, n), dtype=np.int32)
            for row in counts:  # one at a time stays in the cache
                row[:] = np.bincount(random.integers(0, n, n, dtype=np.int32), minlength=n)
            own = counts.T if self.groups is None else counts.T[self.groups]
            yield np.multiply(own, self.weights[:, None], order="C")


def make_sample(
    n: int, sample_weight: npt.ArrayLike | None = None, groups: npt.ArrayLike | None = None
) -> RowSample:
    """Check weights and groups of n rows; groups of one row each are none."""
    weights: Array = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if weights.shape != (n,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(
            f"Expected sample_weight to hold a weight of at least 0 for each of the {n} rows, not "
            f"all of them 0, but its shape is {weights.shape}, and its sum {weights.sum():g}. Pass "
            "one number per row."
        )
    if groups is None:
        return RowSample(weights)
    names = np.asarray(groups).astype(str)
    if names.shape != (n,):
        raise ValueError(
            f"Expected groups to hold the group of each of the {n} rows, but its shape is "
            f"{names.shape}. Pass one entry per row."
        )
    found, codes = np.unique(names, return_inverse=True)
    return RowSample(weights, codes if len(found) < n else None)


def bootstrap(
    statistics: Sequence[Statistics], sample: RowSample, width: int = 1
) -> dict[str, Array]:
    """Compute statistics of the rows, and of resamples of them.

    Parameters
    ----------
    statistics : sequence of callable
        Each computes metrics by name from weights of shape (n_rows, n_resamples).
    sample : RowSample
        The rows.
    width : int, default=1
        Number of multiplications per row; with many there are fewer resamples, but at least 200.

    Returns
    -------
    dict of str to ndarray
        By metric; along the last axis, the value of the rows first, then those of resamples.
    """
    n = max(1, len(sample.weights) * width)
    n_resamples = int(np.clip(_BUDGET // n, _MIN_RESAMPLES, _MAX_RESAMPLES))
    blocks = [[compute(W) for compute in statistics] for W in sample.resamples(n_resamples)]
    return {
        name: np.concatenate([block[i][name] for block in blocks], axis=-1)
        for i, first in enumerate(blocks[0])
        for name in first
    }


def estimate(
    replicates: Array, sample: RowSample, *, n_share: int = 0, chance: float | None = None
) -> Estimate:
    """Return a metric with its interval from bootstrap replicates.

    The interval is that of percentiles, expanded as Student's t is wider than the normal
    distribution (Hesterberg, 2015), because few rows vary too little among resamples. It needs two
    rows (or groups); with fewer it is NaN.

    Parameters
    ----------
    replicates : ndarray of shape (1 + n_resamples,)
        From `bootstrap`.
    sample : RowSample
        The rows.
    n_share : int, default=0
        For a metric from 0 to 1, the number of rows on which its variance depends, as those of
        the rarer class: it determines the expansion, and a perfect score, which no resample
        changes, has Wilson's interval of so many rows.
    chance : float or None, default=None
        For a calibration error, the largest value that is likely without any: an interval of a
        smaller value begins at 0. Chance makes it larger, and that of resamples twice: percentiles
        are reflected at the value (basic bootstrap), and the interval holds the value.

    Returns
    -------
    Estimate
        The value and its 95 % interval.
    """
    value, drawn = float(replicates[0]), replicates[1:][~np.isnan(replicates[1:])]
    if np.isnan(value) or sample.n_units < 2 or len(drawn) == 0:
        return Estimate(value, np.nan, np.nan)
    n = min(sample.n_units, n_share or sample.n_units)
    tail = 0.0 if n < 2 else float(norm.cdf(student.ppf(0.025, n - 1) * np.sqrt(n / (n - 1))))
    low, high = (float(x) for x in np.percentile(drawn, [100 * tail, 100 * (1 - tail)]))
    if chance is not None:
        low, high = min(value, max(0.0, 2 * value - high)), max(value, 2 * value - low)
        low = low if value > chance else 0.0
    elif n_share and high - low < 1e-12:
        low, high = wilson_interval(value, n_share)
    return Estimate(value, low, high)


def likely_gaps(P: Array, sample: RowSample) -> dict[str, Array]:
    r"""Return how far metrics are from what probabilities promise by chance, at most, in 97.5 %.

    If probabilities are right, outcomes vary by :math:`\sqrt{p (1 - p)}`; in groups, all rows are
    taken to vary together.

    Parameters
    ----------
    P : ndarray of shape (n_rows, n_classes)
        Probabilities.
    sample : RowSample
        Weights and groups of the rows.

    Returns
    -------
    dict of str to ndarray
        ``excess`` and ``class_calibration_error`` by class, ``calibration_error`` of the largest
        probability, ``log_loss``.
    """
    shares, groups = sample.weights / sample.weights.sum(), sample.groups
    groups = np.arange(len(P)) if groups is None else groups
    surprise = -np.log(P.clip(np.finfo(float).eps, 1))
    entropy = (P * surprise).sum(axis=1, keepdims=True)
    spread = np.sqrt((P * (surprise - entropy) ** 2).sum(axis=1))  # of the loss of a row

    def deviation(x: Array, parts: IntArray, n_parts: int) -> Array:
        cells, n = groups * n_parts + parts, (int(groups.max()) + 1) * n_parts
        sums = np.bincount(cells, x * shares, n).reshape(-1, n_parts)
        found: Array = np.sqrt((sums**2).sum(axis=0))
        return found

    def likely_error(p: Array) -> float:
        of_bins = deviation(np.sqrt(p * np.maximum(1 - p, 0)), _bins(p), N_BINS)
        mean = np.sqrt(2 / np.pi) * of_bins.sum()  # of absolute values of normal variables
        return float(mean + Z_95 * np.sqrt((1 - 2 / np.pi) * (of_bins**2).sum()))

    def likely_mean(x: Array) -> float:
        return float(Z_95 * deviation(x, np.zeros(len(x), dtype=np.int64), 1)[0])

    return {
        "excess": np.array([likely_mean(np.sqrt(p * np.maximum(1 - p, 0))) for p in P.T]),
        "class_calibration_error": np.array([likely_error(p) for p in P.T]),
        "calibration_error": np.array(likely_error(P.max(axis=1))),
        "log_loss": np.array(likely_mean(spread)),
    }


def proportion(is_hit: Array, sample: RowSample, among: Array | None = None) -> Proportion | None:
    """Return the proportion of hits among some rows, or all; None without any row.

    The interval is Wilson's, for Kish's effective number of rows where they have weights; that of
    the bootstrap where rows have groups.
    """
    if among is not None:
        is_hit, sample = is_hit[among], sample.take(among)
    if len(is_hit) == 0 or sample.weights.sum() == 0:
        return None
    x = is_hit.astype(float)
    value = float(np.clip(np.average(x, weights=sample.weights), 0.0, 1.0))
    if sample.groups is None:
        low, high = wilson_interval(value, sample.n_effective)
    else:
        found = bootstrap([lambda W: {"mean": _ratio(x @ W, W.sum(axis=0))}], sample)
        interval = estimate(found["mean"], sample, n_share=sample.n_units)
        low, high = interval.low, interval.high
    return Proportion(value, low, high, len(is_hit))


class ClassStatistics:
    """Metrics of predicted classes and probabilities, as functions of weighted sums over rows.

    Classes that were not in training count as one class, which is never predicted.

    Parameters
    ----------
    truth : ndarray of int64
        Class codes; the number of classes or more for classes that were not in training.
    P : ndarray of shape (n_rows, n_classes)
        Probabilities.
    """

    def __init__(self, truth: IntArray, P: Array) -> None:
        n, self.n_classes = P.shape
        best, codes, eps = P.argmax(axis=1), np.arange(self.n_classes), np.finfo(float).eps
        truth = np.minimum(truth, self.n_classes)
        is_true = truth[:, None] == codes
        own = P[np.arange(n), np.minimum(truth, self.n_classes - 1)]
        is_correct = (best == truth)[:, None]
        gaps = [*_binned(P, is_true), *_binned(P.max(axis=1, keepdims=True), is_correct)]
        terms = {
            "true": _indicator(truth, self.n_classes + 1),
            "predicted": _indicator(best, self.n_classes + 1),
            "hit": _indicator(np.where(best == truth, truth, -1), self.n_classes + 1),
            "loss": sparse.csr_array(-np.log(own.clip(eps, 1 - eps))[None, :]),
            "gaps": sparse.vstack(gaps),
        }
        sizes = np.cumsum([term.shape[0] for term in terms.values()])
        self._parts = dict(zip(terms, np.split(np.arange(sizes[-1]), sizes[:-1]), strict=True))
        self._terms = sparse.csr_array(sparse.vstack(list(terms.values())))

    def __call__(self, W: Array) -> dict[str, Array]:
        """Compute the metrics for every column of weights."""
        total, K = W.sum(axis=0), self.n_classes
        total = np.where(total > 0, total, np.nan)  # only rows of weight 0 may be drawn
        sums = self._terms @ W
        true, predicted, hit, loss, gaps = (sums[rows] for rows in self._parts.values())
        gaps = gaps.reshape(K + 1, N_BINS, -1)
        recall, precision = _ratio(hit, true), _ratio(hit, predicted)
        errors, excess = np.abs(gaps).sum(axis=1) / total, -gaps[:K].sum(axis=1) / total
        prevalence = true[:K] / total
        return {
            "accuracy": hit.sum(axis=0) / total,
            "balanced_accuracy": _mean(recall),
            "macro_f1": _mean(_ratio(2 * hit, true + predicted)),
            "log_loss": loss[0] / total,
            "calibration_error": errors[K],
            "class_calibration_error": errors[:K],
            "prevalence": prevalence,
            "mean_probability": prevalence + excess,
            "excess": excess,
            "recall": recall[:K],
            "precision": precision[:K],
        }


class RankStatistics:
    """Area under the ROC curve, and average precision, as functions of weights of rows.

    Parameters
    ----------
    is_positive : ndarray of bool
        Whether each row is of the positive class.
    score : ndarray
        Its probability. More than 2,000 different ones are rounded to quantiles, and all values are
        shifted by what this changes for the given weights.
    weights : ndarray
        Weights of the rows.
    """

    def __init__(self, is_positive: Array, score: Array, weights: Array) -> None:
        order, n = np.argsort(-score, kind="stable"), len(score)
        ranks: IntArray = np.empty(n, dtype=np.int64)
        ranks[order] = np.cumsum(np.append(False, np.diff(score[order]) != 0))
        self._by_rank = _split(ranks, is_positive)
        self._shift = dict.fromkeys(("auc", "average_precision"), 0.0)
        if ranks.max() >= _MAX_SCORES:
            exact = _rank(*self._by_rank, weights[:, None])
            ranks[order] = np.arange(n) * _MAX_SCORES // n
            self._by_rank = _split(ranks, is_positive)
            rounded = _rank(*self._by_rank, weights[:, None])
            self._shift = {name: float(x[0] - rounded[name][0]) for name, x in exact.items()}

    def __call__(self, W: Array) -> dict[str, Array]:
        """Compute both for every column of weights."""
        return {name: x + self._shift[name] for name, x in _rank(*self._by_rank, W).items()}


def _split(ranks: IntArray, is_positive: Array) -> tuple[Any, Any]:
    """Return matrices that sum the weights of all rows, and of positive ones, by rank."""
    every = _indicator(ranks, int(ranks.max()) + 1)
    return every, sparse.csr_array(every * is_positive.astype(float))


def _rank(by_rank: Any, positive_by_rank: Any, W: Array) -> dict[str, Array]:
    """Compute both from weights, summed by rank."""
    every, positive = by_rank @ W, positive_by_rank @ W
    above, flagged = np.cumsum(positive, axis=0), np.cumsum(every, axis=0)
    n_positive, n_negative = above[-1], flagged[-1] - above[-1]
    pairs = ((every - positive) * (above - positive / 2)).sum(axis=0)
    precision = np.nan_to_num(_ratio(above, flagged))
    return {
        "auc": _ratio(pairs, n_positive * n_negative),
        "average_precision": _ratio((positive * precision).sum(axis=0), n_positive),
    }


def _indicator(codes: IntArray, n: int) -> Any:
    """Return a matrix of n rows whose entry (k, i) is 1 where ``codes[i] == k``."""
    kept = np.flatnonzero(codes >= 0)
    entries = (np.ones(len(kept)), (codes[kept], kept))
    return sparse.csr_array(sparse.coo_array(entries, shape=(n, len(codes))))


def _binned(P: Array, is_true: Array) -> list[Any]:
    """Return, for every column, a matrix of outcome minus probability by bin of the latter."""
    n, rows = len(P), np.arange(len(P))
    bins = _bins(P)
    return [
        sparse.csr_array(
            sparse.coo_array((is_true[:, k] - P[:, k], (bins[:, k], rows)), shape=(N_BINS, n))
        )
        for k in range(P.shape[1])
    ]


def _bins(p: Array) -> IntArray:
    """Return the bins of a calibration error that probabilities are in."""
    return np.minimum((p * N_BINS).astype(np.int64), N_BINS - 1)


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, NaN where b is 0."""
    found: Array = np.divide(a, b, out=np.full(np.shape(b), np.nan), where=b != 0)
    return found


def _mean(values: Array) -> Array:
    """Return the mean of finite values in each column."""
    known = ~np.isnan(values)
    return _ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0))
