"""Tables for the terminal and the page, and numbers as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from hotview.evaluation.assessment import Assessment
    from hotview.evaluation.metrics import Difference, Estimate, Proportion
    from hotview.evaluation.thresholds import BinaryMetrics, OperatingPoint

__all__ = ["ABSENT", "compact", "matrix_table", "number", "signed"]

#: Shown in place of a missing number.
ABSENT = "–"
_FEW, _LISTED = 20, 5  # rows of a class; classes of fewer that are named
_INTERVAL = "95\N{NO-BREAK SPACE}% interval"


def matrix_table(
    values: ArrayLike,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    title: str,
    digits: int = 3,
    highlight: str = "max",
) -> Table:
    """Make a table of a matrix with named rows and columns, each row's extreme in bold.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
        Values; NaN is shown as a dot.
    row_names : sequence of str
        One name per row.
    column_names : sequence of str
        One name per column.
    title : str
        Title of the table.
    digits : int, default=3
        Number of decimals.
    highlight : {"max", "min"}, default="max"
        Which entry of each row is in bold.

    Returns
    -------
    rich.table.Table
        Table for ``rich.print``.

    Examples
    --------
    >>> import rich
    >>> from hotview.report.tables import matrix_table
    >>> table = matrix_table([[0.5, 0.0]], ["pix"], ["view 1", "view 2"], title="W", digits=1)
    >>> table.row_count, [str(c.header) for c in table.columns]
    (1, ['', 'view 1', 'view 2'])
    """
    matrix = np.asarray(values, dtype=float)
    heading = Text(title, no_wrap=True, overflow="ignore")  # which may be wider than the table
    table = Table(title=heading, title_justify="left", title_style="bold")
    table.add_column("", style="cyan")
    for name in column_names:
        table.add_column(Text(name), justify="right", no_wrap=True, min_width=digits + 2)
    for name, row in zip(row_names, matrix, strict=True):
        best = np.nanmax(row) if highlight == "max" else np.nanmin(row)
        cells = [
            Text("·" if np.isnan(x) else f"{x:.{digits}f}", style="bold" if x == best else "")
            for x in row
        ]
        table.add_row(Text(name), *cells)
    return table


def number(x: float, digits: int = 1) -> str:
    """Format a number with a true minus sign, and without negative zeros.

    Parameters
    ----------
    x : float
        The number; NaN gives a dash.
    digits : int, default=1
        Number of decimals.

    Returns
    -------
    str
        The formatted number.

    Examples
    --------
    >>> from hotview.report.tables import number
    >>> number(-1.25, 2), number(-0.01), number(float("nan"))
    ('−1.25', '0.0', '–')
    """
    if np.isnan(x):
        return ABSENT
    text = f"{abs(x):.{digits}f}"
    return f"−{text}" if x < 0 and float(text) else text


def compact(x: float) -> str:
    """Format a number with at most three significant digits and a true minus sign.

    Parameters
    ----------
    x : float
        The number.

    Returns
    -------
    str
        The formatted number.

    Examples
    --------
    >>> from hotview.report.tables import compact
    >>> compact(-0.05), compact(20.0)
    ('−0.05', '20')
    """
    return f"{x:.3g}".replace("-", "−")


def signed(x: float, digits: int = 1) -> str:
    """Format a difference with its sign.

    Parameters
    ----------
    x : float
        The difference.
    digits : int, default=1
        Number of decimals.

    Returns
    -------
    str
        The formatted difference.

    Examples
    --------
    >>> from hotview.report.tables import signed
    >>> signed(0.25, 2), signed(-3.0), signed(-0.01)
    ('+0.25', '−3.0', '0.0')
    """
    text = number(x, digits)
    return f"+{text}" if x > 0 and float(text) else text


def percent(x: float) -> str:
    """Return a proportion in percent, with one decimal."""
    return ABSENT if math.isnan(x) else f"{100 * x:.1f}\N{NO-BREAK SPACE}%"


def points(x: float) -> str:
    """Return a difference of proportions in percentage points."""
    return number(100 * x)


def format_interval(value: Proportion | Difference) -> str:
    """Return the 95 % interval of a proportion in percent, or of a difference in points."""
    if hasattr(value, "error"):  # of a difference
        return f"{signed(100 * value.low)} to {signed(100 * value.high)} points"
    return f"{100 * value.low:.1f} to {100 * value.high:.1f}\N{NO-BREAK SPACE}%"


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
    >>> from hotview.report.tables import metric_tables
    >>> tables = metric_tables(assess([0, 1], [[0.9, 0.1], [0.2, 0.8]], [0, 1]))
    >>> [table.rows[0][0] for table in tables]
    ['majority class, always 0', '0', 'most probable class']
    """
    m = metrics
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
    loss = ABSENT if m.log_loss is None else number(m.log_loss.value, 3)
    rows.append(("log loss (nats)", loss, _range(m.log_loss, 1, 3)))
    columns = ("prevalence", "mean_probability", "calibration_error", "recall", "precision")
    headings = [f"{name.replace('_', ' ')} %" for name in columns]
    by_class = [(str(c.name), *(_with_range(getattr(c, n)) for n in columns)) for c in m.by_class]
    tables = [
        TextTable("Metrics", ("", "%", _INTERVAL), list(rows)),
        TextTable(f"Classes, with {_INTERVAL}s", ("class", *headings), list(by_class)),
    ]
    return tables if m.binary is None else [*tables, _threshold_table(m.binary)]


def _threshold_table(m: BinaryMetrics) -> TextTable:
    """Return the metrics of the positive class where it is most probable, and at a threshold."""

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
    >>> from hotview.report.tables import describe_metrics
    >>> metrics = assess([0, 1], [[0.9, 0.1], [0.2, 0.8]], [0, 1], threshold=0.3)
    >>> describe_metrics(metrics)[1]
    'Class 1 is predicted from a probability of 0.300 on: given.'
    """
    binary, sentences = metrics.binary, [_describe_few(metrics), _describe_excess(metrics)]
    if binary is not None and binary.chosen is not None and binary.chosen.threshold is not None:
        limit, cost = number(binary.chosen.threshold, 3), binary.cost_ratio
        text = f"Class {binary.positive} is predicted from a probability of {limit} on: "
        text += f"{binary.chosen.source}."
        text += "" if cost is None else f" A missed row costs {cost:g}, a false alarm 1."
        sentences.append(text)
    resamples = f"{metrics.n_resamples:,} bootstrap resamples of"
    text = f"Intervals of shares of rows are Wilson's; the others are from {resamples} the rows."
    if metrics.resampled == "groups":
        text = f"Intervals are from {resamples} groups of rows."
    return [*filter(None, sentences), text]


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


def _percent(x: Estimate | Proportion | None) -> str:
    return ABSENT if x is None else number(100 * x.value)


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
