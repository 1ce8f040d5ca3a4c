"""Couplings by sliced Wasserstein costs, equations (8) and (9), and their specifications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf, sqrt
from typing import Any

import torch
from torch import Tensor, nn

from hotview.losses.coupling import (
    Coupling,
    Generators,
    Terms,
    check_pairs,
    constrain,
    orthogonality,
)
from hotview.losses.specifications import CouplingSizes, PaperSpec
from hotview.ot import draw_directions, sliced_cost

__all__ = [
    "ReferenceCoupling",
    "SWPairwise",
    "SWPairwiseSpec",
    "SWReference",
    "SWReferenceSpec",
    "SlicedCoupling",
    "SlicedSpec",
]


class SlicedCoupling(Coupling):
    """Base class of the sliced couplings, with the settings of directions and costs."""

    #: whether `weights` solves a problem, which cannot be part of a CUDA graph
    solves = False

    def __init__(
        self,
        orthogonality_weight: float = 0.01,
        n_projections: int = 50,
        projections: str = "orthogonal",
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.orthogonality_weight, self.exact = orthogonality_weight, isinf(orthogonality_weight)
        self.n_projections, self.projections, self.reduction = n_projections, projections, reduction

    def constrain(self, Zs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Map the latents to meet the constraint, where it is exact."""
        return constrain(Zs, self.reduction) if self.exact and not self.reference_based else Zs

    def draw(self, d: int, generator: Generators) -> Tensor:
        """Draw the directions of one step."""
        return draw_directions(
            self.n_projections, d, kind=self.projections, generator=generator, dtype=torch.float64
        )

    def weights(self, C: Tensor) -> Tensor:
        """Weights of the entries of C, constants that sum to 1.

        Parameters
        ----------
        C : Tensor of shape (..., S, S) or (..., S, K)
            Sliced costs, detached.

        Returns
        -------
        Tensor
            The weights, of the same shape.
        """
        raise NotImplementedError

    def compare(self, Zs: Sequence[Tensor], directions: Tensor | None) -> Terms:
        """Weighted sum of sliced costs, and the penalty of the constraint."""
        if not self.reference_based:
            check_pairs(Zs)
        assert directions is not None  # from `draw`
        Zs, Gs = self.constrain(Zs), self.clouds()
        C = sliced_cost(Zs, Gs, directions=directions.to(Zs[0]), reduction=self.reduction)
        fixed = C.detach()
        if self.solves and self.outside is not None:
            W = self.outside(self.weights, fixed)
        else:
            W = self.weights(fixed)
        parts = {"transport": (W * C).sum((-2, -1))}  # ⟨W, C⟩ of equations (8) to (11)
        if not self.exact:
            penalty = orthogonality(Gs or Zs, self.reduction)
            parts["orthogonality"] = self.orthogonality_weight * penalty
        return Terms(parts)


class SWPairwise(SlicedCoupling):
    r"""Sliced Wasserstein between all pairs of views, equation (8).

    .. math:: \frac{2}{S(S-1)} \sum_{s<t} SW(Z_s, Z_t) + α \Big\|\sum_s Z_s^\top Z_s - I\Big\|_F^2

    Parameters
    ----------
    orthogonality_weight : float, default=0.01
        α, weight of the constraint; infinity meets it exactly in every batch.
    n_projections : int, default=50
        Number of directions drawn in each step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn, as in :func:`hotview.ot.draw_directions`.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs are averaged over rows or, as in the paper, summed.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import SWPairwise
    >>> Z = torch.randn(100, 3)
    >>> coupling = SWPairwise(n_projections=3)
    >>> abs(coupling([Z, Z[torch.randperm(100)]])["transport"].item()) < 1e-6
    True
    """

    def weights(self, C: Tensor) -> Tensor:
        """Equal weights of all pairs."""
        S = C.shape[-1]
        return (1 - torch.eye(S, dtype=C.dtype, device=C.device)) / (S * (S - 1))


class ReferenceCoupling(SlicedCoupling):
    """Base class of couplings with learned reference clouds G_k."""

    reference_based = True

    def _draw_references(
        self, K: int, n_points: int, n_components: int, generator: torch.Generator | None
    ) -> None:
        G = torch.randn(K, n_points, n_components, generator=generator, dtype=torch.float32)
        # Scaled so that the constraint, Σ G_kᵀ G_k = I, holds in expectation at the start.
        n_summed = K * (n_points if self.reduction == "sum" else 1)
        self.references = nn.Parameter(G / sqrt(n_summed))

    def clouds(self) -> list[Tensor]:
        """Reference clouds, mapped to meet the constraint where it is exact."""
        Gs = list(self.references.unbind(-3))
        return constrain(Gs, self.reduction) if self.exact else Gs


class SWReference(ReferenceCoupling):
    r"""Sliced Wasserstein between every view and one learned reference, equation (9).

    .. math:: \frac{1}{S} \sum_s SW(Z_s, G) + α \|G^\top G - I\|_F^2

    Parameters
    ----------
    n_components : int
        Dimension of the latents.
    orthogonality_weight : float, default=0.01
        α, weight of the constraint; infinity meets it exactly in every batch.
    n_points : int, default=400
        Number of points of the reference cloud; batches may be of any size.
    n_projections : int, default=50
        Number of directions drawn in each step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn, as in :func:`hotview.ot.draw_directions`.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs are averaged over rows or, as in the paper, summed.
    generator : torch.Generator or None, default=None
        Source of the initial reference cloud.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import SWReference
    >>> coupling = SWReference(3, n_points=50)
    >>> coupling([torch.randn(80, 3), torch.randn(60, 3)]).total.backward()
    >>> coupling.references.grad.shape
    torch.Size([1, 50, 3])
    """

    def __init__(
        self,
        n_components: int,
        orthogonality_weight: float = 0.01,
        *,
        n_points: int = 400,
        n_projections: int = 50,
        projections: str = "orthogonal",
        reduction: str = "mean",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(orthogonality_weight, n_projections, projections, reduction)
        self._draw_references(1, n_points, n_components, generator)

    def weights(self, C: Tensor) -> Tensor:
        """Equal weights of all views."""
        return torch.full_like(C, 1 / (C.shape[-2] * C.shape[-1]), requires_grad=False)


@dataclass(repr=False, eq=False, kw_only=True)
class SlicedSpec(PaperSpec):
    """Settings of the sliced couplings."""

    n_projections: int = 50
    projections: str = "orthogonal"
    orthogonality_weight: float = 0.01

    def _build(self, coupling: Callable[..., Coupling], **arguments: Any) -> Coupling:
        return coupling(
            orthogonality_weight=self.orthogonality_weight,
            n_projections=self.n_projections,
            projections=self.projections,
            reduction=self.reduction,
            **arguments,
        )


@dataclass(repr=False, eq=False, kw_only=True)
class SWPairwiseSpec(SlicedSpec, name="sw-pairwise"):
    """Sliced Wasserstein distances between all views, equation (8): ``coupling="sw-pairwise"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of `plan_`: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for `plan_`; up to 100, only plain Sinkhorn iterations are run.
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the latents of
        every batch.

    Examples
    --------
    >>> from hotview import MultiViewEncoder, SWPairwiseSpec
    >>> MultiViewEncoder(SWPairwiseSpec(n_projections=20))
    MultiViewEncoder(coupling=SWPairwiseSpec(n_projections=20))
    """

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.SWPairwise`."""
        return self._build(SWPairwise)


class SWReferenceSpec(SlicedSpec, name="sw-reference"):
    """Sliced Wasserstein distances to one reference, equation (9): ``coupling="sw-reference"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of `plan_`: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for `plan_`; up to 100, only plain Sinkhorn iterations are run.
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the reference.

    Examples
    --------
    >>> from hotview import MultiViewEncoder, SWReferenceSpec
    >>> MultiViewEncoder(SWReferenceSpec(projections="qmc"))
    MultiViewEncoder(coupling=SWReferenceSpec(projections='qmc'))
    """

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.SWReference`."""
        return self._build(
            SWReference,
            n_components=sizes.n_components,
            n_points=sizes.n_points,
            generator=sizes.generator,
        )
