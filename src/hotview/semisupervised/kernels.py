"""Triton kernel for NVIDIA GPUs: soft labels of the nearest of a few points, in one call.

Distances never leave the registers, where torch would write them to memory and read them several
times to select. They are computed in float32 first; rows for which rounding could change the order
of the nearest points are computed again in float64. `hotview.semisupervised.knn` imports
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
    counts,
    labels,
    means,
    unsure,
    n,
    n_points,
    n_classes,
    n_neighbors,
    N_DIMENSIONS: tl.constexpr,
    N_NEAREST: tl.constexpr,
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
    left = tl.zeros((ROWS,), dtype=tl.float64) + n_neighbors
    last, least = tl.min(distance, axis=1), tl.full((ROWS,), float("inf"), dtype=dtype)
    for _ in range(N_NEAREST):
        value, nearest = tl.min(distance, axis=1, return_indices=True)  # the first of equal ones
        taken = tl.minimum(tl.load(counts + nearest).to(tl.float64), left)
        at = nearest[:, None] * n_classes + c[None, :]
        of_point = tl.load(labels + at, mask=(c < n_classes)[None, :], other=0.0).to(tl.float64)
        total += taken[:, None] * of_point
        left -= taken
        distance = tl.where(j[None, :] == nearest[:, None], float("inf"), distance)
        last = tl.min(distance, axis=1)
        least = tl.minimum(least, last - value)
    at = i[:, None] * n_classes + c[None, :]
    total = total / (n_neighbors - left)[:, None]
    tl.store(means + at, total, mask=(i < n)[:, None] & (c < n_classes)[None, :])
    if not EXACT:
        # Rounding y, differences and sums changes a squared distance by less than this.
        bound = (N_DIMENSIONS + 8) * 2.3841858e-07 * (last + size)
        is_sure = least > bound  # False where one is NaN
        tl.store(unsure + i, 1 - is_sure.to(tl.int8), mask=i < n)


def mean_of_nearest(
    points: Tensor, counts: Tensor, labels: Tensor, Y: Tensor, k: int, n_nearest: int
) -> Tensor:
    """Mean soft label of the k nearest rows at the nearest points, by distances in float64.

    Parameters
    ----------
    points : Tensor of float32, shape (n_points, n_dimensions)
        At most 1,024 points.
    counts : Tensor of float32, shape (n_points,)
        Number of rows at every point.
    labels : Tensor of float32, shape (n_points, n_classes)
        Their soft labels, of at most 64 classes.
    Y : Tensor of float64, shape (n_rows, n_dimensions)
        The rows to predict.
    k : int
        Number of rows to average.
    n_nearest : int
        Number of points to take them from, not more than there are.

    Returns
    -------
    Tensor of float64, shape (n_rows, n_classes)
        The means.
    """
    (n_points, n_dimensions), n_classes = points.shape, labels.shape[1]
    means = torch.empty(len(Y), n_classes, dtype=torch.float64, device=Y.device)
    unsure = torch.empty(len(Y), dtype=torch.int8, device=Y.device)
    inputs = (Y.contiguous(), points.T.contiguous(), counts.contiguous(), labels.contiguous())
    for exact, rows, warps in ((False, _ROWS, _WARPS), (True, _EXACT_ROWS, _EXACT_WARPS)):
        _nearest_kernel[(triton.cdiv(len(Y), rows),)](
            *inputs,
            means,
            unsure,
            len(Y),
            n_points,
            n_classes,
            k,
            N_DIMENSIONS=n_dimensions,
            N_NEAREST=n_nearest,
            ROWS=rows,
            POINTS=triton.next_power_of_2(n_points),
            CLASSES=triton.next_power_of_2(n_classes),
            EXACT=exact,
            num_warps=warps,
        )
    return means
