"""Figures for papers, pages and notebooks: each function draws a model, or its record.

Functions draw on `ax`, or on new axes of pyplot, and return them; those that need rows take them
beside the model: ``plot_plan(model)``, ``plot_confusion(model, Xs, y)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hotview._types import Views
from hotview.report.canvas import (
    ACCENT,
    SOFT,
    check_picture_path,
    draw_dots,
    new_axes,
    new_figure,
    plot_matrix,
    save_figure,
    view_look,
)
from hotview.report.chart_data import (
    calibration_points,
    class_names,
    confusion,
    curve_band,
    drop_dots,
    effect_dots,
    graph_of_views,
    importance_of,
    list_pairs,
    pair_dots,
    plan_matrix,
    scores_of,
)
from hotview.report.palette import CLASS_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hotview.evaluation.record.schema import Record

__all__ = [
    "check_picture_path",
    "new_figure",
    "plot_calibration",
    "plot_column_importance",
    "plot_confusion",
    "plot_graph",
    "plot_importance",
    "plot_learning",
    "plot_matrix",
    "plot_number_of_views",
    "plot_plan",
    "plot_similarity",
    "plot_space",
    "save_figure",
]


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
    record = _as_record(model)
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
    record = _as_record(model)
    chart = pair_dots(record, [pair for pair in list_pairs(record) if pair.is_known][:max_pairs])
    ax = new_axes() if ax is None else ax
    draw_dots(ax, chart)
    ax.set_xlim(chart.ends)
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
    record = _as_record(model)
    graph, up = graph_of_views(record), [1, -1]
    ax = new_axes() if ax is None else ax
    positions = graph.positions * up
    for arc in graph.arcs:
        ax.plot(*(arc * up).T, color=SOFT, linewidth=24, alpha=0.2, solid_capstyle="round")
    for pair in graph.edges:
        (line,) = ax.plot(*positions[[pair.first, pair.second]].T, color=ACCENT)
        line.set(linewidth=1 + 6 * pair.value, alpha=0.12 + 0.6 * pair.value)
        line.set_linestyle("--" if pair.is_uncertain else "-")
    for s, (name, position) in enumerate(zip(record.views, positions, strict=True)):
        color, marker = view_look(s)
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
    record = _as_record(model)
    curves = {} if record.learning is None else {c.name: c for c in record.learning.terms}
    if record.learning is None or term not in curves:
        raise ValueError(
            f"Expected term to be one of {list(curves)}, which were recorded, but it is {term!r}. "
            "Name one of them."
        )
    band, epochs = curve_band(curves[term]), record.learning.epochs
    ax = new_axes() if ax is None else ax
    ax.fill_between(epochs, band.low, band.high, color=ACCENT, alpha=0.2, linewidth=0)
    ax.plot(epochs, band.mean, color=ACCENT)
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
    record = _as_record(model, Xs, y, umap=layout == "UMAP")
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
            look = view_look(k) if color == "view" else (_class_color(k), "o")
        name = "unknown" if k < 0 else names[k]
        x, y = points[code_of_point == k].T
        ax.scatter(x, y, s=8, c=look[0], marker=look[1], alpha=0.7, linewidth=0, label=name)
    ax.set(xlabel=layouts[layout].axes[0], ylabel=layouts[layout].axes[1])
    ax.legend(fontsize="small", markerscale=2, ncols=1 + len(occurring) // 12)
    return ax


def plot_importance(
    model: Any, Xs: Views | None = None, y: Any = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the accuracy drop when each view is hidden, with 95 % intervals.

    Parameters
    ----------
    model : MultiViewClassifier or Record
        A fitted classifier, or its record with labeled rows.
    Xs : dict, list or tuple of 2-D array-likes, or None, default=None
        Aligned rows that were not in training, of a classifier; None for a record.
    y : 1-D array-like or None, default=None
        Their classes.
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
    >>> from hotview.report.figures import new_figure, plot_importance
    >>> data = make_views(60, n_views=3, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> record = make_record(model, data.linked, data.linked_target, seen=True, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_importance(record, ax=ax) is ax
    True
    """
    chart = drop_dots(_as_record(model, Xs, y))
    ax = new_axes() if ax is None else ax
    draw_dots(ax, chart)
    ax.set_xlabel("accuracy drop without the view (percentage points)")
    return ax


def plot_column_importance(
    model: Any,
    Xs: Views | None = None,
    y: Any = None,
    *,
    ax: Axes | None = None,
    max_columns: int = 15,
) -> Axes:
    """Draw how much the log loss rises where views, and columns, are permuted, with 95 % intervals.

    Parameters
    ----------
    model : MultiViewClassifier or Record
        A fitted classifier, or its record with labeled rows.
    Xs : dict, list or tuple of 2-D array-likes, or None, default=None
        Aligned rows that were not in training, of a classifier; None for a record.
    y : 1-D array-like or None, default=None
        Their classes.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.
    max_columns : int, default=15
        Maximum number of columns, those of the largest effects, below the views.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.report.figures import plot_column_importance
    >>> data = make_views(60, n_views=3, n_columns=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> ax = plot_column_importance(model, data.linked, data.linked_target)
    >>> ax.get_xlabel()
    'the log loss rises by'
    """
    record = _as_record(model, Xs, y, importance=True)
    importance = importance_of(record)
    effects = [*importance.views.to_dicts(), *importance.columns.to_dicts()[:max_columns]]
    ax = new_axes(height=1.2 + 0.28 * len(effects)) if ax is None else ax
    draw_dots(ax, effect_dots(record, effects))
    ax.axhline(len(importance.views) - 0.5, color=SOFT, linewidth=0.8)
    return ax


def plot_number_of_views(
    model: Any, Xs: Views | None = None, y: Any = None, *, ax: Axes | None = None
) -> Axes:
    """Draw accuracy against the number of views: mean and range over subsets.

    Parameters
    ----------
    model : MultiViewClassifier or Record
        A fitted classifier, or its record with labeled rows.
    Xs : dict, list or tuple of 2-D array-likes, or None, default=None
        Aligned rows that were not in training, of a classifier; None for a record.
    y : 1-D array-like or None, default=None
        Their classes.
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
    >>> from hotview.report.figures import new_figure, plot_number_of_views
    >>> data = make_views(60, n_views=3, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> record = make_record(model, data.linked, data.linked_target, seen=True, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_number_of_views(record, ax=ax) is ax
    True
    """
    record = _as_record(model, Xs, y)
    subsets = scores_of(record).subsets
    ax = new_axes() if ax is None else ax
    n_views = [subset.n_views for subset in subsets]
    ax.vlines(n_views, [s.low for s in subsets], [s.high for s in subsets], color=SOFT)
    ax.plot(n_views, [s.mean for s in subsets], "o-", color=ACCENT)
    ax.set_xticks(n_views)
    ax.set(xlabel="number of views", ylabel="accuracy")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_confusion(
    model: Any, Xs: Views | None = None, y: Any = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the confusion matrix, in numbers of rows.

    Parameters
    ----------
    model : MultiViewClassifier or Record
        A fitted classifier, or its record with labeled rows.
    Xs : dict, list or tuple of 2-D array-likes, or None, default=None
        Aligned rows that were not in training, of a classifier; None for a record.
    y : 1-D array-like or None, default=None
        Their classes.
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
    >>> from hotview.report.figures import new_figure, plot_confusion
    >>> data = make_views(60, n_views=3, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> record = make_record(model, data.linked, data.linked_target, seen=True, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_confusion(record, ax=ax) is ax
    True
    """
    record = _as_record(model, Xs, y)
    counts = confusion(record)
    ax = new_axes() if ax is None else ax
    plot_matrix(counts.values, counts.rows, counts.columns, ax=ax, digits=0)
    ax.set(xlabel="predicted class", ylabel="true class")
    return ax


def plot_calibration(
    model: Any, Xs: Views | None = None, y: Any = None, *, ax: Axes | None = None
) -> Axes:
    """Draw accuracy against confidence, with 95 % intervals.

    Parameters
    ----------
    model : MultiViewClassifier or Record
        A fitted classifier, or its record with labeled rows.
    Xs : dict, list or tuple of 2-D array-likes, or None, default=None
        Aligned rows that were not in training, of a classifier; None for a record.
    y : 1-D array-like or None, default=None
        Their classes.
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
    >>> from hotview.report.figures import new_figure, plot_calibration
    >>> data = make_views(60, n_views=3, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> record = make_record(model, data.linked, data.linked_target, seen=True, umap=False)
    >>> figure, (ax,) = new_figure()
    >>> plot_calibration(record, ax=ax) is ax
    True
    """
    points = calibration_points(scores_of(_as_record(model, Xs, y)).bins)
    confidence, accuracy, weight = zip(*points, strict=True)
    ax = new_axes() if ax is None else ax
    ax.plot([0, 1], [0, 1], "--", color=SOFT, linewidth=1)
    ax.vlines(confidence, [a.low for a in accuracy], [a.high for a in accuracy], color=SOFT)
    sizes = [10 + 90 * w for w in weight]
    ax.scatter(confidence, [a.value for a in accuracy], s=sizes, color=ACCENT, zorder=3)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _as_record(
    model: Any,
    Xs: Views | None = None,
    y: Any = None,
    *,
    importance: bool = False,
    umap: bool = False,
) -> Record:
    """Return the record of a fitted model and rows, or the record itself.

    Parameters
    ----------
    model : MultiViewClassifier, MultiViewEncoder or Record
        The model, or its record.
    Xs : views or None, default=None
        Rows, of a model.
    y : array-like or None, default=None
        Their classes.
    importance, umap : bool, default=False
        Whether to measure importance, and to compute a UMAP layout.

    Returns
    -------
    Record
        The record.
    """
    from hotview.evaluation.record import Record, make_record  # which import torch

    if not isinstance(model, Record):
        if not hasattr(model, "transform"):
            raise TypeError(
                "Expected a fitted MultiViewClassifier or MultiViewEncoder, or a Record, but got a "
                f"{type(model).__name__}. Pass the model."
            )
        return make_record(model, Xs, y, importance=importance, umap=umap, verbose=False)
    if Xs is not None or y is not None:
        raise ValueError(
            "Expected rows beside a model, but they are beside a record, which has its own. Pass "
            "the model, or leave the rows out."
        )
    return model


def _class_color(k: int) -> str:
    return CLASS_COLORS[k % len(CLASS_COLORS)][0]
