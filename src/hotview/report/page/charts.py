"""SVG charts of the page: layouts and scales are computed here, templates draw them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from hotview._types import Array
from hotview.evaluation.embedding import Layout
from hotview.evaluation.record import Record
from hotview.evaluation.scores import Bin, SubsetScore
from hotview.report.canvas import CLASS_COLORS
from hotview.report.chart_data import DotChart, Matrix, calibration_points, class_names
from hotview.report.page.sentences import render, shorten
from hotview.report.view_data import Curve, describe_pair, graph_of_views, pair_dots
from hotview.similarity.view_similarity import Pair

_WIDTH = 380.0  # of a chart in half of the page
_NAME_LENGTH = 14  # characters of a name beside a chart
_PAIR_LENGTH = 25  # characters of the names of two views beside a chart
_FEW_PAIRS, _FEW_DOTS = 6, 8  # rows of a chart that can be high
_FEW_ROWS = 4  # of a matrix whose cells can be high
_RADIUS = 98.0  # of the circle of views
_LEGEND_LENGTH = 40  # classes in a legend


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Return about n multiples of 1, 2 or 5 times a power of ten between two ends.

    Examples
    --------
    >>> from hotview.report.page.charts import ticks
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


def whole_ticks(first: int, last: int) -> list[float]:
    """Return whole numbers between two ends."""
    if last - first < 12:
        step = 1 if last - first < 6 else 2
        return [float(k) for k in range(first, last + 1, step)]
    return ticks(float(first), float(last), 4)


@dataclass(frozen=True)
class Axis:
    """Title of an axis, values of its ticks and how to format them."""

    title: str
    ticks: Sequence[float]
    text: Callable[[float], str]


@dataclass(frozen=True)
class Frame:
    """Inner rectangle of a chart with linear scales: `x` and `y` are the values at its edges."""

    left: float
    top: float
    right: float
    bottom: float
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)

    def at_x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        low, high = self.x
        fraction = (value - low) / (high - low) if high > low else 0.5
        return self.left + (self.right - self.left) * fraction

    def at_y(self, value: float) -> float:
        """Return the vertical position of a value."""
        low, high = self.y
        fraction = (value - low) / (high - low) if high > low else 0.5
        return self.bottom - (self.bottom - self.top) * fraction

    def path(self, x: Iterable[float], y: Iterable[float]) -> str:
        """Return a line through points, interrupted where y is not finite."""
        parts, pen = [], "M"
        for a, b in zip(x, y, strict=True):
            if math.isfinite(b):
                parts.append(f"{pen}{self.at_x(a):.1f} {self.at_y(b):.1f}")
            pen = "L" if math.isfinite(b) else "M"
        return "".join(parts)


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


def pair_chart(views: Sequence[str], pairs: Sequence[Pair]) -> Markup:
    """Draw the similarity of pairs of views with 95 % intervals, and that within classes."""
    chart = pair_dots(views, pairs)
    if max(len(dot.name) for dot in chart.dots) > _PAIR_LENGTH:
        length = 24 if len(pairs) <= _FEW_PAIRS else (_PAIR_LENGTH - 3) // 2
        shown = pair_dots([shorten(name, length) for name in views], pairs).dots
        dots = [replace(a, name=b.name) for a, b in zip(chart.dots, shown, strict=True)]
        chart = replace(chart, dots=dots)
    return dot_plot(chart, name_length=_PAIR_LENGTH)


def heat_map(matrix: Matrix) -> Markup:
    """Draw a matrix; where cells are too small for text, tooltips have it.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.report.chart_data import Matrix
    >>> from hotview.report.page.charts import heat_map
    >>> W = np.array([[0.5, 0.0]])
    >>> svg = heat_map(Matrix(W, ["a"], ["x", "y"], "view", "reference", "W", "{:.1f}".format))
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
    longest_text = max((len(matrix.text(x)) for x in X[np.isfinite(X)]), default=0)
    has_names, has_text = width >= 9, width >= max(22.0, 6.4 * longest_text + 2)
    height = min(width, 56.0 if len(X) <= _FEW_ROWS else 36.0) if has_text else width
    top = 32 + 4.6 * longest_column if has_names and slanted else 40.0
    return render(
        "heat_map.svg", size=(_WIDTH, top + height * len(X) + 4), matrix=matrix, left=left,
        top=top, width=width, height=height, has_names=has_names, has_text=has_text,
        slanted=slanted, cells=np.argwhere(np.isfinite(X)),
        largest=matrix.largest or np.nanmax(X, initial=0.0) or 1.0,
    )  # fmt: skip


def curve_chart(curve: Curve, epochs: Sequence[int]) -> Markup:
    """Draw a learning curve in a band of one standard deviation over ensemble members."""
    mean, lower, upper = curve.band
    known = mean[np.isfinite(mean)]
    if len(known) == 0:
        return Markup('<p class="note">{} was never a finite number.</p>').format(curve.name)
    low, high = float(np.nanmin(lower)), float(np.nanmax(upper))
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    ends = (low - margin, high + margin)
    frame = Frame(46.0, 24.0, 232.0, 118.0, (epochs[0], epochs[-1]), ends)
    paths = [(frame.path(epochs, mean), "line")]
    if np.isfinite(curve.std).any() and len(known) == len(epochs):
        outline = frame.path([*epochs, *epochs[::-1]], [*upper, *lower[::-1]])
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


def view_graph(model: Any) -> Markup:
    """Draw the views of a model as nodes, and their similarities as edges."""
    graph, center = graph_of_views(model), np.array([_WIDTH / 2, 165.0])
    nodes = []
    for name, offset in zip(model.view_names_, _RADIUS * graph.positions, strict=True):
        anchor, shift = "middle", (0.0, 28.0 if offset[1] >= 0 else -20.0)
        if abs(offset[0]) >= 40:  # names at the sides stand beside their node
            anchor, shift = ("start", (19.0, 4.0)) if offset[0] > 0 else ("end", (-19.0, 4.0))
        nodes.append((name, center + offset, anchor, center + offset + shift))
    edges = [(pair, describe_pair(model.view_names_, pair)) for pair in reversed(graph.edges)]
    arcs = [
        "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in center + _RADIUS * arc) for arc in graph.arcs
    ]
    label = "Graph of the views, with edges between views that share information"
    return render(
        "view_graph.svg", size=2 * center, label=label, edges=edges, nodes=nodes, arcs=arcs
    )


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


def _fit_layout(layout: Layout, size: Array) -> Array:
    """Return points inside the drawing; both axes have the same unit."""
    X = np.asarray(layout.points, dtype=float).reshape(-1, 2)
    low, high = (X.min(axis=0), X.max(axis=0)) if len(X) else (np.zeros(2), np.ones(2))
    unit = float(np.min((size - 28) / np.maximum(high - low, 1e-12)))
    fitted: Array = ((X - (low + high) / 2) * unit * [1, -1] + size / 2).round(1)
    return fitted
