"""Summaries of a fitted model that need no rows: views, learning curves, ranks and settings."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np

from hotview._types import Array
from hotview.evaluation.record.schema import (
    Curve,
    Learning,
    NullSummary,
    PlanSummary,
    Rank,
    Setting,
    SimilaritySummary,
)
from hotview.losses.specifications import Specification
from hotview.similarity.sentences import (
    describe_common_space,
    describe_shapes,
    describe_similarity,
)

__all__ = [
    "describe_settings",
    "describe_views",
    "summarize_learning",
    "summarize_plan",
    "summarize_ranks",
    "summarize_similarity",
]

_MAX_EPOCHS = 200  # kept of a long training
_RANK = "effective_rank_"
_RUNTIME_SETTINGS = ("device", "verbose")  # do not describe the model
_NO_TERMS = ("epoch", "seconds", "marginal_error")


def summarize_plan(estimator: Any) -> PlanSummary | None:
    """Summarize the plan of a fitted estimator.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    PlanSummary or None
        W, C, the standard deviation of W and the permutation null; None without a plan.
    """
    plan = estimator.plan_
    if plan is None:
        return None
    null = None
    if plan.null is not None:
        null = NullSummary(
            plan.null.p_value,
            plan.null.relative_cost,
            [float(x) for x in plan.null.relative_costs],
            _to_lists(plan.null.plan.C),
        )
    references = [f"reference {k + 1}" for k in range(plan.W.shape[1])]
    return PlanSummary(
        _to_lists(plan.W),
        _to_lists(plan.C),
        None if plan.std is None else _to_lists(plan.std),
        list(estimator.view_names_) if plan.pairwise else references,
        plan.pairwise,
        plan.converged,
        len(estimator.plans_),
        null,
    )


def summarize_similarity(estimator: Any) -> SimilaritySummary | None:
    """Summarize the similarity of the views of a fitted estimator.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    SimilaritySummary or None
        None without enough linked rows.
    """
    found = estimator.view_similarity_
    if found is None:
        return None
    within = found.within_classes
    return SimilaritySummary(
        _to_lists(found.value),
        _to_lists(found.low),
        _to_lists(found.high),
        _to_lists(found.p_value),
        found.n_rows.tolist(),
        None if within is None else _to_lists(within.value),
        None if found.groups is None else found.groups.tolist(),
        found.stability,
    )


def describe_views(estimator: Any) -> list[str]:
    """Say what linked rows show about the views or, without any, their shapes before training.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    list of str
        Sentences.
    """
    found, plan, names = estimator.view_similarity_, estimator.plan_, estimator.view_names_
    trained_on = getattr(estimator, "trained_on_", {})
    common = estimator.common_space_
    nearness = [] if common is None else [describe_common_space(common, names)]
    if found is not None:
        return describe_similarity(found, names, trained_on.get("linked", 0)) + nearness
    if not trained_on:  # of a federation, whose sides do not share rows
        return []
    if trained_on.get("linked", 0) > 0:
        return ["No pair of views has eight linked rows: too few to measure what views share."]
    if plan is None or plan.null is None:
        return ["No rows are linked, so that it cannot be measured what views share."]
    return describe_shapes(plan.null.plan.C, plan.null.p_value, names)


def _to_lists(X: Any) -> list[list[float]]:
    rows: list[list[float]] = np.asarray(X, dtype=np.float64).tolist()
    return rows


def summarize_learning(estimator: Any) -> Learning | None:
    """Average the learning curves over ensemble members.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    Learning or None
        At most 200 epochs of the loss terms and effective ranks; None if nothing was recorded.
    """
    histories = [history for history in estimator.histories_ if len(history) > 0]
    if not histories:
        return None
    n_epochs = max(map(len, histories))
    kept = np.unique(np.linspace(0, n_epochs - 1, min(_MAX_EPOCHS, n_epochs)).round().astype(int))
    ranks = [f"{_RANK}{view}" for view in estimator.view_names_]
    terms = sorted(set(histories[0].names) - {*_NO_TERMS, *ranks}, key=lambda n: (n != "loss", n))

    def curve(name: str) -> Curve:
        values = np.full((len(histories), n_epochs), math.nan)
        for row, history in zip(values, histories, strict=True):
            row[: len(history)] = history[name]
        mean, std = (x.tolist() for x in _mean_and_std(values[:, kept]))
        return Curve(name.removeprefix(_RANK), mean, std)

    return Learning(
        len(histories),
        n_epochs,
        [int(epoch) + 1 for epoch in kept],
        [curve(name) for name in terms],
        [curve(name) for name in ranks if name in histories[0].names],
    )


def _mean_and_std(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation over members that still trained; NaN of a single one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no or one value in a column, or an infinite loss
        return np.nanmean(values, axis=0), np.nanstd(values, axis=0, ddof=1)


def summarize_ranks(estimator: Any) -> list[Rank]:
    """Average the effective rank of each view's latents in the last epoch.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    list of Rank
        Empty if nothing was recorded.
    """
    ranks = []
    for view in estimator.view_names_:
        name = f"{_RANK}{view}"
        last = [h[name][-1] for h in estimator.histories_ if len(h) > 0 and name in h.names]
        if last:
            mean, std = _mean_and_std(np.array(last)[:, None])
            ranks.append(Rank(view, float(mean[0]), float(std[0]), int(estimator.n_components)))
    return ranks


def describe_settings(estimator: Any) -> list[Setting]:
    """Describe the parameters as text, those that differ from their defaults first.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    list of Setting
        One per parameter.
    """
    defaults = inspect.signature(type(estimator)).parameters
    # The command line reads labels itself, and sets how missing ones are marked.
    own = {"unlabeled_marker"} if "preprocessing" in getattr(estimator, "metadata_", {}) else set()
    settings = []
    for name, value in estimator.get_params(deep=False).items():
        if name not in {*_RUNTIME_SETTINGS, *own}:
            text, default = _describe(value), _describe(defaults[name].default)
            settings.append(Setting(name, text, default, text != default))
    return sorted(settings, key=lambda setting: not setting.changed)


def _describe(value: Any) -> str:
    """Return a parameter as text; of objects only the class, as their repr holds addresses."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_describe, value))
        return f"({inside},)" if isinstance(value, tuple) and len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_describe(k)}: {_describe(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Specification):
        return repr(value)
    return str(getattr(value, "__name__", None) or type(value).__name__)
