"""Answers are looked at before anything is made of them: whoever sends them may be wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hotview.federated.messages import Failure
from hotview.federated.messages import Message

__all__ = [
    "RefusedError",
    "check_answer",
    "check_classes",
    "check_codes",
    "check_judgment",
    "check_pool",
    "check_quantiles",
]

_MOST = 1e6  # of anything that is sent: latents have variances below 1, scores are logarithms
_SLACK = 1e-5  # by which sorted numbers may fall, having been rounded


class RefusedError(Exception):
    """An answer that cannot be used, and why."""


def check_answer(
    answer: Message | Failure,
    kind: str,
    facts: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> Message:
    """Refuse an answer that is not what was asked for.

    Parameters
    ----------
    answer : Message or Failure
        What came.
    kind : str
        What it must be.
    facts : dict of str to object
        What it must say, as to which round it belongs.
    shapes : dict of str to tuple of int
        The arrays that it must hold, and no others.

    Returns
    -------
    Message
        The same.

    Examples
    --------
    >>> from hotview.federated.response_validation import check_answer
    >>> from hotview.federated.messages import Message
    >>> check_answer(Message("round", {"round": 2}), "round", {"round": 3}, {})
    Traceback (most recent call last):
    hotview.federated.response_validation.RefusedError: its round is 2, and 3 was asked for
    """
    if isinstance(answer, Failure):
        raise RefusedError(answer.reason)
    if answer.kind != kind:
        raise RefusedError(f"it is about {answer.kind!r}, and {kind!r} was asked for")
    for name, wanted in facts.items():
        if answer.facts.get(name) != wanted:
            came = str(answer.facts.get(name))[:40]
            raise RefusedError(f"its {name} is {came}, and {wanted} was asked for")
    if set(answer.arrays) != set(shapes):
        raise RefusedError(
            f"it holds {sorted(answer.arrays)[:8]}, and {sorted(shapes)} were asked for"
        )
    for name, shape in shapes.items():
        _check_array(name, answer.arrays[name], shape)
    return answer


def _check_array(name: str, x: Any, shape: tuple[int, ...]) -> None:
    if x.dtype != np.float32 or x.shape != shape:
        raise RefusedError(f"its {name} are {x.dtype} of shape {x.shape}, not float32 of {shape}")
    if not np.isfinite(x).all():
        raise RefusedError(f"its {name} are not finite")
    if (largest := float(np.abs(x).max(initial=0))) > _MOST:
        raise RefusedError(f"its {name} are as large as {largest:.3g}")


def check_judgment(answer: Message) -> None:
    """Refuse a loss and a curvature that cannot be.

    Parameters
    ----------
    answer : Message
        From the label holder.
    """
    for name in ("loss", "curvature"):
        told = answer.facts.get(name)
        if not isinstance(told, float) or not 0 <= told <= _MOST:
            raise RefusedError(f"its {name} is no number from 0 to {_MOST:g}")


def check_pool(pool: Any, names: Sequence[str]) -> None:
    """Refuse what cannot be weights of the views.

    Parameters
    ----------
    pool : object
        What the label holder said, which all are told.
    names : sequence of str
        Views that it was told of.
    """
    n = len(names)
    lengths = {"complete": n + 1, "partial": n}
    fits = (
        isinstance(pool, dict)
        and pool.keys() == {"names", "power", *lengths}
        and pool["names"] == list(names)
        and all(isinstance(pool[k], list) and len(pool[k]) == m for k, m in lengths.items())
        and all(map(_is_number, (*pool["complete"], *pool["partial"], pool["power"])))
    )
    if not fits:
        raise RefusedError("it tells no weights of the views")


def _is_number(x: Any) -> bool:
    return isinstance(x, float | int) and -_MOST <= x <= _MOST


def check_classes(classes: Any) -> list[Any]:
    """Refuse what cannot be the classes of labels.

    Parameters
    ----------
    classes : object
        What somebody said.

    Returns
    -------
    list
        The same.

    Examples
    --------
    >>> from hotview.federated.response_validation import check_classes
    >>> check_classes(["ill", "ill"])
    Traceback (most recent call last):
    ...RefusedError: its classes are not different texts or numbers
    """
    fits = isinstance(classes, list) and all(isinstance(x, str | float | int) for x in classes)
    if not fits or len(set(classes)) < len(classes):
        raise RefusedError("its classes are not different texts or numbers")
    return list(classes)


def check_codes(answer: Message, n_linked: int, n_classes: int) -> None:
    """Refuse what cannot be the classes of linked individuals.

    Parameters
    ----------
    answer : Message
        From the label holder.
    n_linked, n_classes : int
        Of how many, and how many there are.
    """
    codes = answer.arrays.get("codes", np.empty(0))
    fits = set(answer.arrays) == {"codes"} and codes.dtype == np.int64
    fits = fits and codes.shape == (n_linked,)
    if not fits or ((codes < -1) | (codes >= n_classes)).any():
        raise RefusedError("it tells no classes of the linked people")


def check_quantiles(answer: Message) -> None:
    """Refuse quantiles that are not in ascending order.

    Parameters
    ----------
    answer : Message
        From `check_answer`.
    """
    Q = answer.arrays.get("quantiles")
    if Q is not None and (np.diff(Q, axis=1) < -_SLACK * np.abs(Q).max(initial=0)).any():
        raise RefusedError("its quantiles are not in order")
