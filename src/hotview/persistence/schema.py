"""What a file says must be of the right kind before anything is made of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hotview._validation.views import can_be_saved
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.base import CONTAINERS

__all__ = [
    "BASIS",
    "COLUMNS",
    "KNN",
    "NOT_SAVED",
    "PLAN_TENSORS",
    "check_facts",
    "prefix",
    "prefixes",
]

#: parameters that belong to a program or a machine, not to a model
NOT_SAVED = (
    "callbacks",
    "encoders",
    "random_state",
    "device",
    "strategy",
    "devices",
    "precision",
    "checkpoint",
    "checkpoint_every",
)
COLUMNS = ("mean", "scale", "fill")
KNN, BASIS = ("points", "soft_labels"), ("mean", "directions")
PLAN_TENSORS = ("W", "C", "f", "g", "marginal_error")


def prefix(r: int) -> str:
    """Of everything that belongs to replica r; the first is told like one alone.

    Examples
    --------
    >>> from hotview.persistence.schema import prefix
    >>> prefix(0), prefix(2)
    ('', 'replica.2.')
    """
    return "" if r == 0 else f"replica.{r}."


def prefixes(facts: dict[str, Any]) -> list[str]:
    """The prefixes of all replicas of a model."""
    return [prefix(r) for r in range(1 + len(facts.get("more_histories", ())))]


_PARAMETERS = {
    c.__name__: set(c().get_params()) - set(NOT_SAVED)
    for c in (MultiViewClassifier, MultiViewEncoder)
}
_MOST = 2**31  # of anything that is counted
_DTYPE = re.compile(r"[<>|=]?([biuf](1|2|4|8|16)|U[1-9][0-9]{0,6})")
_CLASS_BYTES = 2**26  # of all classes together

Check = Callable[[Any], bool]


def _is_text(x: Any) -> bool:
    return isinstance(x, str)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _is_finite(x: Any) -> bool:
    return _is_number(x) and math.isfinite(x)


def _is_count(x: Any) -> bool:
    return type(x) is int and 1 <= x < _MOST


def _is_whole(x: Any) -> bool:
    return type(x) is int and 0 <= x < _MOST


def _is_switch(x: Any) -> bool:
    return isinstance(x, bool)


def _each(check: Check) -> Check:
    return lambda x: isinstance(x, list) and all(map(check, x))


def _is_table(x: Any) -> bool:
    """Whether it is a dict whose keys, as always in JSON, are text."""
    return isinstance(x, dict)


def _is_history(x: Any) -> bool:
    return _each(lambda row: _is_table(row) and all(map(_is_number, row.values())))(x)


def _are_columns(x: Any, n: int) -> bool:
    return isinstance(x, list | tuple) and len(x) == n and all(map(_is_text, x))


def _is_view(x: Any) -> bool:
    return (
        isinstance(x, list | tuple)
        and len(x) == 3
        and _is_text(x[0])
        and _is_count(x[1])
        and (x[2] is None or _are_columns(x[2], x[1]))
    )


def _has(**parts: Check) -> Check:
    return lambda x: (
        _is_table(x) and set(x) == set(parts) and all(f(x[k]) for k, f in parts.items())
    )


_is_plan = _has(reg=_is_number, symmetric=_is_switch, n_iter=_is_whole, tol=_is_number)
_ALWAYS: dict[str, Check] = {
    "class": lambda x: _is_text(x) and x in _PARAMETERS,
    "parameters": _is_table,
    "views": lambda x: isinstance(x, list) and len(x) > 0 and all(map(_is_view, x)),
    "own_encoders": _each(_is_text),
    "batch_size": _is_count,
    "history": _is_history,
}
_SOMETIMES: dict[str, Check] = {
    "more_histories": _each(_is_history),
    "trained_on": _is_table,
    "remarks": _each(_is_text),
    "notes": _is_table,
    "output": lambda x: _is_text(x) and x in CONTAINERS,
    "pool": _has(complete=_each(_is_finite), partial=_each(_is_finite), power=_is_finite),
}
_fusion = _has(
    joint=_is_switch,
    joint_only=_is_switch,
    n_classes=_each(_is_whole),
    log_prior=_each(_is_finite),
)
_PER_REPLICA: dict[str, Check] = {
    "plan": _is_plan,
    "null": _is_plan,
    "fusion": _fusion,
    "knn": _each(
        lambda x: isinstance(x, list) and len(x) == 2 and _is_finite(x[0]) and _is_count(x[1])
    ),
}


def check_facts(facts: dict[str, Any]) -> None:
    """Refuse facts that are not of the right kind, or that contradict each other.

    Parameters
    ----------
    facts : dict of str to object
        What JSON held.

    Examples
    --------
    >>> from hotview.persistence.schema import check_facts
    >>> check_facts({"class": "MultiViewEncoder", "parameters": 3})
    Traceback (most recent call last):
    ValueError: its 'parameters' cannot be 3
    """
    _check_kinds(facts, _ALWAYS)
    _check_kinds(facts, {name: f for name, f in _SOMETIMES.items() if name in facts})
    for before in prefixes(facts):
        named = {f"{before}{name}": f for name, f in _PER_REPLICA.items()}
        _check_kinds(facts, {name: f for name, f in named.items() if name in facts})
    _check_names([name for name, _, _ in facts["views"]])
    _check_parameters(facts)
    if facts["class"] == "MultiViewClassifier":
        _check_classifier(facts)
    unknown = set(facts["own_encoders"]) - {name for name, _, _ in facts["views"]}
    _agree(not unknown, f"encoders are told of for views that it does not have: {sorted(unknown)}")


def _check_kinds(facts: dict[str, Any], checks: dict[str, Check]) -> None:
    for name, fits in checks.items():
        value = facts.get(name)
        _agree(fits(value), f"its {name!r} cannot be {_some(value)}")


def _check_names(names: list[str]) -> None:
    """Views are named as `fit` names them, and so that no name leads a program elsewhere."""
    _agree(len(set(names)) == len(names), "two of its views have the same name")
    for name in names:
        _agree(can_be_saved(name), f"a view cannot be called {_some(name)}")


def _check_parameters(facts: dict[str, Any]) -> None:
    unknown = set(facts["parameters"]) - _PARAMETERS[facts["class"]]
    _agree(not unknown, f"there are no such parameters: {_some(sorted(unknown))}")
    weights = facts["parameters"].get("class_weight")
    pairs: Any = weights.get("items") if isinstance(weights, dict) else []
    _agree(
        _each(lambda pair: isinstance(pair, list) and len(pair) == 2 and _is_number(pair[1]))(pairs)
        and all(isinstance(label, str | int | float) for label, _ in pairs),
        f"its 'class_weight' cannot be {_some(weights)}",
    )


def _check_classifier(facts: dict[str, Any]) -> None:
    classes, n_views = facts.get("classes"), len(facts["views"])
    _agree(_are_classes(classes), f"its classes cannot be {_some(classes)}")
    n_classes = len(classes[1]) if isinstance(classes, list) else 0
    pool = facts.get("pool")
    fits = pool is None or (len(pool["complete"]), len(pool["partial"])) == (n_views + 1, n_views)
    _agree(fits, "it weighs other views than it has")
    for before in prefixes(facts):
        fusion, knn = facts.get(f"{before}fusion"), facts.get(f"{before}knn", [0] * n_views)
        _agree(fusion is not None, "it does not tell which heads to listen to")
        lengths = (len(fusion["n_classes"]), len(fusion["log_prior"])) if fusion else (0, 0)
        _agree(lengths == (n_views, n_classes), "it listens to other heads than it has")
        _agree(len(knn) == n_views, "its predictors are of other views than it has")


def _are_classes(classes: Any) -> bool:
    if not isinstance(classes, list) or len(classes) != 2 or not isinstance(classes[1], list):
        return False
    dtype, labels = classes
    if not _is_text(dtype) or not _DTYPE.fullmatch(dtype) or len(labels) < 2:
        return False
    kind, size = np.dtype(dtype).kind, np.dtype(dtype).itemsize
    right: dict[str, Check] = {"b": _is_switch, "f": _is_finite, "U": _is_text}
    whole = right.get(kind, lambda x: type(x) is int)
    return size * len(labels) <= _CLASS_BYTES and all(map(whole, labels))


def _agree(fits: bool, problem: str) -> None:
    if not fits:
        raise ValueError(problem)


def _some(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
