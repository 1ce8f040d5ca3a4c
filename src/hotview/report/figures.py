"""Figures for papers, pages and notebooks: each function draws a model, or its record.

Functions draw on `ax`, or on new axes of pyplot, and return them; those that need rows take them
beside the model: ``plot_plan(model)``, ``plot_confusion(model, Xs, y)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotview.report.canvas import (
    ACCENT,
    SOFT,
    draw_dots,
    new_axes,
    new_figure,
    plot_matrix,
    save_figure,
    view_look,
)
from hotview.report.score_figures import (
    check_model,
    plot_calibration,
    plot_column_importance,
    plot_confusion,
    plot_importance,
    plot_number_of_views,
    plot_space,
)
from hotview.report.view_data import (
    graph_of_views,
    learning_curves,
    list_pairs,
    pair_dots,
    plan_matrix,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
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
    >>> from hotview.report.figures import new_figure, plot_plan
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=2, random_state=0).fit(views)
    >>> figure, (ax,) = new_figure()
    >>> plot_plan(model, ax=ax) is ax
    True
    """
    plan = plan_matrix(_as_model(model))
    ax = ax or new_axes()
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
    >>> from hotview.report.figures import new_figure, plot_similarity
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> figure, (ax,) = new_figure()
    >>> plot_similarity(model, ax=ax) is ax
    True
    """
    model = _as_model(model)
    pairs = [pair for pair in list_pairs(model) if pair.is_known][:max_pairs]
    chart = pair_dots(model.view_names_, pairs)
    ax = ax or new_axes()
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
    >>> from hotview.report.figures import new_figure, plot_graph
    >>> data = make_views(60, n_views=4, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=1, n_estimators=1, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> figure, (ax,) = new_figure()
    >>> plot_graph(model, ax=ax) is ax
    True
    """
    model, up = _as_model(model), [1, -1]
    graph = graph_of_views(model)
    ax = ax or new_axes()
    positions = graph.positions * up
    for arc in graph.arcs:
        ax.plot(*(arc * up).T, color=SOFT, linewidth=24, alpha=0.2, solid_capstyle="round")
    for pair in graph.edges:
        (line,) = ax.plot(*positions[[pair.first, pair.second]].T, color=ACCENT)
        line.set(linewidth=1 + 6 * pair.value, alpha=0.12 + 0.6 * pair.value)
        line.set_linestyle("--" if pair.is_uncertain else "-")
    for s, (name, position) in enumerate(zip(model.view_names_, positions, strict=True)):
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
    >>> from hotview.report.figures import new_figure, plot_learning
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=2, random_state=0).fit(views)
    >>> figure, (ax,) = new_figure()
    >>> plot_learning(model, ax=ax) is ax
    True
    """
    learning = learning_curves(_as_model(model))
    curves = {} if learning is None else {curve.name: curve for curve in learning.terms}
    if learning is None or term not in curves:
        raise ValueError(
            f"Expected term to be one of {list(curves)}, which were recorded, but it is {term!r}. "
            "Name one of them."
        )
    mean, low, high = curves[term].band
    ax = ax or new_axes()
    ax.fill_between(learning.epochs, low, high, color=ACCENT, alpha=0.2, linewidth=0)
    ax.plot(learning.epochs, mean, color=ACCENT)
    ax.set(xlabel="epoch", ylabel=term.replace("_", " "))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _as_model(given: Any) -> Any:
    """Return a fitted model, which may be that of a record."""
    from hotview.evaluation.record import Record  # which imports torch

    return given.model if isinstance(given, Record) else check_model(given)
