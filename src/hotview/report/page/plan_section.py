"""Which views belong together: the plan, its graph and its null."""

from __future__ import annotations

import numpy as np

from hotview.evaluation.record.schema import PlanFacts, Record
from hotview.report.page.dot_plot import Dot, dot_plot
from hotview.report.page.heat_map import heat_map
from hotview.report.page.markup import Markup, join, numbers, table, tag
from hotview.report.page.sentences import say_null, say_view
from hotview.report.page.svg import figure
from hotview.report.page.view_graph import view_graph
from hotview.report.plans import similarity

__all__ = ["plan_section"]


def plan_section(record: Record) -> list[Markup]:
    """What the plan says about the views.

    Parameters
    ----------
    record : Record
        The record.

    Returns
    -------
    list of Markup
        Paragraphs and figures.
    """
    plan = record.plan
    if plan is None:
        said = f'The model has no plan: with coupling="{record.coupling}" none is solved for.'
        return [tag("p", said)]
    sentences = [tag("li", say_view(record, s)) for s in range(len(record.views))]
    return [
        tag("p", say_null(plan, len(record.views))),
        *_warn(plan),
        tag("ul", *sentences, class_="views"),
        tag("div", _map(record, plan), _graph(record, plan), *_null(record, plan), class_="grid"),
    ]


def _warn(plan: PlanFacts) -> list[Markup]:
    said = (
        "Trained encoders can match anything with anything, so a sharp plan alone proves nothing. "
        "Groups have equal weight: a view that stands alone may be given company."
    )
    solved = [] if plan.converged else ["The solver of the plan had not converged."]
    return [tag("p", " ".join([said, *solved]), class_="note")]


def _map(record: Record, plan: PlanFacts) -> Markup:
    order = sorted(range(len(record.views)), key=lambda s: (plan.groups[s], s))
    across = order if plan.pairwise else list(range(len(plan.columns)))
    W = np.array(plan.W)[np.ix_(order, across)] * len(record.views)
    spread = None
    if plan.spread is not None:
        spread = np.array(plan.spread)[np.ix_(order, across)] * len(record.views)
    if plan.pairwise:
        W = np.where(np.eye(len(W), dtype=bool), np.nan, W)
    rows, columns = [record.views[s] for s in order], [plan.columns[k] for k in across]
    to = "view" if plan.pairwise else "reference"
    drawing = heat_map(
        W,
        rows,
        columns,
        label=f"Heat map of the plan: shares of every view that go to each {to}",
        text="{:.2f}".format,
        row_title="view",
        column_title=f"share that goes to the {to}",
        spread=spread if len(columns) <= 8 else None,
        views=order,
    )
    cells = [_row(rows[i], W[i], None if spread is None else spread[i]) for i in range(len(rows))]
    behind = table(["view", *columns], cells, caption="Shares of the views in the plan")
    return figure("The plan W", _say_spread(record, plan), drawing, numbers(behind))


def _row(name: str, shares: np.ndarray, spread: np.ndarray | None) -> list[str]:
    if spread is None:
        return [name, *(_cell(x) for x in shares)]
    return [name, *(f"{_cell(x)} ± {e:.3f}" for x, e in zip(shares, spread, strict=True))]


def _cell(x: float) -> str:
    return "–" if np.isnan(x) else f"{x:.3f}"


def _say_spread(record: Record, plan: PlanFacts) -> str:
    said = "Rows add up to 1 (W times the number of views), sorted by group. "
    n = len(plan.replica_groups)
    if plan.spread is None:
        return f"{said}One network was trained, so how far the plan varies is not known."
    return f"{said}Mean ± standard deviation over {n} trainings from different seeds."


def _graph(record: Record, plan: PlanFacts) -> Markup:
    alike = similarity(plan.W, pairwise=plan.pairwise)
    drawing = view_graph(
        record.views, plan.groups, alike, label="Graph of the views, joined by what they share"
    )
    S = len(record.views)
    pairs = sorted(
        ((float(alike[a, b]), a, b) for a in range(S) for b in range(a + 1, S)),
        key=lambda pair: (-pair[0], pair[1], pair[2]),
    )
    rows = [[record.views[a], record.views[b], f"{x:.3f}"] for x, a, b in pairs]
    behind = table(["view", "view", "shared"], rows, caption="What views share", words=2)
    note = (
        "Edges: the share of one view's mass that the plan sends to the other."
        if plan.pairwise
        else "Edges: how probable it is that the plan sends both views to the same reference."
    )
    return figure("The views as a graph", note, drawing, numbers(behind))


def _null(record: Record, plan: PlanFacts) -> list[Markup]:
    null = plan.null
    if null is None or len(record.views) < 4:
        return []
    rows = [
        ("these views", None, [_point(null.relative_cost, "dot")]),
        ("noise", None, [_point(x, "dot faint") for x in null.noise]),
    ]
    low = min(null.relative_cost, *null.noise)
    drawing = dot_plot(
        rows,
        ends=(max(0.0, float(np.floor(10 * low - 0.5) / 10)), 1.0),
        title="relative cost of the plan, before training",
        text="{:g}".format,
        label=f"Cost of the views' plan, {null.relative_cost:.2f}, beside {len(null.noise)} plans "
        "of noise",
    )
    costs = [[view, f"{c:.4g}"] for view, c in zip(record.views, null.costs, strict=True)]
    header = ["view", "mean cost to the others"]
    behind = table(header, costs, caption="Mean costs of the views before training")
    note = (
        "Cost of the plan over that of one that treats all views alike, for the views turned to "
        "their principal components, and for tables whose columns were shuffled. 1: no two views "
        "are closer than others. The view that costs most, "
    )
    suspect = [tag("em", record.views[int(np.argmax(null.costs))]), ", is the first to suspect."]
    return [figure("The views beside noise", join([note, *suspect]), drawing, numbers(behind))]


def _point(x: float, look: str) -> Dot:
    """A number without an interval."""
    return Dot(x, np.nan, np.nan, look, f"{x:.3f}")
