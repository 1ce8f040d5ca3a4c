"""Matplotlib figures of a classifier's scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotview._types import Views
from hotview.report.chart_data import (
    accuracy_drops,
    calibration_points,
    confusion,
    effect_dots,
    importance_of,
    scores_of,
)
from hotview.report.model_record import as_record, new_axes
from hotview.report.palette import VIEW_COLORS, view_style
from hotview.report.view_figures import plot_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_calibration",
    "plot_column_importance",
    "plot_confusion",
    "plot_importance",
    "plot_number_of_views",
]

_LINE, _SOFT = "#1f5fa8", "#59636e"


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
    record = as_record(model, Xs, y)
    drops = accuracy_drops(record)
    ax = new_axes() if ax is None else ax
    for i, (_, view, drop) in enumerate(drops):
        color, _ = view_style(view)
        ax.plot([100 * drop.low, 100 * drop.high], [i, i], color=_SOFT)
        ax.plot(100 * drop.value, i, "o", color=VIEW_COLORS[color][0])
    ax.axvline(0, color=_SOFT, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(drops)), [name for name, _, _ in drops])
    ax.set_ylim(len(drops) - 0.5, -0.5)
    ax.set_xlabel("accuracy drop without the view (percentage points)")
    ax.spines[["top", "right"]].set_visible(False)
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
    importance = importance_of(record)
    effects = [*importance.views.to_dicts(), *importance.columns.to_dicts()[:max_columns]]
    ax = new_axes(height=1.2 + 0.28 * len(effects)) if ax is None else ax
    for i, dot in enumerate(effect_dots(record, effects)):
        color = VIEW_COLORS[view_style(dot.view or 0)[0]][0]
        ax.barh(i, dot.value, color=color, alpha=0.35, height=0.6)
        ax.plot([dot.low, dot.high], [i, i], color=_SOFT)
        ax.plot(dot.value, i, "o", color=color)
    ax.axvline(0, color=_SOFT, linestyle="--", linewidth=1)
    ax.axhline(len(importance.views) - 0.5, color=_SOFT, linewidth=0.8)
    names = [f"{e['view']}: {e['column']}" if "column" in e else e["view"] for e in effects]
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("the log loss rises by")
    ax.spines[["top", "right"]].set_visible(False)
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
    record = as_record(model, Xs, y)
    subsets = scores_of(record).subsets
    ax = new_axes() if ax is None else ax
    n_views = [subset.n_views for subset in subsets]
    ax.vlines(n_views, [s.low for s in subsets], [s.high for s in subsets], color=_SOFT)
    ax.plot(n_views, [s.mean for s in subsets], "o-", color=_LINE)
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
    record = as_record(model, Xs, y)
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
    points = calibration_points(scores_of(as_record(model, Xs, y)).bins)
    confidence, accuracy, weight = zip(*points, strict=True)
    ax = new_axes() if ax is None else ax
    ax.plot([0, 1], [0, 1], "--", color=_SOFT, linewidth=1)
    ax.vlines(confidence, [a.low for a in accuracy], [a.high for a in accuracy], color=_SOFT)
    sizes = [10 + 90 * w for w in weight]
    ax.scatter(confidence, [a.value for a in accuracy], s=sizes, color=_LINE, zorder=3)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    return ax
