"""What the numbers say, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hotview.evaluation.record.schema import (
    Change,
    PlanFacts,
    Proportion,
    Record,
    Rival,
    ViewScore,
)
from hotview.report.numbers import number, signed
from hotview.report.page.markup import Markup, join, tag

__all__ = [
    "NOT_RECORDED",
    "count",
    "interval",
    "names",
    "percent",
    "points",
    "say_accuracy",
    "say_fall",
    "say_null",
    "say_rival",
    "say_training",
    "say_view",
]

NOT_RECORDED = "not recorded"
_SURE = 0.05
_NAMED = 3  # views of a long list


def percent(x: float) -> str:
    """A share in percent, with one decimal."""
    return "–" if math.isnan(x) else f"{100 * x:.1f}\N{NO-BREAK SPACE}%"


def points(x: float) -> str:
    """A difference of shares in points."""
    return number(100 * x)


def interval(found: Proportion | Change) -> str:
    """The 95 % interval of a share or a difference, in percent or points."""
    if isinstance(found, Proportion):
        return f"{100 * found.low:.1f} to {100 * found.high:.1f}\N{NO-BREAK SPACE}%"
    return f"{signed(100 * found.low)} to {signed(100 * found.high)} points"


def count(n: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def names(views: Sequence[str]) -> Markup:
    """Names as in a sentence, set apart from it."""
    *most, last = [tag("em", name) for name in views]
    return join([join(most, ", "), " and ", last]) if most else join([last])


def say_training(record: Record) -> Markup:
    """Who learned what from what."""
    from_ = [" from ", count(len(record.views), "view"), ", ", names(record.views), "."]
    if record.kind == "MultiViewClassifier":
        what = f"learned {count(len(record.classes), 'class', 'classes')}"
    else:
        what = "learned a common space, without labels,"
    said = ["A ", tag("code", record.kind), f" {what}", *from_, " "]
    told = record.trained_on
    if not told:
        return join([*said, "How many rows it was trained on is not recorded."])
    return join([*said, _say_rows(told), " ", _say_time(record)])


def _say_rows(told: dict[str, Any]) -> str:
    parts = []
    if told.get("linked"):
        n_labeled = told.get("linked_labeled", 0)
        labeled = f" ({n_labeled:,} of them labeled)" if told.get("classes") else ""
        parts.append(f"{count(told['linked'], 'linked row')}{labeled}")
    if sizes := list((told.get("unaligned") or {}).values()):
        low, high = min(sizes), max(sizes)
        many = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        each = "in each view" if len(sizes) > 1 else "in one view"
        parts.append(f"{many} rows {each} that correspond to nothing")
    labels = told.get("unaligned_labeled") or {}
    n = sum(labels.values()) if isinstance(labels, dict) else int(labels)
    more = f", {n:,} of them labeled" if n and sizes else ""
    return f"It saw {' and '.join(parts)}{more}." if parts else ""


def _say_time(record: Record) -> str:
    told, n = record.trained_on, record.learning.n_estimators if record.learning else 0
    if "seconds" not in told:
        return ""
    what = f"Training {count(n, 'network')}" if n else "Training"
    return f"{what} took {told['seconds']:,.1f} seconds on {told.get('device', 'a machine')}."


def say_accuracy(record: Record) -> Markup:
    """How often it is right, and how sure that is."""
    scores = record.scores
    if scores is None:
        return Markup("")
    found = scores.accuracy
    where = "rows that it was trained on" if record.seen else "rows with a known class"
    said = [
        f"Of {found.n:,} {where}, it gets ",
        tag("strong", percent(found.value)),
        f" right (95 % interval {interval(found)}). ",
    ]
    if record.seen:
        said.append(tag("strong", "It has seen these rows, so all accuracies here are too high. "))
    said.append(
        "The interval is about more rows like these; it does not cover another training, or rows "
        "of another kind."
    )
    return join(said)


def say_null(plan: PlanFacts, n_views: int) -> str:
    """Whether some views are closer than noise is, and no more than that."""
    if plan.null is None:
        return "The plan was not compared with noise."
    p, n = plan.null.p_value, len(plan.null.noise)
    if n_views < 4:
        return (
            "With three views or fewer all plans cost the same, so noise cannot tell whether "
            "views belong together."
        )
    if p <= _SURE:
        least = f", the smallest that {n} draws of noise can give" if p <= 1 / (n + 1) else ""
        return (
            f"Before any training, some of these views are closer to each other than noise is "
            f"({_equals(p)}{least}). That says neither why, nor which."
        )
    return (
        f"Before any training, no views are closer to each other than noise is ({_equals(p)}). The "
        "groups below may be chance. It would look the same if all views were equally alike."
    )


def _equals(p: float) -> str:
    return f"p\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{p:.2f}"


def say_view(record: Record, s: int) -> Markup:
    """Where the plan puts a view, and what it is worth."""
    said: list[str] = []
    if record.plan is not None:
        said.append(_say_group(record.plan, record.views, s))
    scores = {score.view: score for score in record.scores.views} if record.scores else {}
    if score := scores.get(record.views[s]):
        said += _say_worth(score)
    if not said:
        return Markup("")
    return join([tag("em", record.views[s]), " ", join(said, "; "), "."])


def _say_group(plan: PlanFacts, views: Sequence[str], s: int) -> Markup:
    if plan.unclear[s]:
        return join(["belongs to no group clearly"])
    with_it = _mates(plan.groups, s)
    where = ["goes with ", _some([views[t] for t in with_it])] if with_it else ["stands alone"]
    n, same = len(plan.replica_groups), [_mates(g, s) == with_it for g in plan.replica_groups]
    often = f" (so in {sum(same)} of {n} trainings)" if n > 1 else ""
    return join([*where, often])


def _some(views: Sequence[str]) -> Markup:
    """The first names of a long list."""
    if len(views) <= _NAMED + 1:
        return names(views)
    first = join([tag("em", name) for name in views[:_NAMED]], ", ")
    return join([first, f" and {len(views) - _NAMED} more"])


def _mates(groups: Sequence[int], s: int) -> list[int]:
    return [t for t, group in enumerate(groups) if group == groups[s] and t != s]


def _say_worth(score: ViewScore) -> list[str]:
    said = [] if score.fall is None else [f"without it accuracy {say_fall(score.fall)}"]
    if score.alone is not None:
        said.append(f"alone it reaches {percent(score.alone.value)}")
    return said


def say_fall(change: Change) -> str:
    """What hiding a view does to the accuracy, with its standard error."""
    error = "" if math.isnan(change.error) else f" ± {points(change.error)}"
    if points(change.value) == "0.0":
        return f"does not change{f' ({error[1:]} points)' if error else ''}"
    way = "falls" if change.value > 0 else "rises"
    return f"{way} by {points(abs(change.value))}{error} points"


def say_rival(rival: Rival) -> str:
    """Whether the model and another method can be told apart."""
    change = rival.difference
    if change is None:
        return f"not compared: {rival.reason}"
    if change.low <= 0 <= change.high:
        return "cannot be told apart on these rows"
    return "the model is better" if change.low > 0 else "the model is worse"
