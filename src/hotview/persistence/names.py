"""What the parts of a model are called in its file."""

from __future__ import annotations

from typing import Any

__all__ = ["BASIS", "COLUMNS", "NOT_SAVED", "PLAN_TENSORS", "VOTERS", "prefix", "prefixes"]

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
VOTERS, BASIS = ("places", "shares"), ("mean", "directions")
PLAN_TENSORS = ("W", "C", "f", "g", "marginal_error")


def prefix(r: int) -> str:
    """Of everything that belongs to replica r; the first is told like one alone.

    Examples
    --------
    >>> from hotview.persistence.names import prefix
    >>> prefix(0), prefix(2)
    ('', 'replica.2.')
    """
    return "" if r == 0 else f"replica.{r}."


def prefixes(facts: dict[str, Any]) -> list[str]:
    """The prefixes of all replicas of a model."""
    return [prefix(r) for r in range(1 + len(facts.get("more_histories", ())))]
