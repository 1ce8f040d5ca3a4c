"""Schema of the protocol: what messages and states hold, checked by the side that receives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from hotview._codec import decode, require, shorten
from hotview._types import Array
from hotview._validation.tables import can_be_saved
from hotview.federated.labels import linked_query
from hotview.federated.messages import Failure, Message, check_json
from hotview.federated.settings import Settings
from hotview.semisupervised.fusion import LogOpinionPool

__all__ = [
    "MAX_VALUE",
    "SentHead",
    "SentPlan",
    "SentPool",
    "Session",
    "SpentPrivacy",
    "check_arrays",
    "check_classes",
    "check_known",
    "check_names",
    "check_request",
    "check_response",
    "check_server_update",
    "check_training_request",
    "read_metadata",
]

Shapes = dict[str, tuple[int, ...]]
MAX_VALUE = 1e6  # latents have variances below 1, and scores are logarithms
_ROUNDING = 1e-5  # relative error of numbers that rounding explains
_MAX_COST = 4 * MAX_VALUE**2  # between quantiles of this size
_MAX_NAMES, _MAX_CLASSES, _MAX_LINKED = 1000, 1000, 2**24
_SUM_ROUNDING = 1e-3  # relative excess of sums of float32 numbers that rounding explains
_NAMES = list[str]


@dataclass(frozen=True)
class Session:
    """Facts of a training that are fixed before its first round, checked.

    Parameters
    ----------
    id : str
        Id of the training, which its messages carry.
    n_linked : int
        Number of linked rows.
    classes : list
        Classes of the labels; empty without a label holder.
    """

    id: str
    n_linked: int
    classes: list[Any]

    def __post_init__(self) -> None:
        n = self.n_linked
        require(n <= _MAX_LINKED, f"it has {n} linked rows, more than {_MAX_LINKED}")
        check_classes(self.classes)


@dataclass(frozen=True)
class SentPlan:
    """The last plan W and its costs C, over the views `names`."""

    names: list[str]
    W: list[list[float]]
    C: list[list[float]]

    def check(self, names: Sequence[str], settings: Settings) -> None:
        """Raise an error unless it is a plan over some of these names."""
        check_known(self.names, names)
        n, pairwise = len(self.names), settings.coupling == "hot-pairwise"
        shape = (n, n if pairwise else settings.n_references)
        _check_numbers("plan", self.W, shape, 0, 1 + _ROUNDING)
        _check_numbers("plan", self.C, shape, -_MAX_COST, _MAX_COST)
        require(all(sum(row) > 0 for row in self.W), "its plan has a row of zeros")


@dataclass(frozen=True)
class SentPool:
    """Fusion weights of the views `names`, as in `LogOpinionPool`."""

    names: list[str]
    complete: list[float]
    partial: list[float]
    power: float

    def check(self, names: Sequence[str]) -> None:
        """Raise an error unless these are weights of some of these names."""
        check_known(self.names, names)
        pool = LogOpinionPool(tuple(self.complete), tuple(self.partial), self.power)
        pool.check(len(self.names))


@dataclass(frozen=True)
class SentHead:
    """A joint head of the concatenated features of the views `names`."""

    names: list[str]
    weight: list[list[float]]
    bias: list[float]

    def check(self, names: Sequence[str], settings: Settings, n_classes: int) -> None:
        """Raise an error unless it is a head of some of these names."""
        check_known(self.names, names)
        shape = (n_classes, len(self.names) * settings.encoder_dim)
        _check_numbers("joint head", self.weight, shape, -MAX_VALUE, MAX_VALUE)
        _check_numbers("joint head", [self.bias], (1, n_classes), -MAX_VALUE, MAX_VALUE)


@dataclass(frozen=True)
class SpentPrivacy:
    """ε and δ of a client."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require(min(self.epsilon, self.delta) >= 0, "its privacy cannot be negative")


def check_names(names: Sequence[Any]) -> None:
    """Check the names of organizations, which are names of views, too.

    Parameters
    ----------
    names : sequence of str
        The names.

    Examples
    --------
    >>> from hotview.federated.schema import check_names
    >>> check_names(["clinical", "clinical"])
    Traceback (most recent call last):
    ValueError: Expected distinct names of organizations, but 'clinical' is there twice.
    """
    require(len(names) <= _MAX_NAMES, f"Expected at most {_MAX_NAMES} names, not {len(names)}.")
    for i, name in enumerate(names):
        fits = isinstance(name, str) and name != "" and can_be_saved(name)
        require(fits, f"Expected names of organizations, but there is {shorten(name)}.")
        problem = f"Expected distinct names of organizations, but {name!r} is there twice."
        require(name not in names[:i], problem)


def check_known(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise an error unless names are distinct and known."""
    fits = 0 < len(names) == len(set(names)) and set(names) <= set(known)
    require(fits, f"its names cannot be {shorten(list(names))}")


def check_classes(classes: list[Any]) -> None:
    """Raise an error unless there are none, or classes of one type that a model can have."""
    problem = f"it has {len(classes)} classes, more than {_MAX_CLASSES}"
    require(len(classes) <= _MAX_CLASSES, problem)
    require(len(classes) != 1, f"two classes or more are needed, not {shorten(classes)}")
    check_json(classes)
    kinds = {*map(type, classes)}
    fits = len(kinds) <= 1 and kinds <= {str, int, float, bool}
    fits = fits and (str in kinds or all(abs(x) < 2**63 for x in classes))
    fits = fits and np.unique(classes).tolist() == classes  # numpy cuts off NULs at the end
    require(fits, "its classes are not distinct texts or numbers of one type, sorted")


def _check_numbers(
    name: str, rows: list[list[float]], shape: tuple[int, int], least: float, largest: float
) -> None:
    """Raise an error unless rows are of a shape, and their numbers in a range."""
    fits = len(rows) == shape[0] and all(len(row) == shape[1] for row in rows)
    require(fits, f"its {name} is not of {shape[0]} × {shape[1]} numbers")
    inside = all(least <= x <= largest for row in rows for x in row)
    require(inside, f"its {name} is not of numbers from {least:g} to {largest:g}")


#: annotations of the metadata by `_form`; what may be None may be missing
_REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "hello": {},
    "classes": {"settings": dict[str, Any]},
    "start": {"settings": dict[str, Any], "classes": list[Any], "names": _NAMES, "session": str},
    "round": {
        **{"session": str, "round": int},
        **{"update_round": int | None, "curvatures": dict[str, float] | None},
    },
    "label_loss": {"session": str, "round": int, "names": _NAMES},
    "fusion": {"session": str, "names": _NAMES, "is_last": bool},
    "head": {"session": str, "names": _NAMES, "is_last": bool},
    "finish": {
        **{"session": str, "plan": SentPlan | None},
        **{"pool": SentPool | None, "head": _NAMES | None},
    },
}
_RESPONSES: Mapping[str, Mapping[str, Any]] = {
    "hello": {"name": str, "n_linked": int, "digest": str, "model_format": int | None},
    "classes": {"classes": list[Any]},
    "start": {"name": str},
    "round": {"name": str, "round": int, "privacy": SpentPrivacy | None},
    "label_loss": {"round": int, "loss": float, "curvature": float},
    "fusion": {"pool": SentPool},
    "head": {},
    "finish": {"name": str},
}


def _form(request: Message) -> str:
    """Kind of a request; that of classes and that of a joint head have a form of their own."""
    if request.kind == "start" and "classes" not in request.metadata:
        return "classes"
    is_head = request.kind == "fusion" and request.metadata.get("is_last") is True
    return "head" if is_head else request.kind


def read_metadata(annotations: Mapping[str, Any], values: Any) -> Any:
    """Return metadata as an object whose attributes have the annotated types.

    Parameters
    ----------
    annotations : dict of str to type
        Types by name; what may be None may be missing, and there must be no other.
    values : object
        What JSON held.

    Returns
    -------
    SimpleNamespace
        The values.

    Examples
    --------
    >>> from hotview.federated.schema import read_metadata
    >>> read_metadata({"round": int}, {"round": "3"})
    Traceback (most recent call last):
    ValueError: its 'round' cannot be '3'
    """
    require(isinstance(values, dict), f"its metadata cannot be {shorten(values)}")
    unknown = values.keys() - annotations.keys()
    require(not unknown, f"unexpected {shorten(min(unknown, default=''))}")
    types = annotations.items()
    return SimpleNamespace(**{k: decode(kind, values.get(k), {}, k) for k, kind in types})


def check_request(message: Message, n_linked: int) -> None:
    """Check a request by itself, before the client reads its state.

    Parameters
    ----------
    message : Message
        The request of a server.
    n_linked : int
        Number of linked rows of the client.

    Examples
    --------
    >>> from hotview.federated.messages import Message
    >>> from hotview.federated.schema import check_request
    >>> check_request(Message("label_loss", {"session": "a", "round": 1}), 0)
    Traceback (most recent call last):
    ValueError: its 'names' cannot be None
    """
    check_json(message.metadata)
    form = _form(message)
    require(form in _REQUESTS, f"it is of no known kind ({shorten(form)})")
    request = read_metadata(_REQUESTS[form], message.metadata)
    if form == "start":
        check_names(request.names)
        session = Session(request.session, n_linked, request.classes)
        shares_labels = Settings.from_json(request.settings).share_labels
        codes: Shapes = {"codes": (n_linked,)} if shares_labels else {}
        check_arrays(message.arrays, {}, codes, len(session.classes))
    elif form in ("hello", "classes"):
        check_arrays(message.arrays, {})


def check_training_request(
    message: Message, settings: Settings, session: Session, names: Sequence[str]
) -> None:
    """Check a request in a training: names, plan, weights and arrays.

    Parameters
    ----------
    message : Message
        The request.
    settings : Settings
        Settings of the training.
    session : Session
        The session.
    names : sequence of str
        Names of all clients.
    """
    s, n_classes = settings, len(session.classes)
    form = _form(message)
    request = read_metadata(_REQUESTS[form], message.metadata)
    shapes: Shapes = {}
    optional: Shapes = {}
    if s.coupling == "hot-reference" and form in ("round", "finish"):
        shapes["references"] = (s.n_references, s.quantiles, s.n_components)
    if form in ("label_loss", "fusion", "head"):
        check_known(request.names, names)
    if form == "round":
        optional = _reply_shapes(request.update_round or 0, s, session)
        curvatures = request.curvatures or {}
        gradients = {name for name in message.arrays if name.startswith("gradient.")}
        fits = gradients == {f"gradient.{k}" for k in curvatures}
        require(fits and min(curvatures.values(), default=0) >= 0, "its curvatures do not fit")
    elif form == "label_loss":
        require(1 <= request.round <= s.rounds, f"there is no round {request.round}")
        n = len(linked_query(request.round, s, session.n_linked).scores)
        shapes = {f"scores.{name}": (n, n_classes) for name in request.names}
    elif form in ("fusion", "head"):
        sent = _update_shapes(s.rounds + 1 if form == "head" else s.fusion_round, s, session)
        keys = [key for key in ("held_out", "features") if key in sent]
        shapes = {f"{key}.{name}": sent[key] for key in keys for name in request.names}
    elif form == "finish":
        if request.plan is not None:
            request.plan.check(names, s)
        if request.pool is not None:
            request.pool.check(names)
        if request.head is not None:
            check_known(request.head, names)
            shapes |= _head_shapes(request.head, s, n_classes)
    check_arrays(message.arrays, shapes, optional, n_classes)
    if form == "round":
        check_server_update(message, s, len(names))


def check_server_update(message: Message, settings: Settings, n_views: int) -> None:
    """Refuse gradients, curvatures, weights and references that no honest server computes.

    The bounds follow from the settings and the number of views. No row is used, so that a refusal
    reveals nothing about rows.

    Parameters
    ----------
    message : Message
        The request of a round.
    settings : Settings
        Settings of the training.
    n_views : int
        Number of clients.
    """
    s, arrays = settings, message.arrays
    curvatures = message.metadata.get("curvatures") or {}
    for name in ("scores", "quantiles", "moment"):
        gradient = arrays.get(f"gradient.{name}", np.zeros(1))
        _check_gradient(name, gradient, curvatures.get(name, 0), s, n_views)
    weights, G = (arrays.get(name, np.zeros(1)) for name in ("weights", "references"))
    fits = bool((weights >= 0).all()) and float(weights.sum()) <= 1 + _SUM_ROUNDING
    require(fits, "its weights are no row of a plan")
    require(float(np.abs(G).max()) <= s.max_reference, "its references are farther than any can be")


def _check_gradient(
    name: str, gradient: Array, curvature: float, settings: Settings, n_views: int
) -> None:
    """Raise an error if the absolute values of a gradient sum to more than any honest one's."""
    s, size = settings, settings.n_projections * settings.quantiles
    c, a, d = s.coupling_weight, s.coupling_weight * s.orthogonality_weight, s.n_components
    largest, largest_curvature = {
        # Of a mean over rows of h · cross-entropy, whose gradient is h (p − y) for each row.
        "scores": (2 * s.head_weight, s.head_weight / 4),
        # Of γ Σ_t (W_st + W_ts) (Q_s − Q_t)² / (Mq), where W sums to 1.
        "quantiles": (8 * c * MAX_VALUE, c / size),
        # Of γ α (Σ_t A_t − I)².
        "moment": (2 * a * (n_views * MAX_VALUE + 1) * d**2, a * n_views),
    }[name]
    fits = np.abs(gradient).sum(dtype=np.float64) <= (1 + _SUM_ROUNDING) * largest
    fits = fits and 0 <= curvature <= (1 + _SUM_ROUNDING) * largest_curvature
    require(bool(fits), f"its gradient of {name}, or its curvature, is larger than any can be")


def check_response(
    response: Message | Failure, request: Message, name: str, settings: Settings, session: Session
) -> Message:
    """Check the response to a request.

    Parameters
    ----------
    response : Message or Failure
        The response.
    request : Message
        The request.
    name : str
        Name of the client.
    settings : Settings
        Settings of the training.
    session : Session
        The session, as far as it is known.

    Returns
    -------
    Message
        The same response.

    Examples
    --------
    >>> from hotview.federated import Message, Settings
    >>> from hotview.federated.schema import Session, check_response
    >>> response, session = Message("finish", {"name": "b"}), Session("id", 0, [])
    >>> check_response(response, Message("finish"), "a", Settings(), session)
    Traceback (most recent call last):
    ValueError: its name is 'b', and 'a' was asked for
    """
    if isinstance(response, Failure):
        raise ValueError(response.reason)
    form, kind, asked = _form(request), request.kind, request.metadata
    require(response.kind == kind, f"its kind is {response.kind!r}, and {kind!r} was asked for")
    found = read_metadata(_RESPONSES[form], response.metadata)
    for key, value in (("name", name), ("round", asked.get("round"))):
        received = getattr(found, key, value)
        problem = f"its {key} is {shorten(received)}, and {value!r} was asked for"
        require(received == value, problem)
    shapes, n_classes = _response_shapes(request, settings, session), len(session.classes)
    if form == "hello":
        Session("", found.n_linked, [])
    elif form == "classes":
        n_classes = len(Session("", session.n_linked, found.classes).classes)
    elif form == "label_loss":
        _check_numbers("loss or curvature", [[found.loss, found.curvature]], (1, 2), 0, MAX_VALUE)
    elif form == "fusion":
        require(found.pool.names == asked["names"], "it has no weights of the views")
        found.pool.check(asked["names"])
    elif form == "head" and not response.arrays:
        shapes = {}  # there is no head where a class has no training row
    check_arrays(response.arrays, shapes, {}, n_classes)
    for gradient in response.arrays.values() if form == "label_loss" else ():
        _check_gradient("scores", gradient, found.curvature, settings, 1)
    if (Q := response.arrays.get("quantiles")) is not None:
        ascending = np.diff(Q, axis=1) >= -_ROUNDING * np.abs(Q).max(initial=0)
        require(bool(ascending.all()), "its quantiles are not in order")
    return response


def _response_shapes(request: Message, settings: Settings, session: Session) -> Shapes:
    form, asked = _form(request), request.metadata
    if form == "round":
        return _update_shapes(asked["round"], settings, session)
    if form == "label_loss":
        arrays = request.arrays.items()
        return {key.replace("scores", "gradient", 1): x.shape for key, x in arrays}
    if form == "head":
        return _head_shapes(asked["names"], settings, len(session.classes))
    shares_labels = settings.share_labels and form in ("classes", "fusion")
    return {"codes": (session.n_linked,)} if shares_labels else {}


def _reply_shapes(update_round: int, settings: Settings, session: Session) -> Shapes:
    """Shapes of what the server may send in reply to an update, beside references."""
    s = settings
    sent = _update_shapes(update_round, s, session) if update_round > 0 else {}
    names = ("quantiles", "moment", "scores") if s.coupling == "hot-pairwise" else ("scores",)
    shapes = {f"gradient.{name}": sent[name] for name in names if name in sent}
    if s.coupling == "hot-reference":
        shapes["weights"] = (s.n_references,)
    if s.share_labels:
        shapes["codes"] = (session.n_linked,)
    return shapes


def _update_shapes(round: int, settings: Settings, session: Session) -> Shapes:
    """Shapes of what a client sends in a round."""
    s = settings
    shapes: Shapes = {}
    if s.coupling != "none" and round <= s.rounds:
        shapes["quantiles"] = (s.n_projections, s.quantiles)
    if s.coupling == "hot-pairwise" and round <= s.rounds:
        shapes["moment"] = (s.n_components, s.n_components)
    for array, rows in vars(linked_query(round, s, session.n_linked)).items():
        if len(rows) > 0:
            width = s.encoder_dim if array == "features" else len(session.classes)
            shapes[array] = (len(rows), width)
    return shapes


def _head_shapes(names: Sequence[str], settings: Settings, n_classes: int) -> Shapes:
    return {"weight": (n_classes, len(names) * settings.encoder_dim), "bias": (n_classes,)}


def check_arrays(
    found: Mapping[str, Array],
    shapes: Shapes,
    optional: Shapes | None = None,
    n_classes: int = 0,
) -> None:
    """Check names, shapes, types and values of all arrays; ``codes`` are of classes."""
    known = {**shapes, **(optional or {})}
    fits = shapes.keys() <= found.keys() <= known.keys()
    require(fits, f"it holds {sorted(found)[:8]}, and {sorted(shapes)} were asked for")
    for name in (name for name in known if name in found):
        x = found[name]
        dtype = "int64" if name == "codes" else "float32"
        problem = f"its {name} are {x.dtype} of shape {x.shape}, not {dtype} of {known[name]}"
        require(x.dtype == dtype and x.shape == known[name], problem)
        require(bool(np.isfinite(x).all()), f"its {name} are not finite")
        low, high = (-1, n_classes - 1) if name == "codes" else (-MAX_VALUE, MAX_VALUE)
        inside = x.size == 0 or (x.min() >= low and x.max() <= high)
        require(bool(inside), f"its {name} are not from {low:g} to {high:g}")
