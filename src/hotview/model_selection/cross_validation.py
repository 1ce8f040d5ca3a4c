"""Cross-validation over views, whose rows are split instead of the list; the base of searches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import model_selection
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hotview._threads import one_thread
from hotview._types import Array, RandomState, Views
from hotview.estimators.stacked_views import StackedViews
from hotview.model_selection.rows import Rows, read_rows

__all__ = ["OnRows", "Search", "cross_validate", "scoring_on_rows"]


class OnRows(StackedViews):
    """Wrapper of an estimator of views whose X is row numbers, instead of one table of all views.

    It uses one thread, so that rounding does not depend on the number of threads, which differs
    between one process and several that share the cores.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def set_params(self, **parameters: Any) -> OnRows:
        """Set parameters of the wrapped estimator, so that a grid needs no prefix."""
        self.estimator.set_params(**parameters)
        return self

    @one_thread()
    def fit(self, rows: Rows, y: Any = None) -> OnRows:  # type: ignore[override]
        """Fit the estimator to rows, with their own labels."""
        self.estimator_ = rows.fit_estimator(self.estimator)
        return self

    @one_thread()
    def _call(self, method: str, rows: Rows) -> Array:
        predict = getattr(self.estimator_, method)
        return np.concatenate([predict(views) for _, _, views in rows.parts()])

    @one_thread()
    def score(
        self, rows: Rows, y: Array, scoring: Callable[[Any, Any, Any], float] | None = None
    ) -> float:
        """Mean over linked rows and views, by rows, of the estimator's or another score."""
        total, start = 0.0, 0
        for _, own, views in rows.parts():
            part, start = y[start : start + len(own)], start + len(own)
            score = self.estimator_.score if scoring is None else partial(scoring, self.estimator_)
            total += len(own) * float(score(views, part))
        return total / start


def scoring_on_rows(estimator: Any, scoring: Any) -> Any:
    """Validate scoring, and adapt it to `OnRows` for scikit-learn; a dict for several metrics."""
    check_scoring(estimator, scoring)
    if isinstance(scoring, Mapping):
        return {name: scoring_on_rows(estimator, score) for name, score in scoring.items()}
    return partial(OnRows.score, scoring=scoring) if callable(scoring) else scoring


def cross_validate(
    estimator: Any,
    Xs: Views | None,
    y: npt.ArrayLike | None,
    *,
    unaligned: Views | None = None,
    unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    groups: npt.ArrayLike | None = None,
    unaligned_groups: Mapping[str, npt.ArrayLike] | None = None,
    cv: Any = 5,
    scoring: Any = None,
    n_jobs: int | None = None,
    return_estimator: bool = False,
    random_state: RandomState = None,
) -> Any:
    """Score an estimator by cross-validation over linked rows.

    Labeled linked rows are split into folds. All other rows are in every training set. If `y` holds
    no label, or is None, the labeled rows of `unaligned_y` are split instead, and each is predicted
    from its one view.

    Parameters
    ----------
    estimator : MultiViewClassifier or other classifier of views
        Estimator to score; it is cloned.
    Xs : dict, list or tuple of 2-D array-likes, or None
        At least two views; row i is the same individual in all of them; None if nobody is in
        several views.
    y : 1-D array-like or None
        Labels of these rows; missing ones are marked as for the estimator.
    unaligned : dict, list or tuple of 2-D array-likes, or None, default=None
        More rows of some or all views.
    unaligned_y : dict of str to 1-D array-like, or None, default=None
        Labels of some views' unaligned rows.
    groups : 1-D array-like or None, default=None
        The group of every row of `Xs`, as one person seen several times. Rows of one group are
        never both trained and tested on; an estimator whose `fit` takes groups gets them.
    unaligned_groups : dict of str to 1-D array-like, or None, default=None
        Groups of some views' unaligned rows, by the names of `groups`.
    cv : int or splitter, default=5
        Number of folds of :class:`RowKFold`, or one of scikit-learn's splitters, which gets the
        labeled rows, their classes and their groups.
    scoring : str, callable, list, dict or None, default=None
        A name of scikit-learn's, a function of (estimator, Xs, y), or the estimator's own score.
        For several metrics, a list of names, or a dict of names and functions by name.
    n_jobs : int or None, default=None
        Processes, as in scikit-learn; None takes what joblib's `parallel_config` says. Scores are
        the same with any: every fit works on one thread.
    return_estimator : bool, default=False
        Whether to return the fitted estimators.
    random_state : int, numpy Generator or None, default=None
        Seed of the folds, where `cv` is a number.

    Returns
    -------
    Bunch
        `test_score`, `fit_time` and `score_time`, an entry per fold; `estimator` if asked for. Of
        several metrics, `test_<name>` for each.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.model_selection import cross_validate
    >>> data = make_views(100, n_views=3, n_groups=1, labeled=0.4, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=20, random_state=0)
    >>> scores = cross_validate(
    ...     model, data.linked, data.linked_target, unaligned=data.views, cv=2, random_state=0
    ... )
    >>> bool(scores.test_score.mean() > 0.5)
    True
    """
    rows = read_rows(estimator, Xs, y, unaligned, unaligned_y, groups, unaligned_groups)
    found = model_selection.cross_validate(
        OnRows(estimator),
        rows,
        rows.target,
        cv=rows.folds(cv, random_state),
        scoring=scoring_on_rows(estimator, scoring),
        n_jobs=n_jobs,
        return_estimator=return_estimator,
        error_score="raise",
    )
    if return_estimator:
        found["estimator"] = [model.estimator_ for model in found["estimator"]]
    return Bunch(**found)


def _best_has(method: str) -> Callable[[Search], bool]:
    return lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), method)


class Search(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the searches."""

    estimator: Any
    cv: Any
    scoring: Any
    refit: bool | str
    n_jobs: int | None
    random_state: RandomState
    best_params_: dict[str, Any]
    best_estimator_: Any

    def fit(
        self,
        Xs: Views | None,
        y: npt.ArrayLike | None,
        *,
        unaligned: Views | None = None,
        unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
        groups: npt.ArrayLike | None = None,
        unaligned_groups: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Self:
        """Find the best parameters, and fit them to all rows with `refit`.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes, or None
            At least two views; row i is the same individual in all of them; None if nobody is in
            several views.
        y : 1-D array-like or None
            Labels of these rows; missing ones are marked as for the estimator.
        unaligned : dict, list or tuple of 2-D array-likes, or None, default=None
            More rows of some or all views.
        unaligned_y : dict of str to 1-D array-like, or None, default=None
            Labels of some views' unaligned rows.
        groups : 1-D array-like or None, default=None
            The group of every row of `Xs`, as one person seen several times. Rows of one group are
            never both trained and tested on; an estimator whose `fit` takes groups gets them.
        unaligned_groups : dict of str to 1-D array-like, or None, default=None
            Groups of some views' unaligned rows, by the names of `groups`.

        Returns
        -------
        Search
            The search itself.
        """
        rows = read_rows(self.estimator, Xs, y, unaligned, unaligned_y, groups, unaligned_groups)
        self._find_best(rows, self._metric(), scoring_on_rows(self.estimator, self.scoring))
        if self.refit:
            own = {name: clone(value, safe=False) for name, value in self.best_params_.items()}
            self.best_estimator_ = rows.fit_estimator(clone(self.estimator).set_params(**own))
        return self

    @abstractmethod
    def _find_best(self, rows: Rows, metric: str | None, scoring: Any) -> None:
        """Set the parameters with the best score, by `metric` of several, and all results."""

    @available_if(_best_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, Xs: Views) -> Array:
        """Predict with the best estimator.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As the estimator takes them.

        Returns
        -------
        ndarray of shape (rows,)
            Classes.
        """
        return np.asarray(self._best().predict(Xs))

    @available_if(_best_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, Xs: Views) -> Array:
        """Predict class probabilities with the best estimator.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As the estimator takes them.

        Returns
        -------
        ndarray of shape (rows, classes)
            Columns are in the order of `classes_`.
        """
        return np.asarray(self._best().predict_proba(Xs))

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

    def score(
        self, Xs: Views, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """Score the best estimator as the search did; by the metric of `refit`, of several.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As the estimator takes them.
        y : 1-D array-like
            The true classes.
        sample_weight : 1-D array-like or None, default=None
            Weights of the rows, for scorers that take them, as those of scikit-learn do.

        Returns
        -------
        float
            The score.
        """
        best, scoring = self._best(), self.scoring
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        if (metric := self._metric()) is not None:
            scoring = scoring[metric] if isinstance(scoring, Mapping) else metric
        return float(check_scoring(best, scoring)(best, Xs, y, **weights))

    @property
    def classes_(self) -> Array:
        """The classes of the best estimator."""
        return np.asarray(self._best().classes_)

    def _metric(self) -> str | None:
        """Return the name of the metric that decides, of several; None if there is one."""
        is_multiple = isinstance(self.scoring, Mapping | list | tuple | set)
        if is_multiple != isinstance(self.refit, str) and not (is_multiple and self.refit is False):
            expected = "the name of the metric that decides" if is_multiple else "True or False"
            raise ValueError(
                f"Expected refit to be {expected}, because scoring is {self.scoring!r}, but it is "
                f"{self.refit!r}. Pass {'one of these names' if is_multiple else 'refit=True'}."
            )
        if isinstance(self.refit, str) and self.refit not in list(self.scoring):
            raise ValueError(
                f"Expected refit to be one of the metrics {list(self.scoring)}, but it is "
                f"{self.refit!r}. Pass one of these."
            )
        return self.refit if isinstance(self.refit, str) else None

    def _best(self) -> Any:
        check_is_fitted(self)
        if not self.refit:
            raise AttributeError(
                "Expected a search with refit=True, which fits the best estimator to all rows, "
                "but refit is False. Set it, or fit an estimator with best_params_ yourself."
            )
        return self.best_estimator_
