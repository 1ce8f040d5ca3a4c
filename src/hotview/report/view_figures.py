"""Matplotlib figures of the plan, the training and the embedding of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hotview.report.chart_data import class_names, curve_band, graph_of_views, plan_matrix
from hotview.report.palette import CLASS_COLORS, VIEW_COLORS, view_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hotview.evaluation.record.schema import Record

__all__ = ["plot_graph", "plot_learning", "plot_matrix", "plot_plan", "plot_space"]

#: Column names with more characters in total are slanted, so that they do not overlap.
_MAX_CHARACTERS = 40
_DARK = 0.6  # fraction of the color scale above which text is white
_ACCENT = "#1f5fa8"
_MARKERS = {"circle": "o", "square": "s", "triangle": "^"}


def plot_matrix(
    values: ArrayLike,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    ax: Axes,
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
    ax : matplotlib.axes.Axes
        Axes to draw on.
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
        The given `ax`.

    Examples
    --------
    >>> from hotview.report.figures import new_figure, plot_matrix
    >>> figure, (ax,) = new_figure()
    >>> plot_matrix([[0.5, 0.0], [0.0, 0.5]], ["a", "b"], ["a", "b"], ax=ax) is ax
    True
    """
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


def plot_plan(record: Record, *, ax: Axes) -> Axes:
    """Draw the plan W as a heat map, with standard deviations over the ensemble members.

    Parameters
    ----------
    record : Record
        Record of a model that has a plan.
    ax : matplotlib.axes.Axes
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

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
    plan = plan_matrix(record)
    title = "plan W" if plan.std is None else "plan W over mean costs, ± std over members"
    return plot_matrix(plan.values, plan.rows, plan.columns, ax=ax, title=title, std=plan.std)


def plot_graph(record: Record, *, ax: Axes) -> Axes:
    """Draw the views as a graph, with edges between views that the plan couples.

    Parameters
    ----------
    record : Record
        Record of a model that has a plan.
    ax : matplotlib.axes.Axes
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> from hotview.report.figures import new_figure, plot_graph
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=2, random_state=0).fit(views)
    >>> record = make_record(model, views, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_graph(record, ax=ax) is ax
    True
    """
    graph = graph_of_views(record)
    positions = graph.positions * [1, -1]
    for a, b, weight in graph.edges:
        x = min(weight, 1.0)
        ax.plot(*positions[[a, b]].T, color=_ACCENT, linewidth=1 + 6 * x, alpha=0.15 + 0.6 * x)
    for s, (name, position) in enumerate(zip(record.views, positions, strict=True)):
        color, marker = _view_look(s)
        ax.scatter(position[0], position[1], s=120, color=color, marker=marker, zorder=3)
        ax.annotate(name, position * 1.2, ha="center", va="center")
    ax.set(xlim=(-1.6, 1.6), ylim=(-1.4, 1.4), aspect="equal")
    ax.axis("off")
    return ax


def plot_learning(record: Record, *, ax: Axes, term: str = "loss") -> Axes:
    """Draw a term of the loss over the epochs: mean ± standard deviation over members.

    Parameters
    ----------
    record : Record
        Record of a model with learning curves.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    term : str, default="loss"
        Name of the term.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

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
    curves = {} if record.learning is None else {c.name: c for c in record.learning.terms}
    if record.learning is None or term not in curves:
        raise ValueError(
            f"Expected term to be one of {list(curves)}, which were recorded, but it is {term!r}. "
            "Name one of them."
        )
    band, epochs = curve_band(curves[term]), record.learning.epochs
    ax.fill_between(epochs, band.low, band.high, color=_ACCENT, alpha=0.2, linewidth=0)
    ax.plot(epochs, band.mean, color=_ACCENT)
    ax.set(xlabel="epoch", ylabel=term.replace("_", " "))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_space(record: Record, *, ax: Axes, color: str = "view", layout: str = "PCA") -> Axes:
    """Draw rows of all views in the common space.

    Parameters
    ----------
    record : Record
        Record with rows.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    color : {"view", "class", "predicted"}, default="view"
        Quantity that colors show.
    layout : {"PCA", "UMAP"}, default="PCA"
        Layout of the points.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

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
    embedding = record.embedding
    if embedding is None:
        raise ValueError("Expected a record with rows, but it has none. Pass views to make_record.")
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
