"""Neighbor graph of one view: its construction, and values and features of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.knn import PCABasis
from hotview.semisupervised.nearest import Scorer, find_nearest
from hotview.semisupervised.propagation import diffusion_coordinates, normalized_adjacency

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

__all__ = [
    "N_COMPONENTS",
    "ArrayRows",
    "RowSource",
    "ViewGraph",
    "build_graph",
    "encode_nodes",
    "make_coordinates",
    "nearest_neighbors",
    "refine_graph",
    "take_rows",
]

N_COMPONENTS = 20  # principal components by which neighbors are found
_MAX_NODES = 10_000  # rows of a view in its graph; their numbers fit into int16
_CHUNK = 4096  # rows at a time
_ROUNDING = 1e-6  # relative differences of features up to this size count as rounding


class RowSource(Protocol):
    """Standardized rows of one view, which may be too many to be in memory together."""

    device: torch.device
    n_rows: int

    def take(self, rows: IntArray) -> Tensor:
        """Rows by number, as float32 on the device."""

    def take_on_all_ranks(self, rows: IntArray) -> Tensor:
        """The same, called by all processes together, where there are several."""


class ArrayRows:
    """Rows of an array, as a `RowSource`.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Standardized rows.
    """

    def __init__(self, X: Array) -> None:
        self.X, self.n_rows, self.device = X, len(X), torch.device("cpu")

    def take(self, rows: IntArray) -> Tensor:
        """Rows by number."""
        return torch.as_tensor(self.X[rows], dtype=torch.float32)

    take_on_all_ranks = take


@dataclass(frozen=True)
class ViewGraph:
    """Nearest-neighbor graph of one view; in a large view, of some of its rows, the nodes.

    Parameters
    ----------
    rows : RowSource
        The view.
    basis : PCABasis
        Its principal components.
    nodes : ndarray of int64
        Rows that are nodes of the graph.
    points : ndarray of shape (n_nodes, n_components)
        Principal components of the nodes.
    adjacency : csr_array, shape (n_nodes, n_nodes)
        From `normalized_adjacency`.
    n_neighbors : int
        Number of neighbors of every node.
    nearest : Tensor of int16, shape (n_others, n_neighbors)
        Nodes nearest to every other row, by number among the nodes.
    """

    rows: RowSource
    basis: PCABasis
    nodes: IntArray
    points: Array
    adjacency: sparse.csr_array
    n_neighbors: int
    nearest: Tensor

    def node_numbers(self, rows: IntArray) -> IntArray:
        """Numbers of rows among the nodes, −1 for rows that are none, and for −1."""
        at = np.searchsorted(self.nodes, rows).clip(max=len(self.nodes) - 1)
        return np.where(self.nodes[at] == rows, at, -1)

    def extend(self, values: Array) -> Tensor:
        """Values of all rows: those of the nodes, and means over the nearest nodes.

        Parameters
        ----------
        values : ndarray of shape (n_nodes, n)
            Values of the nodes.

        Returns
        -------
        Tensor of float32, shape (n_rows, n)
            Values of all rows, on their device.
        """
        V = torch.as_tensor(values, device=self.rows.device)
        extended = V.new_empty(self.rows.n_rows, V.shape[1], dtype=torch.float32)
        extended[self.nodes] = V.float()
        others = torch.from_numpy(rows_without(self.nodes, self.rows.n_rows)).to(V.device)
        # In parts, because all neighbors at once would take much memory.
        for start in range(0, len(others), _CHUNK):
            near = self.nearest[start : start + _CHUNK].long()
            extended[others[start : start + _CHUNK]] = V[near].mean(1).float()
        return extended


def take_rows(views: Sequence[RowSource], rows: IntArray) -> dict[int, Tensor]:
    """Standardized rows of individuals, by number of the view; NaN where one is absent.

    Parameters
    ----------
    views : sequence of RowSource
        The views.
    rows : ndarray of int64, shape (n_rows, n_views)
        Numbers of individuals' rows in every view, −1 where absent.
    """
    Xs = {}
    for s, view in enumerate(views):
        X = view.take_on_all_ranks(np.maximum(rows[:, s], 0))
        absent = torch.from_numpy(rows[:, s] < 0).to(X.device)
        Xs[s] = X.masked_fill(absent.unsqueeze(1), torch.nan)
    return Xs


def build_graph(
    rows: RowSource | Array,
    pca: PCA,
    n_neighbors: int,
    random: np.random.Generator,
    first: IntArray | None = None,
) -> ViewGraph:
    """Build the neighbor graph of a view from its principal components.

    Parameters
    ----------
    rows : RowSource or ndarray
        Standardized rows of the view.
    pca : PCA
        Its fitted principal components.
    n_neighbors : int
        Neighbors of every row.
    random : numpy Generator
        Source of the choice of nodes, where a view has more than 10,000 rows.
    first : ndarray of int64 or None, default=None
        Rows that become nodes before all others, in this order; duplicates are ignored.

    Returns
    -------
    ViewGraph
        The graph.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from hotview.semisupervised.graph import build_graph
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    >>> graph = build_graph(X, PCA().fit(X), 1, np.random.default_rng(0))
    >>> graph.adjacency.toarray().round(1)
    array([[0., 1., 0., 0.],
           [1., 0., 0., 0.],
           [0., 0., 0., 1.],
           [0., 0., 1., 0.]])
    """
    rows = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
    basis = PCABasis.from_pca(pca, N_COMPONENTS, rows.device)
    nodes = choose_nodes(rows.n_rows, np.empty(0, np.int64) if first is None else first, random)
    points = np.concatenate(
        [basis.project(rows.take(part)).cpu().numpy() for part in _chunks(nodes)]
    )
    others = rows_without(nodes, rows.n_rows)
    k = min(n_neighbors, len(points))
    nearest = torch.empty(len(others), k, dtype=torch.int16, device=rows.device)
    on_device = torch.as_tensor(points, device=rows.device)
    scorer = Scorer.from_points(on_device) if len(others) > 0 else None
    for start in range(0, len(others), _CHUNK):
        Y = basis.project(rows.take(others[start : start + _CHUNK])).double()
        nearest[start : start + _CHUNK] = find_nearest(on_device, Y, k, scorer)
    adjacency = normalized_adjacency(neighbors_among(on_device, n_neighbors))
    return ViewGraph(rows, basis, nodes, points, adjacency, n_neighbors, nearest)


def encode_nodes(graph: ViewGraph, encode: Callable[[Tensor], Tensor]) -> tuple[Array, float]:
    """Features of the nodes of a graph, divided by their root mean square, and that divisor.

    Parameters
    ----------
    graph : ViewGraph
        From `build_graph`.
    encode : callable
        Features of standardized rows.

    Returns
    -------
    features : ndarray of float32, shape (n_nodes, encoder_dim)
        The scaled features.
    scale : float
        Their divisor.
    """
    with torch.no_grad():
        F = torch.cat([encode(graph.rows.take(part)).float() for part in _chunks(graph.nodes)])
    features = F.cpu().numpy()
    scale = root_mean_square(features)
    return features / np.float32(scale), scale


def refine_graph(graph: ViewGraph, features: Array) -> ViewGraph:
    """Rebuild a graph from principal components and learned features.

    Parameters
    ----------
    graph : ViewGraph
        From `build_graph`.
    features : ndarray of shape (n_nodes, n_features)
        Features of the nodes, as from `encode_nodes`.

    Returns
    -------
    ViewGraph
        The same nodes and principal components, with new neighbors.
    """
    points = np.hstack([graph.points, features]).astype(np.float32)
    on_device = torch.from_numpy(points).to(graph.rows.device)
    neighbors = neighbors_among(on_device, graph.n_neighbors)
    return replace(graph, adjacency=normalized_adjacency(neighbors))


def make_coordinates(graph: ViewGraph, n: int) -> Tensor:
    """Diffusion coordinates of every row of a view, on its device.

    Parameters
    ----------
    graph : ViewGraph
        The view's graph.
    n : int
        Number of coordinates.

    Returns
    -------
    Tensor of float32, shape (n_rows, n)
        Rows that are not nodes get the mean of the nearest nodes.
    """
    coordinates = diffusion_coordinates(graph.adjacency, n).astype(np.float32)
    return graph.extend(coordinates)


def nearest_neighbors(rows: RowSource, pca: PCA, n_neighbors: int) -> IntArray:
    """Nearest neighbors of every row of a view among its other rows, by principal components.

    Noise in many small directions would otherwise hide the neighbors.

    Parameters
    ----------
    rows : RowSource
        The view.
    pca : PCA
        Its fitted principal components.
    n_neighbors : int
        Neighbors per row; fewer where there are fewer other rows.

    Returns
    -------
    ndarray of int64, shape (n_rows, n_neighbors)
        Row numbers.
    """
    parts = (rows.take(part).cpu().numpy() for part in _chunks(np.arange(rows.n_rows)))
    Y = np.concatenate([pca.transform(X) for X in parts]).astype(np.float32)
    return neighbors_among(torch.from_numpy(Y).to(rows.device), n_neighbors)


def neighbors_among(Y: Tensor, n_neighbors: int) -> IntArray:
    """Nearest neighbors of every row of Y among its other rows; fewer where there are fewer."""
    n, k = len(Y), min(n_neighbors, len(Y) - 1)
    nearest = find_nearest(Y, Y.double(), k + 1)
    # One of them is the row itself, unless more than k others are equal to it: then any may go.
    surplus = nearest == torch.arange(n, device=Y.device).unsqueeze(1)
    surplus[~surplus.any(1), -1] = True
    neighbors: IntArray = nearest[~surplus].view(n, k).cpu().numpy()
    return neighbors


def choose_nodes(n_rows: int, first: IntArray, random: np.random.Generator) -> IntArray:
    """Rows that become nodes: all, or at most 10,000, the `first` ones before a random sample.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.graph import choose_nodes
    >>> choose_nodes(4, np.array([3]), np.random.default_rng(0))
    array([0, 1, 2, 3])
    """
    if n_rows <= _MAX_NODES:
        return np.arange(n_rows)
    rest = rows_without(first, n_rows)
    _, at = np.unique(first, return_index=True)
    order = np.concatenate([first[np.sort(at)], random.permutation(rest)])
    chosen: IntArray = np.sort(order[:_MAX_NODES])
    return chosen


def rows_without(rows: IntArray, n_rows: int) -> IntArray:
    """Numbers of all other rows, sorted."""
    is_other = np.ones(n_rows, dtype=bool)
    is_other[rows] = False
    others: IntArray = np.flatnonzero(is_other)
    return others


def root_mean_square(Y: Array) -> float:
    """Root of the mean squared distance of rows from their mean; 1 where there is none."""
    Y = Y.astype(np.float64)
    distance = float(np.sqrt(((Y - Y.mean(axis=0)) ** 2).sum(axis=1).mean()))
    size = float(np.sqrt((Y**2).sum(axis=1).mean()))
    return distance if distance > _ROUNDING * size else 1.0


def _chunks(rows: IntArray) -> Iterator[IntArray]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]
