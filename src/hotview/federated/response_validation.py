"""Validation of what clients send, before the server uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview.federated.labels import linked_query
from hotview.federated.messages import Failure, Message
from hotview.federated.server_state import Session
from hotview.federated.settings import Settings

__all__ = [
    "InvalidResponseError",
    "check_classes",
    "check_codes",
    "check_fusion",
    "check_label_loss",
    "check_pool",
    "check_response",
    "check_update",
]

_MAX_VALUE = 1e6  # latents have variances below 1, and scores are logarithms
_ROUNDING = 1e-5  # relative decrease of sorted numbers that rounding explains


class InvalidResponseError(Exception):
    """A response that cannot be used, with the reason."""


def check_response(
    response: Message | Failure,
    kind: str,
    metadata: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> Message:
    """Validate kind, metadata and arrays of a response.

    Parameters
    ----------
    response : Message or Failure
        The response.
    kind : str
        The required kind.
    metadata : dict of str to object
        Required metadata, such as the round.
    shapes : dict of str to tuple of int
        Required float32 arrays; there must be no others.

    Returns
    -------
    Message
        The same response.

    Examples
    --------
    >>> from hotview.federated.response_validation import check_response
    >>> from hotview.federated.messages import Message
    >>> check_response(Message("round", {"round": 2}), "round", {"round": 3}, {})
    Traceback (most recent call last):
    hotview.federated.response_validation.InvalidResponseError: its round is 2, and 3 was asked for
    """
    if isinstance(response, Failure):
        raise InvalidResponseError(response.reason)
    if response.kind != kind:
        raise InvalidResponseError(f"its kind is {response.kind!r}, and {kind!r} was asked for")
    for name, expected in metadata.items():
        if response.metadata.get(name) != expected:
            received = str(response.metadata.get(name))[:40]
            raise InvalidResponseError(f"its {name} is {received}, and {expected} was asked for")
    if set(response.arrays) != set(shapes):
        raise InvalidResponseError(
            f"it holds {sorted(response.arrays)[:8]}, and {sorted(shapes)} were asked for"
        )
    for name, shape in shapes.items():
        x = response.arrays[name]
        if x.dtype != np.float32 or x.shape != shape:
            raise InvalidResponseError(
                f"its {name} are {x.dtype} of shape {x.shape}, not float32 of {shape}"
            )
        if not np.isfinite(x).all():
            raise InvalidResponseError(f"its {name} are not finite")
        if (largest := float(np.abs(x).max(initial=0))) > _MAX_VALUE:
            raise InvalidResponseError(f"its {name} are as large as {largest:.3g}")
    return response


def check_update(
    response: Message | Failure, name: str, round: int, settings: Settings, session: Session
) -> Message:
    """Validate the update of a client in a round.

    Parameters
    ----------
    response : Message or Failure
        The response.
    name : str
        Name of the client.
    round : int
        The round.
    settings : Settings
        Settings of the training.
    session : Session
        The session.

    Returns
    -------
    Message
        The same response.
    """
    s = settings
    shapes: dict[str, tuple[int, ...]] = {}
    if s.coupling != "none" and round <= s.rounds:
        shapes["quantiles"] = (s.n_projections, s.quantiles)
    if s.coupling == "hot-pairwise" and round <= s.rounds:
        shapes["moment"] = (s.n_components, s.n_components)
    for array, rows in vars(linked_query(round, s, session.n_linked)).items():
        if len(rows) > 0:
            width = s.encoder_dim if array == "features" else len(session.classes)
            shapes[array] = (len(rows), width)
    response = check_response(response, "round", {"name": name, "round": round}, shapes)
    Q = response.arrays.get("quantiles")
    if Q is not None and (np.diff(Q, axis=1) < -_ROUNDING * np.abs(Q).max(initial=0)).any():
        raise InvalidResponseError("its quantiles are not in order")
    privacy = response.metadata.get("privacy")
    if privacy is not None and not (
        isinstance(privacy, dict)
        and all(isinstance(privacy.get(key), float) for key in ("epsilon", "delta"))
    ):
        raise InvalidResponseError("its privacy is not an epsilon and a delta")
    return response


def check_label_loss(response: Message) -> None:
    """Validate the loss and the curvature of a label holder's response.

    Parameters
    ----------
    response : Message
        The response.
    """
    for name in ("loss", "curvature"):
        value = response.metadata.get(name)
        if not isinstance(value, float) or not 0 <= value <= _MAX_VALUE:
            raise InvalidResponseError(f"its {name} is no number from 0 to {_MAX_VALUE:g}")


def check_fusion(
    response: Message | Failure,
    names: Sequence[str],
    settings: Settings,
    session: Session,
    *,
    is_last: bool,
) -> Message:
    """Validate the fusion weights, or the joint head, of a label holder's response.

    Parameters
    ----------
    response : Message or Failure
        The response.
    names : sequence of str
        Names of the fused views.
    settings : Settings
        Settings of the training.
    session : Session
        The session.
    is_last : bool
        Whether it is about the joint head, after the last round.

    Returns
    -------
    Message
        The same response.
    """
    if isinstance(response, Failure):
        raise InvalidResponseError(response.reason)
    n = len(session.classes)
    if is_last:  # without a head where a class has no training row
        shapes = {"weight": (n, len(names) * settings.encoder_dim), "bias": (n,)}
        return check_response(response, "fusion", {}, shapes if response.arrays else {})
    check_pool(response.metadata.get("pool"), names)
    if settings.share_labels:
        check_codes(response.arrays, session.n_linked, n)
        return response
    return check_response(response, "fusion", {}, {})


def check_pool(pool: Any, names: Sequence[str]) -> None:
    """Validate fusion weights.

    Parameters
    ----------
    pool : object
        Weights from the label holder, which all clients receive.
    names : sequence of str
        Names of the fused views.
    """
    lengths = {"complete": len(names) + 1, "partial": len(names)}
    is_valid = (
        isinstance(pool, dict)
        and pool.keys() == {"names", "power", *lengths}
        and pool["names"] == list(names)
        and all(isinstance(pool[k], list) and len(pool[k]) == m for k, m in lengths.items())
        and all(
            isinstance(x, float | int) and -_MAX_VALUE <= x <= _MAX_VALUE
            for x in (*pool["complete"], *pool["partial"], pool["power"])
        )
    )
    if not is_valid:
        raise InvalidResponseError("it has no weights of the views")


def check_classes(classes: Any) -> list[Any]:
    """Validate a list of classes.

    Parameters
    ----------
    classes : object
        The received classes.

    Returns
    -------
    list
        The classes.

    Examples
    --------
    >>> from hotview.federated.response_validation import check_classes
    >>> check_classes(["ill", "ill"])
    Traceback (most recent call last):
    hotview...InvalidResponseError: its classes are not distinct texts or numbers
    """
    is_valid = isinstance(classes, list) and all(isinstance(x, str | float | int) for x in classes)
    if not is_valid or len(set(classes)) < len(classes):
        raise InvalidResponseError("its classes are not distinct texts or numbers")
    return list(classes)


def check_codes(arrays: Mapping[str, Array], n_linked: int, n_classes: int) -> IntArray:
    """Validate the classes of linked rows, and that there is no other array.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Received arrays.
    n_linked, n_classes : int
        Number of linked rows and of classes.

    Returns
    -------
    ndarray of int64
        Classes of linked rows, −1 where unknown.
    """
    codes: IntArray = arrays.get("codes", np.empty(0))
    is_valid = set(arrays) == {"codes"} and codes.dtype == np.int64 and codes.shape == (n_linked,)
    if not is_valid or ((codes < -1) | (codes >= n_classes)).any():
        raise InvalidResponseError("it has no valid classes of the linked rows")
    return codes
