"""One-dimensional Wasserstein costs of sorted clouds, and their gradients.

Clouds of equal size are compared position by position. They are the rows of matrices, (…, clouds,
directions · points). For p = 2 all pairs are one matrix product: ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩.
That loses digits where a and b nearly coincide, so each block is centered and multiplied in
float64, and tiny results are computed again from the differences. On a GPU a kernel of ours
computes all differences. The gradient is one matrix product either way.

Clouds of different sizes or weights are compared on the merged grid of their quantile functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from hotview.ot._backend import EXACT_DTYPE, empty, kernels_for

# Differences computed at once; for so few, calls cost more than arithmetic.
_FEW, _FEW_ON_DEVICE = 2**17, 2**26
_CLOSE = 1e-6  # squared distances below this fraction of the norms are computed from differences
# Elements per block: its float64 copy takes 4 MB, whatever the number of clouds; on a GPU 512 MB.
_BLOCK, _BLOCK_ON_DEVICE = 2**19, 2**26
_CACHED = 2**16  # steps; larger grids are not cached, because 64 of them would fill the memory


def equal_size_cost(A: Tensor, B: Tensor, p: float) -> Tensor:
    """Mean of |a − b|ᵖ for each row a of `A` and b of `B`; exactly symmetric if B is A."""
    kernels = kernels_for(A)
    if p == 2 and kernels is not None:
        C: Tensor = kernels.square_sums(A, B) / A.shape[-1]
        return C.triu_(1) + C.mT if B is A else C
    if A.shape[-2] * B.numel() <= (_FEW if A.device.type == "cpu" else _FEW_ON_DEVICE):
        gap = A.unsqueeze(-2) - B.unsqueeze(-3)
        return gap.abs_().pow_(p).mean(-1).to(EXACT_DTYPE[A.device.type])
    is_captured = A.is_cuda and torch.cuda.is_current_stream_capturing()  # must not synchronize
    C = _square_sums(A, B) if p == 2 and not is_captured else _power_sums(A, B, p)
    C = C / A.shape[-1]
    return C.triu_(1) + C.mT if B is A else C


def _square_sums(A: Tensor, B: Tensor) -> Tensor:
    C = A.new_zeros(*A.shape[:-1], B.shape[-2], dtype=EXACT_DTYPE[A.device.type])
    size = torch.zeros_like(C)
    for a, b in _blocks(A, B):
        x = a.to(C.dtype, copy=True)
        center = x.mean(-2, keepdim=True)
        x -= center
        y = x if b is a else b.to(C.dtype) - center
        product = x @ y.mT
        if y is x:
            norm = product.diagonal(dim1=-2, dim2=-1)
            norms = norm.unsqueeze(-1) + norm.unsqueeze(-2)
        else:
            norms = x.square().sum(-1, keepdim=True) + y.square().sum(-1).unsqueeze(-2)
        C += norms - 2 * product
        size += norms
    for *r, i, j in (_CLOSE * size >= C).nonzero().tolist():
        a, b = A[(*r, i)], B[(*r, j)]
        C[(*r, i, j)] = 0.0 if B is A and i >= j else _power_sums(a[None], b[None], 2)
    return C


def _power_sums(A: Tensor, B: Tensor, p: float) -> Tensor:
    C = A.new_zeros(*A.shape[:-1], B.shape[-2], dtype=EXACT_DTYPE[A.device.type])
    for a, b in _blocks(A, B):
        rows = [x.unsqueeze(-2) - b for x in a.unbind(-2)]
        C += torch.stack([gap.abs_().pow_(p).sum(-1, dtype=C.dtype) for gap in rows], dim=-2)
    return C


def _blocks(A: Tensor, B: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Matching columns of A and B, a block at a time; the same tensor twice if B is A."""
    n = A.shape[-1]
    block = _BLOCK if A.device.type == "cpu" else _BLOCK_ON_DEVICE
    step = max(1, block * n // (A.numel() if B is A else A.numel() + B.numel()))
    for i in range(0, n, step):
        a = A[..., i : i + step]
        yield a, a if B is A else B[..., i : i + step]


def equal_size_grad(V: Tensor, n: int | None, weight: Tensor, p: float) -> Tensor:
    """Gradient in the rows of `V` of the sum of `weight` times `equal_size_cost`.

    Parameters
    ----------
    V : Tensor of shape (..., clouds, directions · points)
        The clouds.
    n : int or None
        The first n clouds are compared with the others; None compares all with all.
    weight : Tensor of shape (..., n, clouds − n) or (..., clouds, clouds)
        Weight of each comparison.
    p : float
        Exponent of the distance.

    Returns
    -------
    Tensor
        The gradient, of the shape of `V`.
    """
    weight = weight * (p / V.shape[-1])
    if n is not None:  # rows to columns, and columns to rows
        zeros = [weight.new_zeros(*weight.shape[:-2], k, k) for k in (n, V.shape[-2] - n)]
        upper = torch.cat([zeros[0], weight], dim=-1)
        weight = torch.cat([upper, torch.cat([weight.mT, zeros[1]], dim=-1)], dim=-2)
    grad = empty(*V.shape, dtype=V.dtype, device=V.device)
    if p == 2:  # Σ_t w_st (v_s − v_t): the Laplacian of the weights
        return torch.matmul(torch.diag_embed(weight.sum(-1)) - weight, V, out=grad)
    for i, (v, w) in enumerate(zip(V.unbind(-2), weight.unbind(-2), strict=True)):
        gap = v.unsqueeze(-2) - V
        slope = gap.abs().pow_(p - 1).mul_(gap.sign())
        grad[..., i, :] = (w.unsqueeze(-2) @ slope).squeeze(-2)
    return grad


class QuantileGrid(NamedTuple):
    """Steps of two merged quantile functions.

    Step k pairs the `left`-th smallest point of one cloud with the `right`-th of the other, with
    mass `mass`. Each is (steps,) where all directions share the grid, else (steps, directions).
    """

    left: Tensor
    right: Tensor
    mass: Tensor


def uniform_grid(n: int, m: int, dtype: torch.dtype, device: torch.device) -> QuantileGrid:
    """Grid of two clouds of n and m equally weighted points; the same for all directions."""
    make = _make_grid if n + m <= _CACHED else _make_grid.__wrapped__
    return make(n, m, dtype, device)


@lru_cache(maxsize=64)  # training compares the same sizes in every step
def _make_grid(n: int, m: int, dtype: torch.dtype, device: torch.device) -> QuantileGrid:
    # In whole numbers (levels times n·m) the merge is exact and needs no sort: cloud one jumps at
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
    return QuantileGrid(left.clamp_(max=n - 1), right.clamp_(max=m - 1), mass.to(dtype))


def weighted_grid(levels_a: Tensor, levels_b: Tensor, dtype: torch.dtype) -> QuantileGrid:
    """Grid of two clouds from their cumulative weights, (directions, points), which end in 1."""
    levels = torch.cat([levels_a, levels_b], dim=-1).sort(dim=-1).values
    mass = levels.diff(dim=-1, prepend=levels.new_zeros(len(levels), 1))
    left = torch.searchsorted(levels_a, levels)
    right = torch.searchsorted(levels_b, levels)
    return QuantileGrid(left.T, right.T, mass.T.to(dtype))


def cumulative_weights(weights: Tensor, index: Tensor) -> Tensor:
    """Cumulative weights (directions, points) in sorted order, the last exactly 1."""
    exact = weights.to(EXACT_DTYPE[weights.device.type])
    levels = exact.expand(len(index), -1).gather(-1, index).cumsum(-1)
    return levels / levels[:, -1:]


def quantile_cost(X: Tensor, Y: Tensor, grid: QuantileGrid, p: float) -> Tensor:
    """Cost of sorted clouds X and Y, (points, directions), averaged over directions."""
    gap, mass = _gaps(X, Y, grid)
    cost = gap.square_() if p == 2 else gap.abs_().pow_(p)
    return cost.mul_(mass).sum(1).sum(dtype=EXACT_DTYPE[X.device.type]) / X.shape[1]


def quantile_grad(
    X: Tensor, Y: Tensor, grid: QuantileGrid, p: float, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient of `weight` times `quantile_cost` in X and in Y."""
    gap, mass = _gaps(X, Y, grid)
    slope = gap if p == 2 else gap.abs().pow_(p - 1).mul_(gap.sign())
    slope = slope.mul_(mass * (weight * (p / X.shape[1])))
    return _sum_steps(slope, grid.left, len(X)), -_sum_steps(slope, grid.right, len(Y))


def _gaps(X: Tensor, Y: Tensor, grid: QuantileGrid) -> tuple[Tensor, Tensor]:
    """Differences of the paired points and their masses, (steps, directions)."""
    if grid.left.ndim == 1:  # whole rows are copied: that is why points come first
        gap = X.index_select(0, grid.left) - Y.index_select(0, grid.right)
        return gap, grid.mass.unsqueeze(1)
    return X.gather(0, grid.left) - Y.gather(0, grid.right), grid.mass


def _sum_steps(G: Tensor, steps: Tensor, n: int) -> Tensor:
    """Sum over the steps of each of n points."""
    zeros = G.new_zeros(n, G.shape[1])
    return zeros.index_add_(0, steps, G) if steps.ndim == 1 else zeros.scatter_add_(0, steps, G)
