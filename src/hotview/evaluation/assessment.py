"""How good predictions are, in the numbers people ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import f1_score, log_loss

from hotview._types import Array
from hotview.evaluation.metrics import expected_calibration_error
from hotview.evaluation.record.intervals import share
from hotview.evaluation.record.schema import Proportion

__all__ = ["Assessment", "assess"]


@dataclass(frozen=True)
class Assessment:
    """How good predictions are.

    Parameters
    ----------
    accuracy : Proportion
        Share of rows that are right, with its 95 % interval.
    balanced_accuracy : float
        The same for every class that occurs, averaged over classes.
    macro_f1 : float
        Mean of the F1 scores of all classes that occur or are predicted.
    calibration_error : float
        How far confidence is from accuracy.
    log_loss : float or None
        Mean negative logarithm of the probability of the truth; None where a class is not known.
    classes : list
        The classes of the model and, after them, others that occur.
    confusion : list of list of int
        How many rows of a class (by row) were predicted as a class (by column).

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
        """Plain values that JSON can hold."""
        facts = {name: value for name, value in vars(self).items() if name != "accuracy"}
        interval = [self.accuracy.low, self.accuracy.high]
        return {
            "rows": self.accuracy.n,
            "accuracy": self.accuracy.value,
            "accuracy_interval": interval,
            **facts,
        }


def assess(y: npt.ArrayLike, probabilities: npt.ArrayLike, classes: npt.ArrayLike) -> Assessment:
    """ViewPredictors probabilities by the truth.

    Parameters
    ----------
    y : 1-D array-like
        The true classes; those that are not among `classes` count as missed.
    probabilities : array-like of shape (n_rows, n_classes)
        From `predict_proba`.
    classes : 1-D array-like
        The class of every column, as in `classes_`.

    Returns
    -------
    Assessment
        All that `hotview evaluate` prints.

    Examples
    --------
    >>> from hotview.evaluation import assess
    >>> found = assess(["ill", "well"], [[0.9, 0.1], [0.6, 0.4]], ["ill", "well"])
    >>> found.accuracy.value, found.confusion
    (0.5, [[1, 0], [1, 0]])
    """
    P = np.asarray(probabilities, dtype=np.float64)
    known: list[Any] = np.asarray(classes).tolist()
    truth: list[Any] = y.tolist() if isinstance(y, np.ndarray) else list(y)  # type: ignore[arg-type]
    strange = sorted({label for label in truth if label not in known}, key=str)
    place = {label: k for k, label in enumerate([*known, *strange])}
    true = np.array([place[label] for label in truth], dtype=np.int64)
    found = P.argmax(axis=1)
    confusion = np.zeros((len(place), len(place)), dtype=np.int64)
    np.add.at(confusion, (true, found), 1)
    there = np.union1d(true, found)
    return Assessment(
        share(found == true),
        _balanced(true, found),
        float(f1_score(true, found, labels=there, average="macro", zero_division=0.0)),
        expected_calibration_error(P, true, np.arange(len(known))),
        None if strange else _log_loss(true, P),
        list(place),
        confusion.tolist(),
    )


def _balanced(true: Array, found: Array) -> float:
    recalls = [float((found[true == label] == label).mean()) for label in np.unique(true)]
    return float(np.mean(recalls))


def _log_loss(true: Array, P: Array) -> float:
    return float(log_loss(true, P, labels=np.arange(P.shape[1])))
