"""Proportions with their confidence intervals, and the calibration error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hotview._types import Array
from hotview._validation import check_count, check_target

Z_95 = 1.959963984540054  # normal quantile of a 95 % interval
#: Bins of a calibration error.
N_BINS = 15


@dataclass(frozen=True)
class Estimate:
    """A metric with its 95 % interval, NaN where there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Proportion:
    """A proportion of n rows, with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Difference:
    """A difference of two accuracies on the same n rows: standard error and 95 % interval."""

    value: float
    error: float
    low: float
    high: float
    n: int


def accuracy_with_interval(correct: npt.ArrayLike) -> Proportion:
    """Return the proportion of correct rows with its Wilson interval.

    Parameters
    ----------
    correct : 1-D array-like of bool
        Whether each row is predicted correctly; at least one row.

    Returns
    -------
    Proportion
        The accuracy and its 95 % interval.

    Examples
    --------
    >>> from hotview.evaluation.metrics import accuracy_with_interval
    >>> accuracy = accuracy_with_interval([True] * 10)
    >>> accuracy.value, round(accuracy.low, 3), accuracy.high
    (1.0, 0.722, 1.0)
    """
    rows = np.asarray(correct, dtype=bool)
    value = float(rows.mean())
    return Proportion(value, *wilson_interval(value, len(rows)), len(rows))


def wilson_interval(value: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a proportion of n rows.

    Parameters
    ----------
    value : float
        The proportion.
    n : float
        Number of rows; of rows with weights, the effective number.

    Returns
    -------
    tuple of float
        Its ends.

    Examples
    --------
    >>> from hotview.evaluation.metrics import wilson_interval
    >>> [round(x, 3) for x in wilson_interval(0.5, 100)]
    [0.404, 0.596]
    """
    center, scale = value + Z_95**2 / (2 * n), 1 + Z_95**2 / n
    width = Z_95 * math.sqrt(max(0.0, value * (1 - value)) / n + Z_95**2 / (4 * n**2))
    low, high = (center - width) / scale, (center + width) / scale
    return (0.0 if value <= 0 else low), (1.0 if value >= 1 else high)


def square_and_add(parts: Sequence[Proportion], weights: Sequence[float] | None = None) -> Estimate:
    """Return a weighted sum of proportions with Newcombe's square-and-add interval.

    It is made of the intervals of the proportions, and so has a width where all of them are 0 or 1.

    Parameters
    ----------
    parts : sequence of Proportion
        At least one; independent.
    weights : sequence of float or None, default=None
        Weights of at least 0; None takes the mean.

    Returns
    -------
    Estimate
        The sum and its 95 % interval.

    Examples
    --------
    >>> from hotview.evaluation.metrics import accuracy_with_interval, square_and_add
    >>> mean = square_and_add([accuracy_with_interval([True] * 10)] * 2)
    >>> mean.value, round(mean.low, 3), mean.high
    (1.0, 0.804, 1.0)
    """
    if weights is None:
        weights = [1 / len(parts)] * len(parts)
    each = list(zip(weights, parts, strict=True))
    value = sum(w * x.value for w, x in each)
    below = math.sqrt(sum((w * (x.value - x.low)) ** 2 for w, x in each))
    above = math.sqrt(sum((w * (x.high - x.value)) ** 2 for w, x in each))
    return Estimate(value, max(0.0, value - below), min(math.fsum(weights), value + above))


def compare_accuracies(correct: npt.ArrayLike, other: npt.ArrayLike) -> Difference:
    """Return the difference of two accuracies on the same rows.

    The standard error is that of the mean difference over rows. The interval is Agresti and Min's,
    which adds half a row to each of the four outcomes: its width is positive even where both
    predictions agree on every row.

    Parameters
    ----------
    correct, other : 1-D array-like of bool
        Whether each row is predicted correctly by either model; at least one row.

    Returns
    -------
    Difference
        The first accuracy minus the second.

    Examples
    --------
    >>> from hotview.evaluation.metrics import compare_accuracies
    >>> compare_accuracies([True, True, True, False], [True, False, False, False]).value
    0.5
    """
    return mean_difference(np.asarray(correct, dtype=float) - np.asarray(other, dtype=float))


def mean_difference(x: Array) -> Difference:
    """Return the mean of differences from −1 to 1 of rows, as `compare_accuracies`."""
    n = len(x)
    error = float(x.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    center = float(x.sum()) / (n + 2)
    width = Z_95 * math.sqrt(float((x**2).sum()) + 1 - (n + 2) * center**2) / (n + 2)
    return Difference(float(x.mean()), error, center - width, center + width, n)


def expected_calibration_error(
    probabilities: npt.ArrayLike, y: npt.ArrayLike, classes: npt.ArrayLike, n_bins: int = 15
) -> float:
    r"""Return the mean absolute gap between confidence and accuracy.

    .. math:: \sum_b \frac{n_b}{n} \, |\mathrm{accuracy}_b - \mathrm{confidence}_b|

    over bins b of equal width of the confidence, which is the largest probability of a row.

    Parameters
    ----------
    probabilities : array-like of shape (n_rows, n_classes)
        From `predict_proba`.
    y : 1-D array-like
        The true classes; a class that is not in `classes` counts as an error.
    classes : 1-D array-like
        The class of each column, as in `classes_`.
    n_bins : int, default=15
        Number of bins.

    Returns
    -------
    float
        From 0 (calibrated) to 1.

    Examples
    --------
    >>> from hotview.evaluation import expected_calibration_error
    >>> expected_calibration_error([[0.75, 0.25]] * 4, [0, 0, 0, 1], [0, 1])
    0.0
    >>> expected_calibration_error([[1.0, 0.0]] * 4, [0, 0, 0, 1], [0, 1])
    0.25
    """
    P, known = check_probabilities(probabilities, classes)
    truth = check_target(y, len(P))
    confidence, correct = P.max(axis=1), np.asarray(known)[P.argmax(axis=1)] == truth
    bins = np.minimum((confidence * check_count("n_bins", n_bins)).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(P))


def check_probabilities(
    probabilities: npt.ArrayLike, classes: npt.ArrayLike
) -> tuple[Array, list[Any]]:
    """Return probabilities and the classes of their columns."""
    P, known = np.asarray(probabilities, dtype=np.float64), np.asarray(classes).tolist()
    if P.ndim != 2 or P.shape[1] != len(known) or len(P) == 0:
        raise ValueError(
            f"Expected a row of {len(known)} probabilities for every row, one per class, but the "
            f"shape is {P.shape}. Pass what predict_proba returns, and classes_."
        )
    if not ((P >= 0) & (P <= 1 + 1e-6)).all():
        raise ValueError(
            "Expected probabilities from 0 to 1, but some are not, or missing. Pass what "
            "predict_proba returns, without rows that have no view."
        )
    return P, known
