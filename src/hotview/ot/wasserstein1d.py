"""All pairs of clouds of equal size: sorted values are compared position by position.

Clouds come as the rows of matrices, (…, clouds, directions · points). For p = 2 the pair stage is a
matrix product, whatever the number of pairs: ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩. That loses digits
when a and b nearly coincide, so each block is centered and multiplied in float64, and what comes
out tiny all the same is taken again from the difference itself. On a GPU a kernel of ours takes all
differences as they are. The gradient is one matrix product either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from hotview.ot._backend import empty, is_capturing, kernels_for

__all__ = [
    "Grid",
    "accumulator",
    "cumulative_weights",
    "even_cost",
    "even_grad",
    "even_grid",
    "merged_cost",
    "merged_grad",
    "weighted_grid",
]

# Differences; so few are taken all at once, because calls cost more than arithmetic.
_FEW, _FEW_ON_DEVICE = 2**17, 2**26
_CLOSE = 1e-6  # squared distances below this share of the norms are taken directly
# Elements per block: its float64 copy takes 4 MB, whatever the number of clouds; on a GPU 512 MB.
_BLOCK, _BLOCK_ON_DEVICE = 2**19, 2**26


def accumulator(x: Tensor) -> torch.dtype:
    """Type to add up in: float64, except on Apple's GPUs, which have none."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def _blocks(A: Tensor, B: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Matching columns of A and B, a block at a time; one and the same block if B is A."""
    n = A.shape[-1]
    block = _BLOCK if A.device.type == "cpu" else _BLOCK_ON_DEVICE
    step = max(1, block * n // (A.numel() if B is A else A.numel() + B.numel()))
    for i in range(0, n, step):
        a = A[..., i : i + step]
        yield a, a if B is A else B[..., i : i + step]


def even_cost(A: Tensor, B: Tensor, p: float) -> Tensor:
    """Mean of |a − b|ᵖ for every row a of `A` and b of `B`; exactly symmetric if B is A."""
    kernels = kernels_for(A)
    if p == 2 and kernels is not None:
        C: Tensor = kernels.square_sums(A, B) / A.shape[-1]
        return C.triu_(1) + C.mT if B is A else C
    if A.shape[-2] * B.numel() <= (_FEW if A.device.type == "cpu" else _FEW_ON_DEVICE):
        gap = A.unsqueeze(-2) - B.unsqueeze(-3)
        return gap.abs_().pow_(p).mean(-1).to(accumulator(A))
    C = _square_sums(A, B) if p == 2 and not is_capturing(A) else _power_sums(A, B, p)
    C = C / A.shape[-1]
    return C.triu_(1) + C.mT if B is A else C


def _square_sums(A: Tensor, B: Tensor) -> Tensor:
    C = _zeros(A, B)
    size = torch.zeros_like(C)
    for a, b in _blocks(A, B):
        x = a.to(C.dtype, copy=True)
        center = x.mean(-2, keepdim=True)
        x -= center
        y = x if b is a else b.to(C.dtype) - center
        product = x @ y.mT
        norms = _norms(x, y, product)
        C += norms - 2 * product
        size += norms
    for *r, i, j in (_CLOSE * size >= C).nonzero().tolist():
        a, b = A[(*r, i)], B[(*r, j)]
        C[(*r, i, j)] = 0.0 if B is A and i >= j else _power_sums(a[None], b[None], 2)
    return C


def _zeros(A: Tensor, B: Tensor) -> Tensor:
    return A.new_zeros(*A.shape[:-1], B.shape[-2], dtype=accumulator(A))


def _norms(x: Tensor, y: Tensor, product: Tensor) -> Tensor:
    if y is x:
        norm = product.diagonal(dim1=-2, dim2=-1)
        return norm.unsqueeze(-1) + norm.unsqueeze(-2)
    return x.square().sum(-1, keepdim=True) + y.square().sum(-1).unsqueeze(-2)


def _power_sums(A: Tensor, B: Tensor, p: float) -> Tensor:
    C = _zeros(A, B)
    for a, b in _blocks(A, B):
        rows = [x.unsqueeze(-2) - b for x in a.unbind(-2)]
        C += torch.stack([gap.abs_().pow_(p).sum(-1, dtype=C.dtype) for gap in rows], dim=-2)
    return C


def even_grad(V: Tensor, n: int | None, weight: Tensor, p: float) -> Tensor:
    """Gradient in the rows of `V` of the sum of `weight` times `even_cost`.

    Parameters
    ----------
    V : Tensor of shape (..., clouds, directions · points)
        The clouds.
    n : int or None
        How many of them are compared with the rest; None compares all with all.
    weight : Tensor of shape (..., n, clouds − n) or (..., clouds, clouds)
        Of every comparison.
    p : float
        Exponent of the distance.

    Returns
    -------
    Tensor
        As `V`.
    """
    weight = weight * (p / V.shape[-1])
    if n is not None:  # rows to columns, and columns to rows
        sides = n, V.shape[-2] - n
        zeros = [weight.new_zeros(*weight.shape[:-2], k, k) for k in sides]
        upper = torch.cat([zeros[0], weight], dim=-1)
        weight = torch.cat([upper, torch.cat([weight.mT, zeros[1]], dim=-1)], dim=-2)
    grad = empty(*V.shape, dtype=V.dtype, device=V.device)
    if p == 2:  # Σ_t w_st (v_s − v_t): the weights' Laplacian
        return torch.matmul(torch.diag_embed(weight.sum(-1)) - weight, V, out=grad)
    for i, (v, w) in enumerate(zip(V.unbind(-2), weight.unbind(-2), strict=True)):
        gap = v.unsqueeze(-2) - V
        slope = gap.abs().pow_(p - 1).mul_(gap.sign())
        grad[..., i, :] = (w.unsqueeze(-2) @ slope).squeeze(-2)
    return grad


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
