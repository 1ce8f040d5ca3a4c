"""How much of the common space a view fills: the watch on collapse."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["effective_rank", "effective_ranks", "spread"]


def effective_rank(Z: Tensor) -> float:
    r"""Exponential of the entropy of the normalized eigenvalues of the covariance.

    It is d for a round cloud, 1 for a line, and 0 for a point (Roy and Vetterli, 2007).

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        A cloud.

    Returns
    -------
    float
        The effective rank, from 0 to d.

    Examples
    --------
    >>> import torch
    >>> from hotview.training.effective_rank import effective_rank
    >>> corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> round(effective_rank(corners), 3), effective_rank(torch.ones(5, 2))
    (2.0, 0.0)
    """
    return effective_ranks([Z.unsqueeze(0)])[0][0]


def effective_ranks(Zs: Sequence[Tensor]) -> list[list[float]]:
    """`effective_rank` of every cloud of every (clouds, n, d), where n may differ."""
    alike = len({Z.shape for Z in Zs}) == 1  # then a few operations do for all
    parts = [_moments(torch.stack(list(Zs)))] if alike else [_moments(Z)[:, None] for Z in Zs]
    moments = torch.cat(parts, dim=1).transpose(0, 1).cpu()  # one wait for all
    eigenvalues = torch.linalg.eigvalsh(moments[:, 0]).clamp_min(0)
    total, size = eigenvalues.sum(-1), moments[:, 1].diagonal(dim1=-2, dim2=-1).sum(-1)
    # Less than rounding leaves of a cloud that is one point.
    is_point = (total <= 1e-10 * size) | (total == 0)
    shares = eigenvalues / total.masked_fill(is_point, 1.0).unsqueeze(-1)
    ranks = torch.exp(-torch.xlogy(shares, shares).sum(-1)).where(~is_point, 0)
    found: list[list[float]] = ranks.tolist()
    return found


def _moments(Z: Tensor) -> Tensor:
    """Second moments around the mean and around zero, (2, …, d, d) of (…, n, d)."""
    Z = Z.detach().double()
    centered = Z - Z.mean(-2, keepdim=True)
    return torch.stack([centered.mT @ centered, Z.mT @ Z])


def spread(Z: Tensor) -> float:
    """Root of the total variance of a cloud."""
    return float(Z.detach().var(0, correction=0).sum().sqrt())
