"""All pairs of clouds of equal size: sorted values are compared position by position.

Clouds come as the rows of matrices, (clouds, directions · points). For p = 2 the pair stage is a
matrix product, whatever the number of pairs: ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩. That loses digits
when a and b nearly coincide, so each block is centered and multiplied in float64, and what comes
out tiny all the same is taken again from the difference itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hotview.ot.memory import empty

__all__ = ["accumulator", "even_cost", "even_grad"]

_FEW = 2**17  # differences; so few are taken all at once, because calls cost more than arithmetic
_CLOSE = 1e-6  # squared distances below this share of the norms are taken directly
_BLOCK = 2**19  # elements per block: its float64 copy takes 4 MB, whatever the number of clouds


def accumulator(x: Tensor) -> torch.dtype:
    """Type to add up in: float64, except on Apple's GPUs, which have none."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def _blocks(A: Tensor, B: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Matching columns of A and B, a block at a time; one and the same block if B is A."""
    step = max(1, _BLOCK // (len(A) if B is A else len(A) + len(B)))
    for i in range(0, A.shape[1], step):
        a = A[:, i : i + step]
        yield a, a if B is A else B[:, i : i + step]


def even_cost(A: Tensor, B: Tensor, p: float) -> Tensor:
    """Mean of |a − b|ᵖ for every row a of `A` and b of `B`; exactly symmetric if B is A."""
    if len(A) * B.numel() <= _FEW:
        return (A.unsqueeze(1) - B).abs_().pow_(p).mean(-1).to(accumulator(A))
    C = _square_sums(A, B) if p == 2 else _power_sums(A, B, p)
    C = C / A.shape[1]
    return C.triu_(1) + C.T if B is A else C


def _square_sums(A: Tensor, B: Tensor) -> Tensor:
    C = A.new_zeros(len(A), len(B), dtype=accumulator(A))
    size = torch.zeros_like(C)
    for a, b in _blocks(A, B):
        x = a.to(C.dtype, copy=True)
        center = x.mean(0)
        x -= center
        y = x if b is a else b.to(C.dtype) - center
        product = x @ y.T
        norms = _norms(x, y, product)
        C += norms - 2 * product
        size += norms
    for i, j in (_CLOSE * size >= C).nonzero().tolist():
        C[i, j] = 0.0 if B is A and i >= j else _power_sums(A[i : i + 1], B[j : j + 1], 2)
    return C


def _norms(x: Tensor, y: Tensor, product: Tensor) -> Tensor:
    if y is x:
        norm = product.diagonal()
        return norm.unsqueeze(1) + norm
    return x.square().sum(1, keepdim=True) + y.square().sum(1)


def _power_sums(A: Tensor, B: Tensor, p: float) -> Tensor:
    C = A.new_zeros(len(A), len(B), dtype=accumulator(A))
    for a, b in _blocks(A, B):
        C += torch.stack([(x - b).abs_().pow_(p).sum(1, dtype=C.dtype) for x in a])
    return C


def even_grad(A: Tensor, B: Tensor, weight: Tensor, p: float) -> Tensor:
    """Gradient in `A` of the sum of `weight` times `even_cost`."""
    weight = weight * (p / A.shape[1])
    grad = empty(*A.shape, dtype=A.dtype, device=A.device)
    if p == 2:
        return torch.mm(-weight, B, out=grad).addcmul_(A, weight.sum(1, keepdim=True))
    for i, a in enumerate(A):
        gap = a - B
        grad[i] = weight[i] @ gap.abs().pow_(p - 1).mul_(gap.sign())
    return grad
