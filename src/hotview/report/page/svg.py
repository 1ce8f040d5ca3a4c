"""What all charts share: a frame, scales, axes, colors and marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hotview.report.page.markup import Markup, join, tag
from hotview.report.palette import VIEW_COLORS

__all__ = ["Frame", "chart", "figure", "mark", "shorten", "ticks", "view_color"]

#: Colors of views repeat after a while; the shape of their marks then changes.
_SHAPES = ("circle", "square", "triangle")
_CORNERS: dict[str, list[tuple[float, float]]] = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "triangle": [(0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
}


def view_color(s: int) -> str:
    """The color of a view, the same in every chart and in both themes.

    Parameters
    ----------
    s : int
        Number of the view.

    Returns
    -------
    str
        A variable of the style sheet.

    Examples
    --------
    >>> from hotview.report.page.svg import view_color
    >>> view_color(0), view_color(8)
    ('var(--view-0)', 'var(--view-0)')
    """
    return f"var(--view-{s % len(VIEW_COLORS)})"


def mark(x: float, y: float, s: int, size: float = 4.0, **attributes: str | None) -> Markup:
    """Draw the mark of a view: its shape, in its color.

    Parameters
    ----------
    x, y : float
        Where.
    s : int
        Number of the view.
    size : float, default=4.0
        Half its width.
    **attributes : str or None
        More attributes of the element; None leaves one out.

    Returns
    -------
    Markup
        A circle, or a path.

    Examples
    --------
    >>> from hotview.report.page.svg import mark
    >>> mark(1.0, 2.0, 0)
    '<circle cx="1" cy="2" r="4" fill="var(--view-0)"/>'
    """
    shape = _SHAPES[s // len(VIEW_COLORS) % len(_SHAPES)]
    look = {"fill": view_color(s), **attributes}
    if shape == "circle":
        return tag("circle", cx=float(x), cy=float(y), r=float(size), **look)
    corners = _CORNERS[shape]
    points = " L".join(f"{x + size * a:.1f} {y + size * b:.1f}" for a, b in corners)
    return tag("path", d=f"M{points}Z", **look)


def shorten(text: str, n: int) -> str:
    """Cut the middle out of a long name; its whole is in the table and the tooltip.

    Parameters
    ----------
    text : str
        The name.
    n : int
        Most characters.

    Returns
    -------
    str
        The name, or its beginning and its end.

    Examples
    --------
    >>> from hotview.report.page.svg import shorten
    >>> shorten("morphological", 6), shorten("pix", 6)
    ('mor…al', 'pix')
    """
    if len(text) <= n:
        return text
    end = (n - 1) // 2  # names often differ at their end
    return f"{text[: n - 1 - end]}…{text[-end:]}"


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers between two ends.

    Parameters
    ----------
    low, high : float
        The ends.
    n : int, default=5
        About how many.

    Returns
    -------
    list of float
        Multiples of 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> from hotview.report.page.svg import ticks
    >>> ticks(0.0, 1.0), ticks(3.0, 3.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [3.0])
    """
    if not high > low:
        return [low]
    raw = (high - low) / n
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


@dataclass(frozen=True)
class Frame:
    """The inside of a chart, and how numbers become places in it.

    Parameters
    ----------
    left, top, right, bottom : float
        Its edges.
    x, y : tuple of float
        The numbers at its left and right, and at its bottom and top.
    """

    left: float
    top: float
    right: float
    bottom: float
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)

    def at_x(self, value: float) -> float:
        """Where a number is from left to right."""
        return self.left + (self.right - self.left) * _share(value, self.x)

    def at_y(self, value: float) -> float:
        """Where a number is from top to bottom."""
        return self.bottom - (self.bottom - self.top) * _share(value, self.y)

    def x_axis(self, values: Sequence[float], text: Callable[[float], str], title: str) -> Markup:
        """Numbers below, with faint lines upward, and what they are."""
        parts = []
        for value in values:
            x = self.at_x(value)
            parts.append(_grid(x, x, self.top, self.bottom))
            parts.append(_text(text(value), x, self.bottom + 15, "middle"))
        middle = (self.left + self.right) / 2
        return join([*parts, _text(title, middle, self.bottom + 31, "middle", "axis-title")])

    def y_axis(self, values: Sequence[float], text: Callable[[float], str], title: str) -> Markup:
        """Numbers at the left, with faint lines to the right, and above what they are."""
        parts = []
        for value in values:
            y = self.at_y(value)
            parts.append(_grid(self.left, self.right, y, y))
            parts.append(_text(text(value), self.left - 6, y + 3.5, "end"))
        return join([*parts, _text(title, 2.0, self.top - 10, "start", "axis-title")])


def _share(value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    return (value - low) / (high - low) if high > low else 0.5


def _grid(x1: float, x2: float, y1: float, y2: float) -> Markup:
    return tag("line", x1=x1, x2=x2, y1=y1, y2=y2, class_="grid")


def _text(text: str, x: float, y: float, anchor: str, class_: str = "tick") -> Markup:
    return tag("text", text, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def chart(width: float, height: float, label: str, *parts: Markup, **attributes: str) -> Markup:
    """Make a drawing that scales, with words for those who cannot see it.

    Parameters
    ----------
    width, height : float
        Its size, in units that its parts use.
    label : str
        What it shows.
    *parts : Markup
        What to draw.
    **attributes : str
        More attributes.

    Returns
    -------
    Markup
        The drawing.

    Examples
    --------
    >>> from hotview.report.page.svg import chart
    >>> chart(10.0, 20.0, "nothing")
    '<svg viewBox="0 0 10 20" role="img" aria-label="nothing" class="chart"></svg>'
    """
    look = {"role": "img", "aria_label": label, "class_": "chart", **attributes}
    return tag("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", **look)


def figure(title: str, note: str | Markup, drawing: Markup, *more: Markup) -> Markup:
    """Put a drawing under a heading, with what to know of it and its numbers.

    Parameters
    ----------
    title : str
        The heading.
    note : str or Markup
        A sentence or two.
    drawing : Markup
        The drawing.
    *more : Markup
        What follows it, such as its numbers in a table.

    Returns
    -------
    Markup
        The figure.

    Examples
    --------
    >>> from hotview.report.page.svg import chart, figure
    >>> figure("Plan", "", chart(1.0, 1.0, "x")).startswith("<figure><h3>Plan</h3>")
    True
    """
    said = [tag("p", note, class_="note")] if note else []
    return tag("figure", tag("h3", title), *said, drawing, *more)
