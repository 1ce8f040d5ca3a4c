"""What all searches share: the best estimator answers for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import check_scoring
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, Views
from hotview.model_selection.problem import Problem

__all__ = ["Search"]


def _best_has(method: str) -> Callable[[Search], bool]:
    return lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), method)


class Search(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the searches."""

    estimator: Any
    scoring: Any
    refit: bool
    best_params_: dict[str, Any]
    best_estimator_: Any

    @available_if(_best_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, Xs: Views) -> Array:
        """What the best estimator predicts.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As the estimator takes them.

        Returns
        -------
        ndarray of shape (rows,)
            Classes.
        """
        classes: Array = self._best().predict(Xs)
        return classes

    @available_if(_best_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, Xs: Views) -> Array:
        """What the best estimator says of the probabilities of the classes.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As the estimator takes them.

        Returns
        -------
        ndarray of shape (rows, classes)
            Columns are in the order of `classes_`.
        """
        probabilities: Array = self._best().predict_proba(Xs)
        return probabilities

    @available_if(_best_has("transform"))  # type: ignore[untyped-decorator]
    def transform(self, Xs: Views) -> Any:
        """Encode rows with the best estimator.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As the estimator takes them.

        Returns
        -------
        dict or list
            Features of every view, as the estimator returns them.
        """
        return self._best().transform(Xs)

    def score(self, Xs: Views, y: npt.ArrayLike) -> float:
        """Score the best estimator as the search did.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As the estimator takes them.
        y : 1-D array-like
            The true classes.

        Returns
        -------
        float
            The score.
        """
        best = self._best()
        return float(check_scoring(best, self.scoring)(best, Xs, y))

    @property
    def classes_(self) -> Array:
        """The classes of the best estimator."""
        classes: Array = self._best().classes_
        return classes

    def _refit(self, problem: Problem) -> None:
        """Fit the best parameters to all rows, if wanted."""
        if self.refit:
            own = {name: clone(value, safe=False) for name, value in self.best_params_.items()}
            best = clone(self.estimator).set_params(**own)
            self.best_estimator_ = problem.fit(best, problem.numbering.rows)

    def _best(self) -> Any:
        check_is_fitted(self)
        if not self.refit:
            raise AttributeError(
                "Expected a search with refit=True, which fits the best estimator to all rows, "
                "but refit is False. Set it, or fit an estimator with best_params_ yourself."
            )
        return self.best_estimator_
