"""Metrics of predicted probabilities, and confidence intervals of accuracies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, f1_score, log_loss, recall_score

from hotview._types import Array
from hotview._validation import check_count, check_target

__all__ = [
    "Assessment",
    "Difference",
    "Proportion",
    "accuracy_with_interval",
    "assess",
    "compare_accuracies",
    "expected_calibration_error",
]

_Z = 1.959963984540054  # normal quantile of a 95 % interval


@dataclass(frozen=True)
class Proportion:
    """A proportion of n rows, with its 95 % Wilson interval."""

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
    interval = binomtest(int(rows.sum()), len(rows)).proportion_ci(method="wilson")
    return Proportion(float(rows.mean()), float(interval.low), float(interval.high), len(rows))


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
    difference = np.asarray(correct, dtype=float) - np.asarray(other, dtype=float)
    n = len(difference)
    error = float(difference.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    center = difference.sum() / (n + 2)
    width = _Z * math.sqrt(np.abs(difference).sum() + 1 - (n + 2) * center**2) / (n + 2)
    low, high = float(center - width), float(center + width)
    return Difference(float(difference.mean()), error, low, high, n)


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
    P: Array = np.asarray(probabilities, dtype=np.float64)
    names = np.asarray(classes)
    if P.ndim != 2 or P.shape[1] != len(names) or len(P) == 0:
        raise ValueError(
            f"Expected a row of {len(names)} probabilities for every row, one per class, but the "
            f"shape is {P.shape}. Pass what predict_proba returns, and classes_."
        )
    truth = check_target(y, len(P))
    confidence, correct = P.max(axis=1), names[P.argmax(axis=1)] == truth
    bins = np.minimum((confidence * check_count("n_bins", n_bins)).astype(int), n_bins - 1)
    gaps = np.bincount(bins, weights=correct - confidence, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(P))


@dataclass(frozen=True)
class Assessment:
    """Metrics of a classifier's predictions.

    Parameters
    ----------
    accuracy : Proportion
        Proportion of correct rows, with its 95 % interval.
    balanced_accuracy : float
        Mean recall over the classes that occur.
    macro_f1 : float
        Mean F1 score over the classes that occur or are predicted.
    calibration_error : float
        Expected calibration error.
    log_loss : float or None
        Mean negative log-probability of the true class; None if a true class is not a column.
    classes : list
        The classes of the model, then other classes that occur.
    confusion : list of list of int
        Number of rows by true class (row) and predicted class (column).

    Examples
    --------
    >>> from hotview.evaluation import assess
    >>> assess([0, 1], [[0.9, 0.1], [0.2, 0.8]], [0, 1]).to_json()["accuracy"]
    1.0
    """

    accuracy: Proportion
    balanced_accuracy: float
    macro_f1: float
    calibration_error: float
    log_loss: float | None
    classes: list[Any]
    confusion: list[list[int]]

    def to_json(self) -> dict[str, Any]:
        """Return the metrics as values that JSON can hold."""
        return {
            "rows": self.accuracy.n,
            "accuracy": self.accuracy.value,
            "accuracy_interval": [self.accuracy.low, self.accuracy.high],
            **{name: value for name, value in vars(self).items() if name != "accuracy"},
        }


def assess(y: npt.ArrayLike, probabilities: npt.ArrayLike, classes: npt.ArrayLike) -> Assessment:
    """Compute the metrics of predicted probabilities.

    Parameters
    ----------
    y : 1-D array-like
        The true classes; a class that is not in `classes` counts as an error.
    probabilities : array-like of shape (n_rows, n_classes)
        From `predict_proba`.
    classes : 1-D array-like
        The class of each column, as in `classes_`.

    Returns
    -------
    Assessment
        All metrics that `hotview evaluate` prints.

    Examples
    --------
    >>> from hotview.evaluation import assess
    >>> metrics = assess(["ill", "well"], [[0.9, 0.1], [0.6, 0.4]], ["ill", "well"])
    >>> metrics.accuracy.value, metrics.confusion
    (0.5, [[1, 0], [1, 0]])
    """
    P = np.asarray(probabilities, dtype=np.float64)
    known: list[Any] = np.asarray(classes).tolist()
    labels: list[Any] = y.tolist() if isinstance(y, np.ndarray) else list(y)  # type: ignore[arg-type]
    unknown = sorted({label for label in labels if label not in known}, key=str)
    codes = {label: k for k, label in enumerate([*known, *unknown])}
    truth = np.array([codes[label] for label in labels], dtype=np.int64)
    predicted = P.argmax(axis=1)
    occurring = np.union1d(truth, predicted)
    return Assessment(
        accuracy_with_interval(predicted == truth),
        float(recall_score(truth, predicted, labels=np.unique(truth), average="macro")),
        float(f1_score(truth, predicted, labels=occurring, average="macro", zero_division=0.0)),
        expected_calibration_error(P, truth, np.arange(len(known))),
        None if unknown else float(log_loss(truth, P, labels=np.arange(len(known)))),
        list(codes),
        confusion_matrix(truth, predicted, labels=np.arange(len(codes))).tolist(),
    )
