"""Exact nearest neighbors and the nearest-neighbor predictor of one view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from hotview._archive import round_to_float16
from hotview.ot._backend import kernels_for

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

__all__ = ["FLOOR", "Coordinates", "KNNPredictor", "PCABasis", "Scorer", "find_nearest"]

FLOOR = 0.01  # added to every class probability: all neighbors of a row may be wrong
_N_SCORES = {"cpu": 2**21, "cuda": 2**27}  # computed at a time, by the size of caches and GPUs
_N_DIMENSIONS, _N_CENTERS = 20, 1000  # of the space, and of the points, of a condensed predictor
_N_ITERATIONS = 10  # of Lloyd's algorithm
_MIN_CLUSTERS = 5  # whose rows are averaged
_BLOCK = 8  # scores of which the minimum is compared first
_MIN_RATIO = 16  # up to this many points per neighbor, block minima save nothing
_FEW_THREADS = 4
_ROUNDOFF = {"tf32": 2.0**-11, "bf16": 2.0**-9}  # of reduced-precision matrix products


@dataclass(frozen=True)
class PCABasis:
    """Principal components of a view, scaled to a root mean square distance of 1 from the mean.

    Parameters
    ----------
    mean : Tensor of shape (n_columns,)
        Mean of the standardized columns.
    directions : Tensor of shape (n_columns, n_components)
        Principal directions, divided by the root mean square distance.
    """

    mean: Tensor
    directions: Tensor

    @classmethod
    def from_pca(cls, pca: PCA, n: int, device: torch.device) -> PCABasis:
        """Take the first n components of a fitted PCA."""
        variance = float(pca.explained_variance_[:n].sum())
        scale = variance**0.5 if variance > 0 else 1.0
        return cls(
            torch.as_tensor(pca.mean_, dtype=torch.float32, device=device),
            torch.as_tensor(pca.components_[:n].T / scale, dtype=torch.float32, device=device),
        )

    def project(self, X: Tensor) -> Tensor:
        """Components of standardized rows, in the dtype of these."""
        return (X - self.mean.to(X.dtype)) @ self.directions.to(X.dtype)


@dataclass(frozen=True)
class Coordinates:
    """Linear map of a view's columns and features to the space in which neighbors are found.

    Parameters
    ----------
    columns : Tensor of float32, shape (n_columns, n_dimensions)
        Weights of the standardized columns.
    features : Tensor of float32, shape (n_features, n_dimensions)
        Weights of the features, those of all ensemble members side by side.
    offset : Tensor of float64, shape (n_dimensions,)
        Added to the weighted sums.
    """

    columns: Tensor
    features: Tensor
    offset: Tensor

    @classmethod
    def concatenate(cls, basis: PCABasis, scales: Sequence[float], width: int) -> Coordinates:
        """Principal components beside the features of all members, which are divided by `scales`.

        A squared distance is that of the components plus the mean over members of those of the
        features, of which every member has `width`.
        """
        n_columns, n_components = basis.directions.shape
        n_features = len(scales) * width
        columns = basis.directions.new_zeros(n_columns, n_components + n_features)
        columns[:, :n_components] = basis.directions
        weights = torch.tensor(scales, dtype=torch.float64).pow(-1) / math.sqrt(max(len(scales), 1))
        features = columns.new_zeros(n_features, n_components + n_features)
        features[:, n_components:] = weights.repeat_interleave(width).diag().to(features)
        offset = -(basis.mean.double() @ columns.double())
        return cls(columns, features, offset)

    def project(self, X: Tensor, features: Tensor) -> Tensor:
        """Coordinates of standardized rows in float64, from them and their features."""
        # In float32, rounding would choose among neighbors, and differently on every device.
        by_columns = torch.addmm(self.offset, X.double(), self.columns.double())
        if len(self.features) == 0:
            return by_columns
        return torch.addmm(by_columns, features.double(), self.features.double())

    def rotate(self, center: Tensor, directions: Tensor) -> Coordinates:
        """Coordinates less a center, projected on some directions; all in float64."""
        columns, features = (A.double() @ directions for A in (self.columns, self.features))
        offset = (self.offset - center) @ directions
        return Coordinates(columns.float(), features.float(), offset)

    def to(self, device: torch.device | str) -> Coordinates:
        """The same map on another device."""
        moved = (x.to(device) for x in (self.columns, self.features, self.offset))
        return Coordinates(*moved)


@dataclass(frozen=True)
class KNNPredictor:
    """Nearest-neighbor classifier with soft labels.

    Parameters
    ----------
    coordinates : Coordinates
        The space in which neighbors are found.
    points : Tensor of float32, shape (n_points, n_dimensions)
        Training rows in this space, or centers of clusters of them.
    counts : Tensor of float32, shape (n_points,), or None
        Number of rows at every point; None for one.
    soft_labels : Tensor of float32, shape (n_points, n_classes)
        Their class probabilities.
    n_neighbors : int
        Number of rows to average.
    n_nearest : int
        Number of points to find them at; where these have fewer rows, all of them are averaged.
    """

    coordinates: Coordinates
    points: Tensor
    counts: Tensor | None
    soft_labels: Tensor
    n_neighbors: int
    n_nearest: int

    @classmethod
    def of_rows(
        cls, coordinates: Coordinates, points: Tensor, soft_labels: Tensor, k: int
    ) -> KNNPredictor:
        """The classifier by the k nearest of some rows."""
        return cls(coordinates, points, None, soft_labels, k, k)

    def predict_log_proba(self, Y: Tensor, own: Tensor | None = None) -> Tensor:
        """Logarithm of the mean soft label of the nearest neighbors.

        Parameters
        ----------
        Y : Tensor of float64, shape (n_rows, n_dimensions)
            Coordinates of the rows.
        own : Tensor of int64, shape (n_rows,), or None, default=None
            Number of the point that is the row itself, which is no neighbor; −1 for none.

        Returns
        -------
        Tensor of float64, shape (n_rows, n_classes)
            Logarithms, none of them below that of 0.01; they are not normalized.
        """
        kernels = _kernels_for(self) if own is None else None
        if kernels is not None and len(Y) > 0:
            n_nearest = min(self.n_nearest, len(self.points))
            counts = torch.ones_like(self.points[:, 0]) if self.counts is None else self.counts
            rows = (self.points, counts, self.soft_labels)
            means = kernels.mean_of_nearest(*rows, Y, self.n_neighbors, n_nearest)
        else:
            means = self._average(self.nearest(Y) if own is None else self._nearest_others(Y, own))
        log_means: Tensor = means.add_(FLOOR).log_()
        return log_means

    def _average(self, nearest: Tensor) -> Tensor:
        """Mean soft label of the first rows at the given points, the nearest points first."""
        n, k = nearest.shape
        labels = self.soft_labels.double().index_select(0, nearest.reshape(-1)).view(n, k, -1)
        if self.counts is None:
            return labels.mean(1)
        count = self.counts.double()[nearest]
        left = self.n_neighbors - (count.cumsum(1) - count)
        taken = count.minimum(left.clamp_min(0.0))
        return torch.einsum("nk,nkc->nc", taken, labels) / taken.sum(1, keepdim=True)

    def nearest(self, Y: Tensor) -> Tensor:
        """Numbers of the points nearest to each row, (n_rows, n_nearest).

        The nearest come first, where points have different numbers of rows.
        """
        found = find_nearest(self.points, Y, self.n_nearest, self._scorer)
        if self.counts is None:  # then their order does not matter
            return found
        distance = (self.points[found].double() - Y.unsqueeze(1)).square().sum(2)
        return found.gather(1, distance.argsort(dim=1, stable=True))

    def _nearest_others(self, Y: Tensor, own: Tensor) -> Tensor:
        """Numbers of the nearest points but a row's own."""
        k = min(self.n_nearest, len(self.points) - 1)
        nearest = find_nearest(self.points, Y, k + 1, self._scorer)
        distance = (self.points[nearest].double() - Y.unsqueeze(1)).square().sum(2)
        distance = distance.masked_fill(nearest == own.unsqueeze(1), torch.inf)
        kept = distance.topk(k, dim=1, largest=False).indices
        return nearest.gather(1, kept)

    def condense(self, random: np.random.Generator) -> KNNPredictor:
        """A smaller predictor: in fewer dimensions, and with centers of clusters as points.

        The points are projected on their 20 leading principal components. More than 1,000 of them
        are clustered by k-means: all rows of a cluster are taken to be at its center, with their
        mean soft label. As centers are coarser than rows, more rows are averaged: as many as five
        clusters have on average.

        Parameters
        ----------
        random : numpy Generator
            Source of the first centers.

        Returns
        -------
        KNNPredictor
            Its points and soft labels are rounded to float16.
        """
        P, device = self.points.double().cpu(), self.points.device
        center = P.mean(0)
        _, directions = torch.linalg.eigh((P - center).T @ (P - center))
        directions = directions[:, -_N_DIMENSIONS:].flip(1)
        points, labels = ((P - center) @ directions).float(), self.soft_labels.cpu()
        counts, k = None, self.n_neighbors
        if len(points) > _N_CENTERS:
            k = max(k, math.ceil(_MIN_CLUSTERS * len(points) / _N_CENTERS))
            points, counts, labels = _cluster(points, labels, random, device)
        points, labels = round_to_float16(points), round_to_float16(labels)
        coordinates = self.coordinates.to("cpu").rotate(center, directions)
        condensed = KNNPredictor(coordinates, points, counts, labels, k, self.n_nearest)
        return condensed.to(device)

    def to(self, device: torch.device | str) -> KNNPredictor:
        """The same predictor on another device."""
        return replace(
            self,
            coordinates=self.coordinates.to(device),
            points=self.points.to(device),
            counts=None if self.counts is None else self.counts.to(device),
            soft_labels=self.soft_labels.to(device),
        )

    @cached_property
    def _scorer(self) -> Scorer:
        """Cached: building it takes longer than predicting a single row."""
        return Scorer.from_points(self.points)

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state, without the cached scorer."""
        return {name: value for name, value in self.__dict__.items() if name != "_scorer"}


def _kernels_for(knn: KNNPredictor) -> ModuleType | None:
    """The module of CUDA kernels if it supports the predictor, else None."""
    if kernels_for(knn.points) is None:
        return None
    kernels = import_module("hotview.semisupervised.kernels")
    few = len(knn.points) <= kernels.MAX_POINTS and knn.soft_labels.shape[1] <= kernels.MAX_CLASSES
    return kernels if few else None


def _cluster(
    points: Tensor, values: Tensor, random: np.random.Generator, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Clusters of points by Lloyd's algorithm: centers, numbers of points, means of their values.

    Only the nearest centers are found on the device: sums over clusters do not depend on it.
    """
    P, V = (x.numpy().astype(np.float64) for x in (points, values))
    first = np.sort(random.permutation(len(P))[:_N_CENTERS])
    rows, centers = points.to(device), points[first]
    for _ in range(_N_ITERATIONS):
        C = centers.to(device)
        nearest = torch.addmm(C.square().sum(1), rows, C.T, alpha=-2).argmin(1).cpu().numpy()
        clusters = np.unique(nearest, return_inverse=True)[1]  # a center may be nearest to none
        counts = np.bincount(clusters)
        means = sparse.csr_array((1 / counts[clusters], (clusters, np.arange(len(P)))))
        centers = torch.from_numpy((means @ P).astype(np.float32))
    of_values = torch.from_numpy((means @ V).astype(np.float32))
    return centers, torch.from_numpy(counts.astype(np.float32)), of_values


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
        bound = 2 * (Y.shape[1] + 8) * _roundoff(Y.device) * size
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
    >>> from hotview.semisupervised.knn import find_nearest
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


def _roundoff(device: torch.device) -> float:
    """Unit roundoff of a product of float32 matrices, by the current settings of torch."""
    backend = torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn
    setting: Any = getattr(backend, "matmul", None)
    if hasattr(setting, "fp32_precision"):
        return _ROUNDOFF.get(setting.fp32_precision, 2.0**-24)
    coarse = {"high": "tf32", "medium": "bf16"}  # the names before torch 2.9
    name = coarse.get(torch.get_float32_matmul_precision(), "ieee")
    return _ROUNDOFF.get(name, 2.0**-24)
