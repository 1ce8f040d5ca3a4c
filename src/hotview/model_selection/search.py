"""Searches of parameters by cross-validation: over a grid, and by Optuna."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import model_selection
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning

from hotview._types import RandomState
from hotview._validation import check_count
from hotview.model_selection.cross_validation import OnRows, Search
from hotview.model_selection.rows import Rows

if TYPE_CHECKING:
    from optuna import Study, Trial

__all__ = ["GridSearch", "OptunaSearch"]


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


class OptunaSearch(Search):
    """Search parameters with a good cross-validated score on linked rows, by Optuna.

    Rows are split as by :func:`cross_validate`, with the same folds for every trial. A trial that
    cannot be fitted gives a warning and is never the best. Ctrl-C ends the search, and the best
    trial so far is kept. Needs ``hotview[search]``.

    Parameters
    ----------
    estimator : MultiViewClassifier or other classifier of views
        Estimator to fit; it is cloned.
    space : dict of str to optuna.distributions.BaseDistribution
        Distribution of every parameter; settings of a specification as ``coupling__weight``, which
        needs an estimator with a specification object, not a name.
    n_trials : int, default=20
        Maximum number of trials.
    timeout : float or None, default=None
        Seconds after which no further trial begins.
    cv : int or splitter, default=5
        As for :func:`cross_validate`.
    scoring : str, callable, list, dict or None, default=None
        As for :func:`cross_validate`.
    refit : bool or str, default=True
        Whether to fit the best parameters to all rows. Of several metrics, the name of the one that
        trials maximize; the others are recorded.
    n_jobs : int or None, default=None
        Processes that share the folds of a trial, as in scikit-learn; None takes what joblib's
        `parallel_config` says. Scores are the same with any: every fit but the last works on one
        thread.
    random_state : int, numpy Generator or None, default=None
        Seed of Optuna's sampler and, where `cv` is a number, of the folds.
    verbose : bool, default=False
        Whether Optuna logs every trial.

    Attributes
    ----------
    best_params_, best_score_ : dict, float
        The best parameters, and their mean score.
    study_ : optuna.Study
        All trials, with `trials_dataframe` and Optuna's own figures; of several metrics, the mean
        scores of a trial are its `user_attrs`, as ``mean_test_<name>``.
    best_estimator_ : object
        The estimator with the best parameters, fitted to all rows; with `refit` only.
    n_splits_ : int
        Number of folds.

    Examples
    --------
    >>> from optuna.distributions import IntDistribution
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.model_selection import OptunaSearch
    >>> data = make_views(100, n_views=3, n_groups=1, labeled=0.4, random_state=0)
    >>> model = MultiViewClassifier(pseudo_labels=False, n_estimators=1, random_state=0)
    >>> space = {"max_epochs": IntDistribution(1, 40, log=True)}
    >>> search = OptunaSearch(model, space, n_trials=4, cv=2, random_state=0)
    >>> search = search.fit(data.linked, data.linked_target, unaligned=data.views)
    >>> len(search.study_.trials), search.best_params_["max_epochs"] > 1
    (4, True)
    """

    def __init__(
        self,
        estimator: Any,
        space: Any,
        *,
        n_trials: int = 20,
        timeout: float | None = None,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool | str = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.n_trials = n_trials
        self.timeout = timeout
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _find_best(self, rows: Rows, metric: str | None, scoring: Any) -> None:
        _check_space(self.space)
        n_trials = check_count("n_trials", self.n_trials)
        if metric is None and isinstance(self.scoring, Mapping | list | tuple | set):
            raise ValueError(
                "Expected refit to name the metric that trials maximize, but it is False. Pass one "
                f"of {list(self.scoring)}."
            )
        is_number = isinstance(self.cv, int | np.integer)
        # A splitter has a seed of its own; random_state is then the sampler's alone.
        folds = rows.folds(self.cv, self.random_state if is_number else None)

        def objective(trial: Trial) -> float:
            proposed = {name: _suggest(trial, name, kind) for name, kind in self.space.items()}
            model = OnRows(clone(self.estimator).set_params(**proposed))
            how = {"cv": folds, "scoring": scoring, "n_jobs": self.n_jobs, "error_score": "raise"}
            try:
                found = model_selection.cross_validate(model, rows, rows.target, **how)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                text = f"A trial could not be fitted ({reason})"
                warnings.warn(text, FitFailedWarning, stacklevel=2)
                return float("nan")
            scores = {n: float(x.mean()) for n, x in found.items() if n.startswith("test_")}
            for name, value in scores.items() if metric is not None else ():
                trial.set_user_attr(f"mean_{name}", value)
            return scores[f"test_{metric or 'score'}"]

        study = self._run_trials(objective, n_trials)
        self.study_, self.n_splits_ = study, len(folds)
        self.best_params_, self.best_score_ = dict(study.best_params), float(study.best_value)

    def _run_trials(self, objective: Callable[[Trial], float], n_trials: int) -> Study:
        """Run trials until there are enough, or until Ctrl-C; one must have a score."""
        import optuna

        seed, stopped, verbosity = None, False, optuna.logging.get_verbosity()
        if self.random_state is not None:
            seed = int(np.random.default_rng(self.random_state).integers(2**31))
        optuna.logging.set_verbosity(verbosity if self.verbose else optuna.logging.ERROR)
        try:
            sampler = optuna.samplers.TPESampler(seed=seed)
            study = optuna.create_study(direction="maximize", sampler=sampler)
            try:
                study.optimize(objective, n_trials, timeout=self.timeout)
            except KeyboardInterrupt:
                stopped = True
        finally:
            optuna.logging.set_verbosity(verbosity)
        n_done = sum(trial.state.name == "COMPLETE" for trial in study.trials)
        if stopped and n_done == 0:
            raise KeyboardInterrupt
        if n_done == 0:
            raise ValueError(
                "Expected a trial with a score, but none could be fitted. The warnings above say "
                "why; change the space or the estimator."
            )
        if stopped:
            warnings.warn(
                f"The search was interrupted after {n_done} of {n_trials} trials; the best of them "
                "is kept. Call fit again for all.",
                stacklevel=4,
            )
        return study


def _check_space(space: Any) -> None:
    try:
        from optuna.distributions import BaseDistribution
    except ImportError as error:
        raise ImportError('OptunaSearch needs Optuna: pip install "hotview[search]"') from error
    kinds = list(space.values()) if isinstance(space, Mapping) else []
    if not kinds or not all(isinstance(kind, BaseDistribution) for kind in kinds):
        raise TypeError(
            "Expected space to be a dict of Optuna's distributions by parameter, but it is "
            f"{space!r}. Write {{'encoder_dim': optuna.distributions.IntDistribution(8, 64)}}."
        )


def _suggest(trial: Trial, name: str, kind: Any) -> Any:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    if isinstance(kind, CategoricalDistribution):
        return trial.suggest_categorical(name, kind.choices)
    suggest: Any = trial.suggest_int if isinstance(kind, IntDistribution) else trial.suggest_float
    return suggest(name, kind.low, kind.high, step=kind.step, log=kind.log)
