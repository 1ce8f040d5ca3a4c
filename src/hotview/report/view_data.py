"""Data of the charts of a model alone: its plan, its learning curves, similarity of its views."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from hotview._types import Array
from hotview.report.chart_data import Dot, DotChart, Matrix, require
from hotview.report.tables import number
from hotview.similarity.view_similarity import SIGNIFICANT, Pair, ViewSimilarity

if TYPE_CHECKING:
    from hotview.training.view_plan import ViewPlan

_GAP = 0.6  # between groups on the circle, in distances of neighboring views
_ARC_POINTS = 25  # of the arc behind a group
_MAX_EPOCHS = 200  # kept of a long training
_RANK = "effective_rank_"
_NO_TERMS = ("epoch", "seconds", "marginal_error")


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation of a quantity over ensemble members, by epoch."""

    name: str
    mean: Array
    std: Array

    @property
    def band(self) -> tuple[Array, Array, Array]:
        """The mean, NaN where it is not finite, and one standard deviation below and above."""
        mean = np.where(np.isfinite(self.mean), self.mean, math.nan)
        std = np.nan_to_num(self.std, posinf=0.0)
        return mean, mean - std, mean + std


@dataclass(frozen=True)
class Learning:
    """Learning curves; `epochs` are the recorded epochs that are kept, of `n_epochs`."""

    n_epochs: int
    epochs: list[int]
    terms: list[Curve]


@dataclass(frozen=True)
class ViewGraph:
    """Views on the unit circle, pairs of them that share information, and an arc per group."""

    positions: Array
    edges: list[Pair]
    arcs: list[Array]


def plan_matrix(model: Any, *, shares: bool = False) -> Matrix:
    """Return the plan W; as shares, its rows sum to 1."""
    views = list(model.view_names_)
    plan: ViewPlan = require(
        model.plan_,
        f"Expected a model with a plan, but coupling={model.coupling!r} solves for none. Fit with "
        "another coupling.",
    )
    W = np.array(plan.W, dtype=float)
    scale = len(views) if shares else 1
    if shares and plan.pairwise:
        np.fill_diagonal(W, np.nan)  # no view is transported to itself
    target = "view" if plan.pairwise else "reference"
    return Matrix(
        W * scale,
        views,
        views if plan.pairwise else [f"reference {k + 1}" for k in range(W.shape[1])],
        row_title="view",
        column_title=f"share transported to the {target}",
        label=f"Heat map of the plan: share of each view transported to each {target}",
        text="{:.2f}".format,
        std=None if plan.std is None else np.array(plan.std, dtype=float) * scale,
        views=list(range(len(views))),
    )


def learning_curves(model: Any) -> Learning | None:
    """Return at most 200 epochs of the loss terms; None if nothing was recorded."""
    histories = [history for history in model.histories_ if len(history) > 0]
    if not histories:
        return None
    n_epochs = max(map(len, histories))
    kept = np.unique(np.linspace(0, n_epochs - 1, min(_MAX_EPOCHS, n_epochs)).round().astype(int))
    terms = [n for n in histories[0].names if n not in _NO_TERMS and not n.startswith(_RANK)]
    curves = []
    for name in sorted(terms, key=lambda n: (n != "loss", n)):
        values = np.full((len(histories), n_epochs), math.nan)
        for row, history in zip(values, histories, strict=True):
            row[: len(history)] = history[name]
        curves.append(_average(name, values[:, kept]))
    return Learning(n_epochs, (kept + 1).tolist(), curves)


def effective_ranks(model: Any) -> list[Curve]:
    """Return the effective rank of each view's latents in the last epoch, if it was recorded."""
    names = {f"{_RANK}{view}": view for view in model.view_names_}
    last = {
        view: [[h[name][-1]] for h in model.histories_ if len(h) > 0 and name in h.names]
        for name, view in names.items()
    }
    return [_average(view, np.array(values)) for view, values in last.items() if values]


def _average(name: str, values: Array) -> Curve:
    """Average over members that still trained; the deviation of a single one is NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no or one value in a column, or an infinite loss
        return Curve(name, np.nanmean(values, axis=0), np.nanstd(values, axis=0, ddof=1))


def rank_dots(model: Any) -> DotChart:
    """Return the effective rank of each view, within one standard deviation."""
    n, dots = int(model.n_components), []
    for rank in effective_ranks(model):
        mean, std = float(rank.mean[0]), float(rank.std[0])
        view = model.view_names_.index(rank.name)
        dots.append(Dot(rank.name, mean, mean - std, mean + std, view, f"{mean:.1f} of {n}"))
    return DotChart(
        dots,
        ends=(0.0, float(n)),
        title=f"effective rank, of {n} dimensions",
        label="Effective rank of each view in the common space",
    )


def groups_of(model: Any) -> list[int]:
    """Return the group of each view; empty without groups that hold."""
    found = model.view_similarity_
    return [] if found is None or found.groups is None else found.groups.tolist()


def list_pairs(model: Any) -> list[Pair]:
    """Return all pairs of views, the most similar first and those that are not known last."""
    found: ViewSimilarity = require(
        model.view_similarity_,
        "Expected a model with linked rows, by which views are compared, but it has none, or fewer "
        "than eight. Fit with rows that are the same individuals in several views.",
    )
    return sorted(found.pairs(), key=lambda pair: -pair.value if pair.is_known else math.inf)


def describe_pair(views: Sequence[str], pair: Pair) -> str:
    """Return the numbers of a pair of views."""
    text = (
        f"{views[pair.first]} and {views[pair.second]}: {number(pair.value, 2)} "
        f"({number(pair.low, 2)} to {number(pair.high, 2)}), p = {pair.p_value:.3f}"
    )
    known = math.isfinite(pair.within)
    return f"{text}, within classes {number(pair.within, 2)}" if known else text


def pair_dots(views: Sequence[str], pairs: Sequence[Pair]) -> DotChart:
    """Return the similarity of pairs of views with 95 % intervals, and that within classes."""
    dots = []
    for pair in pairs:
        value, low, high, within = np.clip((pair.value, pair.low, pair.high, pair.within), 0, 1)
        name = f"{views[pair.first]} – {views[pair.second]}"
        tooltip = describe_pair(views, pair)
        dots.append(Dot(name, value, low, high, None, tooltip, not pair.is_significant, within))
    return DotChart(
        dots,
        ends=(0.0, 1.0),
        title="similarity, from 0 (unrelated) to 1",
        label=f"Similarity of {len(pairs)} pairs of views, with 95 % intervals",
    )


def sort_views(model: Any) -> list[int]:
    """Return the views by group if there are groups that hold, else in their order."""
    groups = groups_of(model) or [0] * len(model.view_names_)
    return sorted(range(len(groups)), key=lambda s: (groups[s], s))


def similarity_matrix(model: Any) -> Matrix:
    """Return the similarities of views that measurably share information, by group."""
    found, order = model.view_similarity_, sort_views(model)
    shown = (found.p_value <= SIGNIFICANT) & ~np.eye(len(order), dtype=bool)
    values = np.where(shown, np.maximum(found.value, 0.0), math.nan)[np.ix_(order, order)]
    names = [model.view_names_[s] for s in order]
    return Matrix(
        values,
        names,
        names,
        row_title="view",
        column_title="similarity to the view",
        label="Heat map of the similarity of all pairs of views",
        text=lambda x: f"{x:.2f}".removeprefix("0"),  # cells are small
        views=order,
        largest=1.0,
    )


def shape_costs(model: Any) -> Matrix | None:
    """Return the costs between views before training, which compare shapes; None without any."""
    if model.plan_ is None or model.plan_.null is None:
        return None
    costs, views = np.array(model.plan_.null.plan.C, dtype=float), list(model.view_names_)
    np.fill_diagonal(costs, math.nan)
    return Matrix(
        costs,
        views,
        views,
        row_title="view",
        column_title="cost of transport to the view",
        label="Heat map of the costs between the views before training",
        text="{:.3f}".format,
        views=list(range(len(views))),
    )


def graph_of_views(model: Any) -> ViewGraph:
    """Return the views as a graph, with edges between views that measurably share information."""
    order, groups = sort_views(model), groups_of(model) or [0] * len(model.view_names_)
    # In this order, with gaps between groups.
    steps = [1 + _GAP * (groups[a] != groups[b]) for a, b in pairwise(order)]
    around = sum(steps) + 1 + _GAP * (len(set(groups)) > 1)
    angles = np.empty(len(order))
    angles[order] = np.r_[0.0, np.cumsum(steps)] / around * 2 * math.pi
    runs = [[s for s in order if groups[s] == group] for group in sorted(set(groups))]
    arcs = [
        _on_circle(np.linspace(angles[run[0]], angles[run[-1]], _ARC_POINTS))
        for run in runs
        if len(runs) > 1 and len(run) > 1
    ]
    edges = [pair for pair in list_pairs(model) if pair.is_significant and pair.value > 0]
    return ViewGraph(_on_circle(angles), edges, arcs)


def _on_circle(angles: Array) -> Array:
    """Return points on the unit circle, clockwise from the top where y points down."""
    return np.stack([np.sin(angles), -np.cos(angles)], axis=1)
