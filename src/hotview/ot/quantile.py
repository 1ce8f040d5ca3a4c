"""One-dimensional transport between sorted samples, exact for any sizes and weights.

In one dimension the optimal plan matches quantiles: the cost is the integral over the levels u of
|F⁻¹(u) − G⁻¹(u)|ᵖ. Both quantile functions are steps, so the integral is a finite sum over the
levels at which either of them jumps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from hotview.ot.even import accumulator

__all__ = ["Grid", "cumulative_weights", "even_grid", "merged_cost", "merged_grad", "weighted_grid"]


_KEPT = 2**16  # steps; larger grids are made anew, since 64 of them would fill the memory


class Grid(NamedTuple):
    """Steps of two merged quantile functions.

    Step k pairs the `left`-th smallest point of one cloud with the `right`-th of the other, with
    mass `mass`. Each is (steps,) where all directions share the grid, else (steps, directions).
    """

    left: Tensor
    right: Tensor
    mass: Tensor


def even_grid(n: int, m: int, dtype: torch.dtype, device: torch.device) -> Grid:
    """Grid of two clouds of n and m equally weighted points; the same for every direction."""
    make = _make_grid if n + m <= _KEPT else _make_grid.__wrapped__
    return make(n, m, dtype, device)


@lru_cache(maxsize=64)  # training compares the same sizes at every step
def _make_grid(n: int, m: int, dtype: torch.dtype, device: torch.device) -> Grid:
    # In whole numbers (levels times n·m) the merge is exact, and needs no sort: cloud one jumps at
    # i·m, after (i·m − 1) // n jumps of cloud two; where both jump at once, one step has no mass.
    i = torch.arange(1, n + 1, device=device)
    j = torch.arange(1, m + 1, device=device)
    place_i = i - 1 + (i * m - 1) // n
    levels = i.new_empty(n + m)
    levels[place_i] = i * m
    levels[j - 1 + j * n // m] = j * n
    left = levels.new_zeros(n + m + 1).index_fill_(0, place_i + 1, 1)[:-1].cumsum(0)
    right = torch.arange(n + m, device=device) - left
    mass = levels.diff(prepend=levels.new_zeros(1)).to(torch.float64) / (n * m)
    return Grid(left.clamp_(max=n - 1), right.clamp_(max=m - 1), mass.to(dtype))


def weighted_grid(levels_a: Tensor, levels_b: Tensor, dtype: torch.dtype) -> Grid:
    """Grid of two clouds from their cumulative weights, (directions, points), ending in 1."""
    levels = torch.cat([levels_a, levels_b], dim=-1).sort(dim=-1).values
    mass = levels.diff(dim=-1, prepend=levels.new_zeros(len(levels), 1))
    left = torch.searchsorted(levels_a, levels)
    right = torch.searchsorted(levels_b, levels)
    return Grid(left.T, right.T, mass.T.to(dtype))


def cumulative_weights(weights: Tensor, index: Tensor) -> Tensor:
    """Cumulative weights (directions, points) in sorted order, the last exactly 1."""
    levels = weights.to(accumulator(weights)).expand(len(index), -1).gather(-1, index).cumsum(-1)
    return levels / levels[:, -1:]


def _pick(X: Tensor, steps: Tensor) -> Tensor:
    # Whole rows move when all directions share the grid; that is why points come first here.
    return X.index_select(0, steps) if steps.ndim == 1 else X.gather(0, steps)


def _drop(G: Tensor, steps: Tensor, n: int) -> Tensor:
    zeros = G.new_zeros(n, G.shape[1])
    return zeros.index_add_(0, steps, G) if steps.ndim == 1 else zeros.scatter_add_(0, steps, G)


def _columns(mass: Tensor) -> Tensor:
    return mass.unsqueeze(1) if mass.ndim == 1 else mass


def merged_cost(X: Tensor, Y: Tensor, grid: Grid, p: float) -> Tensor:
    """Cost per pair, averaged over directions, of sorted clouds X and Y: (points, directions)."""
    gap = _pick(X, grid.left) - _pick(Y, grid.right)
    cost = gap.square_() if p == 2 else gap.abs_().pow_(p)
    return (cost.mul_(_columns(grid.mass))).sum(1).sum(dtype=accumulator(X)) / X.shape[1]


def merged_grad(
    X: Tensor, Y: Tensor, grid: Grid, p: float, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient of `weight` times `merged_cost` in X and in Y."""
    gap = _pick(X, grid.left) - _pick(Y, grid.right)
    slope = gap if p == 2 else gap.abs().pow_(p - 1).mul_(gap.sign())
    slope = slope.mul_(_columns(grid.mass) * (weight * (p / X.shape[1])))
    return _drop(slope, grid.left, len(X)), -_drop(slope, grid.right, len(Y))
