"""Cross-validation and grid search over views, whose rows are split instead of the list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy.typing as npt
from sklearn import model_selection
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, RandomState, Views
from hotview.model_selection.rows import OnRows, Rows, read_rows, scoring_on_rows

__all__ = ["GridSearch", "Search", "cross_validate"]


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
        classes: Array = self._best().predict(Xs)
        return classes

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
        classes: Array = self._best().classes_
        return classes

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


class GridSearch(Search):
    """Find the parameters with the best cross-validated score on linked rows.

    Rows are split as by :func:`cross_validate`, with the same folds for every combination of
    parameters. A combination that cannot be fitted gives a warning and the last rank.

    Parameters
    ----------
    estimator : MultiViewClassifier or other classifier of views
        Estimator to fit; it is cloned.
    param_grid : dict of str to list, or list of such dicts
        Values of every parameter; settings of a specification as ``coupling__weight``, which needs
        an estimator with a specification object, not a name.
    cv : int or splitter, default=5
        As for :func:`cross_validate`.
    scoring : str, callable, list, dict or None, default=None
        As for :func:`cross_validate`.
    refit : bool or str, default=True
        Whether to fit the best combination to all rows. Of several metrics, the name of the one
        that decides which is best, or False: then there is no best one.
    n_jobs : int or None, default=None
        Processes, as in scikit-learn; None takes what joblib's `parallel_config` says. Scores are
        the same with any: every fit but the last works on one thread.
    random_state : int, numpy Generator or None, default=None
        Seed of the folds, where `cv` is a number.

    Attributes
    ----------
    best_params_, best_score_, best_index_ : dict, float, int
        The best combination, its mean score, and its place among all.
    cv_results_ : dict of str to ndarray
        Scores and times of every combination, as in scikit-learn: ``mean_test_score``, or
        ``mean_test_<name>`` of several metrics.
    best_estimator_ : object
        The estimator with the best parameters, fitted to all rows; with `refit` only.
    n_splits_ : int
        Number of folds.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.model_selection import GridSearch
    >>> data = make_views(100, n_views=3, n_groups=1, labeled=0.4, random_state=0)
    >>> model = MultiViewClassifier(pseudo_labels=False, n_estimators=1, random_state=0)
    >>> search = GridSearch(model, {"max_epochs": [1, 40]}, cv=2, random_state=0)
    >>> search = search.fit(data.linked, data.linked_target, unaligned=data.views)
    >>> search.best_params_
    {'max_epochs': 40}
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool | str = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _find_best(self, rows: Rows, metric: str | None, scoring: Any) -> None:
        search = model_selection.GridSearchCV(
            OnRows(self.estimator),
            self.param_grid,
            cv=rows.folds(self.cv, self.random_state),
            scoring=scoring,
            refit=False,
            n_jobs=self.n_jobs,
        ).fit(rows, rows.target)
        self.cv_results_, self.n_splits_ = search.cv_results_, search.n_splits_
        if metric is not None or not search.multimetric_:
            name = metric or "score"
            self.best_index_ = int(self.cv_results_[f"rank_test_{name}"].argmin())
            self.best_params_ = self.cv_results_["params"][self.best_index_]
            self.best_score_ = float(self.cv_results_[f"mean_test_{name}"][self.best_index_])
