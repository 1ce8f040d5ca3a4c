"""Quantiles of projections, along directions that server and clients draw from a shared seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hotview.federated.settings import Settings
from hotview.ot import draw_directions, sliced_cost

__all__ = ["quantile_costs", "quantile_means", "shared_directions"]


def shared_directions(settings: Settings, round: int, step: int = 0) -> Tensor:
    """Draw the directions of a step, the same at the server and at every client.

    Parameters
    ----------
    settings : Settings
        Settings of the training, which have the shared seed.
    round, step : int
        The round, and the step in it; quantiles are sent along the directions of step 0.

    Returns
    -------
    Tensor of shape (M, d), float32
        Unit vectors.

    Examples
    --------
    >>> from hotview.federated import Settings
    >>> from hotview.federated.quantiles import shared_directions
    >>> shared_directions(Settings(n_projections=4, n_components=2), round=3).shape
    torch.Size([4, 2])
    """
    seed = np.random.SeedSequence([settings.random_state, round, step])
    number = seed.generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(number >> np.uint64(1)))
    directions = draw_directions(
        settings.n_projections,
        settings.n_components,
        kind=settings.projections,
        generator=generator,
        dtype=torch.float64,
    )
    return directions.to(torch.float32)


def quantile_means(P: Tensor, q: int) -> Tensor:
    r"""Return the mean of the quantile function over q equal intervals, for every direction.

    .. math:: Q_{mi} = q \int_{i/q}^{(i+1)/q} F_m^{-1}(u)\,du

    For q = n these are the sorted values. For fewer, each is a mean over n/q rows. Differentiable
    in `P`.

    Parameters
    ----------
    P : Tensor of shape (n, M)
        Projections of n rows on M directions.
    q : int
        Number of intervals.

    Returns
    -------
    Tensor of shape (M, q)
        Means in ascending order.

    Examples
    --------
    >>> import torch
    >>> from hotview.federated.quantiles import quantile_means
    >>> quantile_means(torch.tensor([[3.0], [1.0], [2.0], [8.0]]), 2)
    tensor([[1.5000, 5.5000]])
    """
    n, ordered = len(P), P.sort(dim=0).values
    if n == q:
        return ordered.T
    i, j = np.arange(q)[:, None], np.arange(n)[None]
    overlap = np.minimum((i + 1) * n, (j + 1) * q) - np.maximum(i * n, j * q)
    weights = torch.from_numpy(np.maximum(overlap, 0) / n).to(ordered)
    return (weights @ ordered).T


def quantile_costs(Qs: Sequence[Tensor], Rs: Sequence[Tensor] | None = None) -> Tensor:
    r"""Return sliced costs between clouds that are given by their quantiles.

    .. math:: C_{st} = \frac{1}{M} \sum_m W_2^2(Q_{s,m}, Q_{t,m})

    Parameters
    ----------
    Qs : sequence of Tensor of shape (M, q)
        Quantiles of every cloud along M directions.
    Rs : sequence of Tensor of shape (M, q), or None, default=None
        Clouds to compare with; None compares the `Qs` with each other.

    Returns
    -------
    Tensor of shape (S, S) or (S, K)
        The costs, differentiable.

    Examples
    --------
    >>> import torch
    >>> from hotview.federated.quantiles import quantile_costs
    >>> quantile_costs([torch.tensor([[0.0, 1.0]])], [torch.tensor([[2.0, 3.0]])])
    tensor([[4.]])
    """
    ones = Qs[0].new_ones(len(Qs[0]), 1, 1)
    clouds = None if Rs is None else [R.unsqueeze(-1) for R in Rs]
    return sliced_cost([Q.unsqueeze(-1) for Q in Qs], clouds, directions=ones).mean(0)
