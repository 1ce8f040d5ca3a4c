"""Hierarchical transport, a plan over sliced costs: equations (10) and (11) of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hotview.losses.sliced import ReferenceCoupling, SlicedCoupling
from hotview.ot import Plan, sinkhorn
from hotview.ot._backend import is_capturing
from hotview.ot.sinkhorn_cuda import sinkhorn_cuda, supports_sinkhorn_cuda

__all__ = ["HOTPairwise", "HOTReference", "Planner"]


@dataclass(frozen=True)
class Planner:
    """How a plan W is found from costs C.

    Parameters
    ----------
    reg : float, default=0.1
        β, relative to the mean cost.
    relative : bool, default=True
        Whether it is; otherwise β is taken as it stands, as in the paper.
    max_iter : int, default=1000
        Most iterations of Sinkhorn.
    decay : float, default=0.9
        C is averaged over steps with this decay before W is solved for; 0 takes each step alone.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import Planner
    >>> Planner().solve(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), pairwise=True).W
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """

    reg: float = 0.1
    relative: bool = True
    max_iter: int = 1000
    decay: float = 0.9

    def solve(self, C: Tensor, *, pairwise: bool) -> Plan:
        """Solve for the plan over costs.

        Parameters
        ----------
        C : Tensor of shape (..., S, S) or (..., S, K)
            Costs; leading dimensions are separate problems.
        pairwise : bool
            Whether rows and columns are the same views, so that the diagonal is masked.

        Returns
        -------
        Plan
            With marginals 1/S and 1/K.
        """
        if self.can_solve_at_once(C):
            return sinkhorn_cuda(
                C,
                reg=self.reg,
                relative=self.relative,
                max_iter=self.max_iter,
                pairwise=pairwise,
            )
        mask = torch.eye(C.shape[-1], dtype=torch.bool, device=C.device) if pairwise else None
        return sinkhorn(C, reg=self.reg, relative=self.relative, max_iter=self.max_iter, mask=mask)

    def can_solve_at_once(self, C: Tensor) -> bool:
        """Whether a plan over these costs can be found without waiting for a GPU.

        Parameters
        ----------
        C : Tensor of shape (..., S, S) or (..., S, K)
            Costs.

        Returns
        -------
        bool
            Never on the CPU, where nothing is waited for.
        """
        return supports_sinkhorn_cuda(C, self.max_iter)


class _Hierarchical(SlicedCoupling):
    """What both forms share: the plan, solved for averaged costs and held fixed."""

    planner: Planner
    mean_cost: Tensor | None

    def _plan_with(self, planner: Planner | None) -> None:
        self.planner = planner or Planner()
        self.register_buffer("mean_cost", None)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        # Before the first step there is no average, which torch would take for a missing key.
        mean = state.get(f"{prefix}mean_cost")
        self.mean_cost = None if mean is None else torch.empty_like(mean)
        super()._load_from_state_dict(state, prefix, *args)

    def weigh(self, C: Tensor) -> Tensor:
        """The plan W over the averaged costs."""
        if self.planner.can_solve_at_once(C):  # and a recording goes on
            return self._solve(C.detach())
        return self.hold_fixed(self._solve, C)

    def _solve(self, C: Tensor) -> Tensor:
        self.plan = self.planner.solve(self._average(C), pairwise=not self.reference_based)
        return self.plan.W

    def _average(self, C: Tensor) -> Tensor:
        if self.mean_cost is None or self.mean_cost.shape != C.shape:
            mean = C
        else:
            mean = torch.lerp(C, self.mean_cost, self.planner.decay)
        if self.training and self.mean_cost is not None and is_capturing(C):
            self.mean_cost.copy_(mean)  # where the recording will read it
        elif self.training:
            self.mean_cost = mean
        return mean


class HOTPairwise(_Hierarchical):
    r"""Hierarchical transport between views, equation (10), Algorithm 1.

    .. math:: \sum_{s \ne t} w_{st} SW(Z_s, Z_t) + α \Big\|\sum_s Z_s^\top Z_s - I\Big\|_F^2

    W is the entropic plan over the sliced costs, its diagonal zero and its rows and columns adding
    up to 1/S, and is held fixed in the gradient. With two or three views these conditions alone
    make all weights equal, so that it is :class:`SWPairwise`.

    Parameters
    ----------
    orthogonality_weight : float, default=0.01
        α, with which the constraint is met; infinity meets it exactly in every batch.
    planner : Planner or None, default=None
        How W is found; None takes the defaults of :class:`Planner`.
    n_projections : int, default=50
        Directions drawn in every step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How they are drawn.
    reduction : {"mean", "sum"}, default="mean"
        Whether sums over rows are means; the paper's are sums.

    Examples
    --------
    One's own training loop:

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
        self._plan_with(planner)


class HOTReference(ReferenceCoupling, _Hierarchical):
    r"""Hierarchical transport from views to learned references, equation (11), Algorithm 2.

    .. math:: \sum_{s,k} w_{sk} SW(Z_s, G_k) + α \Big\|\sum_k G_k^\top G_k - I\Big\|_F^2

    W is the entropic plan over the sliced costs, its rows adding up to 1/S and its columns to 1/K,
    and is held fixed in the gradient. With one reference it is :class:`SWReference`.

    Parameters
    ----------
    n_components : int
        Dimension of the latents.
    n_references : int, default=3
        K, the number of reference clouds.
    orthogonality_weight : float, default=0.01
        α, with which the constraint is met; infinity meets it exactly in every batch.
    planner : Planner or None, default=None
        How W is found; None takes the defaults of :class:`Planner`.
    n_points : int, default=400
        Points of every reference cloud; batches of any size are compared with them.
    n_projections : int, default=50
        Directions drawn in every step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How they are drawn.
    reduction : {"mean", "sum"}, default="mean"
        Whether sums over rows are means; the paper's are sums.
    generator : torch.Generator or None, default=None
        Source of the initial references.

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
        super().__init__(
            n_components,
            n_references,
            n_points,
            orthogonality_weight,
            n_projections,
            projections,
            reduction,
            generator,
        )
        self._plan_with(planner)
