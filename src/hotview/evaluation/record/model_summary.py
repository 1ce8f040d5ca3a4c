"""Summaries of a fitted model that need no rows: views, learning curves, ranks and settings."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np

from hotview._types import Array
from hotview.evaluation.record.schema import Curve, Learning, Rank, Record, Setting
from hotview.losses.specifications import Specification, as_coupling
from hotview.semisupervised.sentences import describe_contributions
from hotview.similarity.sentences import (
    describe_common_space,
    describe_shapes,
    describe_similarity,
)

__all__ = ["describe_settings", "describe_views", "summarize_model"]

_MAX_EPOCHS = 200  # kept of a long training
_RANK = "effective_rank_"
_RUNTIME_SETTINGS = ("device", "verbose")  # do not describe the model
_NO_TERMS = ("epoch", "seconds", "marginal_error")


def summarize_model(estimator: Any, *, seen: bool) -> Record:
    """Return the record of a fitted model without rows.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.
    seen : bool
        Whether rows that are added later were in training.

    Returns
    -------
    Record
        The record.
    """
    trained_on = dict(getattr(estimator, "trained_on_", {}))
    return Record(
        kind=type(estimator).__name__,
        coupling=as_coupling(estimator.coupling).label,
        views=list(estimator.view_names_),
        columns=[int(estimator.n_features_per_view_[name]) for name in estimator.view_names_],
        classes=[str(c) for c in getattr(estimator, "classes_", ())],
        similarity=estimator.view_similarity_,
        view_sentences=describe_views(estimator),
        contributions=describe_contributions(getattr(estimator, "out_of_fold_", {})),
        plan=estimator.plan_,
        learning=summarize_learning(estimator),
        ranks=summarize_ranks(estimator),
        settings=describe_settings(estimator),
        trained_on=trained_on,
        # A file without provenance has no warnings either.
        fit_warnings=list(estimator.fit_warnings_) if trained_on else None,
        metadata=dict(getattr(estimator, "metadata_", {})),
        n_members=len(estimator.networks_),
        seen=bool(seen),
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


def summarize_learning(estimator: Any) -> Learning | None:
    """Average the learning curves over ensemble members.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    Learning or None
        At most 200 epochs of the loss terms; None if nothing was recorded.
    """
    histories = [history for history in estimator.histories_ if len(history) > 0]
    if not histories:
        return None
    n_epochs = max(map(len, histories))
    kept = np.unique(np.linspace(0, n_epochs - 1, min(_MAX_EPOCHS, n_epochs)).round().astype(int))
    terms = [n for n in histories[0].names if n not in _NO_TERMS and not n.startswith(_RANK)]
    curves = []
    for name in sorted(terms, key=lambda n: (n != "loss", n)):
        values = np.full((len(histories), n_epochs), math.nan)
        for row, history in zip(values, histories, strict=True):
            row[: len(history)] = history[name]
        mean, std = _mean_and_std(values[:, kept])
        curves.append(Curve(name, mean.tolist(), std.tolist()))
    return Learning(n_epochs, (kept + 1).tolist(), curves)


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
