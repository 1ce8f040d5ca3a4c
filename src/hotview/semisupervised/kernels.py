"""Triton kernel for NVIDIA GPUs: soft labels of the nearest of a few points, in one call.

Distances never leave the registers, where torch would write them to memory and read them several
times to select. They are computed in float32 first; rows whose last neighbor and the next point
differ by less than rounding are computed again in float64. `hotview.semisupervised.knn` imports
this module if Triton is present.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["MAX_CLASSES", "MAX_POINTS", "mean_of_nearest"]

MAX_POINTS, MAX_CLASSES = 1024, 64  # whose distances, and labels, a program holds for its rows
_ROWS, _WARPS = 8, 2  # of a program in float32; measured on an H200
_EXACT_ROWS, _EXACT_WARPS = 8, 4  # the same in float64


@triton.jit
def _nearest_kernel(
    Y,
    points,
    labels,
    means,
    unsure,
    n,
    n_points,
    n_classes,
    N_DIMENSIONS: tl.constexpr,
    N_NEIGHBORS: tl.constexpr,
    ROWS: tl.constexpr,
    POINTS: tl.constexpr,
    CLASSES: tl.constexpr,
    EXACT: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j, c = tl.arange(0, POINTS), tl.arange(0, CLASSES)
    if EXACT:
        is_unsure = tl.load(unsure + i, mask=i < n, other=0)
        if tl.max(is_unsure, axis=0) == 0:
            return
    dtype: tl.constexpr = tl.float64 if EXACT else tl.float32
    distance = tl.zeros((ROWS, POINTS), dtype=dtype)
    size = tl.zeros((ROWS,), dtype=dtype)
    for d in range(N_DIMENSIONS):
        y = tl.load(Y + i * N_DIMENSIONS + d, mask=i < n, other=0.0).to(dtype)
        p = tl.load(points + d * n_points + j, mask=j < n_points, other=0.0).to(dtype)
        gap = y[:, None] - p[None, :]
        distance += gap * gap
        size += y * y
    distance = tl.where((j < n_points)[None, :], distance, float("inf"))
    total = tl.zeros((ROWS, CLASSES), dtype=tl.float64)
    last = tl.zeros((ROWS,), dtype=dtype)
    for _ in range(N_NEIGHBORS):
        last, nearest = tl.min(distance, axis=1, return_indices=True)  # the first of equal ones
        at = nearest[:, None] * n_classes + c[None, :]
        total += tl.load(labels + at, mask=(c < n_classes)[None, :], other=0.0).to(tl.float64)
        distance = tl.where(j[None, :] == nearest[:, None], float("inf"), distance)
    at = i[:, None] * n_classes + c[None, :]
    tl.store(means + at, total / N_NEIGHBORS, mask=(i < n)[:, None] & (c < n_classes)[None, :])
    if not EXACT:
        # Rounding y, differences and sums changes a squared distance by less than this.
        following = tl.min(distance, axis=1)
        bound = (N_DIMENSIONS + 8) * 2.3841858e-07 * (following + size)
        is_sure = following - last > bound  # False where one is NaN
        tl.store(unsure + i, 1 - is_sure.to(tl.int8), mask=i < n)


def mean_of_nearest(points: Tensor, labels: Tensor, Y: Tensor, k: int) -> Tensor:
    """Mean soft label of the k nearest points of every row, by distances in float64.

    Parameters
    ----------
    points : Tensor of float32, shape (n_points, n_dimensions)
        At most 1,024 points.
    labels : Tensor of float32, shape (n_points, n_classes)
        Their soft labels, of at most 64 classes.
    Y : Tensor of float64, shape (n_rows, n_dimensions)
        The rows.
    k : int
        Number of neighbors, not more than there are points.

    Returns
    -------
    Tensor of float64, shape (n_rows, n_classes)
        The means.
    """
    (n_points, n_dimensions), n_classes = points.shape, labels.shape[1]
    means = torch.empty(len(Y), n_classes, dtype=torch.float64, device=Y.device)
    unsure = torch.empty(len(Y), dtype=torch.int8, device=Y.device)
    tensors = (Y.contiguous(), points.T.contiguous(), labels.contiguous(), means, unsure)
    for exact, rows, warps in ((False, _ROWS, _WARPS), (True, _EXACT_ROWS, _EXACT_WARPS)):
        _nearest_kernel[(triton.cdiv(len(Y), rows),)](
            *tensors,
            len(Y),
            n_points,
            n_classes,
            N_DIMENSIONS=n_dimensions,
            N_NEIGHBORS=k,
            ROWS=rows,
            POINTS=triton.next_power_of_2(n_points),
            CLASSES=triton.next_power_of_2(n_classes),
            EXACT=exact,
            num_warps=warps,
        )
    return means
