"""The objective (3) of the paper: classification, coupling and view regularization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softmax

from hotview.losses.coupling import Coupling, Terms
from hotview.losses.view_regularizers import reconstruction_error, smoothness_penalty
from hotview.nn.multiview import MultiViewNetwork, map_views

__all__ = ["VIEW_REGULARIZERS", "Batch", "Evaluation", "Objective", "Regularizer"]


@dataclass(frozen=True)
class Batch:
    """Rows of each view in one training step, and their targets.

    Parameters
    ----------
    Xs : list of Tensor
        All rows of each view, part after part, so that each encoder runs once. Leading dimensions,
        here and below, are ensemble members.
    sizes : dict of str to list of int
        Number of rows of each view in each part, in the order of the parts. ``rows`` are coupled
        and regularized, ``neighbors`` holds one neighbor of each of these, ``labeled`` are aligned
        rows with a label, ``view_labeled`` rows with a label in this view alone, and ``transfer``
        aligned rows without a label, which get soft labels from the source views.
    target : Tensor
        Classes of the ``labeled`` rows.
    view_targets : list of Tensor
        Classes of each view's ``view_labeled`` rows.
    soft_labels : list of Tensor
        Class probabilities of each view's ``rows``; empty without soft labels.
    coordinates : list of Tensor
        Target features of each view's ``rows``; empty without target features.
    directions : Tensor or None
        Directions to project on; None lets the coupling draw them.
    """

    Xs: list[Tensor]
    sizes: dict[str, list[int]]
    target: Tensor
    view_targets: list[Tensor] = field(default_factory=list)
    soft_labels: list[Tensor] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)
    directions: Tensor | None = None

    def split(self, tensors: Sequence[Tensor]) -> dict[str, list[Tensor]]:
        """Split tensors with one entry per row of each view into the parts of the batch."""
        per_view = [
            torch.split(tensor, [sizes[s] for sizes in self.sizes.values()], dim=-2)
            for s, tensor in enumerate(tensors)
        ]
        return dict(zip(self.sizes, map(list, zip(*per_view, strict=True)), strict=True))


@dataclass(frozen=True)
class Evaluation:
    """Value of an objective: its terms, and the coupled latents."""

    terms: Terms
    latents: list[Tensor]


def _no_regularizer(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    return Terms({})


def _autoencoder(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    decoded = network.reconstruct(Fs["rows"])
    rows = batch.split(batch.Xs)["rows"]
    return Terms({"reconstruction": reconstruction_error(rows, decoded)})


def _manifold(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    both = Fs["rows"], Fs["neighbors"]
    parts = {"smoothness": smoothness_penalty(*map(network.embed, both), relative=True)}
    if len(network.view_heads) > 0:
        probs = [[softmax(logits, dim=-1) for logits in network.score_views(F)] for F in both]
        parts["score_smoothness"] = smoothness_penalty(*probs)
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
    r"""Objective (3) of the paper, with a head per view besides the joint head.

    .. math:: L(g(f_1, …, f_S), y) + h \sum_s L(g_s(f_s), y) + γ R_M + τ \sum_s R_S

    Parameters
    ----------
    coupling : Coupling
        R_M.
    regularizer : callable
        R_S, one of `VIEW_REGULARIZERS` or a callable like these.
    coupling_weight : float or Tensor
        γ, one number or one per member.
    regularizer_weight : float or Tensor
        τ, one number or one per member.
    head_weight : float
        h. With 0 the heads of the views are trained on detached features, so that they do not
        affect anything else (except with ``"manifold"``, which smooths their probabilities).
    class_weight : Tensor of shape (..., classes) or None
        Weight of each class; None weights all classes equally.
    source_views : sequence of int
        Views whose heads give soft labels to the other views on ``transfer`` rows.
    reduction : {"mean", "sum"}
        Whether L is averaged or, as in (3), summed over the labeled rows of a batch.
    """

    def __init__(
        self,
        coupling: Coupling,
        regularizer: Regularizer,
        *,
        coupling_weight: float | Tensor,
        regularizer_weight: float | Tensor,
        head_weight: float = 0.0,
        class_weight: Tensor | None = None,
        source_views: Sequence[int] = (),
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.coupling, self.regularizer = coupling, regularizer
        self.coupling_weight, self.regularizer_weight = coupling_weight, regularizer_weight
        self.head_weight, self.source_views = head_weight, list(source_views)
        self.reduction = reduction
        self.register_buffer("class_weight", class_weight)

    def forward(
        self, network: MultiViewNetwork, batch: Batch, *, generator: torch.Generator | None
    ) -> Evaluation:
        """Evaluate the objective on a batch."""
        Fs = batch.split(network.encode(batch.Xs))
        parts: dict[str, Tensor] = {}
        Zs: list[Tensor] = []
        if "labeled" in Fs:
            parts["classification"] = self._loss(network.score(Fs["labeled"]), batch.target)
        if examples := self._head_examples(network, batch, Fs):
            heads, features, targets = zip(*examples, strict=True)
            logits = map_views(heads, [F if self.head_weight > 0 else F.detach() for F in features])
            parts["view_heads"] = (self.head_weight or 1.0) * self._sum_of_losses(logits, targets)
        if "rows" in Fs:
            Zs = network.embed(Fs["rows"])
            R_M = self.coupling(Zs, generator=generator, directions=batch.directions)
            R_S = self.regularizer(network, batch, Fs)
            for terms, weight in ((R_M, self.coupling_weight), (R_S, self.regularizer_weight)):
                for name, part in terms.parts.items():
                    parts[name] = weight * part
        return Evaluation(Terms(parts), Zs)

    def _head_examples(
        self, network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]
    ) -> list[tuple[nn.Module, Tensor, Tensor]]:
        """Heads of the views, each with features and targets to train it on."""
        heads = list(network.view_heads)
        examples = []
        if "labeled" in Fs:
            examples += [(g, F, batch.target) for g, F in zip(heads, Fs["labeled"], strict=True)]
        if "view_labeled" in Fs:
            own = zip(heads, Fs["view_labeled"], batch.view_targets, strict=True)
            examples += [(g, F, y) for g, F, y in own if y.shape[-1] > 0]
        if "transfer" in Fs:
            features = Fs["transfer"]
            with torch.no_grad():
                probs = [softmax(heads[s](features[s]), dim=-1) for s in self.source_views]
                soft_labels = torch.stack(probs).mean(0)
            target_views = [s for s in range(len(heads)) if s not in self.source_views]
            examples += [(heads[s], features[s], soft_labels) for s in target_views]
        if batch.soft_labels:
            examples += list(zip(heads, Fs["rows"], batch.soft_labels, strict=True))
        return examples

    def _sum_of_losses(self, logits: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
        """Sum of the losses of several heads; of heads with the same targets in one call."""
        target = targets[0]
        if all(other is target for other in targets):
            shape = len(logits), *target.shape
            losses = self._loss(torch.stack(list(logits)), target.expand(shape))
        else:
            losses = torch.stack(list(map(self._loss, logits, targets)))
        return losses.sum(0)

    def _loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy of classes, weighted by class, or of soft labels, unweighted."""
        weight, is_soft = self.class_weight, target.is_floating_point()
        assert weight is None or isinstance(weight, Tensor)
        *shape, n_classes = logits.shape
        flat = target.reshape(-1, n_classes) if is_soft else target.reshape(-1)
        losses = cross_entropy(logits.reshape(-1, n_classes), flat, reduction="none").view(shape)
        if weight is None or is_soft:
            return losses.sum(-1) if self.reduction == "sum" else losses.mean(-1)
        weights = weight.expand(*target.shape[:-1], -1).gather(-1, target)
        if self.reduction == "sum":
            return (losses * weights).sum(-1)
        # All classes of a batch may have weight 0.
        tiny = torch.finfo(logits.dtype).tiny
        return (losses * weights).sum(-1) / weights.sum(-1).clamp_min(tiny)
