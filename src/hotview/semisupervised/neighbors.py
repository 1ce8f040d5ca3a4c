"""The nearest of some places to each of many rows: products in float32, doubts in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.training.rows import ViewRows

__all__ = ["Scorer", "find_nearest", "nearest_neighbors", "neighbors_among"]

_ROOM = {"cpu": 2**21, "cuda": 2**27}  # distances at a time: what caches hold, what fills a GPU
_BLOCK = 8  # places of which only the nearest is looked at first
_FEW = 16  # times as many places as are sought, among which looking for blocks gains nothing
_FEW_THREADS = 4
_ROUNDOFF = {"tf32": 2.0**-11, "bf16": 2.0**-9}  # where a user lets products be coarse


def find_nearest(places: Tensor, Y: Tensor, k: int, scorer: Scorer | None = None) -> Tensor:
    r"""Numbers of the k places nearest to each row, by distances in float64.

    Of places that are equally near, the first ones are taken. Squared distances,
    :math:`\|p\|^2 - 2 y \cdot p` but for a constant, are first computed in float32, with a bound on
    their rounding. Where the k nearest are apart from the next one by more than the bound, no
    rounding can have chosen them, on whatever device; others are looked at again.

    Parameters
    ----------
    places : Tensor of float32, shape (n_places, n_dimensions)
        Where to look.
    Y : Tensor of float64, shape (n_rows, n_dimensions)
        The rows.
    k : int
        How many to find; fewer where there are fewer places.
    scorer : Scorer or None, default=None
        That of the places, where it is at hand.

    Returns
    -------
    Tensor of int64, shape (n_rows, k)
        In no particular order.

    Examples
    --------
    >>> import torch
    >>> from hotview.semisupervised.neighbors import find_nearest
    >>> places = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
    >>> find_nearest(places, torch.tensor([[0.9], [5.1]]).double(), 2).sort(dim=1).values
    tensor([[0, 1],
            [2, 3]])
    """
    if k >= len(places):
        return torch.arange(len(places), device=Y.device).repeat(len(Y), 1)
    scorer = scorer or Scorer.of(places)
    rows, doubt = scorer.prepare(Y.detach())
    near, last = _look_once(scorer, rows, k)
    unsure = (~(last[:, 1] - last[:, 0] > doubt)).nonzero().squeeze(1)  # NaN is no answer
    if len(unsure) == 0:
        return near
    exact = (places.double() - scorer.mean).T
    size = max(1, _fitting(scorer.n_padded, Y.device) // 2)  # scores in float64 are twice as large
    for start in range(0, len(unsure), size):
        some = unsure[start : start + size]
        near[some] = _look_again(places, exact, Y[some], scorer, k)
    return near


def _look_once(scorer: Scorer, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Numbers of the k smallest scores of every row, and the last of these and the next one."""
    size = _fitting(scorer.n_padded, rows.device)
    # One room for all: to get this much memory anew costs as much as to fill it.
    room = rows.new_empty(min(size, len(rows)), scorer.n_padded)
    near = torch.empty(len(rows), k, dtype=torch.int64, device=rows.device)
    last = rows.new_empty(len(rows), 2)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        scores = torch.mm(part, scorer.matrix, out=room[: len(part)])
        found = _smallest(scores, k + 1)
        near[start : start + size] = found[:, :k]
        last[start : start + size] = scores.gather(1, found[:, k - 1 :])
    return near, last


def _fitting(n_places: int, device: torch.device) -> int:
    """How many rows to look at together."""
    return max(1, _ROOM.get(device.type, _ROOM["cpu"]) // n_places)


@dataclass(frozen=True)
class Scorer:
    """Squared distances in float32, less what all places have in common.

    Parameters
    ----------
    mean : Tensor of float64, shape (n_dimensions,)
        Middle of the places; as seen from there, rounding is least.
    matrix : Tensor of float32, shape (n_dimensions + 1, n_padded)
        -2 times the places, and below these their squared lengths, to which every row gets a 1:
        one product makes the scores, and nothing is added to them after. The number of places is
        made a multiple of that of blocks by some that are infinitely far.
    radius : float
        The largest length.
    """

    mean: Tensor
    matrix: Tensor
    radius: float

    @classmethod
    def of(cls, places: Tensor) -> Scorer:
        """Make it for some places."""
        centered = places.double()
        mean = centered.mean(0)
        centered = centered - mean
        squares = centered.square().sum(1)
        pad = torch.nn.functional.pad
        n_more = -len(places) % _BLOCK**2
        length = pad(squares, (0, n_more), value=torch.inf)
        matrix = torch.vstack([pad(-2 * centered.T, (0, n_more)), length]).float()
        return cls(mean, matrix, float(squares.max().sqrt()))

    @property
    def n_padded(self) -> int:
        """Number of scores of a row."""
        return self.matrix.shape[1]

    def prepare(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Rows to multiply with the matrix, and how far two scores of each may be out together."""
        centered = Y - self.mean
        # A sum of d products in any order is out by at most d roundings of their sizes; the rest is
        # of what goes in (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
        size = self.radius * (self.radius + 2 * centered.square().sum(1).sqrt())
        doubt = 2 * (Y.shape[1] + 8) * _roundoff(Y.device) * size
        return torch.nn.functional.pad(centered.float(), (0, 1), value=1.0), doubt.float()


def _smallest(scores: Tensor, k: int) -> Tensor:
    """Numbers of the k smallest scores of every row, in order.

    They lie in the k blocks whose minima are smallest; where there are many blocks, these are found
    in the same way. A minimum is one pass over memory, which a sort is not.
    """
    inside, values = _candidates(scores, k)
    best = values.topk(k, dim=1, largest=False).indices
    return best if inside is None else inside.gather(1, best)


def _candidates(scores: Tensor, k: int) -> tuple[Tensor | None, Tensor]:
    """Numbers of some scores of every row, the k smallest among them, and these; None for all."""
    m, n = scores.shape
    if n <= _FEW * k or n % _BLOCK > 0:
        return None, scores
    n_blocks = n // _BLOCK  # block b has the scores b, b + n_blocks, …
    inner, minima = _candidates(scores.view(m, _BLOCK, n_blocks).amin(1), k)
    blocks = _pick(minima, k) if inner is None else inner.gather(1, _pick(minima, k))
    starts = torch.arange(0, n, n_blocks, device=scores.device)
    inside = (blocks.unsqueeze(1) + starts.unsqueeze(1)).view(m, _BLOCK * k)
    return inside, scores.gather(1, inside)


def _pick(values: Tensor, k: int) -> Tensor:
    """Numbers of the k smallest of few values, in any order."""
    # There numpy, in one thread, sorts a few numbers several times as fast as torch selects.
    if values.device.type == "cpu" and torch.get_num_threads() <= _FEW_THREADS:
        last = torch.from_numpy(np.sort(values.numpy(), axis=1)[:, k - 1 : k])
        found = (values <= last).nonzero()
        if len(found) == k * len(values) and not last.isnan().any():  # else some are equal
            return found[:, 1].view(len(values), k)
    return values.topk(k, dim=1, largest=False).indices


def _look_again(places: Tensor, exact: Tensor, Y: Tensor, scorer: Scorer, k: int) -> Tensor:
    """Compare in float64: by products first, and by differences who is still in doubt.

    One place far from all others makes float32 doubt everything; float64 doubts 2²⁹ times less.
    """
    centered = Y - scorer.mean
    scores = torch.addmm(exact.square().sum(0), centered, exact, alpha=-2)
    # What is compared in the end, squared differences, is rounded, too, by the size of these.
    squares = (scorer.radius + centered.square().sum(1).sqrt()).square()
    doubt = 4 * (Y.shape[1] + 8) * 2.0**-53 * squares
    most = scores.topk(k, dim=1, largest=False).values[:, -1] + doubt
    n_near = max(k, int((scores <= most.unsqueeze(1)).sum(1).max()))
    size = max(1, 2**21 // (n_near * Y.shape[1]))
    parts = zip(torch.split(scores, size), torch.split(Y, size), strict=True)
    return torch.cat([_compare(places, y, part, n_near, k) for part, y in parts])


def _compare(places: Tensor, Y: Tensor, scores: Tensor, n_near: int, k: int) -> Tensor:
    near = scores.topk(n_near, dim=1, largest=False).indices
    near = near.sort(dim=1).values  # of places that are equally near, the first
    squares = (places[near].double() - Y.unsqueeze(1)).square().sum(2)
    return near.gather(1, squares.argsort(dim=1, stable=True)[:, :k])


def _roundoff(device: torch.device) -> float:
    """Relative error of one rounding in a product of float32 matrices, as torch is set."""
    backend = torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn
    setting: Any = getattr(backend, "matmul", None)
    if hasattr(setting, "fp32_precision"):
        return _ROUNDOFF.get(setting.fp32_precision, 2.0**-24)
    coarse = {"high": "tf32", "medium": "bf16"}  # as torch called them before 2.9
    name = coarse.get(torch.get_float32_matmul_precision(), "ieee")
    return _ROUNDOFF.get(name, 2.0**-24)


def nearest_neighbors(rows: ViewRows, components: PCA, n_neighbors: int) -> IntArray:
    """Nearest neighbors of every row of a view among its other rows.

    Neighbors are sought among the leading principal components: noise in many small directions
    hides who is near.

    Parameters
    ----------
    rows : ViewRows
        The view.
    components : PCA
        Its principal components.
    n_neighbors : int
        Neighbors per row; fewer where there are fewer other rows.

    Returns
    -------
    ndarray of int64, shape (n_rows, n_neighbors)
        Row numbers.
    """
    Y = np.concatenate([components.transform(X.cpu().numpy()) for X in rows.chunks()])
    return neighbors_among(Y, n_neighbors)


def neighbors_among(Y: Array, n_neighbors: int) -> IntArray:
    """Nearest neighbors of every row of Y among its other rows; fewer where there are fewer."""
    search = NearestNeighbors(n_neighbors=min(n_neighbors, len(Y) - 1)).fit(Y)
    found: IntArray = search.kneighbors(return_distance=False)
    return found
