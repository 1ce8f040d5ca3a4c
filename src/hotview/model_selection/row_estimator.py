"""Views as an X of row numbers, which scikit-learn's searches can split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import check_scoring
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from hotview._types import Array, IntArray
from hotview.model_selection.problem import Problem
from hotview.training.threads import one_thread

__all__ = ["OnRows", "Rows", "scoring_on_rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a problem: an X that scikit-learn indexes like a data frame.

    All fits of a search get the same X, so that joblib sends it once: to processes in a shared
    file, and to other machines by its size.

    Parameters
    ----------
    problem : Problem
        All rows.
    numbers : ndarray of int64
        These rows' numbers, sorted.
    """

    problem: Problem
    numbers: IntArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of row numbers."""
        return self.numbers.shape

    @property
    def iloc(self) -> Rows:
        """The rows themselves: scikit-learn calls `take` on what has `iloc`."""
        return self

    def take(self, which: IntArray, axis: int = 0) -> Rows:
        """Take some of these rows."""
        return Rows(self.problem, self.numbers.take(which, axis))

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return np  # for scikit-learn's array_api_dispatch

    def __sizeof__(self) -> int:
        # dask sends small objects along with every task.
        return object.__sizeof__(self) + self.numbers.nbytes + self.problem.n_bytes


class OnRows(BaseEstimator):  # type: ignore[misc]
    """Wrapper of an estimator of views whose X is row numbers.

    It uses one thread, so that rounding does not depend on the number of threads, which differs
    between one process and several that share the cores.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def __sklearn_tags__(self) -> Any:
        tags, wrapped = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.classifier_tags = wrapped.estimator_type, wrapped.classifier_tags
        return tags

    def set_params(self, **parameters: Any) -> OnRows:
        """Set parameters of the wrapped estimator, so that a grid needs no prefix."""
        self.estimator.set_params(**parameters)
        return self

    @one_thread()
    def fit(self, rows: Rows, y: Any = None) -> OnRows:
        """Fit the estimator to rows, with their labels in the problem."""
        self.estimator_ = rows.problem.fit(self.estimator, rows.numbers)
        self.classes_ = getattr(self.estimator_, "classes_", None)
        return self

    @one_thread()
    def predict(self, rows: Rows) -> Array:
        """Predict the classes of rows."""
        parts = rows.problem.parts(rows.numbers)
        return np.concatenate([self.estimator_.predict(X) for _, X in parts])

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    @one_thread()
    def predict_proba(self, rows: Rows) -> Array:
        """Predict the class probabilities of rows."""
        parts = rows.problem.parts(rows.numbers)
        return np.concatenate([self.estimator_.predict_proba(X) for _, X in parts])

    @one_thread()
    def average(self, score: Callable[[Any, Any], float], rows: Rows, y: Array) -> float:
        """Mean of a score over linked rows and views, each with the weight of its rows."""
        total, start = 0.0, 0
        for n, X in rows.problem.parts(rows.numbers):
            total += n * float(score(X, y[start : start + n]))
            start += n
        return total / start

    def score(self, rows: Rows, y: Array) -> float:
        """The estimator's own score."""
        return self.average(self.estimator_.score, rows, y)


@dataclass(frozen=True)
class _OnViews:
    """A user's scoring function, called with the estimator and the views of the rows."""

    scoring: Callable[[Any, Any, Any], float]

    def __call__(self, model: OnRows, rows: Rows, y: Array) -> float:
        return model.average(lambda X, y: self.scoring(model.estimator_, X, y), rows, y)


def scoring_on_rows(estimator: Any, scoring: Any) -> Any:
    """Validate scoring, and adapt it to `OnRows` for scikit-learn; a dict for several metrics."""
    if isinstance(scoring, Mapping | list | tuple | set):
        names = list(scoring)
        are_names = bool(names) and all(isinstance(name, str) for name in names)
        if not are_names or len(set(names)) < len(names):
            raise ValueError(
                "Expected the names of several scores, each once, or a dict of scores by name, but "
                f"scoring is {scoring!r}. Pass ['accuracy', 'neg_log_loss']."
            )
        scores = scoring if isinstance(scoring, Mapping) else dict(zip(names, names, strict=True))
        return {name: scoring_on_rows(estimator, score) for name, score in scores.items()}
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise TypeError(
            "Expected scoring to be the name of a score, a function of (estimator, Xs, y), a list "
            f"or dict of these, or None for the estimator's own score, but it is {scoring!r}. Pass "
            "'accuracy', or ['accuracy', 'neg_log_loss']."
        )
    check_scoring(estimator, scoring)
    return _OnViews(scoring) if callable(scoring) else scoring
