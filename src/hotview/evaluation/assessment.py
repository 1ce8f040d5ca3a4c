"""All metrics of a classifier's predictions, each with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import confusion_matrix

from hotview._types import Array, IntArray
from hotview.evaluation.bootstrap import (
    ClassStatistics,
    RankStatistics,
    RowSample,
    Statistics,
    bootstrap,
    estimate,
    likely_gaps,
    make_sample,
    proportion,
)
from hotview.evaluation.metrics import (
    Estimate,
    Proportion,
    check_probabilities,
    square_and_add,
)
from hotview.evaluation.thresholds import BinaryMetrics, PositiveRows, check_threshold

__all__ = ["Assessment", "ClassMetrics", "assess", "class_counts"]


@dataclass(frozen=True)
class ClassMetrics:
    """Metrics of one class.

    Parameters
    ----------
    name : object
        The class.
    n : int
        Number of rows of this class.
    prevalence : Proportion
        Share of this class.
    mean_probability : Estimate
        Mean probability of this class over all rows; near the prevalence if calibrated.
    excess : Estimate
        Mean probability minus prevalence.
    calibration_error : Estimate
        Mean gap of probability and frequency, over 15 bins of the probability of this class.
    recall : Proportion or None
        Share of rows of this class that are predicted to be; None if it does not occur.
    precision : Proportion or None
        Share of rows predicted to be of this class that are; None if it is never predicted.
    """

    name: Any
    n: int
    prevalence: Proportion
    mean_probability: Estimate
    excess: Estimate
    calibration_error: Estimate
    recall: Proportion | None
    precision: Proportion | None


@dataclass(frozen=True)
class Assessment:
    """Metrics of a classifier's predictions, each with its 95 % interval.

    Intervals of proportions are Wilson's, and those of the balanced accuracy and of the cost are
    made of them (Newcombe's square-and-add). All others are percentiles of 1,000 bootstrap
    resamples of the rows with a fixed seed, fewer for large tables, but at least 200, expanded for
    few rows. Those of the log loss and of the mean probability minus prevalence are at least as
    wide as if probabilities were right; those of calibration errors begin at 0 unless the error
    is larger than right probabilities have by chance. Where rows have groups, groups are resampled,
    for all metrics. Of fewer than some 20 rows of a class, all this is rough.

    Parameters
    ----------
    n : int
        Number of rows.
    majority_class : object
        The most frequent class of training.
    majority : Proportion
        Accuracy of always predicting it.
    accuracy : Proportion
        Proportion of correct rows.
    balanced_accuracy : Estimate
        Mean recall over the classes that occur.
    macro_f1 : Estimate
        Mean F1 score over the classes that occur or are predicted.
    log_loss : Estimate or None
        Mean negative log-probability of the true class; None if a true class is not a column.
    calibration_error : Estimate
        Expected calibration error of the confidence.
    by_class : list of ClassMetrics
        Metrics of every class of the model.
    binary : BinaryMetrics or None
        Metrics of the positive class; None for more than two classes, unless one is named.
    classes : list
        The classes of the model, then other classes that occur, which count as one class.
    confusion : list of list of int
        Number of rows by true class (row) and predicted class (column), without weights.
    resampled : str
        What is resampled: "rows" or "groups".
    n_resamples : int
        Number of bootstrap resamples.

    Examples
    --------
    >>> from hotview.evaluation import assess
    >>> assess([0, 1], [[0.9, 0.1], [0.2, 0.8]], [0, 1]).to_json()["accuracy"]
    1.0
    """

    n: int
    majority_class: Any
    majority: Proportion
    accuracy: Proportion
    balanced_accuracy: Estimate
    macro_f1: Estimate
    log_loss: Estimate | None
    calibration_error: Estimate
    by_class: list[ClassMetrics]
    binary: BinaryMetrics | None
    classes: list[Any]
    confusion: list[list[int]]
    resampled: str
    n_resamples: int

    def to_json(self) -> dict[str, Any]:
        """Return the metrics as values that JSON can hold, and ``<metric>_interval`` for each."""
        return {"rows": self.n, **_flatten(self)}


def assess(
    y: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    classes: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    prior: npt.ArrayLike | None = None,
    positive: Any = None,
    cost: float | None = None,
    threshold: float | str | None = None,
) -> Assessment:
    """Compute the metrics of predicted probabilities, with 95 % intervals.

    Parameters
    ----------
    y : 1-D array-like
        The true classes; a class that is not in `classes` counts as an error.
    probabilities : array-like of shape (n_rows, n_classes)
        From `predict_proba`.
    classes : 1-D array-like
        The class of each column, as in `classes_`.
    sample_weight : 1-D array-like or None, default=None
        Weights of the rows.
    groups : 1-D array-like or None, default=None
        The group of every row, as one person seen several times: intervals then resample groups.
    prior : 1-D array-like or None, default=None
        Numbers or shares of the classes in training, which say what the majority class and the
        rarer class are; None takes those of `y`.
    positive : object or None, default=None
        The positive class, or its name. None takes the rarer of two classes, and none of more.
    cost : float or None, default=None
        Cost of a missed positive row, in false alarms. The threshold is then 1/(1 + cost), which
        has the lowest expected cost if probabilities are calibrated.
    threshold : float, "held-out" or None, default=None
        Threshold of the probability of the positive class, in place of that of the cost.
        ``"held-out"`` chooses it on half of the rows (or groups, by their hash), for the lowest
        cost or else for Youden's index, and its metrics are those of the other half.

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
    >>> metrics.majority.value, metrics.binary.auc.value
    (0.5, 1.0)
    """
    P, known = check_probabilities(probabilities, classes)
    truth, names = _encode(y, known, len(P))
    check_threshold(threshold, cost)
    sample = make_sample(len(P), sample_weight, groups)
    counts = np.bincount(truth, sample.weights, minlength=len(known))[: len(known)]
    if prior is not None:
        counts = np.asarray(prior, dtype=float)
    if counts.shape != (len(known),):
        raise ValueError(
            f"Expected prior to hold a number for each of the {len(known)} classes, but its shape "
            f"is {counts.shape}. Pass one per class, in the order of classes."
        )
    k, reason = _find_positive(known, counts, positive, has_prior=prior is not None)
    if k is None and (cost is not None or threshold is not None):
        raise ValueError(
            f"Expected two classes beside a cost or a threshold, but there are {len(known)}. Name "
            "the class that they are about: positive."
        )
    statistics: list[Statistics] = [ClassStatistics(truth, P)]
    if k is not None:
        statistics.append(RankStatistics(truth == k, P[:, k], sample.weights))
    found = bootstrap(statistics, sample, P.shape[1] + 4)
    chance, best = likely_gaps(P, sample), P.argmax(axis=1)
    majority, has_unknown = int(counts.argmax()), len(names) > len(known)
    by_class = [
        _assess_class(k, name, truth == k, best == k, sample, found, chance)
        for k, name in enumerate(known)
    ]
    accuracy, share = proportion(best == truth, sample), proportion(truth == majority, sample)
    assert accuracy is not None
    assert share is not None
    # The variance of a mean over classes depends on the rows of the rarest class where one is by
    # far the rarest, and on all rows where classes are equal (Satterthwaite's approximation).
    sizes = np.unique(truth, return_counts=True)[1]
    n_share = max(1, round(float((1 / sizes).sum() ** 2 / (1.0 / sizes**3).sum())))
    balanced = estimate(found["balanced_accuracy"], sample, n_share=n_share)
    if sample.groups is None:
        recalls = [m.recall for m in by_class if m.recall is not None]
        # That of classes that were not in training is certainly 0.
        balanced = square_and_add([*recalls, *[Proportion(0.0, 0.0, 0.0, 0)] * has_unknown])
    loss = _widen(estimate(found["log_loss"], sample), float(chance["log_loss"]), 0.0)
    binary = None
    if k is not None:
        rows = PositiveRows(truth == k, P[:, k], sample, cost)
        n_smaller = int(min((truth == k).sum(), (truth != k).sum()))
        auc, precision = (
            estimate(found[name], sample, n_share=n_smaller) if n_smaller > 0 else None
            for name in ("auc", "average_precision")
        )
        default = rows.score(best == k, None, "most probable class")
        chosen = rows.choose(threshold, np.arange(len(P)) if groups is None else groups)
        binary = BinaryMetrics(known[k], reason, auc, precision, cost, default, chosen)
    return Assessment(
        len(P),
        known[majority],
        share,
        accuracy,
        balanced,
        estimate(found["macro_f1"], sample, n_share=n_share),
        None if has_unknown else loss,
        estimate(found["calibration_error"], sample, chance=float(chance["calibration_error"])),
        by_class,
        binary,
        names,
        confusion_matrix(truth, best, labels=np.arange(len(names))).tolist(),
        "rows" if sample.groups is None else "groups",
        len(found["accuracy"]) - 1,
    )


def class_counts(estimator: Any) -> list[int] | None:
    """Return the numbers of training labels by class, or None if they are not recorded."""
    counts = getattr(estimator, "trained_on_", {}).get("classes")
    return [n for _, n in counts] if counts else None


def _encode(y: Any, known: list[Any], n: int) -> tuple[IntArray, list[Any]]:
    """Return class codes, and the classes: those of the model, then others that occur."""
    labels: list[Any] = y.tolist() if isinstance(y, np.ndarray) else list(y)
    if len(labels) != n:
        raise ValueError(
            f"Expected a class for each of the {n} rows of probabilities, but y holds "
            f"{len(labels)}. Pass both of the same rows."
        )
    names = [*known, *sorted(set(labels) - set(known), key=str)]
    codes = {label: k for k, label in enumerate(names)}
    return np.array([codes[label] for label in labels], dtype=np.int64), names


def _assess_class(
    k: int,
    name: Any,
    is_true: Array,
    is_best: Array,
    sample: RowSample,
    found: dict[str, Array],
    chance: dict[str, Array],
) -> ClassMetrics:
    """Compute the metrics of class k; `chance` is from `likely_gaps`."""

    def share(name: str, hits: Array, among: Array) -> Proportion | None:
        if not among.any():
            return None
        part = sample.take(among)
        if part.groups is None:
            return proportion(hits[among], part)
        metric = estimate(found[name][k], part, n_share=part.n_units)  # resampled already
        return Proportion(metric.value, metric.low, metric.high, int(among.sum()))

    prevalence = share("prevalence", is_true, np.ones(len(is_true), dtype=bool))
    assert prevalence is not None
    gap = float(chance["class_calibration_error"][k])
    return ClassMetrics(
        name,
        int(is_true.sum()),
        prevalence,
        estimate(found["mean_probability"][k], sample),
        _widen(estimate(found["excess"][k], sample), float(chance["excess"][k]), -1.0, 1.0),
        estimate(found["class_calibration_error"][k], sample, chance=gap),
        share("recall", is_best, is_true),
        share("precision", is_true, is_best),
    )


def _widen(x: Estimate, chance: float, least: float, most: float = math.inf) -> Estimate:
    """Return an interval that is at least as wide as that of right probabilities.

    Resamples of rows without any of a rare class do not know that there may be some.
    """
    low, high = min(x.low, x.value - chance), max(x.high, x.value + chance)
    return Estimate(x.value, max(low, least), min(high, most))


def _find_positive(
    known: list[Any], counts: Array, positive: Any, *, has_prior: bool
) -> tuple[int | None, str]:
    """Return the positive class and why it is this one; None if there is none."""
    if positive is None and len(known) != 2:
        return None, ""
    if positive is None:
        where = "in training" if has_prior else "of these rows"
        return int(counts[1] <= counts[0]), f"the rarer class {where}"
    names = [str(name) for name in known]
    if str(positive) not in names:
        raise ValueError(
            f"Expected positive to be a class of the model, but it is {positive!r}. Choose one of "
            f"{', '.join(map(repr, known[:20]))}."
        )
    return names.index(str(positive)), "given"


def _flatten(metrics: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; intervals beside their values."""
    facts: dict[str, Any] = {}
    for field in fields(metrics):
        name, value = field.name, getattr(metrics, field.name)
        if isinstance(value, Estimate | Proportion):
            facts[name] = _finite(value.value)
            facts[f"{name}_interval"] = [_finite(value.low), _finite(value.high)]
        elif is_dataclass(value):
            facts[name] = _flatten(value)
        elif isinstance(value, list) and value and is_dataclass(value[0]):
            facts[name] = [_flatten(part) for part in value]
        else:
            facts[name] = value
    return facts


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
