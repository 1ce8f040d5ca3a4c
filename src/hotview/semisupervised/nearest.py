"""Exact nearest neighbors: by float32 first, by float64 where rounding could choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["Scorer", "find_nearest"]

_N_SCORES = {"cpu": 2**21, "cuda": 2**27}  # computed at a time, by the size of caches and GPUs
_BLOCK = 8  # scores of which the minimum is compared first
_MIN_RATIO = 16  # up to this many points per neighbor, block minima save nothing
_FEW_THREADS = 4
#: unit roundoff of reduced-precision products of matrices, by torch's setting, new or old
_ROUNDOFF = {"tf32": 2.0**-11, "bf16": 2.0**-9, "high": 2.0**-11, "medium": 2.0**-9}


@dataclass(frozen=True)
class Scorer:
    """Squared distances to points in float32, up to a constant of every row.

    Parameters
    ----------
    mean : Tensor of float64, shape (n_dimensions,)
        Mean of the points, which is subtracted to keep rounding errors small.
    matrix : Tensor of float32, shape (n_dimensions + 1, n_padded)
        -2 times the centered points above their squared lengths: the product with a row that is
        extended by 1 gives all scores at once. Points at infinity make the number of columns a
        multiple of the block size.
    radius : float
        The largest length.
    """

    mean: Tensor
    matrix: Tensor
    radius: float

    @classmethod
    def from_points(cls, points: Tensor) -> Scorer:
        """Prepare the scores of some points."""
        centered = points.double()
        mean = centered.mean(0)
        centered = centered - mean
        squares = centered.square().sum(1)
        pad = torch.nn.functional.pad
        n_more = -len(points) % _BLOCK**2
        length = pad(squares, (0, n_more), value=torch.inf)
        matrix = torch.vstack([pad(-2 * centered.T, (0, n_more)), length]).float()
        return cls(mean, matrix, float(squares.max().sqrt()))

    def prepare(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Rows to multiply by the matrix, and a bound on the error of a difference of scores."""
        centered = Y - self.mean
        # The error of a sum of d products is at most d roundings of their sizes; the rest is from
        # rounding the inputs (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
        size = self.radius * (self.radius + 2 * centered.square().sum(1).sqrt())
        backend = torch.backends.cuda if Y.device.type == "cuda" else torch.backends.mkldnn
        setting: Any = getattr(backend, "matmul", None)
        if hasattr(setting, "fp32_precision"):
            precision = setting.fp32_precision
        else:  # before torch 2.9
            precision = torch.get_float32_matmul_precision()
        roundoff = _ROUNDOFF.get(precision, 2.0**-24)
        bound = 2 * (Y.shape[1] + 8) * roundoff * size
        return torch.nn.functional.pad(centered.float(), (0, 1), value=1.0), bound.float()


def find_nearest(points: Tensor, Y: Tensor, k: int, scorer: Scorer | None = None) -> Tensor:
    r"""Numbers of the k points nearest to each row, by distances in float64.

    Of points that are equally near, the first ones are taken. Squared distances,
    :math:`\|p\|^2 - 2 y \cdot p` up to a constant, are first computed in float32, with a bound on
    their rounding error. Where the gap between the k-th and the next score exceeds the bound, the
    result does not depend on rounding; other rows are compared in float64.

    Parameters
    ----------
    points : Tensor of float32, shape (n_points, n_dimensions)
        The points.
    Y : Tensor of float64, shape (n_rows, n_dimensions)
        The rows.
    k : int
        Number of neighbors; all points where there are fewer.
    scorer : Scorer or None, default=None
        That of the points, if it was made before.

    Returns
    -------
    Tensor of int64, shape (n_rows, k)
        In no particular order.

    Examples
    --------
    >>> import torch
    >>> from hotview.semisupervised.nearest import find_nearest
    >>> points = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
    >>> find_nearest(points, torch.tensor([[0.9], [5.1]]).double(), 2).sort(dim=1).values
    tensor([[0, 1],
            [2, 3]])
    """
    if k >= len(points):
        return torch.arange(len(points), device=Y.device).repeat(len(Y), 1)
    scorer = scorer or Scorer.from_points(points)
    rows, bound = scorer.prepare(Y.detach())
    n_scores = scorer.matrix.shape[1]  # of a row
    size = max(1, _N_SCORES.get(Y.device.type, _N_SCORES["cpu"]) // n_scores)
    # One buffer for all parts: allocating it costs as much as filling it.
    buffer = rows.new_empty(min(size, len(rows)), n_scores)
    nearest = torch.empty(len(rows), k, dtype=torch.int64, device=Y.device)
    gap = rows.new_empty(len(rows))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        scores = torch.mm(part, scorer.matrix, out=buffer[: len(part)])
        smallest = _k_smallest(scores, k + 1)
        nearest[start : start + size] = smallest[:, :k]
        last = scores.gather(1, smallest[:, k - 1 :])
        gap[start : start + size] = last[:, 1] - last[:, 0]
    unsure = (~(gap > bound)).nonzero().squeeze(1)  # also where the gap is NaN
    if len(unsure) > 0:
        exact = (points.double() - scorer.mean).T
        for some in torch.split(unsure, max(1, size // 2)):  # scores in float64 are twice as large
            nearest[some] = _find_in_float64(points, exact, Y[some], scorer, k)
    return nearest


def _k_smallest(scores: Tensor, k: int) -> Tensor:
    """Numbers of the k smallest scores of every row, in order.

    They lie in the k blocks with the smallest minima, which are found in the same way where there
    are many blocks. A minimum takes one pass over memory; a sort takes several.
    """
    m, levels = len(scores), [scores]  # block b of n has the scores b, b + n, b + 2 n, …
    while (n := levels[-1].shape[1]) > _MIN_RATIO * k and n % _BLOCK == 0:
        levels.append(levels[-1].view(m, _BLOCK, n // _BLOCK).amin(1))
    values, inside = levels.pop(), None
    for finer in reversed(levels):
        chosen = _pick_smallest(values, k)
        blocks = chosen if inside is None else inside.gather(1, chosen)
        n = finer.shape[1]
        starts = torch.arange(0, n, n // _BLOCK, device=scores.device)
        inside = (blocks.unsqueeze(1) + starts.unsqueeze(1)).view(m, _BLOCK * k)
        values = finer.gather(1, inside)
    best = values.topk(k, dim=1, largest=False).indices
    return best if inside is None else inside.gather(1, best)


def _pick_smallest(values: Tensor, k: int) -> Tensor:
    """Numbers of the k smallest values of every row, in any order."""
    # With few threads numpy sorts a few numbers several times as fast as torch selects.
    if values.device.type == "cpu" and torch.get_num_threads() <= _FEW_THREADS:
        last = torch.from_numpy(np.sort(values.numpy(), axis=1)[:, k - 1 : k])
        chosen = (values <= last).nonzero()
        if len(chosen) == k * len(values) and not last.isnan().any():  # else there are ties
            return chosen[:, 1].view(len(values), k)
    return values.topk(k, dim=1, largest=False).indices


def _find_in_float64(points: Tensor, exact: Tensor, Y: Tensor, scorer: Scorer, k: int) -> Tensor:
    """Nearest points in float64: by products first, then by differences where these are unsure.

    One point far from all others makes every float32 comparison unsure; the bound in float64 is
    2²⁹ times smaller.
    """
    centered = Y - scorer.mean
    scores = torch.addmm(exact.square().sum(0), centered, exact, alpha=-2)
    # The squared differences, which are compared in the end, are rounded as well.
    squares = (scorer.radius + centered.square().sum(1).sqrt()).square()
    bound = 4 * (Y.shape[1] + 8) * 2.0**-53 * squares
    limit = scores.topk(k, dim=1, largest=False).values[:, -1] + bound
    n_near = max(k, int((scores <= limit.unsqueeze(1)).sum(1).max()))
    size = max(1, 2**21 // (n_near * Y.shape[1]))
    parts = []
    for some, y in zip(torch.split(scores, size), torch.split(Y, size), strict=True):
        near = some.topk(n_near, dim=1, largest=False).indices
        near = near.sort(dim=1).values  # so that a stable sort takes the first of equal ones
        distance = (points[near].double() - y.unsqueeze(1)).square().sum(2)
        parts.append(near.gather(1, distance.argsort(dim=1, stable=True)[:, :k]))
    return torch.cat(parts)
