"""All combinations of parameters, where X is several views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from sklearn import model_selection

from hotview._types import RandomState, Views
from hotview.model_selection.base import Search
from hotview.model_selection.problem import read_problem
from hotview.model_selection.row_estimator import OnRows, Rows, scoring_on_rows

__all__ = ["GridSearch"]


class GridSearch(Search):
    """Find the parameters with the best score on linked rows held out, fold by fold.

    What is held out and what always trains is as for :func:`cross_validate`; every combination
    of parameters gets the same folds. A combination that cannot be fitted is warned about, and
    comes last.

    Parameters
    ----------
    estimator : MultiViewClassifier or other classifier of views
        What to fit; it is cloned.
    param_grid : dict of str to list, or list of such dicts
        Values to try of every parameter.
    cv : int or splitter, default=5
        As for :func:`cross_validate`.
    scoring : str, callable or None, default=None
        As for :func:`cross_validate`.
    refit : bool, default=True
        Whether to fit the best combination to all rows in the end.
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
        Scores and times of every combination, as in scikit-learn.
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
        refit: bool = True,
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

    def fit(
        self,
        Xs: Views,
        y: npt.ArrayLike,
        *,
        unaligned: Views | None = None,
        unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    ) -> GridSearch:
        """Try all combinations.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            At least two views; row i is the same individual in all of them.
        y : 1-D array-like
            Labels of these rows, with gaps.
        unaligned : dict, list or tuple of 2-D array-likes, or None, default=None
            More rows of some or all views.
        unaligned_y : dict of str to 1-D array-like, or None, default=None
            Labels of some views' unaligned rows.

        Returns
        -------
        GridSearch
            The search itself.
        """
        problem = read_problem(self.estimator, Xs, y, unaligned, unaligned_y)
        search = model_selection.GridSearchCV(
            OnRows(self.estimator),
            self.param_grid,
            cv=problem.folds(self.cv, self.random_state),
            scoring=scoring_on_rows(self.estimator, self.scoring),
            refit=False,
            n_jobs=self.n_jobs,
        ).fit(Rows(problem, problem.numbering.rows), problem.target)
        for name in ("cv_results_", "best_index_", "best_params_", "best_score_", "n_splits_"):
            setattr(self, name, getattr(search, name))
        self._refit(problem)
        return self
