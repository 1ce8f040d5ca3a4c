"""One class against the rest: ranking, sensitivity, specificity and thresholds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hotview._types import Array
from hotview.evaluation.bootstrap import RowSample, proportion
from hotview.evaluation.metrics import Estimate, Proportion, square_and_add

#: Value of `threshold` that chooses it on half of the rows.
HELD_OUT = "held-out"


@dataclass(frozen=True)
class OperatingPoint:
    """Metrics of predicting the positive class from a threshold of its probability on.

    Parameters
    ----------
    threshold : float or None
        The threshold; None for the most probable class.
    source : str
        How the threshold was chosen.
    n : int
        Number of rows that these metrics are of.
    sensitivity : Proportion or None
        Share of positive rows that are predicted to be positive; None without any.
    specificity : Proportion or None
        Share of negative rows that are predicted to be negative; None without any.
    precision : Proportion or None
        Share of rows predicted to be positive that are; None without any.
    cost : Estimate or None
        Mean cost of a row, in false alarms; None if no cost is given.
    """

    threshold: float | None
    source: str
    n: int
    sensitivity: Proportion | None
    specificity: Proportion | None
    precision: Proportion | None
    cost: Estimate | None


@dataclass(frozen=True)
class BinaryMetrics:
    """Metrics of the positive class against the rest.

    Parameters
    ----------
    positive : object
        The positive class.
    reason : str
        Why it is this one.
    auc : Estimate or None
        Area under the ROC curve; None if all rows are of one class.
    average_precision : Estimate or None
        Average precision, whose value by chance is the prevalence; None if all are of one class.
    cost_ratio : float or None
        Cost of a missed positive row, in false alarms.
    default : OperatingPoint
        Where the most probable class is predicted.
    chosen : OperatingPoint or None
        At the threshold by cost, by choice or chosen on other rows; None if not asked for.
    """

    positive: Any
    reason: str
    auc: Estimate | None
    average_precision: Estimate | None
    cost_ratio: float | None
    default: OperatingPoint
    chosen: OperatingPoint | None


def check_threshold(threshold: float | str | None, cost: float | None) -> None:
    """Raise if a threshold or a cost cannot be used."""
    if cost is not None and not 0 < cost < np.inf:
        raise ValueError(
            f"Expected cost to be a positive number, the cost of a missed positive row in false "
            f"alarms, but it is {cost!r}. Pass 5 if missing one is five times worse."
        )
    is_probability = isinstance(threshold, int | float) and 0 <= threshold <= 1
    if threshold is not None and threshold != HELD_OUT and not is_probability:
        raise ValueError(
            f"Expected threshold to be a probability or {HELD_OUT!r}, but it is {threshold!r}. "
            f"Pass 0.3, or {HELD_OUT!r} to choose it on half of the rows."
        )


@dataclass(frozen=True)
class PositiveRows:
    """Rows and the positive class: whether they are of it, its probability, and what it costs.

    Parameters
    ----------
    is_positive : ndarray of bool
        Whether each row is of the positive class.
    probability : ndarray
        Its probability.
    sample : RowSample
        Weights and groups of the rows.
    cost : float or None
        Cost of a missed positive row, in false alarms.
    """

    is_positive: Array
    probability: Array
    sample: RowSample
    cost: float | None

    def choose(self, threshold: float | str | None, keys: npt.ArrayLike) -> OperatingPoint | None:
        """Score the rows at a threshold; None takes that of the cost, and nothing without a cost.

        `keys` decide which half a row belongs to, if the threshold is chosen on half of the rows.
        """
        if threshold == HELD_OUT:
            half = split_by_hash(keys)
            known, weights = self.is_positive[half], self.sample.weights[half]
            if known.all() or not known.any():
                raise ValueError(
                    "Expected rows of both classes among those that the threshold is chosen on, "
                    f"but half of the rows, {len(known)}, are all of one. Set the threshold, or "
                    "give more."
                )
            limit = choose_threshold(known, self.probability[half], weights, self.cost)
            aim = "Youden's index" if self.cost is None else "the lowest cost"
            source = f"chosen for {aim} on the other {half.sum():,} rows"
            return self.score(self.probability >= limit, limit, source, ~half)
        if threshold is not None:
            limit, source = float(threshold), "given"
        elif self.cost is not None:
            limit = 1 / (1 + self.cost)
            source = f"1/(1 + {self.cost:g}), that of the lowest expected cost"
        else:
            return None
        return self.score(self.probability >= limit, limit, source)

    def score(
        self, flagged: Array, threshold: float | None, source: str, rows: Array | None = None
    ) -> OperatingPoint:
        """Score some rows, by default all, that are flagged as positive or not."""
        yes, mean_cost = self.is_positive, None
        rows = np.ones(len(yes), dtype=bool) if rows is None else rows
        if self.cost is not None:
            missed = proportion(yes & ~flagged, self.sample, rows)
            alarms = proportion(~yes & flagged, self.sample, rows)
            if missed is not None and alarms is not None:
                mean_cost = square_and_add([missed, alarms], [self.cost, 1.0])
        return OperatingPoint(
            threshold,
            source,
            int(rows.sum()),
            proportion(flagged, self.sample, yes & rows),
            proportion(~flagged, self.sample, ~yes & rows),
            proportion(yes, self.sample, flagged & rows),
            mean_cost,
        )


def choose_threshold(
    is_positive: Array, probability: Array, weights: Array, cost: float | None = None
) -> float:
    """Return the threshold with the lowest cost on the given rows.

    Parameters
    ----------
    is_positive : ndarray of bool
        Whether each row is of the positive class; some are, some are not.
    probability : ndarray
        Its probability.
    weights : ndarray
        Weights of the rows.
    cost : float or None, default=None
        Cost of a missed positive row, in false alarms. None takes the number of negative rows per
        positive one, which maximizes Youden's index, sensitivity + specificity − 1.

    Returns
    -------
    float
        Halfway between the lowest probability that is flagged and the highest one that is not.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.evaluation.thresholds import choose_threshold
    >>> y = np.array([True, True, False, False])
    >>> choose_threshold(y, np.array([0.5, 0.25, 0.125, 0.0]), np.ones(4))
    0.1875
    """
    if cost is None:
        cost = float(weights[~is_positive].sum() / weights[is_positive].sum())
    values, codes = np.unique(-probability, return_inverse=True)
    values = -values  # highest first
    n_positive = np.bincount(codes, weights * is_positive)
    n_negative = np.bincount(codes, weights * ~is_positive)
    flagged = np.append(0.0, np.cumsum(n_negative))
    missed = n_positive.sum() - np.append(0.0, np.cumsum(n_positive))
    best = int(np.argmin(cost * missed + flagged))  # the first `best` values are flagged
    around = np.concatenate([[1.0], values, [0.0]])
    return float((around[best] + around[best + 1]) / 2)


def split_by_hash(keys: npt.ArrayLike) -> Array:
    """Return which rows belong to the half of the keys with the lowest hashes.

    Parameters
    ----------
    keys : array-like
        Ids or groups of the rows; rows of one key are in one half.

    Returns
    -------
    ndarray of bool
        True for half of the keys; the order of the rows does not matter.

    Examples
    --------
    >>> from hotview.evaluation.thresholds import split_by_hash
    >>> split_by_hash(["p1", "p2", "p1"]).tolist()
    [False, True, False]
    """
    names, codes = np.unique(np.asarray(keys).astype(str), return_inverse=True)
    order = np.argsort([hashlib.sha256(name.encode()).hexdigest() for name in names])
    is_first = np.zeros(len(names), dtype=bool)
    is_first[order[: len(names) // 2]] = True
    return is_first[codes]
