"""Triton kernel for NVIDIA GPUs: soft labels of the nearest of a few points, in one call.

Distances never leave the registers, where torch would write them to memory and read them several
times to select. `hotview.semisupervised.knn` imports this module if Triton is present.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["MAX_CLASSES", "MAX_POINTS", "mean_of_nearest"]

MAX_POINTS, MAX_CLASSES = 1024, 64  # whose distances, and labels, a program holds for its rows
_ROWS, _WARPS = 8, 4  # of a program; measured on an H200


@triton.jit
def _nearest_kernel(
    Y,
    points,
    labels,
    means,
    n,
    n_points,
    n_classes,
    N_DIMENSIONS: tl.constexpr,
    N_NEIGHBORS: tl.constexpr,
    ROWS: tl.constexpr,
    POINTS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j, c = tl.arange(0, POINTS), tl.arange(0, CLASSES)
    distance = tl.zeros((ROWS, POINTS), dtype=tl.float64)
    for d in range(N_DIMENSIONS):
        y = tl.load(Y + i * N_DIMENSIONS + d, mask=i < n, other=0.0)
        p = tl.load(points + d * n_points + j, mask=j < n_points, other=0.0).to(tl.float64)
        gap = y[:, None] - p[None, :]
        distance += gap * gap
    distance = tl.where((j < n_points)[None, :], distance, float("inf"))
    total = tl.zeros((ROWS, CLASSES), dtype=tl.float64)
    for _ in range(N_NEIGHBORS):
        nearest = tl.argmin(distance, axis=1)  # the first of equal ones
        at = nearest[:, None] * n_classes + c[None, :]
        total += tl.load(labels + at, mask=(c < n_classes)[None, :], other=0.0).to(tl.float64)
        distance = tl.where(j[None, :] == nearest[:, None], float("inf"), distance)
    at = i[:, None] * n_classes + c[None, :]
    tl.store(means + at, total / N_NEIGHBORS, mask=(i < n)[:, None] & (c < n_classes)[None, :])


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
    _nearest_kernel[(triton.cdiv(len(Y), _ROWS),)](
        Y.contiguous(),
        points.T.contiguous(),
        labels.contiguous(),
        means,
        len(Y),
        n_points,
        n_classes,
        N_DIMENSIONS=n_dimensions,
        N_NEIGHBORS=k,
        ROWS=_ROWS,
        POINTS=triton.next_power_of_2(n_points),
        CLASSES=triton.next_power_of_2(n_classes),
        num_warps=_WARPS,
    )
    return means
