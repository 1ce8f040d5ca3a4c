"""How much of the common space a view fills: the watch on collapse."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["effective_rank", "spread"]


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
    >>> from hotview.training.rank import effective_rank
    >>> corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> round(effective_rank(corners), 3), effective_rank(torch.ones(5, 2))
    (2.0, 0.0)
    """
    centered = (Z - Z.mean(0)).detach().double().cpu()
    eigenvalues = torch.linalg.eigvalsh(centered.T @ centered).clamp_min(0)
    total = eigenvalues.sum()
    # Less than rounding leaves of a cloud that is one point.
    if total <= 1e-10 * Z.detach().double().square().sum().cpu() or total == 0:
        return 0.0
    shares = eigenvalues / total
    return float(torch.exp(-torch.xlogy(shares, shares).sum()))


def spread(Z: Tensor) -> float:
    """Root of the total variance of a cloud."""
    return float(Z.detach().var(0, correction=0).sum().sqrt())
