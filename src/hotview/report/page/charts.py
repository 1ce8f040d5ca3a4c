"""SVG charts of the page: layouts and scales are computed here, templates draw them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from hotview.evaluation.record.schema import Bin, Curve, Layout, Record, SubsetScore
from hotview.report.chart_data import (
    DotChart,
    Matrix,
    Pair,
    calibration_points,
    class_names,
    curve_band,
    describe_pair,
    graph_of_views,
    pair_dots,
)
from hotview.report.page.render import render
from hotview.report.page.scales import Axis, Frame, shorten, ticks, whole_ticks
from hotview.report.palette import CLASS_COLORS

__all__ = [
    "calibration_chart",
    "curve_chart",
    "dot_plot",
    "embedding_chart",
    "heat_map",
    "pair_chart",
    "subset_chart",
    "view_graph",
]

_WIDTH = 380.0  # of a chart in half of the page
_NAME_LENGTH = 14  # characters of a name beside a chart
_PAIR_LENGTH = 25  # characters of the names of two views beside a chart
_FEW_PAIRS, _FEW_DOTS = 6, 8  # rows of a chart that can be high
_FEW_ROWS = 4  # of a matrix whose cells can be high
_RADIUS = 98.0  # of the circle of views
_LEGEND_LENGTH = 40  # classes in a legend


def dot_plot(chart: DotChart, *, name_length: int = _NAME_LENGTH) -> Markup:
    """Draw dots with their intervals on one horizontal scale.

    Parameters
    ----------
    chart : DotChart
        The dots, one per row, and the scale.
    name_length : int, default=14
        Maximum number of characters of names that stand beside their row; longer ones stand above.

    Returns
    -------
    Markup
        SVG.

    Examples
    --------
    >>> from hotview.report.chart_data import Dot, DotChart
    >>> from hotview.report.page.charts import dot_plot
    >>> chart = DotChart([Dot("pix", 0.5, 0.4, 0.6)], ends=(0, 1), title="accuracy", label="x")
    >>> dot_plot(chart).count("<circle")
    1
    """
    dots, ends = chart.dots, chart.ends
    longest = max((len(dot.name) for dot in dots), default=0)
    above = longest > name_length
    left, row_height = 26 + 6.4 * longest, 30.0 if len(dots) <= _FEW_DOTS else 24.0
    if above:
        left, row_height = 12.0, 44.0
    frame = Frame(left, 10.0, _WIDTH - 14, 10.0 + row_height * len(dots), ends)
    return render(
        "dot_plot.svg", chart=chart, frame=frame, size=(_WIDTH, frame.bottom + 40),
        axis=Axis(chart.title, ticks(*ends), chart.text), row_height=row_height, above=above,
        name_length=name_length,
    )  # fmt: skip


def pair_chart(record: Record, pairs: Sequence[Pair]) -> Markup:
    """Draw the similarity of pairs of views with 95 % intervals, and that within classes."""
    chart = pair_dots(record, pairs)
    if max(len(dot.name) for dot in chart.dots) > _PAIR_LENGTH:
        length = 24 if len(pairs) <= _FEW_PAIRS else (_PAIR_LENGTH - 3) // 2
        views = [shorten(name, length) for name in record.views]
        shown = pair_dots(replace(record, views=views), pairs).dots
        dots = [replace(a, name=b.name) for a, b in zip(chart.dots, shown, strict=True)]
        chart = replace(chart, dots=dots)
    return dot_plot(chart, name_length=_PAIR_LENGTH)


def heat_map(
    matrix: Matrix,
    *,
    label: str,
    text: Callable[[float], str],
    row_title: str,
    column_title: str,
    largest: float | None = None,
) -> Markup:
    """Draw a matrix; where cells are too small for text, tooltips have it.

    Parameters
    ----------
    matrix : Matrix
        Values from 0, names and optional standard deviations.
    label : str
        Description for screen readers.
    text : callable
        Formats a value.
    row_title, column_title : str
        Titles of rows and columns.
    largest : float or None, default=None
        Value of the darkest color; the largest value by default.

    Returns
    -------
    Markup
        SVG.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.report.chart_data import Matrix
    >>> from hotview.report.page.charts import heat_map
    >>> svg = heat_map(Matrix(np.array([[0.5, 0.0]]), ["a"], ["x", "y"]), label="W",
    ...                text="{:.1f}".format, row_title="view", column_title="reference")
    >>> svg.count('class="heat"')
    2
    """
    X, n_columns = matrix.values, len(matrix.columns)
    longest_row = min(max(map(len, matrix.rows)), _NAME_LENGTH)
    longest_column = min(max(map(len, matrix.columns)), _NAME_LENGTH)
    left = 22 + 7.0 * longest_row
    if (_WIDTH - left) / n_columns < 9:  # no room for the names of the rows
        left = 34.0
    width = float(np.clip((_WIDTH - left - 4) / n_columns, 6.0, 80.0))
    slanted = longest_column * 6.2 > width - 4
    if slanted:  # the last name ends right of its column
        width = min(width, (_WIDTH - left - 5 * longest_column) / (n_columns - 0.5))
    longest_text = max((len(text(x)) for x in X[np.isfinite(X)]), default=0)
    has_names, has_text = width >= 9, width >= max(22.0, 6.4 * longest_text + 2)
    height = min(width, 56.0 if len(X) <= _FEW_ROWS else 36.0) if has_text else width
    top = 32 + 4.6 * longest_column if has_names and slanted else 40.0
    return render(
        "heat_map.svg", size=(_WIDTH, top + height * len(X) + 4), label=label, matrix=matrix,
        row_title=row_title, column_title=column_title, left=left, top=top, width=width,
        height=height, has_names=has_names, has_text=has_text, slanted=slanted, text=text,
        cells=np.argwhere(np.isfinite(X)), largest=largest or np.nanmax(X, initial=0.0) or 1.0,
    )  # fmt: skip


def curve_chart(curve: Curve, epochs: Sequence[int]) -> Markup:
    """Draw a learning curve in a band of one standard deviation over ensemble members."""
    band = curve_band(curve)
    known = band.mean[np.isfinite(band.mean)]
    if len(known) == 0:
        return Markup('<p class="note">{} was never a finite number.</p>').format(curve.name)
    low, high = float(np.nanmin(band.low)), float(np.nanmax(band.high))
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    ends = (low - margin, high + margin)
    frame = Frame(46.0, 24.0, 232.0, 118.0, (epochs[0], epochs[-1]), ends)
    paths = [(frame.path(epochs, band.mean), "line")]
    if np.isfinite(curve.std).any() and len(known) == len(epochs):
        outline = frame.path([*epochs, *epochs[::-1]], [*band.high, *band.low[::-1]])
        paths.insert(0, (outline, "band"))
    return render(
        "line_chart.svg",
        size=(240.0, 154.0),
        label=f"{curve.name} over {epochs[-1]} epochs, from {known[0]:.3g} to {known[-1]:.3g}",
        frame=frame,
        x=Axis("epoch", whole_ticks(epochs[0], epochs[-1]), "{:.0f}".format),
        y=Axis(curve.name.replace("_", " "), ticks(*ends, 4), "{:.3g}".format),
        paths=paths,
        points=[],
    )


def calibration_chart(bins: Sequence[Bin]) -> Markup:
    """Draw accuracy against confidence with 95 % intervals; larger points have more rows."""
    frame = Frame(46.0, 26.0, 370.0, 290.0)
    points = [
        (confidence, accuracy, accuracy.value, 3 + 7 * math.sqrt(weight),
         f"{accuracy.n} rows: confidence {confidence:.1%}, accuracy {accuracy.value:.1%}")
        for confidence, accuracy, weight in calibration_points(bins)
    ]  # fmt: skip
    return render(
        "line_chart.svg",
        size=(_WIDTH, 326.0),
        label="Accuracy against confidence",
        frame=frame,
        x=Axis("confidence", ticks(0, 1), "{:.0%}".format),
        y=Axis("accuracy", ticks(0, 1), "{:.0%}".format),
        paths=[(frame.path((0.0, 1.0), (0.0, 1.0)), "line ideal")],
        points=points,
    )


def subset_chart(subsets: Sequence[SubsetScore]) -> Markup:
    """Draw accuracy against the number of views: mean and range over subsets."""
    low = max(0.0, math.floor(10 * min(s.low for s in subsets)) / 10)
    n_views = subsets[-1].n_views
    frame = Frame(46.0, 26.0, 370.0, 290.0, (0.5, n_views + 0.5), (low, 1.0))
    return render(
        "line_chart.svg",
        size=(_WIDTH, 326.0),
        label="Accuracy against the number of views",
        frame=frame,
        x=Axis("number of views", whole_ticks(1, n_views), "{:.0f}".format),
        y=Axis("accuracy", ticks(low, 1.0), "{:.0%}".format),
        paths=[(frame.path([s.n_views for s in subsets], [s.mean for s in subsets]), "line")],
        points=[(s.n_views, s, s.mean, 4.5, f"{s.n_views} views: {s.mean:.1%}") for s in subsets],
    )


def view_graph(record: Record) -> Markup:
    """Draw views as nodes and their similarities as edges."""
    graph, center = graph_of_views(record), np.array([_WIDTH / 2, 165.0])
    nodes = []
    for name, offset in zip(record.views, _RADIUS * graph.positions, strict=True):
        anchor, shift = "middle", (0.0, 28.0 if offset[1] >= 0 else -20.0)
        if abs(offset[0]) >= 40:  # names at the sides stand beside their node
            anchor, shift = ("start", (19.0, 4.0)) if offset[0] > 0 else ("end", (-19.0, 4.0))
        nodes.append((name, center + offset, anchor, center + offset + shift))
    edges = [(pair, describe_pair(record, pair)) for pair in reversed(graph.edges)]
    arcs = [_as_path(center + _RADIUS * arc) for arc in graph.arcs]
    label = "Graph of the views, with edges between views that share information"
    return render(
        "view_graph.svg", size=2 * center, label=label, edges=edges, nodes=nodes, arcs=arcs
    )


def _as_path(points: NDArray[np.float64]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def embedding_chart(record: Record) -> Markup:
    """Draw the points of the common space, with controls and the data of the page's script."""
    embedding = record.embedding
    assert embedding is not None
    size = np.array([720.0, 500.0])
    layouts = [_fit_layout(layout, size) for layout in embedding.layouts]
    truth, predicted = embedding.truth, embedding.predicted
    colors = {"view": embedding.views, "class": truth, "predicted": predicted}
    classes = sorted({k for k in (*truth, *predicted) if 0 <= k < len(record.classes)})
    return render(
        "embedding.html",
        size=size,
        record=record,
        embedding=embedding,
        points=layouts[0].tolist(),
        n_colors=len(CLASS_COLORS),
        colors=[name for name, codes in colors.items() if max(codes, default=-1) >= 0],
        shown=sorted(set(embedding.views)),
        legend=classes[:_LEGEND_LENGTH],
        n_hidden=max(0, len(classes) - _LEGEND_LENGTH),
        data={
            "views": record.views,
            "classes": class_names(record),
            "view": embedding.views,
            "individual": embedding.individuals,
            "truth": truth,
            "predicted": predicted,
            "ids": embedding.ids,
            "linked": embedding.linked,
            "layouts": [layout.tolist() for layout in layouts],
        },
    )


def _fit_layout(layout: Layout, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points inside the drawing; both axes have the same unit."""
    X = np.asarray(layout.points, dtype=float).reshape(-1, 2)
    low, high = (X.min(axis=0), X.max(axis=0)) if len(X) else (np.zeros(2), np.ones(2))
    unit = float(np.min((size - 28) / np.maximum(high - low, 1e-12)))
    fitted: NDArray[np.float64] = ((X - (low + high) / 2) * unit * [1, -1] + size / 2).round(1)
    return fitted
