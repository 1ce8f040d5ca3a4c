"""Schema of the protocol: what messages hold, checked by the side that receives it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from hotview._codec import decode, require, shorten
from hotview._types import Array, IntArray
from hotview._validation.tables import can_be_saved
from hotview.federated.messages import Failure, Message, check_json
from hotview.federated.privacy import Budget
from hotview.federated.settings import Settings
from hotview.semisupervised.super_learner import SuperLearner

Shapes = dict[str, tuple[int, ...]]
MAX_VALUE = 1e6  # latents have variances below 1, and scores are logarithms
_ROUNDING = 1e-5  # relative error of numbers that rounding explains
_MAX_COST = 4 * MAX_VALUE**2  # between quantiles of this size
_MAX_NAMES, _MAX_CLASSES, _MAX_LINKED = 1000, 1000, 2**24
_SUM_ROUNDING = 1e-3  # relative excess of sums of float32 numbers that rounding explains


@dataclass(frozen=True)
class Session:
    """Facts of a training that are fixed before its first round.

    Messages carry its `id`. Without a label holder there are no `classes`.
    """

    id: str
    settings: Settings
    names: list[str]
    classes: list[Any]
    n_linked: int

    def __post_init__(self) -> None:
        n, classes = self.n_linked, self.classes
        require(n <= _MAX_LINKED, f"it has {n} linked rows, more than {_MAX_LINKED}")
        check_names(self.names)
        problem = f"it has {len(classes)} classes, more than {_MAX_CLASSES}"
        require(len(classes) <= _MAX_CLASSES, problem)
        require(len(classes) != 1, f"two classes or more are needed, not {shorten(classes)}")
        check_json(classes)
        kinds = {*map(type, classes)}
        fits = len(kinds) <= 1 and kinds <= {str, int, float, bool}
        fits = fits and (str in kinds or all(abs(x) < 2**63 for x in classes))
        fits = fits and np.unique(classes).tolist() == classes  # numpy cuts off NULs at the end
        require(fits, "its classes are not distinct texts or numbers of one type, sorted")

    def split_linked(self) -> tuple[IntArray, IntArray]:
        """Return the linked rows to train on, and those that are held out for fusion."""
        s = self.settings
        order = np.random.default_rng([s.random_state, 1]).permutation(self.n_linked)
        n_held_out = round(s.fusion_fraction * self.n_linked)
        return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])

    def linked_query(self, round: int) -> dict[str, IntArray]:
        """Linked rows queried in a round, derived from the shared seed.

        In the first half of the rounds some rows are held out. After the fusion weights are fitted
        on them, all rows are trained on. The round after the last only queries features for a joint
        head.

        Returns rows whose ``scores`` are sent for the classification loss, ``held_out`` rows whose
        scores are sent for the fusion weights, and rows whose ``features`` are sent for a joint
        head; without those of which there are none.
        """
        s = self.settings
        if s.label_holder is None:
            return {}
        everyone, is_last = np.arange(self.n_linked), round > s.rounds
        training, held_out = self.split_linked()
        if round > s.fusion_round:
            training = everyone
        if len(training) > s.linked_batch:
            order = np.random.default_rng([s.random_state, 2, round]).permutation(training)
            training = np.sort(order[: s.linked_batch])
        query: dict[str, IntArray] = {}
        if not (is_last or s.share_labels):
            query["scores"] = training
        if round == s.fusion_round:
            query["held_out"] = held_out
        if s.share_features and (is_last or round == s.fusion_round):
            query["features"] = everyone
        return {name: rows for name, rows in query.items() if len(rows) > 0}

    def update_shapes(self, round: int) -> Shapes:
        """Shapes of what a client sends in a round; nothing in round 0."""
        s, shapes = self.settings, Shapes()
        if s.coupling != "none" and 0 < round <= s.rounds:
            shapes["quantiles"] = (s.n_projections, s.quantiles)
            if s.coupling == "hot-pairwise":
                shapes["moment"] = (s.n_components, s.n_components)
        for name, rows in self.linked_query(round).items() if round > 0 else ():
            width = s.encoder_dim if name == "features" else len(self.classes)
            shapes[name] = (len(rows), width)
        return shapes

    @property
    def reference_shapes(self) -> Shapes:
        """Shape of the references, if the coupling has any."""
        s = self.settings
        shape = (s.n_references, s.quantiles, s.n_components)
        return {"references": shape} if s.coupling == "hot-reference" else {}

    @property
    def code_shapes(self) -> Shapes:
        """Shape of the labels of linked rows, if they are shared."""
        return {"codes": (self.n_linked,)} if self.settings.share_labels else {}

    def reply_shapes(self, update_round: int) -> Shapes:
        """Shapes of what the server may send in reply to an update, beside references."""
        s, sent = self.settings, self.update_shapes(update_round)
        names = ("quantiles", "moment", "scores") if s.coupling == "hot-pairwise" else ("scores",)
        shapes = {f"gradient.{name}": sent[name] for name in names if name in sent}
        weights: Shapes = {"weights": (s.n_references,)} if s.coupling == "hot-reference" else {}
        return {**shapes, **weights, **self.code_shapes}

    def head_shapes(self, names: Sequence[str]) -> Shapes:
        """Shapes of a joint head of the features of some views."""
        n = len(self.classes)
        return {"weight": (n, len(names) * self.settings.encoder_dim), "bias": (n,)}


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
    """Fusion weights of the views `names`, as in `SuperLearner`.

    Those of rows with this view alone (`single`), with all views and, last, of the joint head
    (`complete`), and with several views (`partial`, divided by a `power` of their number).
    """

    names: list[str]
    single: list[float]
    complete: list[float]
    partial: list[float]
    power: float

    @classmethod
    def of(cls, names: Sequence[str], weights: SuperLearner) -> SentPool:
        """The fitted weights of some views."""
        single = [of_view[0] for of_view in weights.predictors]
        partial = list(weights.partial[:-1])
        return cls(list(names), single, list(weights.complete), partial, weights.power)

    def check(self, names: Sequence[str]) -> None:
        """Raise an error unless these are weights of some of these names."""
        check_known(self.names, names)
        n, sizes = len(self.names), map(len, (self.single, self.complete, self.partial))
        require([*sizes] == [n, n + 1, n], "its pool is of other views than it has")
        self.weights(self.names, 2).check(n, 2, 1)

    def weights(self, names: Sequence[str], n_classes: int) -> SuperLearner:
        """The weights of some of its views, with equal priors; some alone are never complete."""
        chosen, n = [self.names.index(name) for name in names], len(names)
        complete = [self.complete[s] for s in (*chosen, -1)]
        if n < len(self.names):
            complete = [*(self.partial[s] * n**-self.power for s in chosen), 0.0]
        return SuperLearner(
            tuple((self.single[s],) for s in chosen),
            tuple(complete),
            (*(self.partial[s] for s in chosen), 0.0),
            self.power,
            ((-math.log(n_classes),) * n_classes,) * len(chosen),
        )


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


def check_names(names: Sequence[Any]) -> None:
    """Raise an error unless these can be names of organizations, which are names of views, too."""
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


def _check_numbers(
    name: str, rows: list[list[float]], shape: tuple[int, int], least: float, largest: float
) -> None:
    """Raise an error unless rows are of a shape, and their numbers in a range."""
    fits = len(rows) == shape[0] and all(len(row) == shape[1] for row in rows)
    require(fits, f"its {name} is not of {shape[0]} × {shape[1]} numbers")
    inside = all(least <= x <= largest for row in rows for x in row)
    require(inside, f"its {name} is not of numbers from {least:g} to {largest:g}")


_Names, _Numbers = list[str], dict[str, float]
_NAMED: Mapping[str, Any] = {"session": str, "names": _Names}
#: annotations of the metadata of requests and of responses; what may be None may be missing
_METADATA: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "hello": ({}, {"name": str, "n_linked": int, "digest": str, "model_format": int}),
    "classes": ({"settings": Settings}, {"classes": list[Any]}),
    "start": ({**_NAMED, "settings": Settings, "classes": list[Any]}, {"name": str}),
    "round": (
        {"session": str, "round": int, "update_round": int | None, "curvatures": _Numbers | None},
        {"name": str, "round": int, "privacy": Budget | None},
    ),
    "label_loss": ({**_NAMED, "round": int}, {"round": int, "loss": float, "curvature": float}),
    "fusion": (_NAMED, {"pool": SentPool}),
    "head": (_NAMED, {}),
    "finish": (
        {"session": str, "plan": SentPlan | None, "pool": SentPool | None, "head": _Names | None},
        {"name": str},
    ),
}


def read_metadata(annotations: Mapping[str, Any], values: Any) -> Any:
    """Return metadata as an object whose attributes have the annotated types.

    What may be None may be missing, and there must be no other.

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


def read_request(message: Message) -> Any:
    """Return the metadata of a request, before the session that it belongs to is known."""
    if message.kind in ("hello", "classes"):
        check_arrays(message.arrays, {}, {}, 0)
    return read_metadata(_METADATA[message.kind][0], message.metadata)


def check_request(message: Message, session: Session) -> None:
    """Raise an error unless a request fits a session: names, plan, weights and arrays."""
    s, kind, request = session.settings, message.kind, read_request(message)
    shapes, optional = Shapes(), Shapes()
    if kind in ("label_loss", "fusion", "head"):
        check_known(request.names, session.names)
    if kind in ("round", "finish"):
        shapes = session.reference_shapes
    if kind == "start":
        optional = session.code_shapes
    elif kind == "round":
        optional = session.reply_shapes(request.update_round or 0)
        gradients = {name for name in message.arrays if name.startswith("gradient.")}
        curvatures = request.curvatures or {}
        fits = gradients == {f"gradient.{k}" for k in curvatures}
        require(fits and min(curvatures.values(), default=0) >= 0, "its curvatures do not fit")
    elif kind == "label_loss":
        sent = session.update_shapes(request.round)
        require("scores" in sent, f"there is no round {request.round} with scores")
        shapes = {f"scores.{name}": sent["scores"] for name in request.names}
    elif kind in ("fusion", "head"):
        sent = session.update_shapes(s.fusion_round if kind == "fusion" else s.rounds + 1)
        keys = [key for key in ("held_out", "features") if key in sent]
        shapes = {f"{key}.{name}": sent[key] for key in keys for name in request.names}
    elif kind == "finish":
        if request.plan is not None:
            request.plan.check(session.names, s)
        if request.pool is not None:
            request.pool.check(session.names)
        if request.head is not None:
            check_known(request.head, session.names)
            shapes |= session.head_shapes(request.head)
    check_arrays(message.arrays, shapes, optional, len(session.classes))
    if kind == "round":
        check_server_update(message, s, len(session.names))


def check_server_update(message: Message, settings: Settings, n_views: int) -> None:
    """Refuse gradients, curvatures, weights and references that no honest server computes.

    The bounds follow from the settings and the number of views. No row is used, so that a refusal
    reveals nothing about rows.
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
    response: Message | Failure, request: Message, name: str, session: Session
) -> Message:
    """Return the response of a client to a request, checked; `session` as far as it is known."""
    if isinstance(response, Failure):
        raise ValueError(response.reason)
    kind, asked, shapes = request.kind, request.metadata, Shapes()
    require(response.kind == kind, f"its kind is {response.kind!r}, and {kind!r} was asked for")
    found = read_metadata(_METADATA[kind][1], response.metadata)
    for key, value in (("name", name), ("round", asked.get("round"))):
        received = getattr(found, key, value)
        problem = f"its {key} is {shorten(received)}, and {value!r} was asked for"
        require(received == value, problem)
    if kind == "hello":
        session = replace(session, n_linked=found.n_linked)
    elif kind == "classes":
        session, shapes = replace(session, classes=found.classes), session.code_shapes
    elif kind == "round":
        shapes = session.update_shapes(asked["round"])
    elif kind == "label_loss":
        _check_numbers("loss or curvature", [[found.loss, found.curvature]], (1, 2), 0, MAX_VALUE)
        arrays = request.arrays.items()
        shapes = {key.replace("scores", "gradient", 1): x.shape for key, x in arrays}
    elif kind == "fusion":
        require(found.pool.names == asked["names"], "it has no weights of the views")
        found.pool.check(asked["names"])
        shapes = session.code_shapes
    elif kind == "head" and response.arrays:  # none where a class has no training row
        shapes = session.head_shapes(asked["names"])
    check_arrays(response.arrays, shapes, {}, len(session.classes))
    for gradient in response.arrays.values() if kind == "label_loss" else ():
        _check_gradient("scores", gradient, found.curvature, session.settings, 1)
    if (Q := response.arrays.get("quantiles")) is not None:
        ascending = np.diff(Q, axis=1) >= -_ROUNDING * np.abs(Q).max(initial=0)
        require(bool(ascending.all()), "its quantiles are not in order")
    return response


def check_arrays(
    found: Mapping[str, Array], shapes: Shapes, optional: Shapes, n_classes: int
) -> None:
    """Check names, shapes, types and values of all arrays; ``codes`` are of classes."""
    known = {**shapes, **optional}
    fits = shapes.keys() <= found.keys() <= known.keys()
    require(fits, f"it holds {sorted(found)[:8]}, and {sorted(shapes)} were asked for")
    for name, x in found.items():
        dtype = "int64" if name == "codes" else "float32"
        problem = f"its {name} are {x.dtype} of shape {x.shape}, not {dtype} of {known[name]}"
        require(x.dtype == dtype and x.shape == known[name], problem)
        require(bool(np.isfinite(x).all()), f"its {name} are not finite")
        low, high = (-1, n_classes - 1) if name == "codes" else (-MAX_VALUE, MAX_VALUE)
        inside = x.size == 0 or (x.min() >= low and x.max() <= high)
        require(bool(inside), f"its {name} are not from {low:g} to {high:g}")
