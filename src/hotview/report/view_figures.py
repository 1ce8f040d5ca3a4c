"""Matplotlib figures of the views, the plan, the training and the embedding of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hotview._types import Views
from hotview.report.chart_data import class_names, curve_band, plan_matrix
from hotview.report.model_record import as_record, new_axes
from hotview.report.palette import CLASS_COLORS, VIEW_COLORS, view_style
from hotview.report.similarity_data import graph_of_views, list_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_graph",
    "plot_learning",
    "plot_matrix",
    "plot_plan",
    "plot_similarity",
    "plot_space",
]

#: Column names with more characters in total are slanted, so that they do not overlap.
_MAX_CHARACTERS = 40
_DARK = 0.6  # fraction of the color scale above which text is white
_ACCENT, _SECOND, _SOFT = "#1f5fa8", "#c98a00", "#59636e"
_MARKERS = {"circle": "o", "square": "s", "triangle": "^"}


def plot_matrix(
    values: ArrayLike,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    ax: Axes | None = None,
    title: str = "",
    cmap: str = "Blues",
    digits: int = 3,
    std: ArrayLike | None = None,
    largest: float | None = None,
) -> Axes:
    """Draw a matrix as a heat map, with its values in the cells.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
        Values; NaN leaves a blank cell.
    row_names : sequence of str
        One name per row.
    column_names : sequence of str
        One name per column.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.
    title : str, default=""
        Title of the axes.
    cmap : str, default="Blues"
        Name of a colormap.
    digits : int, default=3
        Number of decimals.
    std : array-like of shape (rows, columns) or None, default=None
        Standard deviations, shown below the values.
    largest : float or None, default=None
        Upper end of the color scale; the largest value by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview.report.figures import new_figure, plot_matrix
    >>> figure, (ax,) = new_figure()
    >>> plot_matrix([[0.5, 0.0], [0.0, 0.5]], ["a", "b"], ["a", "b"], ax=ax) is ax
    True
    """
    ax = new_axes() if ax is None else ax
    matrix = np.asarray(values, dtype=float)
    stds = None if std is None else np.asarray(std, dtype=float)
    top = float(np.nanmax(matrix)) if largest is None else largest
    image = ax.imshow(matrix, cmap=cmap, vmin=0, vmax=top)
    ax.set_xticks(range(len(column_names)), column_names)
    if max(map(len, column_names)) * len(column_names) > _MAX_CHARACTERS:
        for tick in ax.get_xticklabels():
            tick.set(rotation=35, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(row_names)), row_names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize="medium")
    for (i, j), x in np.ndenumerate(matrix):
        if not np.isnan(x):
            color = "white" if x > _DARK * top else "black"
            below = "" if stds is None else f"\n±{stds[i, j]:.{digits}f}"
            text = f"{x:.{digits}f}{below}"
            ax.text(j, i, text, ha="center", va="center", fontsize="small", color=color)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return ax


def plot_plan(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the plan W as a heat map, with standard deviations over the ensemble members.

    Parameters
    ----------
    model : MultiViewClassifier, MultiViewEncoder or Record
        A fitted model that has a plan, or its record.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> from hotview.report.figures import new_figure, plot_plan
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=2, random_state=0).fit(views)
    >>> record = make_record(model, views, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_plan(record, ax=ax) is ax
    True
    """
    record = as_record(model)
    plan = plan_matrix(record)
    ax = new_axes() if ax is None else ax
    title = "plan W" if plan.std is None else "plan W over mean costs, ± std over members"
    plot_matrix(plan.values, plan.rows, plan.columns, ax=ax, title=title, std=plan.std)
    ax.set_aspect("auto")  # a few references have wide cells
    return ax


def plot_similarity(model: Any, *, ax: Axes | None = None, max_pairs: int = 15) -> Axes:
    """Draw the similarity of pairs of views by linked rows, with 95 % intervals.

    The most similar pairs are drawn, and of them those that could be unrelated (p > 0.05) hollow;
    diamonds are similarities within classes.

    Parameters
    ----------
    model : MultiViewClassifier, MultiViewEncoder or Record
        A fitted model that was fitted with linked rows, or its record.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.
    max_pairs : int, default=15
        Maximum number of pairs.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> from hotview.report.figures import new_figure, plot_similarity
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> record = make_record(model.fit(data.linked, data.linked_target))
    >>> figure, (ax,) = new_figure()
    >>> plot_similarity(record, ax=ax) is ax
    True
    """
    record = as_record(model)
    pairs = [pair for pair in list_pairs(record) if pair.is_known][:max_pairs]
    ax = new_axes() if ax is None else ax
    for i, pair in enumerate(pairs):
        face = _ACCENT if pair.is_significant else "white"
        ax.plot([pair.low, pair.high], [i, i], color=_SOFT, zorder=1)
        ax.plot(pair.value, i, "o", markerfacecolor=face, markeredgecolor=_ACCENT, zorder=2)
        ax.plot(pair.within, i, "D", markersize=4, color=_SECOND, zorder=3)
    names = [f"{record.views[pair.first]} – {record.views[pair.second]}" for pair in pairs]
    ax.set_yticks(range(len(pairs)), names)
    ax.set(xlim=(0, 1), ylim=(len(pairs) - 0.5, -0.5), xlabel="similarity")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_graph(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the views as a graph, with edges between views that share information (p ≤ 0.05).

    Wider edges are more similar views, and dashed ones uncertain: their 95 % interval reaches below
    0.1. An arc is behind the views of a group that holds.

    Parameters
    ----------
    model : MultiViewClassifier, MultiViewEncoder or Record
        A fitted model that was fitted with linked rows, or its record.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> from hotview.report.figures import new_figure, plot_graph
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> record = make_record(model.fit(data.linked, data.linked_target))
    >>> figure, (ax,) = new_figure()
    >>> plot_graph(record, ax=ax) is ax
    True
    """
    record = as_record(model)
    graph, up = graph_of_views(record), [1, -1]
    ax = new_axes() if ax is None else ax
    positions = graph.positions * up
    for arc in graph.arcs:
        ax.plot(*(arc * up).T, color=_SOFT, linewidth=24, alpha=0.2, solid_capstyle="round")
    for pair in graph.edges:
        (line,) = ax.plot(*positions[[pair.first, pair.second]].T, color=_ACCENT)
        line.set(linewidth=1 + 6 * pair.value, alpha=0.12 + 0.6 * pair.value)
        line.set_linestyle("--" if pair.is_uncertain else "-")
    for s, (name, position) in enumerate(zip(record.views, positions, strict=True)):
        color, marker = _view_look(s)
        ax.scatter(position[0], position[1], s=120, color=color, marker=marker, zorder=3)
        side = "center" if abs(position[0]) < 0.3 else "left" if position[0] > 0 else "right"
        ax.annotate(name, position * 1.2, ha=side, va="center")
    ax.set(xlim=(-2, 2), ylim=(-1.4, 1.4), aspect="equal")
    ax.axis("off")
    return ax


def plot_learning(model: Any, *, ax: Axes | None = None, term: str = "loss") -> Axes:
    """Draw a term of the loss over the epochs: mean ± standard deviation over members.

    Parameters
    ----------
    model : MultiViewClassifier, MultiViewEncoder or Record
        A fitted model with learning curves, or its record.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.
    term : str, default="loss"
        Name of the term.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> from hotview.report.figures import new_figure, plot_learning
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=2, random_state=0).fit(views)
    >>> record = make_record(model, views, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_learning(record, ax=ax) is ax
    True
    """
    record = as_record(model)
    curves = {} if record.learning is None else {c.name: c for c in record.learning.terms}
    if record.learning is None or term not in curves:
        raise ValueError(
            f"Expected term to be one of {list(curves)}, which were recorded, but it is {term!r}. "
            "Name one of them."
        )
    band, epochs = curve_band(curves[term]), record.learning.epochs
    ax = new_axes() if ax is None else ax
    ax.fill_between(epochs, band.low, band.high, color=_ACCENT, alpha=0.2, linewidth=0)
    ax.plot(epochs, band.mean, color=_ACCENT)
    ax.set(xlabel="epoch", ylabel=term.replace("_", " "))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_space(
    model: Any,
    Xs: Views | None = None,
    y: Any = None,
    *,
    ax: Axes | None = None,
    color: str = "view",
    layout: str = "PCA",
) -> Axes:
    """Draw rows of all views in the common space.

    Parameters
    ----------
    model : MultiViewClassifier, MultiViewEncoder or Record
        A fitted model, or a record with rows.
    Xs : dict, list or tuple of 2-D array-likes, or None, default=None
        Rows to draw, of a model; None for a record.
    y : 1-D array-like, dict of str to 1-D array-like, or None, default=None
        Their classes, for ``color="class"``.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.
    color : {"view", "class", "predicted"}, default="view"
        Quantity that colors show.
    layout : {"PCA", "UMAP"}, default="PCA"
        Layout of the points.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> from hotview.report.figures import new_figure, plot_space
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=2, random_state=0).fit(views)
    >>> record = make_record(model, views, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_space(record, ax=ax) is ax
    True
    """
    record = as_record(model, Xs, y, umap=layout == "UMAP")
    embedding = record.embedding
    if embedding is None:
        raise ValueError(
            "Expected rows to draw, but there are none. Pass views to make_record, or beside the "
            "model."
        )
    layouts = {each.name: each for each in embedding.layouts}
    if layout not in layouts:
        raise ValueError(
            f"Expected layout to be one of {list(layouts)}, which the record has, but it is "
            f"{layout!r}. Name one of them."
        )
    codes = {"view": embedding.views, "class": embedding.truth}
    codes["predicted"] = embedding.predicted
    if color not in codes:
        raise ValueError(f"Expected color to be one of {list(codes)}, but it is {color!r}.")
    ax = new_axes() if ax is None else ax
    points, code_of_point = np.array(layouts[layout].points), np.array(codes[color])
    names = record.views if color == "view" else class_names(record)
    occurring: Sequence[int] = np.unique(code_of_point).tolist()
    for k in occurring:
        look = "#cccccc", "o"
        if k >= 0:
            look = _view_look(k) if color == "view" else (_class_color(k), "o")
        name = "unknown" if k < 0 else names[k]
        x, y = points[code_of_point == k].T
        ax.scatter(x, y, s=8, c=look[0], marker=look[1], alpha=0.7, linewidth=0, label=name)
    ax.set(xlabel=layouts[layout].axes[0], ylabel=layouts[layout].axes[1])
    ax.legend(fontsize="small", markerscale=2, ncols=1 + len(occurring) // 12)
    return ax


def _view_look(view: int) -> tuple[str, str]:
    """Return color and marker of a view."""
    color, shape = view_style(view)
    return VIEW_COLORS[color][0], _MARKERS[shape]


def _class_color(k: int) -> str:
    return CLASS_COLORS[k % len(CLASS_COLORS)][0]
