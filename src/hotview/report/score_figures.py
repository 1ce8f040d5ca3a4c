"""Matplotlib figures of a classifier's scores, from a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotview.report.chart_data import accuracy_drops, calibration_points, confusion, scores_of
from hotview.report.palette import VIEW_COLORS, view_style
from hotview.report.view_figures import plot_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hotview.evaluation.record.schema import Record

__all__ = ["plot_calibration", "plot_confusion", "plot_importance", "plot_number_of_views"]

_LINE, _SOFT = "#1f5fa8", "#59636e"


def plot_importance(record: Record, *, ax: Axes) -> Axes:
    """Draw the accuracy drop when each view is hidden, with 95 % intervals.

    Parameters
    ----------
    record : Record
        Record of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

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
    drops = accuracy_drops(record)
    for i, (_, view, drop) in enumerate(drops):
        color, _ = view_style(view)
        ax.plot([100 * drop.low, 100 * drop.high], [i, i], color=_SOFT)
        ax.plot(100 * drop.value, i, "o", color=VIEW_COLORS[color][0])
    ax.axvline(0, color=_SOFT, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(drops)), [name for name, _, _ in drops])
    ax.invert_yaxis()
    ax.set_xlabel("accuracy drop without the view (percentage points)")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_number_of_views(record: Record, *, ax: Axes) -> Axes:
    """Draw accuracy against the number of views: mean and range over subsets.

    Parameters
    ----------
    record : Record
        Record of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

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
    subsets = scores_of(record).subsets
    n_views = [subset.n_views for subset in subsets]
    ax.vlines(n_views, [s.low for s in subsets], [s.high for s in subsets], color=_SOFT)
    ax.plot(n_views, [s.mean for s in subsets], "o-", color=_LINE)
    ax.set_xticks(n_views)
    ax.set(xlabel="number of views", ylabel="accuracy")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_confusion(record: Record, *, ax: Axes) -> Axes:
    """Draw the confusion matrix, in numbers of rows.

    Parameters
    ----------
    record : Record
        Record of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

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
    counts = confusion(record)
    plot_matrix(counts.values, counts.rows, counts.columns, ax=ax, digits=0)
    ax.set(xlabel="predicted class", ylabel="true class")
    return ax


def plot_calibration(record: Record, *, ax: Axes) -> Axes:
    """Draw accuracy against confidence, with 95 % intervals.

    Parameters
    ----------
    record : Record
        Record of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The given `ax`.

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
    ax.plot([0, 1], [0, 1], "--", color=_SOFT, linewidth=1)
    confidence, accuracy, weight = zip(*calibration_points(scores_of(record).bins), strict=True)
    ax.vlines(confidence, [a.low for a in accuracy], [a.high for a in accuracy], color=_SOFT)
    sizes = [10 + 90 * w for w in weight]
    ax.scatter(confidence, [a.value for a in accuracy], s=sizes, color=_LINE, zorder=3)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    return ax
