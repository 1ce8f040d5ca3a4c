"""The objective (3): classification, coupling of the views and what keeps each view itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softmax

from hotview.losses.coupling import Coupling, Terms
from hotview.losses.view_regularizers import reconstruction_error, roughness
from hotview.nn.fused_mlp import run_modules
from hotview.nn.multiview import MultiViewNetwork

__all__ = ["VIEW_REGULARIZERS", "Batch", "Evaluation", "Objective", "Regularizer"]


@dataclass(frozen=True)
class Batch:
    """Rows of every view that one step sees, and what each is for.

    Parameters
    ----------
    Xs : list of Tensor
        All rows of every view, one part after another, so that each encoder runs once. Leading
        dimensions, here and below, are replicas.
    sizes : dict of str to list of int
        How many rows of every view each part has, in the order in which they lie. ``rows`` are
        those that are coupled and regularized, ``neighbors`` a neighbor of each of these,
        ``labeled`` aligned rows with a label, ``own`` rows whose label only this view knows, and
        ``taught`` aligned rows without a label.
    target : Tensor
        Classes of the ``labeled`` rows.
    own_targets : list of Tensor
        Classes of each view's ``own`` rows.
    soft_labels : list of Tensor
        Shares of the classes in each view's ``rows``; empty where nobody teaches them.
    coordinates : list of Tensor
        What the features of each view's ``rows`` are to be; empty where they are free.
    directions : Tensor or None
        Directions to project on; None lets the coupling draw its own.
    """

    Xs: list[Tensor]
    sizes: dict[str, list[int]]
    target: Tensor
    own_targets: list[Tensor] = field(default_factory=list)
    soft_labels: list[Tensor] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)
    directions: Tensor | None = None

    def split(self, tensors: Sequence[Tensor]) -> dict[str, list[Tensor]]:
        """Cut something that goes along with all rows of every view into its parts."""
        per_view = [
            torch.split(tensor, [sizes[s] for sizes in self.sizes.values()], dim=-2)
            for s, tensor in enumerate(tensors)
        ]
        return dict(zip(self.sizes, map(list, zip(*per_view, strict=True)), strict=True))


@dataclass(frozen=True)
class Evaluation:
    """What an objective found: its terms, and the latents that it coupled."""

    terms: Terms
    latents: list[Tensor]


def _no_regularizer(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    return Terms({})


def _autoencoder(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    decoded = network.reconstruct(Fs["rows"])
    rows = batch.split(batch.Xs)["rows"]
    return Terms({"reconstruction": reconstruction_error(rows, decoded)})


def _manifold(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    here, there = Fs["rows"], Fs["neighbors"]
    parts = {"smoothness": roughness(network.embed(here), network.embed(there), relative=True)}
    if len(network.view_heads) > 0:
        scores = [
            [softmax(scores, dim=-1) for scores in network.score_views(F)] for F in (here, there)
        ]
        parts["score_smoothness"] = roughness(*scores)
    return Terms(parts)


def _diffusion(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    return Terms({"diffusion": reconstruction_error(batch.coordinates, Fs["rows"])})


#: R_S: from the network, a batch and the features of the batch's rows to terms
Regularizer = Callable[[MultiViewNetwork, Batch, dict[str, list[Tensor]]], Terms]

#: R_S by name
VIEW_REGULARIZERS: dict[str, Regularizer] = {
    "none": _no_regularizer,
    "autoencoder": _autoencoder,
    "manifold": _manifold,
    "diffusion": _diffusion,
}


class Objective(nn.Module):
    r"""Objective (3) of the paper, with a head for every view beside the joint one.

    .. math:: L(g(f_1, …, f_S), y) + h \sum_s L(g_s(f_s), y) + γ R_M + τ \sum_s R_S

    Parameters
    ----------
    coupling : Coupling
        R_M.
    view_regularizer : str or callable
        R_S, one of `VIEW_REGULARIZERS` or a callable like these.
    coupling_weight : float or Tensor
        γ, or that of every replica.
    regularizer_weight : float or Tensor
        τ, or that of every replica.
    head_weight : float
        h. With 0 the heads of the views are trained on features that are held fixed, so that
        nothing else feels them (but for ``"manifold"``, which smooths their scores).
    class_weight : Tensor of shape (..., classes) or None
        A weight per class.
    teachers : sequence of int
        Views whose heads have labels and teach the heads of the others on ``taught`` rows.
    """

    def __init__(
        self,
        coupling: Coupling,
        view_regularizer: str | Regularizer,
        *,
        coupling_weight: float | Tensor,
        regularizer_weight: float | Tensor,
        head_weight: float = 0.0,
        class_weight: Tensor | None = None,
        teachers: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self.coupling = coupling
        self.view_regularizer = view_regularizer
        self.regularizer = (
            VIEW_REGULARIZERS[view_regularizer]
            if isinstance(view_regularizer, str)
            else view_regularizer
        )
        self.coupling_weight, self.regularizer_weight = coupling_weight, regularizer_weight
        self.head_weight, self.teachers = head_weight, list(teachers)
        self.register_buffer("class_weight", class_weight)

    def forward(
        self, network: MultiViewNetwork, batch: Batch, *, generator: torch.Generator | None
    ) -> Evaluation:
        """Evaluate the objective on a batch."""
        Fs = batch.split(network.encode(batch.Xs))
        Zs: list[Tensor] = []
        parts = dict(self._classify(network, batch, Fs))
        if "rows" in Fs:
            Zs = network.embed(Fs["rows"])
            coupled = self.coupling(Zs, generator=generator, directions=batch.directions)
            coupled = coupled.times(self.coupling_weight)
            kept = self.regularizer(network, batch, Fs).times(self.regularizer_weight)
            parts |= {**coupled.parts, **kept.parts}
        return Evaluation(Terms(parts), Zs)

    def _classify(
        self, network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]
    ) -> dict[str, Tensor]:
        parts = {}
        if "labeled" in Fs:
            parts["classification"] = self._loss(network.score(Fs["labeled"]), batch.target)
        if tasks := self._head_tasks(network, batch, Fs):
            heads, features, targets = zip(*tasks, strict=True)
            scores = run_modules(heads, [self._for_heads(F) for F in features])
            losses = self._losses(scores, targets)
            parts["view_heads"] = (self.head_weight or 1.0) * losses.sum(0)
        return parts

    def _head_tasks(
        self, network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]
    ) -> list[tuple[nn.Module, Tensor, Tensor]]:
        """Which head learns from which features: rows labeled for all, for one, or by others."""
        heads = list(network.view_heads)
        tasks = []
        if "labeled" in Fs:
            tasks += [(g, F, batch.target) for g, F in zip(heads, Fs["labeled"], strict=True)]
        if "own" in Fs:
            own = zip(heads, Fs["own"], batch.own_targets, strict=True)
            tasks += [(g, F, y) for g, F, y in own if y.shape[-1] > 0]
        if "taught" in Fs:
            taught = Fs["taught"]
            with torch.no_grad():
                soft_labels = [softmax(heads[s](taught[s]), dim=-1) for s in self.teachers]
                lesson = torch.stack(soft_labels).mean(0)
            pupils = [s for s in range(len(heads)) if s not in self.teachers]
            tasks += [(heads[s], taught[s], lesson) for s in pupils]
        if batch.soft_labels:
            tasks += list(zip(heads, Fs["rows"], batch.soft_labels, strict=True))
        return tasks

    def _for_heads(self, F: Tensor) -> Tensor:
        return F if self.head_weight > 0 else F.detach()

    def _losses(self, scores: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
        """The losses of all heads; those that learn from the same rows at once."""
        target = targets[0]
        if all(other is target for other in targets):
            return self._loss(torch.stack(list(scores)), target.expand(len(scores), *target.shape))
        pairs = zip(scores, targets, strict=True)
        return torch.stack([self._loss(one, target) for one, target in pairs])

    def _loss(self, scores: Tensor, target: Tensor) -> Tensor:
        weight, lesson = self.class_weight, target.is_floating_point()
        assert weight is None or isinstance(weight, Tensor)
        *shape, n_classes = scores.shape
        flat = target.reshape(-1, n_classes) if lesson else target.reshape(-1)
        losses = cross_entropy(scores.reshape(-1, n_classes), flat, reduction="none").view(shape)
        if weight is None or lesson:  # a lesson is not a label
            return losses.mean(-1)
        weights = weight.expand(*target.shape[:-1], -1).gather(-1, target)
        # A batch may hold nothing but classes of weight 0.
        tiny = torch.finfo(scores.dtype).tiny
        return (losses * weights).sum(-1) / weights.sum(-1).clamp_min(tiny)
