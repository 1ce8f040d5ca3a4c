"""Figures of what rows show of a model: the common space, and scores of labeled rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hotview._types import Views
from hotview.report import chart_data
from hotview.report.canvas import (
    ACCENT,
    CLASS_COLORS,
    SOFT,
    draw_dots,
    new_axes,
    plot_matrix,
    view_look,
)
from hotview.report.chart_data import require, scores_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hotview.evaluation.record import Record


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
    >>> from hotview.report.figures import new_figure, plot_space
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=2, random_state=0).fit(views)
    >>> figure, (ax,) = new_figure()
    >>> plot_space(model, views, ax=ax) is ax
    True
    """
    record = as_record(model, Xs, y, umap=layout == "UMAP")
    embedding = require(
        record.embedding,
        "Expected rows to draw, but there are none. Pass views to make_record, or beside the "
        "model.",
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
    ax = ax or new_axes()
    points, code_of_point = np.array(layouts[layout].points), np.array(codes[color])
    names = record.views if color == "view" else chart_data.class_names(record)
    occurring: Sequence[int] = np.unique(code_of_point).tolist()
    for k in occurring:
        look = "#cccccc", "o"
        if k >= 0:
            look = (
                view_look(k) if color == "view" else (CLASS_COLORS[k % len(CLASS_COLORS)][0], "o")
            )
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
    >>> from hotview.report.figures import new_figure, plot_importance
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> figure, (ax,) = new_figure()
    >>> plot_importance(model, data.linked, data.linked_target, ax=ax) is ax
    True
    """
    chart = chart_data.drop_dots(as_record(model, Xs, y))
    ax = ax or new_axes()
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
    record = as_record(model, Xs, y, importance=True)
    importance = require(
        record.importance,
        "Expected a record with importance, but it was not measured. Pass labeled rows and "
        "importance=True to make_record, or a classifier and labeled rows.",
    )
    effects = [*importance.views.to_dicts(), *importance.columns.to_dicts()[:max_columns]]
    ax = ax or new_axes(height=1.2 + 0.28 * len(effects))
    draw_dots(ax, chart_data.effect_dots(record, effects))
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
    >>> from hotview.report.figures import new_figure, plot_number_of_views
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> figure, (ax,) = new_figure()
    >>> plot_number_of_views(model, data.linked, data.linked_target, ax=ax) is ax
    True
    """
    record = as_record(model, Xs, y)
    subsets = scores_of(record).subsets
    ax = ax or new_axes()
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
    >>> from hotview.report.figures import new_figure, plot_confusion
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> figure, (ax,) = new_figure()
    >>> plot_confusion(model, data.linked, data.linked_target, ax=ax) is ax
    True
    """
    record = as_record(model, Xs, y)
    counts = chart_data.confusion(record)
    ax = ax or new_axes()
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
    >>> from hotview.report.figures import new_figure, plot_calibration
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> figure, (ax,) = new_figure()
    >>> plot_calibration(model, data.linked, data.linked_target, ax=ax) is ax
    True
    """
    points = chart_data.calibration_points(scores_of(as_record(model, Xs, y)).bins)
    confidence, accuracy, weight = zip(*points, strict=True)
    ax = ax or new_axes()
    ax.plot([0, 1], [0, 1], "--", color=SOFT, linewidth=1)
    ax.vlines(confidence, [a.low for a in accuracy], [a.high for a in accuracy], color=SOFT)
    sizes = [10 + 90 * w for w in weight]
    ax.scatter(confidence, [a.value for a in accuracy], s=sizes, color=ACCENT, zorder=3)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def as_record(
    model: Any,
    Xs: Views | None = None,
    y: Any = None,
    *,
    importance: bool = False,
    umap: bool = False,
) -> Record:
    """Return the record of a fitted model and rows, or the record itself."""
    from hotview.evaluation.record import Record, make_record  # which import torch

    if not isinstance(model, Record):
        check_model(model)
        return make_record(model, Xs, y, importance=importance, umap=umap, verbose=False)
    if Xs is not None or y is not None:
        raise ValueError(
            "Expected rows beside a model, but they are beside a record, which has its own. Pass "
            "the model, or leave the rows out."
        )
    return model


def check_model(model: Any) -> Any:
    """Raise unless this is a model; return it."""
    if not hasattr(model, "transform"):
        raise TypeError(
            "Expected a fitted MultiViewClassifier or MultiViewEncoder, or a Record, but got a "
            f"{type(model).__name__}. Pass the model."
        )
    return model
