"""A row for every view or method: dots with their intervals on one scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotview.report.page.markup import Markup, tag
from hotview.report.page.svg import Frame, chart, mark, shorten, ticks, view_color

__all__ = ["Dot", "dot_plot"]

_WIDTH, _ROW = 380.0, 30.0
_TOP, _BELOW = 10.0, 40.0


@dataclass(frozen=True)
class Dot:
    """A number with its interval.

    Parameters
    ----------
    value, low, high : float
        The number and the ends of its interval.
    look : str, default="dot"
        Its class in the style sheet.
    said : str, default=""
        Its tooltip.
    """

    value: float
    low: float
    high: float
    look: str = "dot"
    said: str = ""


def dot_plot(
    rows: Sequence[tuple[str, int | None, Sequence[Dot]]],
    *,
    ends: tuple[float, float],
    title: str,
    text: Callable[[float], str],
    label: str,
    line: float | None = None,
) -> Markup:
    """Draw rows of dots.

    Parameters
    ----------
    rows : sequence of (name, number of its view or None, dots)
        What to draw, in the color of the view; several dots of a row stand on the same height.
    ends : tuple of float
        Where the scale begins and ends.
    title : str
        What the scale is.
    text : callable
        Writes a number of the scale.
    label : str
        What it shows, for those who cannot see it.
    line : float or None, default=None
        Where to draw an upright line.

    Returns
    -------
    Markup
        The drawing.

    Examples
    --------
    >>> from hotview.report.page.dot_plot import Dot, dot_plot
    >>> rows = [("pix", None, [Dot(0.5, 0.4, 0.6)])]
    >>> dot_plot(rows, ends=(0, 1), title="accuracy", text="{:.1f}".format, label="x").count("dot")
    1
    """
    longest = max((len(name) for name, _, _ in rows), default=0)
    below = longest > 14  # long names stand above their row
    left = 12.0 if below else 26 + 6.4 * longest
    height = _ROW + (14 if below else 0)
    frame = Frame(left, _TOP, _WIDTH - 14, _TOP + height * len(rows), ends)
    parts = [frame.x_axis(ticks(*ends), text, title)]
    if line is not None:
        x = frame.at_x(line)
        parts.append(tag("line", x1=x, x2=x, y1=frame.top, y2=frame.bottom, class_="reference"))
    for i, (name, view, dots) in enumerate(rows):
        y = frame.top + height * (i + 0.5) + (7 if below else 0)
        parts.append(_name(name, y - 15 if below else y + 4, view, 52 if below else 14))
        parts += [_dot(dot, y, frame, view) for dot in dots if math.isfinite(dot.value)]
    return chart(_WIDTH, frame.bottom + _BELOW, label, *parts)


def _name(name: str, y: float, view: int | None, n: int) -> Markup:
    dot = Markup("") if view is None else mark(6.0, y - 4, view, 3.5)
    x = 2.0 if view is None else 14.0
    text = tag("text", shorten(name, n), tag("title", name), x=x, y=y, class_="name")
    return tag("g", dot, text)


def _dot(dot: Dot, y: float, frame: Frame, view: int | None) -> Markup:
    low, high = max(dot.low, frame.x[0]), min(dot.high, frame.x[1])
    bar = tag("line", x1=frame.at_x(low), x2=frame.at_x(high), y1=y, y2=y, class_="whisker")
    inside = [bar] if math.isfinite(low) and math.isfinite(high) else []
    point = tag(
        "circle",
        cx=frame.at_x(dot.value),
        cy=y,
        r=5.0,
        class_=dot.look,
        style=None if view is None else f"fill:{view_color(view)}",
    )
    return tag("g", *inside, point, tag("title", dot.said))
