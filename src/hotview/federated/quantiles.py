"""A cloud's projections, told by a few numbers per direction."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hotview.ot import draw_directions

__all__ = ["directions_of", "summarize"]


def summarize(P: Tensor, q: int) -> Tensor:
    r"""Means of q equal shares of sorted values: the nearest steps to the quantile function.

    .. math:: Q_{mi} = q \int_{i/q}^{(i+1)/q} F_m^{-1}(u)\,du

    With q values they are the sorted values themselves. With fewer, no single row is told, but the
    mean of n/q rows. Differentiable in `P`.

    Parameters
    ----------
    P : Tensor of shape (n, M)
        Projections of n rows on M directions.
    q : int
        Numbers per direction.

    Returns
    -------
    Tensor of shape (M, q)
        Each row in ascending order.

    Examples
    --------
    >>> import torch
    >>> from hotview.federated.quantiles import summarize
    >>> summarize(torch.tensor([[3.0], [1.0], [2.0], [8.0]]), 2)
    tensor([[1.5000, 5.5000]])
    """
    n, ordered = len(P), P.sort(dim=0).values
    if n == q:
        return ordered.T
    i, j = np.arange(q)[:, None], np.arange(n)[None]
    overlap = np.minimum((i + 1) * n, (j + 1) * q) - np.maximum(i * n, j * q)
    shares = torch.from_numpy(np.maximum(overlap, 0) / n).to(ordered)
    return (shares @ ordered).T


def directions_of(
    seed: int, round: int, step: int, n: int, d: int, *, kind: str = "orthogonal"
) -> Tensor:
    """The directions of a step, which everybody who knows the seed draws alike.

    Parameters
    ----------
    seed : int
        Of the federation.
    round, step : int
        Which round, and which step in it; 0 is the one that is reported on.
    n, d : int
        How many, and of which dimension.
    kind : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        As of `draw_directions`.

    Returns
    -------
    Tensor of shape (n, d), float32
        Unit vectors.

    Examples
    --------
    >>> from hotview.federated.quantiles import directions_of
    >>> bool((directions_of(0, 3, 1, 4, 2) == directions_of(0, 3, 1, 4, 2)).all())
    True
    """
    number = np.random.SeedSequence([seed, round, step]).generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(number >> np.uint64(1)))
    drawn = draw_directions(n, d, kind=kind, generator=generator, dtype=torch.float64)
    return drawn.to(torch.float32)
