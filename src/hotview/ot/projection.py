"""From clouds to one dimension, and gradients back.

Clouds of equal size are handled together. Small ones in one batched product, because calls cost
more than arithmetic; large ones one by one on the CPU, because there memory costs more than calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hotview.ot._backend import empty, kernels_for

__all__ = ["project", "unproject"]

_LARGE = 2**15  # points


def _together(n: int, theta: Tensor) -> bool:
    return n <= _LARGE or theta.device.type != "cpu"


def project(theta: Tensor, clouds: Sequence[Tensor], shift: Tensor) -> Tensor:
    """``theta @ (Z - shift).T`` for clouds Z of n points each: (…, clouds, directions, n).

    Moving all clouds alike changes no cost; moved to the origin they keep their digits.
    """
    n = clouds[0].shape[-2]
    if _together(n, theta) or theta.ndim > 2:
        moved = torch.stack(list(clouds), dim=-3).sub_(shift.unsqueeze(-3))
        return theta.unsqueeze(-3) @ moved.mT
    P = empty(len(clouds), len(theta), n, dtype=theta.dtype, device=theta.device)
    for out, Z in zip(P, clouds, strict=True):
        for i in range(0, n, _LARGE):
            out[:, i : i + _LARGE] = theta @ (Z[i : i + _LARGE] - shift).T
    return P


def unproject(grad: Tensor, origin: Tensor, theta: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Gradients in the projections and in the clouds, from those in the sorted projections.

    `grad` and `origin` are (…, clouds, directions, n). Yields, per cloud, what is (…, directions,
    n) and good until the next is asked for, and what is (…, n, d).
    """
    if _together(grad.shape[-1], theta) or theta.ndim > 2:
        kernels = kernels_for(grad)
        scatter = _scatter if kernels is None else kernels.scatter_rows
        grad_P = scatter(grad, origin)
        # Transposed, since BLAS is three times slower on tall and thin matrices.
        grad_Z = (theta.mT.unsqueeze(-3) @ grad_P).mT.contiguous()
        yield from zip(grad_P.unbind(-3), grad_Z.unbind(-3), strict=True)
        return
    grad_P = empty(*grad.shape[1:], dtype=grad.dtype, device=grad.device)
    for g, index in zip(grad, origin, strict=True):
        grad_P.scatter_(-1, index, g)
        grad_Z = empty(grad.shape[-1], theta.shape[1], dtype=grad.dtype, device=grad.device)
        yield grad_P, torch.mm(grad_P.T, theta, out=grad_Z)


def _scatter(values: Tensor, origin: Tensor) -> Tensor:
    return torch.empty_like(values).scatter_(-1, origin, values)
