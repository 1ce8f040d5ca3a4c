"""Metrics as tables of text, which the command line and the page show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hotview.evaluation.assessment import Assessment, ClassMetrics
from hotview.evaluation.metrics import Estimate, Proportion
from hotview.evaluation.thresholds import BinaryMetrics, OperatingPoint
from hotview.report.tables import ABSENT, number, signed

__all__ = ["TextTable", "describe_metrics", "metric_tables"]

_FEW, _LISTED = 20, 5  # rows of a class; classes of fewer that are named
_INTERVAL = "95\N{NO-BREAK SPACE}% interval"


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Parameters
    ----------
    title : str
        Its title.
    headings : sequence of str
        Names of the columns.
    rows : list of sequence of str
        Cells of every row.
    n_text : int, default=1
        Number of first columns that hold text, not numbers.
    """

    title: str
    headings: Sequence[str]
    rows: list[Sequence[str]]
    n_text: int = 1


def metric_tables(metrics: Assessment) -> list[TextTable]:
    """Return the tables of an assessment: all classes, each class, and the positive class.

    Parameters
    ----------
    metrics : Assessment
        From :func:`hotview.evaluation.assess`.

    Returns
    -------
    list of TextTable
        In percent, unless a heading or a name says otherwise.

    Examples
    --------
    >>> from hotview.evaluation import assess
    >>> from hotview.report.metric_tables import metric_tables
    >>> tables = metric_tables(assess([0, 1], [[0.9, 0.1], [0.2, 0.8]], [0, 1]))
    >>> [table.rows[0][0] for table in tables]
    ['majority class, always 0', '0', 'most probable class']
    """
    tables = [_all_classes(metrics), _each_class(metrics)]
    return tables if metrics.binary is None else [*tables, _thresholds(metrics.binary)]


def describe_metrics(metrics: Assessment) -> list[str]:
    """Return sentences about rare classes, the mean probability, the threshold, and intervals.

    Parameters
    ----------
    metrics : Assessment
        From :func:`hotview.evaluation.assess`.

    Returns
    -------
    list of str
        The last one says how the intervals are computed.

    Examples
    --------
    >>> from hotview.evaluation import assess
    >>> from hotview.report.metric_tables import describe_metrics
    >>> metrics = assess([0, 1], [[0.9, 0.1], [0.2, 0.8]], [0, 1], threshold=0.3)
    >>> describe_metrics(metrics)[1]
    'Class 1 is predicted from a probability of 0.300 on: given.'
    """
    sentences = [
        _describe_few(metrics),
        _describe_excess(metrics),
        _describe_threshold(metrics.binary),
    ]
    return [*filter(None, sentences), _describe_intervals(metrics)]


def _describe_few(metrics: Assessment) -> str:
    """Return which classes have so few rows that little is known of them."""
    few = [(m.name, m.n) for m in metrics.by_class if m.n < _FEW]
    if not few:
        return ""
    listed = ", ".join(f"{name} ({n or 'none'})" for name, n in few[:_LISTED])
    more = f" and {len(few) - _LISTED} more" if len(few) > _LISTED else ""
    text = f"Classes with fewer than {_FEW} rows: {listed}{more}. "
    text += "Their metrics and intervals are rough."
    if any(n == 0 for _, n in few):
        text += " Balanced accuracy and macro-F1 leave out classes without any."
    return text


def _describe_threshold(binary: BinaryMetrics | None) -> str:
    """Return how the threshold was chosen, and what errors cost."""
    if binary is None or binary.chosen is None or binary.chosen.threshold is None:
        return ""
    text = f"Class {binary.positive} is predicted from a probability of "
    text += f"{number(binary.chosen.threshold, 3)} on: {binary.chosen.source}."
    if binary.cost_ratio is None:
        return text
    return f"{text} A missed row costs {binary.cost_ratio:g}, a false alarm 1."


def _describe_intervals(metrics: Assessment) -> str:
    """Return how the intervals are computed."""
    if metrics.resampled == "groups":
        return f"Intervals are from {metrics.n_resamples:,} bootstrap resamples of groups of rows."
    return (
        "Intervals of shares of rows are Wilson's; the others are from "
        f"{metrics.n_resamples:,} bootstrap resamples of the rows."
    )


def _describe_excess(metrics: Assessment) -> str:
    """Return whether the mean probability of the positive class differs from its prevalence."""
    if metrics.binary is None:
        return ""
    of_class = next(m for m in metrics.by_class if m.name == metrics.binary.positive)
    excess = of_class.excess
    if math.isnan(excess.low) or excess.low <= 0 <= excess.high:
        return ""
    difference, low, high = (signed(100 * x) for x in (excess.value, excess.low, excess.high))
    return (
        f"The mean probability of {str(of_class.name)!r} is too "
        f"{'high' if excess.value > 0 else 'low'}: {_percent(of_class.mean_probability)} % against "
        f"a prevalence of {_percent(of_class.prevalence)} % (difference {difference} points, "
        f"{_INTERVAL} {low} to {high})."
    )


def _all_classes(m: Assessment) -> TextTable:
    shares: dict[str, Estimate | Proportion | None] = {
        f"majority class, always {m.majority_class}": m.majority,
        "accuracy": m.accuracy,
        "balanced accuracy": m.balanced_accuracy,
        "macro-F1": m.macro_f1,
        "calibration error": m.calibration_error,
    }
    if m.binary is not None:
        shares["area under the ROC curve"] = m.binary.auc
        shares["average precision"] = m.binary.average_precision
    rows = [(name, _percent(x), _range(x)) for name, x in shares.items()]
    rows.append(("log loss (nats)", _value(m.log_loss), _range(m.log_loss, 1, 3)))
    return TextTable("Metrics", ("", "%", _INTERVAL), list(rows))


def _each_class(m: Assessment) -> TextTable:
    def cells(c: ClassMetrics) -> Sequence[str]:
        values = (c.prevalence, c.mean_probability, c.calibration_error, c.recall, c.precision)
        return str(c.name), *map(_with_range, values)

    names = ("prevalence %", "mean probability %", "calibration error %", "recall %", "precision %")
    title = f"Classes, with {_INTERVAL}s"
    return TextTable(title, ("class", *names), [cells(c) for c in m.by_class])


def _thresholds(m: BinaryMetrics) -> TextTable:
    def cells(name: str, point: OperatingPoint) -> Sequence[str]:
        limit = ABSENT if point.threshold is None else number(point.threshold, 3)
        values = (point.sensitivity, point.specificity, point.precision)
        cost = [] if m.cost_ratio is None else [_with_range(point.cost, 1, 3)]
        return name, limit, f"{point.n:,}", *map(_with_range, values), *cost

    points = {m.default.source: m.default}
    if m.chosen is not None:
        points["chosen threshold"] = m.chosen
    headings = ["", "threshold", "rows", "sensitivity %", "specificity %", "precision %"]
    if m.cost_ratio is not None:
        headings.append("cost per row")
    title = f"Positive class {m.positive} ({m.reason}), with {_INTERVAL}s"
    return TextTable(title, headings, [cells(name, p) for name, p in points.items()])


def _percent(x: Estimate | Proportion | None) -> str:
    return ABSENT if x is None else number(100 * x.value)


def _value(x: Estimate | None) -> str:
    return ABSENT if x is None else number(x.value, 3)


def _range(x: Estimate | Proportion | None, factor: float = 100, digits: int = 1) -> str:
    if x is None or math.isnan(x.low):
        return ABSENT
    return f"{number(factor * x.low, digits)} to {number(factor * x.high, digits)}"


def _with_range(x: Estimate | Proportion | None, factor: float = 100, digits: int = 1) -> str:
    """Return a value with its interval in parentheses."""
    if x is None or math.isnan(x.value):
        return ABSENT
    value, interval = number(factor * x.value, digits), _range(x, factor, digits)
    return value if interval == ABSENT else f"{value} ({interval.replace(' to ', '–')})"
