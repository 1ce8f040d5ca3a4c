"""Triton kernel for NVIDIA GPUs: the costs of all pairs of sorted clouds, in one call.

Small clouds are bound by calls, and large ones by memory, which the kernel reads once; it needs no
synchronization. Triton is installed with torch where torch has CUDA; `hotview.ot._backend` imports
this module if Triton is present.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["square_sums"]

# Columns that one program sums (fewer where there are few, so that more programs run in parallel),
# and differences that it holds; few enough to sum in float32. Both were measured on an H200.
_COLUMNS, _FEW_COLUMNS, _MANY = 4096, 1024, 2**17
_DIFFERENCES = 2**14


@triton.jit
def _square_kernel(
    A,
    B,
    sums,
    n_a,
    n_b,
    n,
    problem_a,
    problem_b,
    row_a,
    row_b,
    BLOCK_A: tl.constexpr,
    BLOCK_B: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    SYMMETRIC: tl.constexpr,
):
    chunk, pairs, problem = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    n_chunks, across = tl.num_programs(0), tl.cdiv(n_b, BLOCK_B)
    block_a, block_b = pairs // across, pairs % across
    i = block_a * BLOCK_A + tl.arange(0, BLOCK_A)
    j = block_b * BLOCK_B + tl.arange(0, BLOCK_B)
    if SYMMETRIC and block_a > block_b:  # in the other triangle
        return
    A += problem.to(tl.int64) * problem_a + i.to(tl.int64)[:, None, None] * row_a
    B += problem.to(tl.int64) * problem_b + j.to(tl.int64)[None, :, None] * row_b
    column = chunk.to(tl.int64) * (WIDTH * STEPS) + tl.arange(0, WIDTH)[None, None, :]
    total = tl.zeros((BLOCK_A, BLOCK_B, WIDTH), dtype=tl.float32)
    for _ in range(STEPS):
        inside = column < n
        a = tl.load(A + column, mask=inside & (i < n_a)[:, None, None], other=0.0)
        b = tl.load(B + column, mask=inside & (j < n_b)[None, :, None], other=0.0)
        gap = a - b
        total += gap * gap
        column += WIDTH
    found = tl.sum(total.to(tl.float64), axis=2)
    sums += ((problem.to(tl.int64) * n_chunks + chunk) * n_a + i[:, None]) * n_b + j[None, :]
    tl.store(sums, found, mask=(i < n_a)[:, None] & (j < n_b)[None, :])


def square_sums(A: Tensor, B: Tensor) -> Tensor:
    """Sum of (a − b)² for every row a of `A` (…, a, n) and b of `B` (…, b, n), in float64.

    Differences are computed directly, so that no digits are lost where rows nearly coincide, and
    each program reads its part once. Where B is A, only the upper triangle is valid.
    """
    *batch, n_a, n = A.shape
    n_b = B.shape[-2]
    A3, B3 = (x.reshape(-1, *x.shape[-2:]) for x in (A, B))
    side_a, side_b = (min(16, triton.next_power_of_2(k)) for k in (n_a, n_b))
    columns = _COLUMNS if n > _MANY else _FEW_COLUMNS
    # Small tiles have at most 128 columns: then each lane sums several of them.
    width = min(_DIFFERENCES // (side_a * side_b), 128, triton.next_power_of_2(n))
    n_chunks = triton.cdiv(n, columns)
    sums = torch.zeros(len(A3), n_chunks, n_a, n_b, dtype=torch.float64, device=A.device)
    grid = (n_chunks, triton.cdiv(n_a, side_a) * triton.cdiv(n_b, side_b), len(A3))
    _square_kernel[grid](
        A3,
        B3,
        sums,
        n_a,
        n_b,
        n,
        *(x.stride(k) for k in (0, 1) for x in (A3, B3)),
        BLOCK_A=side_a,
        BLOCK_B=side_b,
        WIDTH=width,
        STEPS=columns // width,
        SYMMETRIC=B is A,
        num_warps=4,
    )
    return sums.sum(1).view(*batch, n_a, n_b)
