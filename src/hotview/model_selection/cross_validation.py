"""Cross-validation where X is several views, which scikit-learn's own would split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
from sklearn import model_selection
from sklearn.utils import Bunch

from hotview._types import RandomState, Views
from hotview.model_selection.problem import read_problem
from hotview.model_selection.row_estimator import OnRows, Rows, scoring_on_rows

__all__ = ["cross_validate"]


def cross_validate(
    estimator: Any,
    Xs: Views,
    y: npt.ArrayLike,
    *,
    unaligned: Views | None = None,
    unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    cv: Any = 5,
    scoring: Any = None,
    n_jobs: int | None = None,
    return_estimator: bool = False,
    random_state: RandomState = None,
) -> Any:
    """Score an estimator on linked rows that it was not fitted to, fold by fold.

    Linked rows with a label are dealt into folds. All others, and all unaligned rows, always
    train. Where `y` holds no label, the labeled rows of `unaligned_y` are dealt instead, and
    each is predicted from its one view.

    Parameters
    ----------
    estimator : MultiViewClassifier or other classifier of views
        What to score; it is cloned.
    Xs : dict, list or tuple of 2-D array-likes
        At least two views; row i is the same individual in all of them.
    y : 1-D array-like
        Labels of these rows, with gaps.
    unaligned : dict, list or tuple of 2-D array-likes, or None, default=None
        More rows of some or all views.
    unaligned_y : dict of str to 1-D array-like, or None, default=None
        Labels of some views' unaligned rows.
    cv : int or splitter, default=5
        Number of folds, as :class:`RowKFold` deals them, or one of scikit-learn's splitters, which
        sees the rows with a label and their classes.
    scoring : str, callable or None, default=None
        A name of scikit-learn's, a function of (estimator, Xs, y), or the estimator's own score.
    n_jobs : int or None, default=None
        Processes, as in scikit-learn; None takes what joblib's `parallel_config` says. Scores are
        the same with any: every fit works on one thread.
    return_estimator : bool, default=False
        Whether to return the fitted estimators, too.
    random_state : int, numpy Generator or None, default=None
        Seed of the folds, where `cv` is a number.

    Returns
    -------
    Bunch
        `test_score`, `fit_time` and `score_time`, an entry per fold; `estimator` if asked for.

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
    problem = read_problem(estimator, Xs, y, unaligned, unaligned_y)
    found = model_selection.cross_validate(
        OnRows(estimator),
        Rows(problem, problem.numbering.rows),
        problem.target,
        cv=problem.folds(cv, random_state),
        scoring=scoring_on_rows(estimator, scoring),
        n_jobs=n_jobs,
        return_estimator=return_estimator,
        error_score="raise",
    )
    if return_estimator:
        found["estimator"] = [model.estimator_ for model in found["estimator"]]
    return Bunch(**found)
