"""The constraint of the couplings: latents, or references, that fill the common space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["nearest_orthonormal", "orthogonality", "second_moment"]


def second_moment(Z: Tensor, scale: str) -> Tensor:
    """ZᵀZ, added over rows (``scale="sum"``) or averaged (``"mean"``)."""
    M = Z.T @ Z
    return M if scale == "sum" else M / len(Z)


def orthogonality(Zs: Sequence[Tensor], scale: str) -> Tensor:
    r"""Squared distance of the clouds' total second moment from the identity.

    .. math:: \Big\|\sum_s Z_s^\top Z_s - I\Big\|_F^2
    """
    M = torch.stack([second_moment(Z, scale) for Z in Zs]).sum(0)
    return (M - torch.eye(len(M), dtype=M.dtype, device=M.device)).square().sum()


def nearest_orthonormal(Z: Tensor, scale: str) -> Tensor:
    """The G nearest to Z among those with ``second_moment(G, scale) = I``.

    With fewer rows than columns there is none: then the nearest of full row rank.
    """
    A, _, Bt = torch.linalg.svd(Z, full_matrices=False)
    G: Tensor = A @ Bt
    return G if scale == "sum" else G * len(Z) ** 0.5
