"""Accuracies of fitted models on validation and test rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from hotview._types import Array
from paper.estimators import training_rows

__all__ = ["control_scores", "score_classifier", "score_encoder"]

_STEPS = 10_000  # scikit-learn's 100 can be too few, and it would warn

_FREE = 1e4  # inverse weight of the penalty; without any, separable classes have no solution

_PARTS = ("train", "validation", "test")


def score_encoder(encoder: Any, data: Bunch) -> dict[str, float]:
    """Score frozen features by logistic regression on them, as it is and in other ways.

    Parameters
    ----------
    encoder : MultiViewEncoder
        Fitted to all training rows.
    data : Bunch
        From `paper.data.split_dataset`.

    Returns
    -------
    dict of str to float
        ``test`` and ``validation`` with the labeled rows' features as they are; all else on the
        test rows, with features standardized over all training rows: ``standardized``,
        ``unpenalized`` (next to no penalty on the weights), ``labels_20`` (four times as many
        labels, 20 % of the training rows) and ``all_labels``.

    Examples
    --------
    >>> from paper.estimators import fit_arguments, make_estimator
    >>> from paper.cells import Cell
    >>> from paper.data import split_dataset
    >>> from paper.scoring import score_encoder
    >>> few = (("max_epochs", 1),)
    >>> cell = Cell("handwritten", "unsupervised", "no coupling", "robust", overrides=few)
    >>> data = split_dataset(cell, None, 0)
    >>> encoder = make_estimator(cell, 0).fit(**fit_arguments(cell, data))
    >>> scores = score_encoder(encoder, data)
    >>> list(scores), min(scores.values()) > 0.8
    (['test', 'validation', 'standardized', 'unpenalized', 'labels_20', 'all_labels'], True)
    """
    raw, n = _features(encoder, data), len(data.target)
    even = _standardize(raw)
    model = _regression(raw["train"][:n], data.target)
    labels = {"standardized": n, "unpenalized": n, "labels_20": 4 * n, "all_labels": None}
    others = {
        name: _regression(even["train"][:k], data.train_target[:k], free=name == "unpenalized")
        for name, k in labels.items()
    }
    return {
        "test": _score(model, raw["test"], data.test_target),
        "validation": _score(model, raw["validation"], data.validation_target),
        **{name: _score(m, even["test"], data.test_target) for name, m in others.items()},
    }


def score_classifier(classifier: Any, data: Bunch) -> dict[str, float]:
    """Score a classifier, and a logistic regression on its frozen features.

    Parameters
    ----------
    classifier : MultiViewClassifier
        Fitted to the training rows.
    data : Bunch
        From `paper.data.split_dataset`.

    Returns
    -------
    dict of str to float
        ``test`` and ``validation`` of the classifier itself, ``linear`` (test) of a logistic
        regression on the labeled rows' features, standardized over all training rows.

    Examples
    --------
    >>> from paper.estimators import fit_arguments, make_estimator
    >>> from paper.cells import Cell
    >>> from paper.data import split_dataset
    >>> from paper.scoring import score_classifier
    >>> few = (("max_epochs", 1),)
    >>> cell = Cell("handwritten", "semi-supervised", "no coupling", "robust", overrides=few)
    >>> data = split_dataset(cell, None, 0)
    >>> classifier = make_estimator(cell, 0).fit(**fit_arguments(cell, data))
    >>> list(score_classifier(classifier, data))
    ['test', 'validation', 'linear']
    """
    even = _standardize(_features(classifier, data))
    linear = _regression(even["train"][: len(data.target)], data.target)
    return {
        "test": float(classifier.score(data.test, data.test_target)),
        "validation": float(classifier.score(data.validation, data.validation_target)),
        "linear": _score(linear, even["test"], data.test_target),
    }


def control_scores(method: str, data: Bunch) -> dict[str, float]:
    """Fit a plain method and score it.

    Parameters
    ----------
    method : str
        One of `paper.models.CONTROLS`.
    data : Bunch
        From `paper.data.split_dataset`.

    Returns
    -------
    dict of str to float
        ``test`` and ``validation``.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.data import split_dataset
    >>> from paper.scoring import control_scores
    >>> cell = Cell("handwritten", "-", "logistic regression", "-")
    >>> control_scores("logistic regression", split_dataset(cell, None, 0))["test"] > 0.8
    True
    """
    model = _fit_control(method, data)
    return {
        "test": float(model.score(data.test, data.test_target)),
        "validation": float(model.score(data.validation, data.validation_target)),
    }


def _fit_control(method: str, data: Bunch) -> Any:
    from hotview import evaluation

    if method == "logistic regression, all labels":
        model = evaluation.ConcatenatedLogisticRegression()
        return model.fit(training_rows(data), data.train_target)
    if method == "label propagation, aligned":
        aligned = evaluation.ConcatenatedLabelPropagation()
        return aligned.fit(data.linked, data.target, paired=data.paired)
    kinds = {
        "logistic regression": evaluation.ConcatenatedLogisticRegression,
        "PCA + logistic regression": evaluation.PCALogisticRegression,
        "label propagation per view": evaluation.PerViewLabelPropagation,
    }
    return kinds[method]().fit(data.linked, data.target, unaligned=data.unaligned)


def _features(model: Any, data: Bunch) -> dict[str, Array]:
    """Features of all views side by side, of the training, validation and test rows."""
    rows = (training_rows(data), data.validation, data.test)
    encoded = (np.hstack(list(model.transform(views).values())) for views in rows)
    return dict(zip(_PARTS, (F.astype(np.float64) for F in encoded), strict=True))


def _standardize(raw: Mapping[str, Array]) -> dict[str, Array]:
    """Features with mean 0 and variance 1 over the training rows."""
    scaler = StandardScaler().fit(raw["train"])
    return {part: scaler.transform(F) for part, F in raw.items()}


def _regression(F: Array, y: Array, *, free: bool = False) -> LogisticRegression:
    return LogisticRegression(C=_FREE if free else 1.0, max_iter=_STEPS).fit(F, y)


def _score(model: LogisticRegression, F: Array, y: Array) -> float:
    return float(model.score(F, y))
