"""Couplings by hierarchical transport, a plan over sliced costs: equations (10) and (11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hotview.losses.coupling import Coupling, Planner
from hotview.losses.sliced import ReferenceCoupling, SlicedCoupling, SlicedSpec
from hotview.losses.specifications import CouplingSizes

__all__ = ["HOTPairwise", "HOTPairwiseSpec", "HOTReference", "HOTReferenceSpec"]


class _Hierarchical(SlicedCoupling):
    """Base class of both couplings: the plan over a moving average of the costs."""

    solves = True
    planner: Planner
    mean_cost: Tensor | None

    def _set_planner(self, planner: Planner | None) -> None:
        self.planner = planner or Planner()
        self.register_buffer("mean_cost", None)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        # Before the first step there is no average, which torch would take for a missing key.
        mean = state.get(f"{prefix}mean_cost")
        self.mean_cost = None if mean is None else torch.empty_like(mean)
        super()._load_from_state_dict(state, prefix, *args)

    def weights(self, C: Tensor) -> Tensor:
        """The plan W over the costs averaged over steps (Algorithms 1 and 2)."""
        mean = C
        if self.mean_cost is not None and self.mean_cost.shape == C.shape:
            mean = torch.lerp(C, self.mean_cost, self.planner.decay)
        if self.training:
            self.mean_cost = mean
        self.plan = self.planner.solve(mean, pairwise=not self.reference_based)
        return self.plan.W


class HOTPairwise(_Hierarchical):
    r"""Hierarchical transport between views, equation (10), Algorithm 1.

    .. math:: \sum_{s \ne t} w_{st} SW(Z_s, Z_t) + α \Big\|\sum_s Z_s^\top Z_s - I\Big\|_F^2

    W is the entropic plan over the sliced costs with zero diagonal and marginals 1/S. It is a
    constant in the gradient. With two or three views these constraints make all weights equal,
    which gives :class:`SWPairwise`.

    Parameters
    ----------
    orthogonality_weight : float, default=0.01
        α, weight of the constraint; infinity meets it exactly in every batch.
    planner : Planner or None, default=None
        Settings of the solver for W; None uses the defaults of :class:`Planner`.
    n_projections : int, default=50
        Number of directions drawn in each step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn, as in :func:`hotview.ot.draw_directions`.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs are averaged over rows or, as in the paper, summed.

    Examples
    --------
    A training loop:

    >>> import torch
    >>> from hotview.losses import HOTPairwise
    >>> generator = torch.Generator().manual_seed(0)
    >>> Xs = [torch.randn(n, 5, generator=generator) for n in (90, 80, 100, 70)]
    >>> encoders = torch.nn.ModuleList(torch.nn.Linear(5, 2) for _ in Xs)
    >>> coupling = HOTPairwise(0.1)
    >>> optimizer = torch.optim.Adam([*encoders.parameters(), *coupling.parameters()], 0.01)
    >>> for _ in range(100):
    ...     terms = coupling([f(X) for f, X in zip(encoders, Xs)], generator=generator)
    ...     optimizer.zero_grad()
    ...     terms.total.backward()
    ...     optimizer.step()
    >>> coupling.plan.converged, bool(terms["transport"] < 0.02)
    (True, True)
    """

    def __init__(
        self,
        orthogonality_weight: float = 0.01,
        planner: Planner | None = None,
        *,
        n_projections: int = 50,
        projections: str = "orthogonal",
        reduction: str = "mean",
    ) -> None:
        super().__init__(orthogonality_weight, n_projections, projections, reduction)
        self._set_planner(planner)


class HOTReference(ReferenceCoupling, _Hierarchical):
    r"""Hierarchical transport from views to learned references, equation (11), Algorithm 2.

    .. math:: \sum_{s,k} w_{sk} SW(Z_s, G_k) + α \Big\|\sum_k G_k^\top G_k - I\Big\|_F^2

    W is the entropic plan over the sliced costs with marginals 1/S and 1/K. It is a constant in the
    gradient. With one reference this is :class:`SWReference`.

    Parameters
    ----------
    n_components : int
        Dimension of the latents.
    n_references : int, default=3
        K, the number of reference clouds.
    orthogonality_weight : float, default=0.01
        α, weight of the constraint; infinity meets it exactly in every batch.
    planner : Planner or None, default=None
        Settings of the solver for W; None uses the defaults of :class:`Planner`.
    n_points : int, default=400
        Number of points of each reference cloud; batches may be of any size.
    n_projections : int, default=50
        Number of directions drawn in each step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn, as in :func:`hotview.ot.draw_directions`.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs are averaged over rows or, as in the paper, summed.
    generator : torch.Generator or None, default=None
        Source of the initial reference clouds.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import HOTReference
    >>> coupling = HOTReference(3, n_references=2, n_points=50)
    >>> _ = coupling([torch.randn(n, 3) for n in (80, 60, 70)])
    >>> coupling.plan.W.shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        n_components: int,
        n_references: int = 3,
        orthogonality_weight: float = 0.01,
        planner: Planner | None = None,
        *,
        n_points: int = 400,
        n_projections: int = 50,
        projections: str = "orthogonal",
        reduction: str = "mean",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(orthogonality_weight, n_projections, projections, reduction)
        self._draw_references(n_references, n_points, n_components, generator)
        self._set_planner(planner)


@dataclass(repr=False, eq=False, kw_only=True)
class HOTPairwiseSpec(SlicedSpec, name="hot-pairwise"):
    """Hierarchical transport between views, equation (10): ``coupling="hot-pairwise"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of the plan: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for the plan; up to 100, only plain Sinkhorn iterations are
        run.
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the latents of
        every batch.
    cost_decay : float, default=0.9
        Decay of the average of costs over steps, for which the plan is solved; 0 uses the costs of
        each step alone.

    Examples
    --------
    >>> from hotview import HOTPairwiseSpec, MultiViewEncoder
    >>> MultiViewEncoder(HOTPairwiseSpec(reg=0.05))
    MultiViewEncoder(coupling=HOTPairwiseSpec(reg=0.05))
    """

    cost_decay: float = 0.9

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.HOTPairwise`."""
        return self._build(HOTPairwise, planner=self.planner)


@dataclass(repr=False, eq=False, kw_only=True)
class HOTReferenceSpec(SlicedSpec, name="hot-reference"):
    """Hierarchical transport to references, equation (11): ``coupling="hot-reference"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of the plan: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for the plan; up to 100, only plain Sinkhorn iterations are
        run.
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the
        references.
    n_references : int or None, default=None
        K, the number of reference clouds; None takes one for every two views, at least 1 and, as in
        the paper, at most 3.
    cost_decay : float, default=0.9
        Decay of the average of costs over steps, for which the plan is solved; 0 uses the costs of
        each step alone.

    Examples
    --------
    >>> from hotview import HOTReferenceSpec, MultiViewEncoder
    >>> encoder = MultiViewEncoder(HOTReferenceSpec(n_references=2))
    >>> encoder.set_params(coupling__n_projections=20)
    MultiViewEncoder(coupling=HOTReferenceSpec(n_projections=20, n_references=2))
    """

    n_references: int | None = None
    cost_decay: float = 0.9

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.HOTReference`."""
        n_references = self.n_references
        if n_references is None:
            n_references = min(3, max(1, sizes.n_views // 2))
        return self._build(
            HOTReference,
            n_references=n_references,
            planner=self.planner,
            n_components=sizes.n_components,
            n_points=sizes.n_points,
            generator=sizes.generator,
        )
