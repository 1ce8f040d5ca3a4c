"""Figures of what a classifier gets right, from a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hotview.report.matrices import plot_matrix
from hotview.report.palette import VIEW_COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hotview.evaluation.record.schema import Record, Scores

__all__ = [
    "plot_calibration",
    "plot_confusion",
    "plot_importance",
    "plot_number_of_views",
]

_LINE, _SOFT = "#1f5fa8", "#59636e"


def plot_importance(record: Record, *, ax: Axes) -> Axes:
    """Draw the points of accuracy that are lost when each view is hidden, with 95 % intervals.

    Parameters
    ----------
    record : Record
        Of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    found = [(score.view, score.fall) for score in _scores_of(record).views if score.fall]
    for i, (view, fall) in enumerate(found):
        color = VIEW_COLORS[record.views.index(view) % len(VIEW_COLORS)][0]
        ax.plot([100 * fall.low, 100 * fall.high], [i, i], color=_SOFT)
        ax.plot(100 * fall.value, i, "o", color=color)
    ax.axvline(0, color=_SOFT, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(found)), [view for view, _ in found])
    ax.invert_yaxis()
    ax.set_xlabel("points of accuracy lost without the view")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_number_of_views(record: Record, *, ax: Axes) -> Axes:
    """Draw accuracy against the number of views shown: mean over subsets, from worst to best.

    Parameters
    ----------
    record : Record
        Of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    numbers = _scores_of(record).numbers
    x = [one.n_views for one in numbers]
    ax.vlines(x, [one.low for one in numbers], [one.high for one in numbers], color=_SOFT)
    ax.plot(x, [one.mean for one in numbers], "o-", color=_LINE)
    ax.set_xticks(x)
    ax.set(xlabel="number of views", ylabel="accuracy")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_confusion(record: Record, *, ax: Axes) -> Axes:
    """Draw which classes are taken for which, in numbers of rows.

    Parameters
    ----------
    record : Record
        Of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    scores = _scores_of(record)
    counts = np.array(scores.confusion, dtype=float)
    counts[counts == 0] = np.nan  # blank, so that mistakes stand out
    plot_matrix(counts, scores.truths, record.classes, ax=ax, digits=0)
    ax.set(xlabel="predicted class", ylabel="true class")
    return ax


def plot_calibration(record: Record, *, ax: Axes) -> Axes:
    """Draw accuracy against confidence, with 95 % intervals.

    Parameters
    ----------
    record : Record
        Of a classifier, with labeled rows.
    ax : matplotlib.axes.Axes
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    bins = _scores_of(record).bins
    x, found = [one.confidence for one in bins], [one.accuracy for one in bins]
    most = max(one.n for one in found)
    ax.plot([0, 1], [0, 1], "--", color=_SOFT, linewidth=1)
    ax.vlines(x, [one.low for one in found], [one.high for one in found], color=_SOFT)
    sizes = 10 + 90 * np.array([one.n for one in found]) / most
    ax.scatter(x, [one.value for one in found], s=sizes, color=_LINE, zorder=3)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _scores_of(record: Record) -> Scores:
    if record.scores is None:
        raise ValueError(
            "Expected a record of a classifier with labeled rows, but it has no scores. Pass views "
            "and y to make_record."
        )
    return record.scores
