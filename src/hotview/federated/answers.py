"""Answers are looked at before anything is made of them: whoever sends them may be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotview.federated.carrier import Failure
from hotview.federated.messages import Message

__all__ = ["RefusedError", "check_answer", "check_codes", "check_pool", "check_quantiles"]

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
    >>> from hotview.federated.answers import check_answer
    >>> from hotview.federated.messages import Message
    >>> check_answer(Message("round", {"round": 2}), "round", {"round": 3}, {})
    Traceback (most recent call last):
    hotview.federated.answers.RefusedError: its round is 2, and 3 was asked for
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


def check_pool(pool: Any, n_views: int) -> None:
    """Refuse what cannot be weights of the views.

    Parameters
    ----------
    pool : object
        What the label holder said.
    n_views : int
        Views that it was told of.
    """
    try:
        numbers = [*pool["complete"], *pool["partial"], pool["power"]]
        lengths = len(pool["names"]), len(pool["partial"]), len(pool["complete"])
        fits = lengths == (n_views, n_views, n_views + 1) and bool(
            np.isfinite(np.array(numbers, dtype=np.float64)).all()
        )
    except (KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        raise RefusedError("it tells no weights of the views")


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
