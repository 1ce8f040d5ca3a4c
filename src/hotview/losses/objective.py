"""The objective (3) of the paper: classification, coupling and view regularization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softmax

from hotview.losses.coupling import Coupling, Terms
from hotview.nn.multiview import MultiViewNetwork, map_views

__all__ = ["Batch", "Evaluation", "Objective", "Regularizer", "alignment_error"]

_EXTENSION = 0.1  # weight of the targets of all rows, relative to the linked rows themselves


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
        rows with a label, ``view_labeled`` rows with a label in this view alone, ``transfer``
        aligned rows without a label, which get soft labels from the source views, and ``linked``
        rows of individuals who are in several views, whose latents are to agree.
    target : Tensor
        Classes of the ``labeled`` rows.
    view_targets : list of Tensor
        Classes of each view's ``view_labeled`` rows.
    soft_labels : list of Tensor
        Class probabilities of each view's ``rows``; empty without soft labels.
    coordinates : list of Tensor
        Target features of each view's ``rows``; empty without target features.
    linked_present : Tensor of bool, shape (n_linked, n_views)
        Which views each of the ``linked`` individuals has; other views hold any row in its place.
    link_targets : list of Tensor
        Target latents of each view's ``rows``, from linked rows; empty without these.
    directions : Tensor or None
        Directions to project on; None lets the coupling draw them.
    """

    Xs: list[Tensor]
    sizes: dict[str, list[int]]
    target: Tensor
    view_targets: list[Tensor] = field(default_factory=list)
    soft_labels: list[Tensor] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)
    linked_present: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.bool))
    link_targets: list[Tensor] = field(default_factory=list)
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


#: R_S: from the network, a batch and the features of the batch's rows to terms
Regularizer = Callable[[MultiViewNetwork, Batch, dict[str, list[Tensor]]], Terms]


class Objective(nn.Module):
    r"""Objective (3) of the paper, with a head per view besides the joint head, and linked rows.

    .. math:: L(g(f_1, …, f_S), y) + h \sum_s L(g_s(f_s), y) + γ (R_M + λ R_A) + τ \sum_s R_S

    R_A is the squared distance between the latents of linked rows, and a tenth of that of all rows
    from their targets, which linked rows give; these replace the constraint of the coupling.

    Parameters
    ----------
    coupling : Coupling
        R_M.
    regularizer : callable
        R_S, which a `RegularizerSpec` builds.
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
    alignment_weight : float or Tensor
        λ, one number or one per member.
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
        alignment_weight: float | Tensor = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.coupling, self.regularizer = coupling, regularizer
        self.coupling_weight, self.regularizer_weight = coupling_weight, regularizer_weight
        self.head_weight, self.source_views = head_weight, list(source_views)
        self.alignment_weight = alignment_weight
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
                    # Targets keep latents from collapsing, and their columns differ in size.
                    if not (name == "orthogonality" and batch.link_targets):
                        parts[name] = weight * part
        weight = self.coupling_weight * self.alignment_weight
        if "linked" in Fs:
            linked = network.embed(Fs["linked"])
            parts["alignment"] = weight * alignment_error(linked, batch.linked_present)
        if batch.link_targets:
            errors = [
                (Z - T).square().mean((-2, -1)) for Z, T in zip(Zs, batch.link_targets, strict=True)
            ]
            parts["extension"] = _EXTENSION * weight * torch.stack(errors).mean(0)
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


def alignment_error(Zs: Sequence[Tensor], present: Tensor) -> Tensor:
    r"""Mean squared distance between views' latents of one individual, who may lack views.

    .. math:: \frac{1}{d} \operatorname{mean}_{i,\, s<t} \|z_{is} - z_{it}\|^2

    over all individuals and the pairs of views that they have: LSCCA for partial rows, per column.

    Parameters
    ----------
    Zs : sequence of Tensor of shape (..., n, d)
        Latents of the same individuals in every view; any value where a view is absent.
    present : Tensor of bool, shape (..., n, S)
        Which views every individual has.

    Returns
    -------
    Tensor
        The mean, one number per member.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses.objective import alignment_error
    >>> Zs = [torch.zeros(2, 3), torch.ones(2, 3), torch.full((2, 3), 9.0)]
    >>> alignment_error(Zs, torch.tensor([[True, True, False], [True, True, False]]))
    tensor(1.)
    """
    Z = torch.stack(list(Zs), dim=-2)  # (..., n, S, d)
    has = present.unsqueeze(-1).to(Z.dtype)
    n = has.sum(-2, keepdim=True)
    mean = (Z * has).sum(-2, keepdim=True) / n.clamp_min(1)
    # The sum over pairs of m points is m times their squared distances from the mean.
    total = (n.squeeze(-1) * ((Z - mean) * has).square().sum(-1)).sum((-2, -1))
    n_pairs = (n * (n - 1) / 2).sum((-3, -2, -1))
    return total / (Z.shape[-1] * n_pairs.clamp_min(1))
