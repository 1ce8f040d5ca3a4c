"""The base class of couplings of the views, R_M, their terms, plan and constraint.

A coupling takes latents Z_s, one tensor of rows per view, and returns named terms whose sum is
minimized. The weight γ of the coupling belongs to the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hotview.ot import Plan, sinkhorn

__all__ = [
    "Coupling",
    "NoCoupling",
    "Planner",
    "Terms",
    "constrain",
    "nearest_orthonormal",
    "orthogonality",
    "second_moment",
]

_FLOOR, _TINY = 1e-9, 1e-30  # relative to the mean second moment, and absolute

Generators = torch.Generator | Sequence[torch.Generator] | None
Latents = Sequence[Tensor]  # one tensor (..., rows, n_components) per view


class Coupling(nn.Module):
    """Base class of the couplings.

    Attributes
    ----------
    needs_alignment : bool
        Whether row i must be the same individual in every view.
    reference_based : bool
        Whether views are compared with references instead of each other.

    Examples
    --------
    >>> from hotview.losses import Coupling, HOTPairwise
    >>> issubclass(HOTPairwise, Coupling), HOTPairwise.needs_alignment
    (True, False)
    """

    needs_alignment = False
    reference_based = False

    #: α, one number or one per member
    orthogonality_weight: float | Tensor = 0.0

    #: whether the constraint is met exactly in every batch; otherwise it is a penalty
    exact = False

    #: whether anything is coupled, and a plan can be solved for
    couples = True

    #: learned reference clouds (..., K, points, n_components), where it is `reference_based`
    references: Tensor

    #: transport plan of the last step, for couplings that have one
    plan: Plan | None = None

    #: calls a solver in the middle of a step; interrupts the capture of a CUDA graph
    outside: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor] | None = None

    def clouds(self) -> list[Tensor] | None:
        """Reference clouds; None compares the views with each other."""
        return None

    def constrain(self, Zs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Map the latents to meet the constraint, where a map of them meets it exactly.

        Parameters
        ----------
        Zs : sequence of Tensor
            Latents of each view.

        Returns
        -------
        sequence of Tensor
            These, or their images.
        """
        return Zs

    def n_constrained(self, n_views: int) -> int:
        """Number of clouds whose second moments add up to I by the constraint.

        Parameters
        ----------
        n_views : int
            Number of views.

        Returns
        -------
        int
            That of the views, or of the references.
        """
        clouds = self.clouds()
        return n_views if clouds is None else len(clouds)

    def draw(self, d: int, generator: Generators) -> Tensor | None:
        """Draw the directions of one step.

        Parameters
        ----------
        d : int
            Dimension of the latents.
        generator : torch.Generator, sequence of these, or None
            Source of the directions; one per member for several members.

        Returns
        -------
        Tensor of shape (..., M, d) or None
            The directions, on the CPU; None for couplings without projections.
        """
        return None

    def forward(
        self,
        Zs: Sequence[Tensor],
        *,
        generator: Generators = None,
        directions: Tensor | None = None,
    ) -> Terms:
        """Compare the latents of the views.

        Parameters
        ----------
        Zs : sequence of Tensor
            Latents of each view, (..., rows, n_components); numbers of rows may differ unless the
            coupling needs alignment. Leading dimensions are independent ensemble members.
        generator : torch.Generator, sequence of these, or None, default=None
            Source of the directions; one per member for several members.
        directions : Tensor of shape (..., M, n_components) or None, default=None
            Directions drawn beforehand; None draws them from `generator`.

        Returns
        -------
        Terms
            The weighted parts of the coupling, one number per member.
        """
        if directions is None:
            directions = self.draw(Zs[0].shape[-1], generator)
        return self.compare(Zs, directions)

    def compare(self, Zs: Sequence[Tensor], directions: Tensor | None) -> Terms:
        """Compare the latents of the views on given directions: what a coupling implements.

        Parameters
        ----------
        Zs : sequence of Tensor
            As of `forward`.
        directions : Tensor of shape (..., M, n_components) or None
            From `draw`.

        Returns
        -------
        Terms
            The weighted parts of the coupling, one number per member.
        """
        raise NotImplementedError


def check_pairs(Zs: Sequence[Tensor]) -> None:
    """Raise if there are fewer than two views to compare with each other."""
    if len(Zs) < 2:
        raise ValueError(
            f"Expected latents of at least 2 views to compare with each other, but {len(Zs)} came. "
            "Pass more views, or use a coupling with references."
        )


class NoCoupling(Coupling):
    """No coupling, the control.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import NoCoupling
    >>> NoCoupling()([torch.zeros(3, 2), torch.ones(4, 2)]).total
    tensor(0.)
    """

    couples = False

    def compare(self, Zs: Sequence[Tensor], directions: Tensor | None) -> Terms:
        """Return no term."""
        return Terms({})


@dataclass(frozen=True)
class Terms:
    """Named parts of a loss, each already multiplied by its weight.

    Parameters
    ----------
    parts : dict of str to Tensor
        The parts, scalars or one number per member.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import Terms
    >>> terms = Terms({"transport": torch.tensor(2.0), "orthogonality": torch.tensor(0.5)})
    >>> terms.total
    tensor(2.5000)
    >>> terms["transport"]
    tensor(2.)
    """

    parts: Mapping[str, Tensor]

    @property
    def total(self) -> Tensor:
        """Sum of all parts, 0 where there are none."""
        return sum(self.parts.values(), start=torch.zeros(()))

    def __getitem__(self, name: str) -> Tensor:
        return self.parts[name]


@dataclass(frozen=True)
class Planner:
    """Settings of the solver for a plan W over costs C.

    Parameters
    ----------
    reg : float, default=0.1
        β, the entropic regularization.
    relative : bool, default=True
        Whether β is a multiple of the mean cost; in the paper it is absolute.
    max_iter : int, default=1000
        Maximum number of Sinkhorn iterations.
    decay : float, default=0.9
        Decay of the moving average of C over steps for which W is solved; 0 uses each step's C.

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
        """Solve for the plan over given costs.

        Parameters
        ----------
        C : Tensor of shape (..., S, S) or (..., S, K)
            Costs; leading dimensions are independent problems.
        pairwise : bool
            Whether rows and columns are the same views; then the diagonal is masked.

        Returns
        -------
        Plan
            The plan, with marginals 1/S and 1/K.
        """
        mask = torch.eye(C.shape[-1], dtype=torch.bool, device=C.device) if pairwise else None
        return sinkhorn(C, mask=mask, reg=self.reg, relative=self.relative, max_iter=self.max_iter)


def second_moment(Z: Tensor, reduction: str) -> Tensor:
    """ZᵀZ, summed over rows (``reduction="sum"``) or averaged (``"mean"``)."""
    M = Z.mT @ Z
    return M if reduction == "sum" else M / Z.shape[-2]


def orthogonality(Zs: Sequence[Tensor], reduction: str) -> Tensor:
    r"""Squared distance of the clouds' total second moment from the identity.

    .. math:: \Big\|\sum_s Z_s^\top Z_s - I\Big\|_F^2
    """
    M = torch.stack([second_moment(Z, reduction) for Z in Zs]).sum(0)
    eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
    return (M - eye).square().sum((-2, -1))


def constrain(Zs: Sequence[Tensor], reduction: str) -> list[Tensor]:
    """Apply one linear map to all clouds, such that `orthogonality` is 0.

    Computed in float64. In directions without variance, the constraint is met approximately.
    """
    M = torch.stack([second_moment(Z.double(), reduction) for Z in Zs]).sum(0)
    eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
    floor = _FLOOR * M.detach().diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    L = torch.linalg.cholesky_ex(M + (floor + _TINY) * eye).L
    # Z L⁻ᵀ, whose second moment is L⁻¹ M L⁻ᵀ = I
    return [torch.linalg.solve_triangular(L, Z.double().mT, upper=False).mT.to(Z) for Z in Zs]


def nearest_orthonormal(Z: Tensor, reduction: str) -> Tensor:
    """Return the G nearest to Z with ``second_moment(G, reduction) = I``.

    With fewer rows than columns there is no such G: return the nearest with orthonormal rows.
    """
    # A small decomposition is faster on the CPU, transfers included, than on a GPU.
    A, _, Bt = torch.linalg.svd(Z.cpu(), full_matrices=False)
    G: Tensor = (A @ Bt).to(Z.device)
    return G if reduction == "sum" else G * Z.shape[-2] ** 0.5
