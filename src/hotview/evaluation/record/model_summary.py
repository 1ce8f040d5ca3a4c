"""What a fitted model tells of itself, without any rows."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from hotview._types import Array
from hotview.evaluation.record.schema import (
    Curve,
    Learning,
    NullFacts,
    PlanFacts,
    Rank,
    Setting,
)
from hotview.training.permutation_null import PermutationNull
from hotview.training.view_plan import match_columns

__all__ = ["describe_learning", "describe_plan", "describe_ranks", "describe_settings"]

_EPOCHS = 200  # that are kept of a long training
_RANK = "effective_rank_"
_OF_THE_MOMENT = ("device", "verbose")  # which say nothing about the model
_NO_TERMS = ("epoch", "seconds", "marginal_error")


def describe_plan(estimator: Any) -> PlanFacts | None:
    """The plan of a fitted estimator; None where it has none.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    PlanFacts or None
        W, C and their spread, groups, and the null.
    """
    plan = estimator.plan_
    if plan is None:
        return None
    columns = [f"G_{k}" for k in range(plan.W.shape[1])]
    found = plan.view_labels(len(set(estimator.view_labels_.tolist())) if plan.pairwise else None)
    return PlanFacts(
        _rows(plan.W),
        _rows(plan.C),
        None if plan.std is None else _rows(plan.std),
        list(estimator.view_names_) if plan.pairwise else columns,
        plan.pairwise,
        plan.converged,
        [int(k) for k in estimator.view_labels_],
        (found.tied | found.uniform).tolist(),
        _replica_groups(estimator),
        None if plan.null is None else _describe_null(plan.null),
    )


def _replica_groups(estimator: Any) -> list[list[int]]:
    """Groups by every replica's own plan, references in the order of the first."""
    found = []
    for plan in estimator.plans_:
        labels = estimator._group_views(plan)
        if not plan.pairwise:
            labels = np.argsort(match_columns(plan, estimator.plans_[0]))[labels]
        found.append([int(k) for k in labels])
    return found


def _describe_null(null: PermutationNull) -> NullFacts:
    C = null.plan.C.astype(np.float64)
    return NullFacts(
        null.p_value,
        null.relative_cost,
        [float(x) for x in null.relative_costs],
        (C.sum(axis=1) / (len(C) - 1)).tolist(),
    )


def _rows(X: Array) -> list[list[float]]:
    found: list[list[float]] = X.astype(np.float64).tolist()
    return found


def describe_learning(estimator: Any) -> Learning | None:
    """The course of the training, averaged over replicas; None where nothing was recorded.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    Learning or None
        Up to 200 epochs of the terms of the loss and of the effective ranks.
    """
    histories = [history for history in estimator.histories_ if len(history) > 0]
    if not histories:
        return None
    n_epochs = max(map(len, histories))
    kept = np.unique(np.linspace(0, n_epochs - 1, min(_EPOCHS, n_epochs)).round().astype(int))
    ranks = [f"{_RANK}{view}" for view in estimator.view_names_]
    names = sorted(set(histories[0].names) - {*_NO_TERMS, *ranks}, key=lambda n: (n != "loss", n))

    def curve(name: str, title: str) -> Curve:
        values = np.full((len(histories), n_epochs), math.nan)
        for row, history in zip(values, histories, strict=True):
            row[: len(history)] = history[name]
        mean, std = _mean_and_std(values[:, kept])
        return Curve(title, mean.tolist(), std.tolist())

    there = [name for name in ranks if name in histories[0].names]
    return Learning(
        len(histories),
        n_epochs,
        [int(epoch) + 1 for epoch in kept],
        [curve(name, name) for name in names],
        [curve(name, name.removeprefix(_RANK)) for name in there],
    )


def _mean_and_std(values: Array) -> tuple[Array, Array]:
    """Over the replicas that still trained; the spread of one is not known."""
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.where(n > 0, n, np.nan)
    with np.errstate(invalid="ignore"):  # a loss may have become infinite
        squares = (np.where(known, values - mean, 0.0) ** 2).sum(axis=0)
    return mean, np.sqrt(squares / np.where(n > 1, n - 1, np.nan))


def describe_ranks(estimator: Any) -> list[Rank]:
    """The effective rank of every view's latents in the last epoch.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    list of Rank
        Empty where nothing was recorded.
    """
    found = []
    for view in estimator.view_names_:
        name = f"{_RANK}{view}"
        last = [h[name][-1] for h in estimator.histories_ if len(h) > 0 and name in h.names]
        if last:
            mean, std = _mean_and_std(np.array(last)[:, None])
            found.append(Rank(view, float(mean[0]), float(std[0]), int(estimator.n_components)))
    return found


def describe_settings(estimator: Any) -> list[Setting]:
    """Parameters as text, those that differ from their defaults first.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    list of Setting
        One per parameter.
    """
    signature = inspect.signature(type(estimator)).parameters
    found = [
        Setting(name, (text := _text(value)), (usual := _text(signature[name].default)),
                text != usual)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _OF_THE_MOMENT
    ]  # fmt: skip
    return sorted(found, key=lambda setting: not setting.changed)


def _text(value: Any) -> str:
    """A parameter in words; of objects only the class, as their text holds addresses."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_text, value))
        return f"({inside},)" if isinstance(value, tuple) and len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in value.items()) + "}"
    return str(getattr(value, "__name__", None) or type(value).__name__)
