"""Accuracies of simple methods, and of the model without coupling, beside those of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from hotview._types import Array
from hotview.evaluation.assessment import class_counts
from hotview.evaluation.baseline_rows import BaselineRows, read_rows
from hotview.evaluation.baselines import (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.metrics import accuracy_with_interval, compare_accuracies
from hotview.evaluation.record.schema import MAJORITY, MAX_BASELINE_ROWS, BaselineScore
from hotview.evaluation.record.scores import Predictions, Track, select_rows
from hotview.losses.coupling_specs import as_coupling

__all__ = ["score_baselines"]

_BASELINES: dict[str, type] = {
    "logistic regression": ConcatenatedLogisticRegression,
    "logistic regression on principal components": PCALogisticRegression,
    "label propagation in each view": PerViewLabelPropagation,
}
_CONTROL = 'the same model with coupling="none"'


def score_baselines(
    predictions: Predictions,
    training: Mapping[str, Any] | None,
    track: Track,
    *,
    control: bool = True,
) -> list[BaselineScore]:
    """Compare the accuracy of a model with those of simple methods on the same rows.

    The majority class is known from the model. Other methods are fitted on its training rows, in
    the views of the rows to score on, or in all views if these have no labels.

    Parameters
    ----------
    predictions : Predictions
        The model's predictions for the rows to score on.
    training : dict or None
        Arguments of the model's `fit`: ``Xs``, ``y`` and optionally ``unaligned``,
        ``unaligned_y``. None for the majority class alone.
    track : callable
        Iterates over items and may show progress.
    control : bool, default=True
        Whether to train the model without coupling, too.

    Returns
    -------
    list of BaselineScore
        The majority class first, if the model has recorded its labels.
    """
    model, names = predictions.estimator, list(predictions.views)
    labeled = predictions.labeled_rows()
    truth, ours = predictions.truth[labeled], predictions.correct(names, labeled)
    scores = []
    if counts := class_counts(model):
        scores.append(_compare(MAJORITY, ours, truth == np.argmax(counts)))
    if training is None:
        return scores
    views = {s: select_rows(X, predictions.truth >= 0) for s, X in predictions.views.items()}
    rows = _read_training(model, training, names)
    has_control = control and as_coupling(model.coupling).label != "none"
    for name in track([*_BASELINES, *([_CONTROL] if has_control else [])], "fitting baselines"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of solvers; the model's own fit has warned already
            try:
                fitted = _fit(name, model, training, rows)
                best = fitted.predict_proba(views).argmax(axis=1)
            except ValueError as error:
                scores.append(BaselineScore(name, None, None, str(error)))
                continue
        correct = np.searchsorted(model.classes_, fitted.classes_)[best] == truth
        scores.append(_compare(name, ours, correct))
    return scores


def _compare(name: str, ours: Array, correct: Array) -> BaselineScore:
    difference = compare_accuracies(ours, correct)
    return BaselineScore(name, accuracy_with_interval(correct), difference)


def _read_training(model: Any, training: Mapping[str, Any], names: list[str]) -> BaselineRows:
    """Return the training rows of the named views; of all views if these have no labels."""
    arguments = (training.get(name) for name in ("Xs", "y", "unaligned", "unaligned_y"))
    rows = read_rows(*arguments, marker=model.unlabeled_marker, max_rows=MAX_BASELINE_ROWS)
    return rows.select(names) if set(names) & set(rows.labeled_views()) else rows


def _fit(name: str, model: Any, training: Mapping[str, Any], rows: BaselineRows) -> Any:
    """Fit a simple method, or the model without coupling."""
    if name != _CONTROL:
        return _BASELINES[name]()._fit_rows(rows)
    control = clone(model).set_params(coupling="none", verbose=False, callbacks=None)
    if control.random_state is None:  # its file stored none
        control.set_params(random_state=0)
    return control.fit(**training)
