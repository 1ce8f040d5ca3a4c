"""What charts are made of, and data of those of scores: for the HTML page and the figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hotview._types import Array
from hotview.report.tables import compact, format_interval, number, percent, points

if TYPE_CHECKING:
    from hotview.evaluation.metrics import Difference, Proportion
    from hotview.evaluation.record import Record
    from hotview.evaluation.scores import BaselineScore, Bin, Scores

T = TypeVar("T")


@dataclass(frozen=True)
class Matrix:
    """A heat map: values (NaN for blank cells), names and titles of rows and columns.

    `label` is a description for screen readers, `text` formats values, `std` are standard
    deviations, `views` the index of the view of each row, and `largest` is the value of the darkest
    color, by default the largest value.
    """

    values: Array
    rows: list[str]
    columns: list[str]
    row_title: str
    column_title: str
    label: str
    text: Callable[[float], str]
    std: Array | None = None
    views: list[int] | None = None
    largest: float | None = None


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
    is_hollow: bool = False
    second: float = math.nan


@dataclass(frozen=True)
class DotChart:
    """Dots with their intervals on one scale: its ends, title and values at a vertical line.

    `label` is a description for screen readers, `text` formats values of the scale, and `bars` join
    the dots to the line at `reference`.
    """

    dots: list[Dot]
    ends: tuple[float, float]
    title: str
    label: str
    reference: float | None = None
    text: Callable[[float], str] = compact
    bars: bool = False


def require(part: T | None, message: str) -> T:
    """Return a part of a model or record; raise if it has none."""
    if part is None:
        raise ValueError(message)
    return part


def scores_of(record: Record) -> Scores:
    """Return the scores of a record; raise if it has none."""
    return require(
        record.scores,
        "Expected a classifier with labeled rows, but there are no scores. Pass views and y to "
        "make_record, or beside the model.",
    )


def class_names(record: Record) -> list[str]:
    """Return the names of the class codes: the classes, then one for any other class."""
    return [*record.classes, "any other class"]


def make_dot(
    name: str,
    given: Proportion | Difference,
    tooltip: str,
    view: int | None = None,
    scale: float = 1,
) -> Dot:
    """Return the dot of a value with its interval, times a scale."""
    value, low, high = (scale * x for x in (given.value, given.low, given.high))
    return Dot(name, value, low, high, view, tooltip)


def _cover(dots: Sequence[Dot]) -> tuple[float, float]:
    """Return the ends of all intervals, and of 0."""
    return min([0.0, *(d.low for d in dots)]), max([0.0, *(d.high for d in dots)])


def _round_ends(dots: Sequence[Dot]) -> tuple[float, float]:
    """Return rounded ends, in percentage points, of a scale that covers 0 and all intervals."""
    low, high = _cover(dots)
    step = 5 if high - low > 10 else 1
    return math.floor(low / step) * step, math.ceil(high / step) * step


def effect_dots(record: Record, effects: Sequence[Mapping[str, Any]]) -> DotChart:
    """Return the rise of the log loss where each view, or column, is permuted.

    Columns have the name of their view before theirs beside views, and if two have the same name.
    """
    columns = [effect.get("column") for effect in effects]
    is_ambiguous = len(set(columns)) < len(columns) or None in columns
    dots = []
    for e, column in zip(effects, columns, strict=True):
        view = e["view"]
        value, low, high = e["loss_increase"], e["loss_low"], e["loss_high"]
        name = view if column is None else f"{view}: {column}" if is_ambiguous else column
        full = view if column is None else f"{column} of {view}"
        tooltip = f"{full}: {value:.3g} ({low:.3g} to {high:.3g})"
        dots.append(Dot(name, value, low, high, record.views.index(view), tooltip))
    low, high = _cover(dots)
    return DotChart(
        dots,
        ends=(low, high if high > low else 1.0),
        title="the log loss rises by",
        label=f"Rise of the log loss where each {'view' if None in columns else 'column'} is "
        "permuted, with 95 % intervals",
        reference=0.0,
        bars=True,
    )


def drop_dots(record: Record) -> DotChart:
    """Return the accuracy drop without each view that can be hidden, in percentage points."""
    dots = [
        make_dot(x.view, x.drop, describe_drop(x.drop), record.views.index(x.view), 100)
        for x in scores_of(record).views
        if x.drop is not None
    ]
    return DotChart(
        dots,
        ends=_round_ends(dots),
        title="accuracy drop (points)",
        label="Accuracy drop when each view is hidden, with 95 % intervals",
        reference=0.0,
    )


def describe_drop(drop: Difference) -> str:
    """Return the effect of hiding a view on the accuracy, with its standard error."""
    size, error = number(100 * abs(drop.value)), f" ± {number(100 * drop.error)}"
    error = "" if math.isnan(drop.error) else error
    if size == "0.0":
        return f"does not change ({error[1:]} points)" if error else "does not change"
    return f"{'drops' if drop.value > 0 else 'rises'} by {size}{error} points"


def alone_dots(record: Record) -> DotChart:
    """Return the accuracy with each view alone."""
    scores, dots = scores_of(record), []
    for score in scores.views:
        if (x := score.alone) is not None:
            tooltip = f"{percent(x.value)}, {format_interval(x)}, {x.n:,} rows"
            dots.append(make_dot(score.view, x, tooltip, record.views.index(score.view)))
    return DotChart(
        dots,
        ends=(max(0.0, math.floor(10 * min([d.low for d in dots], default=0.0)) / 10), 1.0),
        title="accuracy",
        text="{:.0%}".format,
        reference=scores.accuracy.value,
        label="Accuracy with each view alone, with 95 % intervals",
    )


def baseline_dots(baselines: Sequence[BaselineScore]) -> DotChart:
    """Return the accuracy of the model minus that of each baseline, in percentage points."""
    dots = [
        make_dot(b.name, d, f"{points(d.value)} points, {format_interval(d)}", scale=100)
        for b in baselines
        if (d := b.difference) is not None
    ]
    return DotChart(
        dots,
        ends=_round_ends(dots),
        title="accuracy of the model minus that of the baseline (points)",
        reference=0.0,
        label="Accuracy of the model minus that of each baseline, with 95 % intervals",
    )


def confusion(record: Record) -> Matrix:
    """Return the confusion matrix; zeros are blank, so that errors stand out."""
    scores = scores_of(record)
    counts = np.array(scores.confusion, dtype=float)
    return Matrix(
        np.where(counts == 0, math.nan, counts),
        scores.true_classes,
        record.classes,
        row_title="true",
        column_title="predicted class",
        label="Confusion matrix: true classes by row, predicted classes by column",
        text="{:.0f}".format,
    )


def calibration_points(bins: Sequence[Bin]) -> list[tuple[float, Proportion, float]]:
    """Return confidence, accuracy and relative number of rows of each bin."""
    n_max = max(b.accuracy.n for b in bins)
    return [(b.confidence, b.accuracy, b.accuracy.n / n_max) for b in bins]
