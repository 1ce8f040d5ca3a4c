"""Predictors of the classes of new rows: of one view each, and of all views of a row jointly.

A predictor of one view is a class with the members of `Predictor` and an entry in `PREDICTORS`; how
it is weighed, saved, loaded and exported follows from that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from hotview._codec import REGISTRIES, require, require_array
from hotview._types import Array
from hotview.ot._backend import constant
from hotview.semisupervised.knn import FLOOR, KNNPredictor
from hotview.semisupervised.ridge import RidgePredictor, fit_joint_ridge

if TYPE_CHECKING:
    from hotview.data import Data
    from hotview.semisupervised.graph import ViewGraph
    from hotview.semisupervised.soft_labels import NodeLabels

__all__ = [
    "PREDICTORS",
    "FusionRule",
    "HeadPredictor",
    "JointHead",
    "LabeledView",
    "NetworkOutputs",
    "Predictor",
    "Predictors",
    "ViewInputs",
]


@dataclass(frozen=True)
class LabeledView:
    """What a predictor of one view is fitted to."""

    graph: ViewGraph
    nodes: NodeLabels  # labels of its nodes
    features: Sequence[tuple[Array, float]]  # from `encode_nodes`, of every member; or none
    log_prior: Tensor  # of the classes, float64, of which labels are posteriors


@dataclass(frozen=True)
class ViewInputs:
    """Rows of one view, as predictors take them.

    Parameters
    ----------
    X : Tensor of shape (n_rows, n_columns)
        Standardized rows, 0 where absent.
    features : Tensor of float64, shape (n_rows, n_features)
        Features by all ensemble members, side by side: in float32, rounding would choose among
        neighbors. Without networks they have no columns.
    logits : Tensor of float64, shape (n_members, n_rows, n_classes)
        Logits by the heads of all members.
    own : Tensor of int64 or None, default=None
        Numbers of the nodes that are the rows themselves, −1 for others: a row is not a neighbor of
        its own.
    """

    X: Tensor
    features: Tensor
    logits: Tensor
    own: Tensor | None = None

    @classmethod
    def of(
        cls, s: int, X: Tensor, outputs: NetworkOutputs | None, own: Tensor | None = None
    ) -> ViewInputs:
        """Rows of view s, with what networks say about them if there are any."""
        if outputs is None:
            return cls(X, X.new_empty(len(X), 0), X.new_empty(0, len(X), 0), own)
        return cls(X, *outputs.encode(s, X), own)


class Predictor(Protocol):
    """Class scores of the rows of one view.

    `prior_weights` are its weights, before any label was left out, in views with labels and in
    others; `needs_networks` says whether it is used only where there are some.
    """

    name: ClassVar[str]
    prior_weights: ClassVar[tuple[float, float]]
    needs_networks: ClassVar[bool]

    @classmethod
    def fit(cls, view: LabeledView) -> Predictor:
        """Fit it to labels of the nodes of a graph."""

    def log_scores(self, rows: ViewInputs) -> Tensor:
        """Log-likelihoods of the classes up to constants, (n_rows, n_classes); or by member."""

    def check(self, n_columns: int, n_features: int, n_classes: int) -> None:
        """Raise an error unless it takes rows of this size, and tells so many classes."""

    def condense(self, random: np.random.Generator) -> Predictor:
        """A smaller predictor for new rows, if it has one."""

    def to(self, device: torch.device | str) -> Predictor:
        """The same predictor on another device."""


@dataclass(frozen=True)
class HeadPredictor:
    """The heads of networks, whose prior is divided out.

    Parameters
    ----------
    log_prior : Tensor of float64, shape (n_classes,)
        Logarithms of the prior probabilities of the labels that networks were trained on.
    floor : float
        Added to every probability.
    """

    name: ClassVar[str] = "head"
    prior_weights: ClassVar[tuple[float, float]] = (0.5, 0.4)
    needs_networks: ClassVar[bool] = True

    log_prior: Tensor
    floor: float = FLOOR

    def __post_init__(self) -> None:
        require_array("log_prior", self.log_prior, (None,), "float64")
        require(0 <= self.floor <= 1, "its floor of probabilities is none")

    @classmethod
    def fit(cls, view: LabeledView) -> HeadPredictor:
        """Networks are trained already."""
        return cls(view.log_prior)

    def log_scores(self, rows: ViewInputs) -> Tensor:
        """Log-likelihoods of the classes, (n_members, n_rows, n_classes)."""
        if self.floor == 0:
            return rows.logits.double().log_softmax(-1) - self.log_prior
        return (rows.logits.double() - self.log_prior).softmax(-1).add_(self.floor).log_()

    def check(self, n_columns: int, n_features: int, n_classes: int) -> None:
        """Raise an error unless it tells so many classes."""
        require_array("log_prior", self.log_prior, (n_classes,), "float64")

    def condense(self, random: np.random.Generator) -> HeadPredictor:
        """The same predictor: networks are kept as they are."""
        return self

    def to(self, device: torch.device | str) -> HeadPredictor:
        """The same predictor on another device."""
        return replace(self, log_prior=self.log_prior.to(device))


@dataclass(frozen=True)
class JointHead:
    """The joint heads of networks, for rows that have all views.

    Parameters
    ----------
    log_prior : Tensor of float64, shape (n_classes,)
        Logarithms of the prior probabilities of the labels that networks were trained on.
    """

    name: ClassVar[str] = "head"
    log_prior: Tensor

    def check(self, n_columns: Sequence[int], n_classes: int) -> None:
        """Raise an error unless it tells so many classes."""
        require_array("log_prior", self.log_prior, (n_classes,), "float64")

    def log_scores(self, rows: Mapping[int, ViewInputs], present: Tensor, outputs: Any) -> Tensor:
        """Log-likelihoods of the classes, (n_members, n_rows, n_classes); 0 in partial rows."""
        if len(rows) < present.shape[1] or outputs is None:
            return self.log_prior.new_zeros(len(present), len(self.log_prior))
        logits = outputs.joint_logits({s: own.features for s, own in rows.items()})
        scores: Tensor = logits.log_softmax(-1) - self.log_prior
        return scores.masked_fill(~present.all(1).view(-1, 1), 0.0)

    def scores_without(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Scores without each of the views, (n_rows, n_views, n_classes): rows are partial then."""
        n_rows = len(next(iter(Xs.values())))
        return self.log_prior.new_zeros(n_rows, len(Xs), len(self.log_prior))

    def to(self, device: torch.device | str) -> JointHead:
        """The same predictor on another device."""
        return JointHead(self.log_prior.to(device))


@dataclass(frozen=True)
class JointRidge:
    """The ridge regression of whichever views a row has.

    Parameters
    ----------
    ridge : RidgePredictor
        Of the columns of all views.
    """

    name: ClassVar[str] = "ridge"
    ridge: RidgePredictor

    def check(self, n_columns: Sequence[int], n_classes: int) -> None:
        """Raise an error unless it takes rows of these sizes, and tells so many classes."""
        fits = [len(weights) for weights in self.ridge.weights] == list(n_columns)
        require(fits, f"its joint 'weights' should be of {list(n_columns)} columns")
        require_array("intercept", self.ridge.intercept, (n_classes,), "float64")

    def log_scores(self, rows: Mapping[int, ViewInputs], present: Tensor, outputs: Any) -> Tensor:
        """Log-likelihoods of the classes, (n_rows, n_classes)."""
        return self.ridge.predict({s: own.X for s, own in rows.items()})

    def scores_without(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Scores without each of the views, (n_rows, n_views, n_classes)."""
        return self.ridge.predict_without(Xs)

    def to(self, device: torch.device | str) -> JointRidge:
        """The same predictor on another device."""
        return JointRidge(self.ridge.to(device))


class JointPredictor(Protocol):
    """Class scores of whichever views a row has."""

    name: ClassVar[str]

    def check(self, n_columns: Sequence[int], n_classes: int) -> None:
        """Raise an error unless it takes rows of these sizes, and tells so many classes."""

    def log_scores(self, rows: Mapping[int, ViewInputs], present: Tensor, outputs: Any) -> Tensor:
        """Log-likelihoods of the classes up to constants, (n_rows, n_classes); or by member."""

    def scores_without(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Scores without each of the views, (n_rows, n_views, n_classes)."""

    def to(self, device: torch.device | str) -> JointPredictor:
        """The same predictor on another device."""


#: predictors of one view, in the order of their scores
PREDICTORS: dict[str, Any] = {p.name: p for p in (KNNPredictor, RidgePredictor, HeadPredictor)}
REGISTRIES[Predictor] = PREDICTORS
REGISTRIES[JointPredictor] = {p.name: p for p in (JointRidge, JointHead)}


@dataclass(frozen=True)
class Predictors:
    """The predictors of every view, and a joint one.

    Parameters
    ----------
    views : list of dict of str to Predictor
        By view, predictors by their names.
    joint : dict of str to JointPredictor, default={}
        The joint predictor, if any, by its name.
    """

    views: list[dict[str, Predictor]]
    joint: dict[str, JointPredictor] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        graphs: Sequence[ViewGraph],
        nodes: Sequence[NodeLabels],
        data: Data,
        log_prior: Array,
        features: Sequence[Sequence[tuple[Array, float]]] = (),
    ) -> Predictors:
        """Fit the predictors of every view, those of networks where there are any features.

        Arguments are as in `LabeledView`, of every view; the joint predictor is fitted to `data`.
        """
        kinds = {k: kind for k, kind in PREDICTORS.items() if features or not kind.needs_networks}
        prior = torch.as_tensor(log_prior, device=graphs[0].rows.device)
        views = []
        for s, graph in enumerate(graphs):
            own = [of_member[s] for of_member in features]
            view = LabeledView(graph, nodes[s], own, prior[s])
            views.append({name: kind.fit(view) for name, kind in kinds.items()})
        joint = fit_joint_ridge(graphs, data, log_prior)
        return cls(views, {} if joint is None else {"ridge": JointRidge(joint)})

    @classmethod
    def of_heads(cls, data: Data, *, joint: bool = True) -> Predictors:
        """The heads of networks alone, whose probabilities are pooled as they are.

        Joint heads, if they were trained, count where linked rows of all classes have labels.
        """
        device, n_classes = next(iter(data.views.values())).device, len(data.known.classes)
        prior = torch.full((n_classes,), -math.log(n_classes), dtype=torch.float64, device=device)
        views: list[dict[str, Predictor]] = [
            {"head": HeadPredictor(prior, 0.0)} for _ in data.names
        ]
        target = data.known.of(data.complete)
        joint = joint and len(np.unique(target[target >= 0])) == n_classes
        return cls(views, {"head": JointHead(prior)} if joint else {})

    def check(self, n_columns: Sequence[int], n_features: Sequence[int], n_classes: int) -> None:
        """Raise an error unless all take rows of these sizes, and tell so many classes."""
        fits = len(self.views) == len(n_columns) and len(self.joint) <= 1
        fits = fits and all(list(own) == list(self.views[0]) for own in self.views)
        require(fits and len(self.views[0]) > 0, "its predictors do not fit its views")
        for own, columns, features in zip(self.views, n_columns, n_features, strict=True):
            for predictor in own.values():
                predictor.check(columns, features, n_classes)
        for joint in self.joint.values():
            joint.check(n_columns, n_classes)

    def condense(self, random: np.random.Generator) -> Predictors:
        """The same predictors, smaller where they can be."""
        views = [{name: p.condense(random) for name, p in own.items()} for own in self.views]
        return replace(self, views=views)

    def to(self, device: torch.device | str) -> Predictors:
        """The same predictors on another device."""
        views = [{name: p.to(device) for name, p in own.items()} for own in self.views]
        return Predictors(views, {name: p.to(device) for name, p in self.joint.items()})


@dataclass(frozen=True)
class FusionRule:
    """Which views of a row count, and what is predicted where none does.

    Parameters
    ----------
    n_classes : tuple of int
        Number of classes that the predictors of every view were trained on; 0 if none were. Of the
        views that a row has, those with most classes count.
    log_prior : tuple of float
        Log-probabilities of rows for which no view counts.
    """

    n_classes: tuple[int, ...]
    log_prior: tuple[float, ...]

    @classmethod
    def of(cls, data: Data, nodes: Sequence[NodeLabels]) -> FusionRule:
        """That of the labels of data, and of the nodes of every view, if these have any."""
        n_known, target = data.labels_per_view, data.known.of(data.complete)
        if min(n_known) < max(n_known) and (target < 0).any():  # labels are transferred to all
            n_known = [max(n_known)] * len(n_known)
        for s, of_view in enumerate(nodes):
            n_known[s] = max(n_known) if of_view.taught else n_known[s]
        own = [codes[data.labeled_in(s)] for s, codes in enumerate(data.codes)]
        every = np.concatenate([target[target >= 0], *own])
        counts = np.bincount(every, minlength=len(data.known.classes)) + 1
        return cls(tuple(n_known), tuple(np.log(counts / counts.sum()).tolist()))

    def check(self, n_views: int, n_classes: int) -> None:
        """Raise an error unless it is of as many views and classes."""
        sizes = (len(self.n_classes), len(self.log_prior))
        fits = sizes == (n_views, n_classes) and all(n <= n_classes for n in self.n_classes)
        require(fits, "its fusion rule is of other views or classes than it has")
        total = sum(math.exp(x) for x in self.log_prior)
        require(abs(total - 1) < 1e-6, "its prior probabilities do not add up to 1")

    def find_present(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Which views every row has, (n_rows, n_views), by standardized rows of some views."""
        nowhere = torch.zeros_like(next(iter(Xs.values()))[:, 0], dtype=torch.bool)
        present = [nowhere] * len(self.n_classes)
        for s, X in Xs.items():
            present[s] = ~X[:, 0].isnan()  # single NaN were validated
        return torch.stack(present, dim=1)

    def count_views(self, present: Tensor) -> Tensor:
        """Which of a row's views count: those whose labels have most classes."""
        n_classes = present * constant(self.n_classes, present.device, torch.int64)
        return (n_classes == n_classes.amax(1, keepdim=True)) & (n_classes > 0)

    def fill(self, fused: Tensor, counts: Tensor, present: Tensor) -> Tensor:
        """The prior in rows in which no predictor counts, and NaN in rows without any view."""
        prior = constant(self.log_prior, fused.device)
        fused = torch.where(counts.any(1, keepdim=True), fused, prior)
        return fused.masked_fill(~present.any(1, keepdim=True), torch.nan)


class NetworkOutputs(Protocol):
    """What trained networks say about rows; one of `n_members` that are used together."""

    @property
    def features(self) -> Sequence[Sequence[tuple[Array, float]]]:
        """From `encode_nodes`, of every network and view; empty where not fitted on graphs."""

    def member(self, i: int) -> NetworkOutputs:
        """Those of one network."""

    def encode(self, s: int, X: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits of standardized rows of view s, as of `ViewInputs`."""

    def joint_logits(self, features: Mapping[int, Tensor]) -> Tensor:
        """Logits by the joint heads, (n_members, n_rows, n_classes), from features of all views."""
