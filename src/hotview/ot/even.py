"""All pairs of clouds of equal size: sorted values are compared position by position.

Clouds come as the rows of matrices, (…, clouds, directions · points). For p = 2 the pair stage is a
matrix product, whatever the number of pairs: ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩. That loses digits
when a and b nearly coincide, so each block is centered and multiplied in float64, and what comes
out tiny all the same is taken again from the difference itself. On a GPU a kernel of ours takes all
differences as they are. The gradient is one matrix product either way.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hotview.ot.accelerated import is_recorded, kernels_for
from hotview.ot.memory import empty

__all__ = ["accumulator", "even_cost", "even_grad"]

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
    C = _square_sums(A, B) if p == 2 and not is_recorded(A) else _power_sums(A, B, p)
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
