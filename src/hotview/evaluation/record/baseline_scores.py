"""Simple methods and the control, trained on the same rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from hotview._types import Array
from hotview._validation import check_views
from hotview.estimators.labels import read_labels
from hotview.evaluation.baselines import (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.record.intervals import compare, share
from hotview.evaluation.record.schema import Rival
from hotview.evaluation.record.scores import Judgments, Track
from hotview.losses.coupling_specs import as_coupling

__all__ = ["fit_rivals"]

_SIMPLE: dict[str, type] = {
    "logistic regression on the linked rows": ConcatenatedLogisticRegression,
    "PCA in each view, then logistic regression": PCALogisticRegression,
    "label propagation in each view": PerViewLabelPropagation,
}
_CONTROL = 'the same model with coupling="none"'


def fit_rivals(judgments: Judgments, training: Mapping[str, Any], track: Track) -> list[Rival]:
    """Train simple methods and the control on the model's rows, and score all on others.

    Parameters
    ----------
    judgments : Judgments
        The model's predictions for rows to score on.
    training : dict
        What the model's `fit` got: ``Xs``, ``y`` and perhaps ``unaligned``, ``unaligned_y``.
    track : callable
        Takes what there is to do and what to call it, and may show progress.

    Returns
    -------
    list of Rival
        Those that could not be trained or scored say why.
    """
    model = judgments.estimator
    jobs: dict[str, Callable[[], Any]] = {
        name: partial(_fit_simple, method(), model, training) for name, method in _SIMPLE.items()
    }
    if as_coupling(model.coupling).label != "none":
        jobs[_CONTROL] = partial(_fit_control, model, training)
    return [_score(name, jobs[name], judgments) for name in track(list(jobs), "fitting others")]


def _score(name: str, fit: Callable[[], Any], judgments: Judgments) -> Rival:
    names = list(judgments.views)
    rows = judgments.rows(every=names)
    if len(rows) == 0 or len(names) < judgments.estimator.n_views_:
        return Rival(name, None, None, "no labeled row has all views")
    try:
        P = fit().predict_proba(_rows(judgments.views, rows))
    except ValueError as error:  # it cannot do with such rows, which is no fault of the model
        return Rival(name, None, None, str(error))
    truth = judgments.truth[rows]
    right = P.argmax(axis=1) == truth
    return Rival(name, share(right), compare(judgments.right(names, rows), right))


def _rows(views: Mapping[str, Any], rows: Array) -> dict[str, Array]:
    return {name: X[rows] for name, X in check_views(views).items()}


def _fit_simple(method: Any, estimator: Any, training: Mapping[str, Any]) -> Any:
    """Fit on linked rows with a label; all other rows are unaligned ones to such methods."""
    linked = check_views(_named(training["Xs"], estimator), aligned=True)
    n = len(next(iter(linked.values())))
    labels, known = read_labels("y", training["y"], n, estimator.unlabeled_marker)
    unaligned = training.get("unaligned")
    more = check_views(_named(unaligned, estimator)) if unaligned else {}
    rest = {s: [X[~known], *([more[s]] if s in more else [])] for s, X in linked.items()}
    others = {s: np.vstack(parts) for s, parts in rest.items() if sum(map(len, parts)) > 0}
    fitted = method.fit({s: X[known] for s, X in linked.items()}, labels, unaligned=others or None)
    return _Renumbered(fitted, estimator.classes_)


def _named(views: Any, estimator: Any) -> dict[str, Any]:
    pairs = views if isinstance(views, Mapping) else dict(zip(estimator.view_names_, views))  # noqa: B905
    return {name: view for name, view in pairs.items() if view is not None}


def _fit_control(estimator: Any, training: Mapping[str, Any]) -> Any:
    """The same parameters without a coupling; a seed where a file has kept none."""
    control = clone(estimator).set_params(coupling="none", verbose=False, callbacks=None)
    if control.random_state is None:
        control.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what there is to say was said of the model
        return control.fit(**training)


class _Renumbered:
    """A method whose probabilities are in the order of the model's classes."""

    def __init__(self, fitted: Any, classes: Array) -> None:
        self.fitted, self.classes = fitted, classes

    def predict_proba(self, Xs: Any) -> Array:
        P: Array = np.zeros((len(next(iter(Xs.values()))), len(self.classes)))
        P[:, np.searchsorted(self.classes, self.fitted.classes_)] = self.fitted.predict_proba(Xs)
        return P
