"""Data of the charts of which views are similar, for the HTML page and the matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hotview.report.chart_data import Matrix

if TYPE_CHECKING:
    from hotview.evaluation.record.schema import Record
    from hotview.similarity import ViewSimilarity

__all__ = [
    "SIGNIFICANT",
    "UNCERTAIN",
    "Pair",
    "ViewGraph",
    "graph_of_views",
    "groups_of",
    "list_pairs",
    "shape_costs",
    "similarity_matrix",
    "similarity_of",
    "sort_views",
]

SIGNIFICANT = 0.05  # largest p-value of a pair of views that share information
UNCERTAIN = 0.1  # lower end of an interval below which a similarity is uncertain
_GAP = 0.6  # between groups on the circle, in distances of neighboring views
_ARC_POINTS = 25  # of the arc behind a group


@dataclass(frozen=True)
class Pair:
    """Similarity of two views, given by index; NaN where it is not known."""

    first: int
    second: int
    value: float
    low: float
    high: float
    p_value: float
    n_rows: int
    within: float  # similarity within classes

    @property
    def is_known(self) -> bool:
        """Whether enough rows are linked to measure the similarity."""
        return math.isfinite(self.value)

    @property
    def is_significant(self) -> bool:
        """Whether the views measurably share information."""
        return self.p_value <= SIGNIFICANT

    @property
    def is_uncertain(self) -> bool:
        """Whether the interval reaches down to almost no similarity."""
        return self.low < UNCERTAIN


@dataclass(frozen=True)
class ViewGraph:
    """Views on the unit circle, pairs of them that share information, and an arc per group."""

    positions: NDArray[np.float64]
    edges: list[Pair]
    arcs: list[NDArray[np.float64]]


def similarity_of(record: Record) -> ViewSimilarity:
    """Return the similarities of a record; raise if it has none."""
    if record.similarity is None:
        raise ValueError(
            "Expected a model with linked rows, by which views are compared, but it has none, or "
            "fewer than eight. Fit with rows that are the same individuals in several views."
        )
    return record.similarity


def groups_of(record: Record) -> list[int]:
    """Return the group of each view; empty without groups that hold."""
    found = record.similarity
    return [] if found is None or found.groups is None else found.groups.tolist()


def list_pairs(record: Record) -> list[Pair]:
    """Return all pairs of views, the most similar first and those that are not known last."""
    found = similarity_of(record)
    within = np.full_like(found.value, math.nan)
    if found.within_classes is not None:
        within = found.within_classes.value
    numbers = (found.value, found.low, found.high, found.p_value, found.n_rows, within)
    pairs = [
        Pair(s, t, *(x[s, t].item() for x in numbers))
        for s, t in combinations(range(len(record.views)), 2)
    ]
    return sorted(pairs, key=lambda pair: -pair.value if pair.is_known else math.inf)


def sort_views(record: Record) -> list[int]:
    """Return the views by group if there are groups that hold, else in their order."""
    groups = groups_of(record) or [0] * len(record.views)
    return sorted(range(len(groups)), key=lambda s: (groups[s], s))


def similarity_matrix(record: Record) -> Matrix:
    """Return the similarities of views that measurably share information, by group."""
    order = sort_views(record)
    values = np.full((len(order), len(order)), math.nan)
    for pair in list_pairs(record):
        if pair.is_significant:
            a, b = order.index(pair.first), order.index(pair.second)
            values[a, b] = values[b, a] = max(0.0, pair.value)
    names = [record.views[s] for s in order]
    return Matrix(values, names, names, views=order)


def shape_costs(record: Record) -> Matrix | None:
    """Return the costs between views before training, which compare shapes; None without any."""
    if record.plan is None or record.plan.null is None:
        return None
    costs = np.array(record.plan.null.plan.C, dtype=float)
    np.fill_diagonal(costs, math.nan)
    return Matrix(costs, record.views, record.views, views=list(range(len(record.views))))


def graph_of_views(record: Record) -> ViewGraph:
    """Return the views as a graph, with edges between views that measurably share information."""
    order, groups = sort_views(record), groups_of(record) or [0] * len(record.views)
    angles = _place_views(order, groups)
    runs = [[s for s in order if groups[s] == group] for group in sorted(set(groups))]
    arcs = [
        _on_circle(np.linspace(angles[run[0]], angles[run[-1]], _ARC_POINTS))
        for run in runs
        if len(runs) > 1 and len(run) > 1
    ]
    edges = [pair for pair in list_pairs(record) if pair.is_significant and pair.value > 0]
    return ViewGraph(_on_circle(angles), edges, arcs)


def _place_views(order: Sequence[int], groups: Sequence[int]) -> NDArray[np.float64]:
    """Return the angle of each view: in the given order, with gaps between groups."""
    steps = [1 + _GAP * (groups[a] != groups[b]) for a, b in pairwise(order)]
    around = sum(steps) + 1 + _GAP * (len(set(groups)) > 1)
    angles = np.empty(len(order))
    angles[list(order)] = np.r_[0.0, np.cumsum(steps)] / around * 2 * math.pi
    return angles


def _on_circle(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points on the unit circle, clockwise from the top where y points down."""
    return np.stack([np.sin(angles), -np.cos(angles)], axis=1)
