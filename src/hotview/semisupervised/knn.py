"""The nearest-neighbor predictor of one view, and the space in which neighbors are found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from hotview._archive import round_to_float16
from hotview._codec import require, require_array
from hotview.ot._backend import kernels_for
from hotview.semisupervised.nearest import Scorer, find_nearest

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

    from hotview.semisupervised.predictors import LabeledView, ViewInputs

__all__ = ["FLOOR", "Coordinates", "KNNPredictor", "PCABasis"]

FLOOR = 0.01  # added to every class probability: all neighbors of a row may be wrong
_N_DIMENSIONS, _N_CENTERS = 20, 1000  # of the space, and of the points, of a condensed predictor
_N_ITERATIONS = 10  # of Lloyd's algorithm
_MIN_CLUSTERS = 5  # whose rows are averaged
_ROUNDING = 1e-4  # of probabilities in float32


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

    def __post_init__(self) -> None:
        n = len(self.offset)
        require_array("columns", self.columns, (None, n), "float32")
        require_array("features", self.features, (None, n), "float32")
        require_array("offset", self.offset, (n,), "float64")

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

    name: ClassVar[str] = "neighbors"
    prior_weights: ClassVar[tuple[float, float]] = (1.0, 0.75)
    needs_networks: ClassVar[bool] = False

    coordinates: Coordinates
    points: Tensor
    counts: Tensor | None
    soft_labels: Tensor
    n_neighbors: int
    n_nearest: int

    def __post_init__(self) -> None:
        n = len(self.points)
        require_array("points", self.points, (n, len(self.coordinates.offset)), "float32")
        require_array("soft_labels", self.soft_labels, (n, None), low=0, high=1 + _ROUNDING)
        if self.counts is not None:
            require_array("counts", self.counts, (n,), "float32", 1)
        fits = n > 0 and 0 < self.n_nearest <= self.n_neighbors
        require(fits, "there are no neighbors")

    @classmethod
    def fit(cls, view: LabeledView) -> KNNPredictor:
        """The nodes of the graph with their labels, beside the features of all members."""
        graph, features = view.graph, view.features
        width = features[0][0].shape[1] if features else 0
        coordinates = Coordinates.concatenate(graph.basis, [scale for _, scale in features], width)
        weight = np.sqrt(max(len(features), 1))
        points = np.hstack([graph.points, *(F / weight for F, _ in features)])
        as_float32 = partial(torch.as_tensor, dtype=torch.float32, device=graph.rows.device)
        k = graph.n_neighbors
        return cls(coordinates, as_float32(points), None, as_float32(view.nodes.votes), k, k)

    def check(self, n_columns: int, n_features: int, n_classes: int) -> None:
        """Raise an error unless it takes rows of this size, and tells so many classes."""
        n = len(self.coordinates.offset)
        require_array("columns", self.coordinates.columns, (n_columns, n), "float32")
        require_array("features", self.coordinates.features, (n_features, n), "float32")
        require(self.soft_labels.shape[1] == n_classes, "its soft labels are of other classes")

    def log_scores(self, rows: ViewInputs) -> Tensor:
        """Log-likelihoods of the classes, (n_rows, n_classes)."""
        return self.predict_log_proba(self.coordinates.project(rows.X, rows.features), rows.own)

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
            nearest = self.nearest(Y, own)
            n, k = nearest.shape
            labels = self.soft_labels.double().index_select(0, nearest.reshape(-1)).view(n, k, -1)
            if self.counts is None:
                means = labels.mean(1)
            else:  # of the first rows at these points
                count = self.counts.double()[nearest]
                left = self.n_neighbors - (count.cumsum(1) - count)
                taken = count.minimum(left.clamp_min(0.0))
                means = torch.einsum("nk,nkc->nc", taken, labels) / taken.sum(1, keepdim=True)
        log_means: Tensor = means.add_(FLOOR).log_()
        return log_means

    def nearest(self, Y: Tensor, own: Tensor | None = None) -> Tensor:
        """Numbers of the points nearest to each row but its own, (n_rows, n_nearest).

        The nearest come first, where points have different numbers of rows.
        """
        k = self.n_nearest if own is None else min(self.n_nearest, len(self.points) - 1)
        found = find_nearest(self.points, Y, k + (own is not None), self._scorer)
        if own is None and self.counts is None:  # then their order does not matter
            return found
        distance = (self.points[found].double() - Y.unsqueeze(1)).square().sum(2)
        if own is None:
            return found.gather(1, distance.argsort(dim=1, stable=True))
        distance = distance.masked_fill(found == own.unsqueeze(1), torch.inf)
        return found.gather(1, distance.topk(k, dim=1, largest=False).indices)

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
