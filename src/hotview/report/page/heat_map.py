"""A matrix as a heat map."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from hotview.report.page.markup import Markup, join, tag
from hotview.report.page.svg import chart, mark, shorten

__all__ = ["heat_map"]

_WIDTH = 380.0
_CELL = (6.0, 64.0)  # smallest and largest
_ROOM_FOR_TEXT = 22.0  # in a cell
_ROOM_FOR_NAME = 9.0  # beside a row
_MARGIN, _CHARACTERS = 34.0, 14  # of a matrix without names; of a name
_DARK = 0.55  # share of the largest number from which on the text is light


def heat_map(
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    label: str,
    text: Callable[[float], str],
    row_title: str,
    column_title: str,
    spread: ArrayLike | None = None,
    views: Sequence[int] | None = None,
    blank_zeros: bool = False,
) -> Markup:
    """Draw a matrix; where cells are too small for text, tooltips have it.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
        Numbers from 0; NaN leaves a blank cell.
    rows, columns : sequence of str
        Names.
    label : str
        What it shows, for those who cannot see it.
    text : callable
        Writes a number.
    row_title, column_title : str
        What rows and columns are.
    spread : array-like of shape (rows, columns) or None, default=None
        Standard deviations, written below the numbers.
    views : sequence of int or None, default=None
        Numbers of the views that rows are, for their marks.
    blank_zeros : bool, default=False
        Whether to leave cells of 0 empty.

    Returns
    -------
    Markup
        The drawing.

    Examples
    --------
    >>> from hotview.report.page.heat_map import heat_map
    >>> drawing = heat_map([[0.5, 0.0]], ["a"], ["x", "y"], label="W", text="{:.1f}".format,
    ...                    row_title="view", column_title="reference")
    >>> drawing.count('class="heat"')
    2
    """
    X = np.asarray(values, dtype=float)
    spreads = None if spread is None else np.asarray(spread, dtype=float)
    longest, across = (min(max(map(len, names)), _CHARACTERS) for names in (rows, columns))
    left = 18 + 7.0 * longest
    if (_WIDTH - left) / len(columns) < _ROOM_FOR_NAME:  # then nothing stands beside the rows
        left = _MARGIN
    size = float(np.clip((_WIDTH - left - 4) / len(columns), *_CELL))
    tall = min(size, 36.0) if size >= _ROOM_FOR_TEXT else size
    slanted = across * 6.2 > size - 4
    top = 40.0 if size < _ROOM_FOR_NAME or not slanted else 32 + 4.6 * across
    most = float(np.nanmax(X)) if np.isfinite(X).any() else 1.0
    parts = [_title(column_title, left, 12.0), _title(row_title, 2.0, top - 6)]
    for i, row in enumerate(X):
        y = top + i * tall
        if tall >= _ROOM_FOR_NAME:
            parts.append(_row_name(rows[i], y + tall / 2, views[i] if views else None))
        for j, x in enumerate(row):
            if np.isfinite(x) and not (blank_zeros and x == 0):
                said = text(float(x))
                below = f"±{text(float(spreads[i, j]))}" if spreads is not None else ""
                parts.append(_cell(left + j * size, y, size, tall, x / (most or 1.0), said, below,
                                   f"{rows[i]}, {columns[j]}: {said} {below}".strip()))  # fmt: skip
    if size >= _ROOM_FOR_NAME:
        parts += [
            _column_name(name, left + (j + 0.5) * size, top - 5, slanted=slanted)
            for j, name in enumerate(columns)
        ]
    parts.append(_edge(left, top, size * len(columns), tall * len(rows)))
    return chart(_WIDTH, top + tall * len(rows) + 4, label, *parts)


def _title(text: str, x: float, y: float) -> Markup:
    return tag("text", text, x=x, y=y, class_="axis-title")


def _row_name(name: str, y: float, view: int | None) -> Markup:
    dot = Markup("") if view is None else mark(6.0, y, view, 3.5)
    whole = tag("title", name)
    short = shorten(name, _CHARACTERS)
    return join([dot, tag("text", short, whole, x=14.0, y=y + 3.5, class_="tick")])


def _column_name(name: str, x: float, y: float, *, slanted: bool) -> Markup:
    turn = f"rotate(-40 {x:.1f} {y:.1f})" if slanted else None
    anchor = "start" if slanted else "middle"
    look = {"text_anchor": anchor, "transform": turn, "class_": "tick"}
    return tag("text", shorten(name, _CHARACTERS), tag("title", name), x=x, y=y, **look)


def _cell(
    x: float, y: float, w: float, h: float, share: float, said: str, below: str, whole: str
) -> Markup:
    box = tag("rect", x=x, y=y, width=w, height=h, class_="heat", fill_opacity=float(share))
    if w < _ROOM_FOR_TEXT:
        return tag("g", box, tag("title", whole))
    look = "cell light" if share > _DARK else "cell"
    middle = y + h / 2 + (-1.5 if below else 3.5)
    lines = [tag("text", said, x=x + w / 2, y=middle, class_=look)]
    if below:
        lines.append(tag("text", below, x=x + w / 2, y=middle + 11, class_=f"{look} small"))
    return tag("g", box, *lines, tag("title", whole))


def _edge(x: float, y: float, w: float, h: float) -> Markup:
    return tag("rect", x=x, y=y, width=w, height=h, class_="edge")
