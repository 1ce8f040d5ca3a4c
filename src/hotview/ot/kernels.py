"""Triton kernels for NVIDIA GPUs.

A training step compares small clouds, where calls cost more than arithmetic: each kernel is one
call. Large clouds are bound by memory, which each kernel reads once. Triton is installed with torch
where torch has CUDA; `hotview.ot._backend` imports this module if Triton is present.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from hotview.ot.sinkhorn_iterations import BLOCK, MASKED

__all__ = ["scatter_rows", "sinkhorn", "sort_short_rows", "square_sums"]

# Columns that one program sums (fewer where there are few, so that more programs run in parallel),
# and differences that it holds; few enough to sum in float32. Both were measured on an H200.
_COLUMNS, _FEW_COLUMNS, _MANY = 4096, 1024, 2**17
_DIFFERENCES = 2**14


@triton.jit
def _sort_kernel(P, values, origin, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    bits = tl.load(P + row * n + at, mask=at < n, other=0.0).to(tl.int32, bitcast=True)
    # Integers of the same order as the floats, in the bits above the index.
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = tl.where(at < n, key, 0x7FFFFFFF)
    pairs = tl.sort((key.to(tl.int64) << 32) | at.to(tl.int64))
    key = (pairs >> 32).to(tl.int32)
    bits = tl.where(key < 0, key ^ 0x7FFFFFFF, key)
    tl.store(values + row * n + at, bits.to(tl.float32, bitcast=True), mask=at < n)
    tl.store(origin + row * n + at, pairs & 0xFFFFFFFF, mask=at < n)


def sort_short_rows(P: Tensor) -> tuple[Tensor, Tensor]:
    """Sort float32 rows of at most 1,024 elements along the last axis, stably, in one call."""
    P = P.contiguous()
    n = P.shape[-1]
    values, origin = torch.empty_like(P), torch.empty_like(P, dtype=torch.int64)
    block = triton.next_power_of_2(n)
    grid = (P.numel() // n,)
    _sort_kernel[grid](P, values, origin, n, BLOCK=block, num_warps=8 if block <= 512 else 16)
    return values, origin


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


@triton.jit
def _scatter_kernel(values, origin, out, n, BLOCK: tl.constexpr):
    blocks = tl.cdiv(n, BLOCK)
    program = tl.program_id(0)
    start = (program // blocks).to(tl.int64) * n
    at = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    where = tl.load(origin + start + at, mask=at < n, other=0)
    value = tl.load(values + start + at, mask=at < n)
    tl.store(out + start + where, value, mask=at < n)


def scatter_rows(values: Tensor, origin: Tensor) -> Tensor:
    """Scatter the values of each row to `origin`: ``out.scatter_(-1, origin, values)``."""
    out, n = torch.empty_like(values), values.shape[-1]
    grid = (values.numel() // n * triton.cdiv(n, 1024),)
    _scatter_kernel[grid](values, origin, out, n, BLOCK=1024, num_warps=4)
    return out


@triton.jit
def _sinkhorn_kernel(
    C,
    W,
    f,
    g,
    used,
    errors,
    S,
    K,
    reg,
    rest_of_reg,
    resolution,
    max_iter,
    tol,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    RELATIVE: tl.constexpr,
    PAIRWISE: tl.constexpr,
    NOWHERE: tl.constexpr,
    EVERY: tl.constexpr,
):
    problem = tl.program_id(0).to(tl.int64)
    i, j = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (i < S)[:, None] & (j < K)[None, :]
    allowed = inside & (i[:, None] != j[None, :]) if PAIRWISE else inside
    at = (problem * S + i[:, None]) * K + j[None, :]
    cost = tl.load(C + at, mask=allowed, other=0.0).to(tl.float64)
    size = tl.sum(tl.sum(tl.abs(cost), axis=1), axis=0)
    # Triton passes a number as float32: the remainder is a second argument.
    one = tl.full((), 1.0, dtype=tl.float64)
    scale = one * reg + rest_of_reg
    if RELATIVE:
        mean = size / tl.sum(tl.sum(allowed.to(tl.float64), axis=1), axis=0)
        scale *= tl.where(mean > 0, mean, 1.0)
    largest = tl.max(tl.max(tl.abs(cost), axis=1), axis=0)
    scale = tl.maximum(scale, largest * resolution)
    L = tl.where(allowed, -cost / scale, NOWHERE)
    a, b = one / S, one / K
    phi = tl.zeros((ROWS,), dtype=tl.float64)
    psi = tl.zeros((COLUMNS,), dtype=tl.float64)
    made, error = 0, one * float("inf")
    while (made < max_iter) & (error > tol):
        x = L + psi[None, :]
        top = tl.max(x, axis=1)
        phi = tl.log(a) - tl.log(tl.sum(tl.exp(x - top[:, None]), axis=1)) - top
        phi = tl.where(i < S, phi, 0.0)
        y = L + phi[:, None]
        top = tl.max(y, axis=0)
        last = psi
        psi = tl.log(b) - tl.log(tl.sum(tl.exp(y - top[None, :]), axis=0)) - top
        psi = tl.where(j < K, psi, 0.0)
        made += 1
        if (made % EVERY == 0) | (made == max_iter):
            off = tl.abs(tl.exp(last - psi) - 1.0) * b
            error = tl.sum(tl.where(j < K, off, 0.0), axis=0)
    if PAIRWISE:  # the plan is symmetric, as the costs are
        other = tl.sum(tl.where(i[:, None] == j[None, :], psi[None, :], 0.0), axis=1)
        mine = tl.sum(tl.where(i[:, None] == j[None, :], phi[:, None], 0.0), axis=0)
        phi, psi = (phi + other) / 2, (psi + mine) / 2
    plan = tl.exp(L + (phi[:, None] + psi[None, :]))
    off_rows = tl.sum(tl.where(i < S, tl.abs(tl.sum(plan, axis=1) - a), 0.0), axis=0)
    off_columns = tl.sum(tl.where(j < K, tl.abs(tl.sum(plan, axis=0) - b), 0.0), axis=0)
    tl.store(W + at, plan, mask=inside)
    tl.store(f + problem * S + i, phi * scale, mask=i < S)
    tl.store(g + problem * K + j, psi * scale, mask=j < K)
    tl.store(used + problem, scale)
    tl.store(errors + problem, tl.maximum(off_rows, off_columns))


class SinkhornSolution(NamedTuple):
    """Plans (…, S, K), their potentials, the regularization in use and the marginals' errors."""

    W: Tensor
    f: Tensor
    g: Tensor
    reg: Tensor
    marginal_error: Tensor


def sinkhorn(
    C: Tensor,
    *,
    reg: float,
    relative: bool,
    max_iter: int,
    tol: float,
    resolution: float,
    pairwise: bool,
) -> SinkhornSolution:
    """Sinkhorn's iterations with equal marginals, without synchronization.

    The iterations of `hotview.ot.sinkhorn` without Newton steps, in the log domain and float64.
    Costs that are not finite give plans that are not finite.

    Parameters
    ----------
    C : Tensor of shape (..., S, K)
        Costs; leading dimensions are independent problems.
    reg, relative, max_iter, tol : float, bool, int, float
        As of `hotview.ot.sinkhorn`.
    resolution : float
        Lower bound of the regularization, relative to the largest cost.
    pairwise : bool
        Whether the diagonal is masked and the plan symmetric.

    Returns
    -------
    SinkhornSolution
        Its tensors are on the device of `C`.
    """
    *batch, S, K = C.shape
    C = C.contiguous()
    float64 = [
        torch.empty((*batch, *end), dtype=torch.float64, device=C.device)
        for end in ((S,), (K,), (), ())
    ]
    solution = SinkhornSolution(torch.empty_like(C), *float64)
    short = float(np.float32(reg))
    _sinkhorn_kernel[(math.prod(batch),)](
        C,
        *solution,
        S,
        K,
        short,
        reg - short,
        resolution,
        max_iter,
        tol,
        ROWS=triton.next_power_of_2(S),
        COLUMNS=triton.next_power_of_2(K),
        RELATIVE=relative,
        PAIRWISE=pairwise,
        NOWHERE=MASKED,
        EVERY=BLOCK,
        num_warps=1 if S * K <= 1024 else 4,
    )
    return solution
