"""Charts of lines: learning curves, calibration, accuracy against the number of views."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hotview.evaluation.record.schema import Bin, Curve, NumberScore
from hotview.report.page.markup import Markup, join, tag
from hotview.report.page.svg import Frame, chart, ticks

__all__ = ["calibration_chart", "curve_chart", "number_chart"]


def curve_chart(curve: Curve, epochs: Sequence[int]) -> Markup:
    """Draw what was recorded over the epochs: the mean, in a band of one standard deviation.

    Parameters
    ----------
    curve : Curve
        Mean and standard deviation over replicas; NaN makes a gap.
    epochs : sequence of int
        The epochs.

    Returns
    -------
    Markup
        The drawing.

    Examples
    --------
    >>> from hotview.evaluation.record.schema import Curve
    >>> from hotview.report.page.line_charts import curve_chart
    >>> "<path" in curve_chart(Curve("loss", [2.0, 1.0], [0.1, 0.1]), [1, 2])
    True
    """
    mean, std = np.array(curve.mean, dtype=float), np.array(curve.std, dtype=float)
    mean = np.where(np.isfinite(mean), mean, math.nan)
    low = mean - np.nan_to_num(std, posinf=0.0)
    high = mean + np.nan_to_num(std, posinf=0.0)
    if np.isnan(mean).all():
        return tag("p", f"{curve.name} was never a finite number.", class_="note")
    y = _widen(float(np.nanmin(low)), float(np.nanmax(high)))
    frame = Frame(46.0, 24.0, 232.0, 118.0, (epochs[0], epochs[-1]), y)
    band = [
        _path([*zip(epochs, high, strict=True), *reversed([*zip(epochs, low, strict=True)])], frame)
    ] if np.isfinite(std).any() and not np.isnan(mean).any() else []  # fmt: skip
    first, last = mean[np.isfinite(mean)][[0, -1]]
    return chart(
        240.0,
        154.0,
        f"{curve.name} over {epochs[-1]} epochs, from {first:.3g} to {last:.3g}",
        frame.y_axis(ticks(*y, 4), "{:.3g}".format, curve.name.replace("_", " ")),
        frame.x_axis(_whole(epochs[0], epochs[-1]), "{:.0f}".format, "epoch"),
        *(tag("path", d=d, class_="band") for d in band),
        tag("path", d=_path(zip(epochs, mean, strict=True), frame), class_="line"),
    )


def calibration_chart(bins: Sequence[Bin], label: str) -> Markup:
    """Draw accuracy against confidence; bars are 95 % intervals, larger points have more rows.

    Parameters
    ----------
    bins : sequence of Bin
        Rows by confidence.
    label : str
        What it shows, for those who cannot see it.

    Returns
    -------
    Markup
        The drawing, with the line on which confidence is accuracy.

    Examples
    --------
    >>> from hotview.evaluation.record.schema import Bin, Proportion
    >>> from hotview.report.page.line_charts import calibration_chart
    >>> calibration_chart([Bin(0.9, Proportion(1.0, 0.4, 1.0, 3))], "x").count("<circle")
    1
    """
    frame = Frame(46.0, 26.0, 370.0, 290.0)
    most = max(one.accuracy.n for one in bins)
    return chart(
        380.0,
        326.0,
        label,
        frame.y_axis(ticks(0, 1), "{:.0%}".format, "accuracy"),
        frame.x_axis(ticks(0, 1), "{:.0%}".format, "confidence"),
        tag("path", d=_path([(0.0, 0.0), (1.0, 1.0)], frame), class_="line ideal"),
        *(_bin(one, most, frame) for one in bins),
    )


def _bin(one: Bin, most: int, frame: Frame) -> Markup:
    found, x = one.accuracy, frame.at_x(one.confidence)
    said = f"{found.n} rows: confidence {one.confidence:.1%}, accuracy {found.value:.1%}"
    bar = _upright(x, frame.at_y(found.low), frame.at_y(found.high))
    r = 3 + 7 * math.sqrt(found.n / most)
    dot = tag("circle", cx=x, cy=frame.at_y(found.value), r=r, class_="dot")
    return tag("g", bar, dot, tag("title", said))


def _upright(x: float, y1: float, y2: float) -> Markup:
    return tag("line", x1=x, x2=x, y1=y1, y2=y2, class_="whisker")


def number_chart(scores: Sequence[NumberScore], label: str) -> Markup:
    """Draw accuracy against the number of views: mean over subsets, from the worst to the best.

    Parameters
    ----------
    scores : sequence of NumberScore
        By number of views.
    label : str
        What it shows, for those who cannot see it.

    Returns
    -------
    Markup
        The drawing.

    Examples
    --------
    >>> from hotview.evaluation.record.schema import NumberScore
    >>> from hotview.report.page.line_charts import number_chart
    >>> number_chart([NumberScore(1, 0.5, 0.4, 0.6, 2, 2)], "x").count("<circle")
    1
    """
    low = max(0.0, math.floor(10 * min(one.low for one in scores)) / 10)
    frame = Frame(46.0, 26.0, 370.0, 290.0, (0.5, scores[-1].n_views + 0.5), (low, 1.0))
    bars = [
        _upright(frame.at_x(one.n_views), frame.at_y(one.low), frame.at_y(one.high))
        for one in scores
    ]
    dots = [
        tag("circle", tag("title", f"{one.n_views} views: {one.mean:.1%}"), class_="dot",
            cx=frame.at_x(one.n_views), cy=frame.at_y(one.mean), r=4.5)
        for one in scores
    ]  # fmt: skip
    return chart(
        380.0,
        326.0,
        label,
        frame.y_axis(ticks(low, 1.0), "{:.0%}".format, "accuracy"),
        frame.x_axis(_whole(1, scores[-1].n_views), "{:.0f}".format, "number of views"),
        tag("path", d=_path([(s.n_views, s.mean) for s in scores], frame), class_="line"),
        join(bars),
        join(dots),
    )


def _path(points: Iterable[tuple[float, float]], frame: Frame) -> str:
    """A line through points, interrupted where a number is missing."""
    parts, pen = [], "M"
    for x, y in points:
        if math.isfinite(y):
            parts.append(f"{pen}{frame.at_x(x):.1f} {frame.at_y(y):.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(parts)


def _widen(low: float, high: float) -> tuple[float, float]:
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _whole(first: int, last: int) -> list[float]:
    """Whole numbers for an axis."""
    if last - first < 12:
        step = 1 if last - first < 6 else 2
        return [float(k) for k in range(first, last + 1, step)]
    return ticks(float(first), float(last), 4)
