"""The views as a graph: those that the plan puts together are joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hotview.report.page.markup import Markup, tag
from hotview.report.page.svg import chart, mark, shorten
from hotview.report.plans import place_views

__all__ = ["view_graph"]

_WIDTH, _HEIGHT, _RADIUS = 380.0, 330.0, 112.0
_FAINT = 0.05  # edges of less are not drawn


def view_graph(
    names: Sequence[str], groups: Sequence[int], similarities: NDArray[np.float64], *, label: str
) -> Markup:
    """Draw views as nodes and what they share as edges, thicker where it is more.

    Parameters
    ----------
    names : sequence of str
        The views.
    groups : sequence of int
        Their groups.
    similarities : array of shape (views, views)
        From `hotview.report.plans.similarity`: 1 where two views go to the same place.
    label : str
        What it shows, for those who cannot see it.

    Returns
    -------
    Markup
        The drawing.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.report.page.view_graph import view_graph
    >>> S = np.array([[np.nan, 0.5], [0.5, np.nan]])
    >>> view_graph(["a", "b"], [0, 0], S, label="graph").count("<line")
    1
    """
    at = place_views(groups) * _RADIUS + [_WIDTH / 2, _HEIGHT / 2]
    edges = []
    for a in range(len(names)):
        for b in range(a + 1, len(names)):
            x = float(similarities[a, b])
            if x > _FAINT:
                edges.append(_edge(at[a], at[b], x, f"{names[a]} and {names[b]}: {x:.2f}"))
    nodes = [_node(name, s, *at[s]) for s, name in enumerate(names)]
    return chart(_WIDTH, _HEIGHT, label, *edges, *nodes)


def _edge(a: NDArray[np.float64], b: NDArray[np.float64], x: float, said: str) -> Markup:
    return tag(
        "line",
        tag("title", said),
        x1=float(a[0]),
        y1=float(a[1]),
        x2=float(b[0]),
        y2=float(b[1]),
        stroke_width=1 + 8 * min(x, 1.0),
        stroke_opacity=0.15 + 0.6 * min(x, 1.0),
        class_="edge-of-graph",
    )


def _node(name: str, s: int, x: float, y: float) -> Markup:
    away = 1 if y >= _HEIGHT / 2 else -1
    anchor = "middle" if abs(x - _WIDTH / 2) < 40 else "start" if x > _WIDTH / 2 else "end"
    shift = 0.0 if anchor == "middle" else 13.0 if anchor == "start" else -13.0
    down = (20 if away > 0 else -13) if anchor == "middle" else 4
    text = tag("text", shorten(name, 11), tag("title", name), x=x + shift, y=y + down,
               text_anchor=anchor, class_="name")  # fmt: skip
    return tag("g", mark(x, y, s, 8.0), text)
