"""Data of every chart of a record, shared by the HTML page and the matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hotview.evaluation.importance import PermutationImportance
    from hotview.evaluation.metrics import Difference, Proportion
    from hotview.evaluation.record.schema import (
        Bin,
        Curve,
        Record,
        Scores,
    )
    from hotview.training.view_plan import ViewPlan

__all__ = [
    "Band",
    "Dot",
    "Matrix",
    "accuracy_drops",
    "calibration_points",
    "class_names",
    "confusion",
    "curve_band",
    "effect_dots",
    "importance_of",
    "make_dot",
    "plan_matrix",
    "plan_of",
    "scores_of",
]


@dataclass(frozen=True)
class Matrix:
    """A heat map: values (NaN for blank cells), optional standard deviations and names."""

    values: NDArray[np.float64]
    rows: list[str]
    columns: list[str]
    std: NDArray[np.float64] | None = None
    views: list[int] | None = None  # index of the view of each row


@dataclass(frozen=True)
class Dot:
    """A value with its interval; `view` is the index of its view, if it has one.

    `second` is another value of the same row, without an interval.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    view: int | None = None
    tooltip: str = ""
    style: str = "dot"
    second: float = math.nan


@dataclass(frozen=True)
class Band:
    """A curve with a band around it."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def plan_of(record: Record) -> ViewPlan:
    """Return the plan of a record; raise if it has none."""
    if record.plan is None:
        raise ValueError(
            f"Expected a model with a plan, but coupling={record.coupling!r} solves for none. Fit "
            "with another coupling."
        )
    return record.plan


def scores_of(record: Record) -> Scores:
    """Return the scores of a record; raise if it has none."""
    if record.scores is None:
        raise ValueError(
            "Expected a classifier with labeled rows, but there are no scores. Pass views and y to "
            "make_record, or beside the model."
        )
    return record.scores


def importance_of(record: Record) -> PermutationImportance:
    """Return the importance of views and columns; raise if it was not measured."""
    if record.importance is None:
        raise ValueError(
            "Expected a record with importance, but it was not measured. Pass labeled rows and "
            "importance=True to make_record, or a classifier and labeled rows."
        )
    return record.importance


def class_names(record: Record) -> list[str]:
    """Return the names of the class codes: the classes, then one for any other class."""
    return [*record.classes, "any other class"]


def plan_matrix(record: Record, *, shares: bool = False) -> Matrix:
    """Return the plan W; as shares, its rows sum to 1."""
    plan = plan_of(record)
    views = list(range(len(record.views)))
    scale = len(views) if shares else 1
    W = np.array(plan.W, dtype=float) * scale
    if shares and plan.pairwise:
        np.fill_diagonal(W, np.nan)  # no view is transported to itself
    std = None if plan.std is None else np.array(plan.std, dtype=float) * scale
    columns = [f"reference {k + 1}" for k in range(W.shape[1])]
    return Matrix(W, record.views, record.views if plan.pairwise else columns, std, views)


def curve_band(curve: Curve) -> Band:
    """Return a learning curve in a band of one standard deviation; NaN where it is not finite."""
    mean = np.array(curve.mean, dtype=float)
    mean = np.where(np.isfinite(mean), mean, math.nan)
    std = np.nan_to_num(np.array(curve.std, dtype=float), posinf=0.0)
    return Band(mean, mean - std, mean + std)


def make_dot(
    name: str, value: Proportion | Difference, *, view: int | None = None, tooltip: str = ""
) -> Dot:
    """Return the dot of a value with its interval."""
    return Dot(name, value.value, value.low, value.high, view, tooltip)


def effect_dots(record: Record, effects: Sequence[Mapping[str, Any]]) -> list[Dot]:
    """Return the rise of the log loss where each view, or column, is permuted.

    If two columns have the same name, all have that of their view before it.
    """
    columns = [e["column"] for e in effects if "column" in e]
    is_ambiguous = len(set(columns)) < len(columns)
    dots = []
    for e in effects:
        view, column = e["view"], e.get("column")
        value, low, high = e["loss_increase"], e["loss_low"], e["loss_high"]
        name = view if column is None else f"{view}: {column}" if is_ambiguous else column
        full = view if column is None else f"{column} of {view}"
        tooltip = f"{full}: {value:.3g} ({low:.3g} to {high:.3g})"
        dots.append(Dot(name, value, low, high, record.views.index(view), tooltip))
    return dots


def accuracy_drops(record: Record) -> list[tuple[str, int, Difference]]:
    """Return name, index and accuracy drop of each view that can be hidden."""
    return [
        (score.view, record.views.index(score.view), score.drop)
        for score in scores_of(record).views
        if score.drop is not None
    ]


def confusion(record: Record) -> Matrix:
    """Return the confusion matrix; zeros are blank, so that errors stand out."""
    scores = scores_of(record)
    counts = np.array(scores.confusion, dtype=float)
    return Matrix(np.where(counts == 0, math.nan, counts), scores.true_classes, record.classes)


def calibration_points(bins: Sequence[Bin]) -> list[tuple[float, Proportion, float]]:
    """Return confidence, accuracy and relative number of rows of each bin."""
    n_max = max(b.accuracy.n for b in bins)
    return [(b.confidence, b.accuracy, b.accuracy.n / n_max) for b in bins]
