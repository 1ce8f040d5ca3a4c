"""Figures of the views and of the training, from a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hotview.report.matrices import plot_matrix
from hotview.report.palette import CLASS_COLORS, VIEW_COLORS
from hotview.report.plans import place_views, similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hotview.evaluation.record.schema import Layout, PlanFacts, Record, Space

__all__ = ["plot_graph", "plot_learning", "plot_plan", "plot_space"]

_MARKERS = ("o", "s", "^")  # of views whose colors repeat
_FAINT = 0.05  # edges of less are not drawn


def plot_plan(record: Record, *, ax: Axes) -> Axes:
    """Draw the plan W as a heat map, with its spread over replicas where there are several.

    Parameters
    ----------
    record : Record
        Of a model that has a plan.
    ax : matplotlib.axes.Axes
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    plan = _plan_of(record)
    title = "plan W" if plan.spread is None else "plan W, mean ± std over replicas"
    return plot_matrix(plan.W, record.views, plan.columns, ax=ax, title=title, spread=plan.spread)


def plot_graph(record: Record, *, ax: Axes) -> Axes:
    """Draw the views as a graph, joined by what the plan lets them share.

    Parameters
    ----------
    record : Record
        Of a model that has a plan.
    ax : matplotlib.axes.Axes
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    plan = _plan_of(record)
    alike = similarity(plan.W, pairwise=plan.pairwise)
    at = place_views(plan.groups) * [1, -1]
    for a, b in zip(*np.triu_indices(len(at), k=1), strict=True):
        if (x := min(float(alike[a, b]), 1.0)) > _FAINT:
            ax.plot(*at[[a, b]].T, color="#1f5fa8", linewidth=1 + 6 * x, alpha=0.15 + 0.6 * x)
    for s, (name, place) in enumerate(zip(record.views, at, strict=True)):
        ax.scatter(place[0], place[1], s=120, color=_color(s), marker=_marker(s), zorder=3)
        ax.annotate(name, place * 1.2, ha="center", va="center")
    ax.set(xlim=(-1.6, 1.6), ylim=(-1.4, 1.4), aspect="equal")
    ax.axis("off")
    return ax


def plot_learning(record: Record, *, ax: Axes, term: str = "loss") -> Axes:
    """Draw a term of the loss over the epochs: mean ± standard deviation over replicas.

    Parameters
    ----------
    record : Record
        Of a model whose history was recorded.
    ax : matplotlib.axes.Axes
        Where to draw.
    term : str, default="loss"
        Its name.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    mean, std = np.array(curves[term].mean), np.nan_to_num(np.array(curves[term].std))
    epochs = record.learning.epochs
    ax.fill_between(epochs, mean - std, mean + std, color="#1f5fa8", alpha=0.2, linewidth=0)
    ax.plot(epochs, mean, color="#1f5fa8")
    ax.set(xlabel="epoch", ylabel=term.replace("_", " "))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_space(record: Record, *, ax: Axes, color: str = "view", layout: str = "PCA") -> Axes:
    """Draw rows of all views in the common space.

    Parameters
    ----------
    record : Record
        With rows.
    ax : matplotlib.axes.Axes
        Where to draw.
    color : {"view", "class", "predicted"}, default="view"
        What colors mean.
    layout : {"PCA", "UMAP"}, default="PCA"
        How points are laid out.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

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
    space = record.space
    if space is None:
        raise ValueError("Expected a record with rows, but it has none. Pass views to make_record.")
    found = _layout(space, layout)
    at, numbers = np.array(found.places), _numbers(space, color)
    names = record.views if color == "view" else [*record.classes, "any other class"]
    for k in np.unique(numbers):
        x, y = at[numbers == k].T
        color_of, marker = _look(int(k), color)
        name = "unknown" if k < 0 else names[k]
        ax.scatter(x, y, s=8, color=color_of, marker=marker, alpha=0.7, linewidth=0, label=name)
    ax.set(xlabel=found.axes[0], ylabel=found.axes[1])
    ax.legend(fontsize="small", markerscale=2, ncols=1 + len(np.unique(numbers)) // 12)
    return ax


def _plan_of(record: Record) -> PlanFacts:
    if record.plan is None:
        raise ValueError(
            f"Expected a model with a plan, but coupling={record.coupling!r} solves for none. Fit "
            "with another coupling."
        )
    return record.plan


def _layout(space: Space, name: str) -> Layout:
    found = {layout.name: layout for layout in space.layouts}
    if name not in found:
        raise ValueError(
            f"Expected layout to be one of {list(found)}, which the record has, but it is {name!r}."
        )
    return found[name]


def _numbers(space: Space, color: str) -> np.ndarray:
    choices = {"view": space.views, "class": space.truth, "predicted": space.predicted}
    if color not in choices:
        raise ValueError(f"Expected color to be one of {list(choices)}, but it is {color!r}.")
    return np.array(choices[color])


def _look(k: int, color: str) -> tuple[str, str]:
    """Color and marker."""
    if k < 0:
        return "#cccccc", "o"
    if color == "view":
        return _color(k), _marker(k)
    return CLASS_COLORS[k % len(CLASS_COLORS)][0], "o"


def _color(s: int) -> str:
    return VIEW_COLORS[s % len(VIEW_COLORS)][0]


def _marker(s: int) -> str:
    return _MARKERS[s // len(VIEW_COLORS) % len(_MARKERS)]
