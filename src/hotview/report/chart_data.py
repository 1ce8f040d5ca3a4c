"""Data of every chart of a record, shared by the HTML page and the matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hotview.report.tables import compact, number

if TYPE_CHECKING:
    from hotview.evaluation.importance import PermutationImportance
    from hotview.evaluation.metrics import Difference, Proportion
    from hotview.evaluation.record.schema import Bin, Curve, Record, Scores
    from hotview.similarity import ViewSimilarity
    from hotview.training.view_plan import ViewPlan

SIGNIFICANT = 0.05  # largest p-value of a pair of views that share information
UNCERTAIN = 0.1  # lower end of an interval below which a similarity is uncertain
_GAP = 0.6  # between groups on the circle, in distances of neighboring views
_ARC_POINTS = 25  # of the arc behind a group


@dataclass(frozen=True)
class Matrix:
    """A heat map: values (NaN for blank cells), optional standard deviations and names."""

    values: NDArray[np.float64]
    rows: list[str]
    columns: list[str]
    std: NDArray[np.float64] | None = None
    views: list[int] | None = None  # index of the view of each row


@dataclass(frozen=True)
class Dot:
    """A value with its interval; `view` is the index of its view, if it has one.

    `second` is another value of the same row, without an interval.
    """

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan
    view: int | None = None
    tooltip: str = ""
    is_hollow: bool = False
    second: float = math.nan


@dataclass(frozen=True)
class DotChart:
    """Dots with their intervals on one scale: its ends, title and values at a vertical line.

    `label` is a description for screen readers, `text` formats values of the scale, and `bars` join
    the dots to the line at `reference`.
    """

    dots: list[Dot]
    ends: tuple[float, float]
    title: str
    label: str
    reference: float | None = None
    text: Callable[[float], str] = compact
    bars: bool = False


@dataclass(frozen=True)
class Band:
    """A curve with a band around it."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


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


def plan_of(record: Record) -> ViewPlan:
    """Return the plan of a record; raise if it has none."""
    if record.plan is None:
        raise ValueError(
            f"Expected a model with a plan, but coupling={record.coupling!r} solves for none. Fit "
            "with another coupling."
        )
    return record.plan


def scores_of(record: Record) -> Scores:
    """Return the scores of a record; raise if it has none."""
    if record.scores is None:
        raise ValueError(
            "Expected a classifier with labeled rows, but there are no scores. Pass views and y to "
            "make_record, or beside the model."
        )
    return record.scores


def importance_of(record: Record) -> PermutationImportance:
    """Return the importance of views and columns; raise if it was not measured."""
    if record.importance is None:
        raise ValueError(
            "Expected a record with importance, but it was not measured. Pass labeled rows and "
            "importance=True to make_record, or a classifier and labeled rows."
        )
    return record.importance


def class_names(record: Record) -> list[str]:
    """Return the names of the class codes: the classes, then one for any other class."""
    return [*record.classes, "any other class"]


def plan_matrix(record: Record, *, shares: bool = False) -> Matrix:
    """Return the plan W; as shares, its rows sum to 1."""
    plan = plan_of(record)
    views = list(range(len(record.views)))
    scale = len(views) if shares else 1
    W = np.array(plan.W, dtype=float) * scale
    if shares and plan.pairwise:
        np.fill_diagonal(W, np.nan)  # no view is transported to itself
    std = None if plan.std is None else np.array(plan.std, dtype=float) * scale
    columns = [f"reference {k + 1}" for k in range(W.shape[1])]
    return Matrix(W, record.views, record.views if plan.pairwise else columns, std, views)


def curve_band(curve: Curve) -> Band:
    """Return a learning curve in a band of one standard deviation; NaN where it is not finite."""
    mean = np.array(curve.mean, dtype=float)
    mean = np.where(np.isfinite(mean), mean, math.nan)
    std = np.nan_to_num(np.array(curve.std, dtype=float), posinf=0.0)
    return Band(mean, mean - std, mean + std)


def make_dot(
    name: str,
    given: Proportion | Difference,
    tooltip: str,
    view: int | None = None,
    scale: float = 1,
) -> Dot:
    """Return the dot of a value with its interval, times a scale."""
    value, low, high = (scale * x for x in (given.value, given.low, given.high))
    return Dot(name, value, low, high, view, tooltip)


def round_ends(dots: Sequence[Dot]) -> tuple[float, float]:
    """Return rounded ends, in percentage points, of a scale that covers 0 and all intervals."""
    low, high = min([0.0, *(d.low for d in dots)]), max([0.0, *(d.high for d in dots)])
    step = 5 if high - low > 10 else 1
    return math.floor(low / step) * step, math.ceil(high / step) * step


def effect_dots(record: Record, effects: Sequence[Mapping[str, Any]]) -> DotChart:
    """Return the rise of the log loss where each view, or column, is permuted.

    Columns have the name of their view before theirs beside views, and if two have the same name.
    """
    columns = [effect.get("column") for effect in effects]
    is_ambiguous = len(set(columns)) < len(columns) or None in columns
    dots = []
    for e in effects:
        view, column = e["view"], e.get("column")
        value, low, high = e["loss_increase"], e["loss_low"], e["loss_high"]
        name = view if column is None else f"{view}: {column}" if is_ambiguous else column
        full = view if column is None else f"{column} of {view}"
        tooltip = f"{full}: {value:.3g} ({low:.3g} to {high:.3g})"
        dots.append(Dot(name, value, low, high, record.views.index(view), tooltip))
    low, high = min([0.0, *(d.low for d in dots)]), max([0.0, *(d.high for d in dots)])
    return DotChart(
        dots,
        ends=(low, high if high > low else 1.0),
        title="the log loss rises by",
        label=f"Rise of the log loss where each {'view' if None in columns else 'column'} is "
        "permuted, with 95 % intervals",
        reference=0.0,
        bars=True,
    )


def drop_dots(record: Record) -> DotChart:
    """Return the accuracy drop without each view that can be hidden, in percentage points."""
    views = record.views
    dots = [
        make_dot(score.view, score.drop, describe_drop(score.drop), views.index(score.view), 100)
        for score in scores_of(record).views
        if score.drop is not None
    ]
    return DotChart(
        dots,
        ends=round_ends(dots),
        title="accuracy drop (points)",
        label="Accuracy drop when each view is hidden, with 95 % intervals",
        reference=0.0,
    )


def describe_drop(drop: Difference) -> str:
    """Return the effect of hiding a view on the accuracy, with its standard error."""
    size, error = number(100 * abs(drop.value)), f" ± {number(100 * drop.error)}"
    error = "" if math.isnan(drop.error) else error
    if size == "0.0":
        return f"does not change ({error[1:]} points)" if error else "does not change"
    return f"{'drops' if drop.value > 0 else 'rises'} by {size}{error} points"


def confusion(record: Record) -> Matrix:
    """Return the confusion matrix; zeros are blank, so that errors stand out."""
    scores = scores_of(record)
    counts = np.array(scores.confusion, dtype=float)
    return Matrix(np.where(counts == 0, math.nan, counts), scores.true_classes, record.classes)


def calibration_points(bins: Sequence[Bin]) -> list[tuple[float, Proportion, float]]:
    """Return confidence, accuracy and relative number of rows of each bin."""
    n_max = max(b.accuracy.n for b in bins)
    return [(b.confidence, b.accuracy, b.accuracy.n / n_max) for b in bins]


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


def describe_pair(record: Record, pair: Pair) -> str:
    """Return the numbers of a pair of views."""
    text = (
        f"{record.views[pair.first]} and {record.views[pair.second]}: {number(pair.value, 2)} "
        f"({number(pair.low, 2)} to {number(pair.high, 2)}), p = {pair.p_value:.3f}"
    )
    known = math.isfinite(pair.within)
    return f"{text}, within classes {number(pair.within, 2)}" if known else text


def pair_dots(record: Record, pairs: Sequence[Pair]) -> DotChart:
    """Return the similarity of pairs of views with 95 % intervals, and that within classes."""
    dots = []
    for pair in pairs:
        value, low, high, within = np.clip((pair.value, pair.low, pair.high, pair.within), 0, 1)
        name = f"{record.views[pair.first]} – {record.views[pair.second]}"
        tooltip = describe_pair(record, pair)
        dots.append(Dot(name, value, low, high, None, tooltip, not pair.is_significant, within))
    return DotChart(
        dots,
        ends=(0.0, 1.0),
        title="similarity, from 0 (unrelated) to 1",
        label=f"Similarity of {len(pairs)} pairs of views, with 95 % intervals",
    )


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
