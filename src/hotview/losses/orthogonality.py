"""The orthogonality constraint of latents or references: their second moment is the identity."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["constrain", "nearest_orthonormal", "orthogonality", "second_moment"]

_FLOOR, _TINY = 1e-9, 1e-30  # relative to the mean second moment, and absolute


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
