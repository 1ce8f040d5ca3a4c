"""Labels for every row of a view, spread among its neighbors, and predictions for new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import sparse
from sklearn.decomposition import PCA
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.diffusion import diffusion_coordinates
from hotview.semisupervised.knn import Basis, KNNPredictor, choose_voters, root_mean_square
from hotview.semisupervised.label_transfer import anchor_profiles, source_weights, transfer_scores
from hotview.semisupervised.neighbors import Scorer, find_nearest, neighbors_among
from hotview.semisupervised.propagation import make_graph, normalize_by_class_mass, spread
from hotview.training.batches import TrainingRows
from hotview.training.rows import ViewRows

__all__ = [
    "N_COMPONENTS",
    "Known",
    "ViewGraph",
    "build_graph",
    "make_coordinates",
    "make_knn_predictor",
    "make_soft_labels",
    "propagate_labels",
    "refine_graph",
]

N_COMPONENTS = 20  # principal components among which neighbors are sought
_MOST = 10_000  # rows of a view that vote
_ANCHORS = 200  # linked rows over which a view is taught
_CHUNK = 4096  # rows at a time


@dataclass(frozen=True)
class ViewGraph:
    """What labels spread on in one view.

    Parameters
    ----------
    rows : ViewRows
        The view.
    basis : Basis
        Its principal components.
    voters : ndarray of int64
        The rows among which labels spread.
    places : ndarray of shape (n_voters, n_components + encoder_dim)
        Where they are, by principal components and, once there are any, by features.
    graph : csr_array
        Who is near to whom.
    n_neighbors : int
        How many neighbors each has.
    near : ndarray of int64, shape (n_others, n_neighbors)
        The voters nearest to every row that does not vote, by number among the voters.
    unit : float, default=1.0
        By which features are divided.
    """

    rows: ViewRows
    basis: Basis
    voters: IntArray
    places: Array
    graph: sparse.csr_array
    n_neighbors: int
    near: IntArray
    unit: float = 1.0

    @property
    def others(self) -> IntArray:
        """Rows that do not vote."""
        return np.setdiff1d(np.arange(len(self.rows)), self.voters)


@dataclass(frozen=True)
class Known:
    """What is known about the classes of all views' rows.

    Parameters
    ----------
    codes : list of ndarray of int64
        Class of every row of every view, −1 where it is not known.
    class_weight : ndarray of shape (n_classes,)
        What each class weighs.
    teachers : list of int
        Views that teach all others, which have fewer labels or none; empty where all have labels.
    aligned : ndarray of int64, shape (n_aligned, n_views)
        The row in every view of each individual who is in all of them.
    """

    codes: list[IntArray]
    class_weight: Array
    teachers: list[int]
    aligned: IntArray

    @classmethod
    def of(cls, data: TrainingRows, class_weight: Array) -> Known:
        """Gather what is known about the rows to learn from."""
        codes = []
        for s, view in enumerate(data.views):
            mine = np.full(len(view), -1, dtype=np.int64)
            mine[data.aligned[:, s]] = data.target
            mine[data.own[s]] = data.own_target[s]
            codes.append(mine)
        return cls(codes, class_weight, data.teachers, data.aligned)


def build_graph(
    data: TrainingRows, s: int, pca: PCA, n_neighbors: int, random: np.random.Generator
) -> ViewGraph:
    """Find the neighbors of a view's rows by its principal components.

    Parameters
    ----------
    data : TrainingRows
        All rows.
    s : int
        Number of the view.
    pca : PCA
        Its principal components.
    n_neighbors : int
        Neighbors of every row.
    random : numpy Generator
        Who votes where not all may; some linked rows and all with a label do before others.

    Returns
    -------
    ViewGraph
        The same for all replicas.
    """
    rows = data.views[s]
    basis = Basis.of(pca, N_COMPONENTS, rows.device)
    voters = choose_voters(len(rows), _first_rows(data, s), _MOST, random)
    parts = [basis.place(rows.take(part)).cpu().numpy() for part in _chunks(voters)]
    places = np.concatenate(parts)
    others = np.setdiff1d(np.arange(len(rows)), voters)
    near = _nearest(rows, basis, places, others, min(n_neighbors, len(places)))
    return ViewGraph(rows, basis, voters, places, _graph(places, n_neighbors), n_neighbors, near)


def _first_rows(data: TrainingRows, s: int) -> IntArray:
    """Rows of view s in the order in which they vote: anchors, those with a label, linked ones."""
    linked = data.aligned[:, s]
    labeled = linked[data.target >= 0] if len(data.target) > 0 else linked[:0]
    own = data.own[s] if data.own else linked[:0]
    anchors = linked[: min(_ANCHORS, _MOST // 4)]
    return np.concatenate([anchors, labeled, own, linked])


def refine_graph(ground: ViewGraph, encoder: torch.nn.Module) -> ViewGraph:
    """Find neighbors once more, by principal components and what an encoder has learned."""
    with torch.no_grad():
        parts = [encoder(ground.rows.take(part)).float() for part in _chunks(ground.voters)]
    F = torch.cat(parts).cpu().numpy()
    unit = root_mean_square(F)
    places = np.hstack([ground.places, F / np.float32(unit)])
    return replace(ground, places=places, graph=_graph(places, ground.n_neighbors), unit=unit)


def propagate_labels(
    graphs: Sequence[ViewGraph], known: Known, random: np.random.Generator
) -> list[Array]:
    """Shares of the classes in the voters of every view.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        Every view.
    known : Known
        The labels.
    random : numpy Generator
        For views that others teach.

    Returns
    -------
    list of ndarray of float64, shape (n_voters, n_classes)
        Rows add up to 1.
    """
    codes = [mine[ground.voters] for mine, ground in zip(known.codes, graphs, strict=True)]
    each = zip(graphs, codes, strict=True)
    shares = [_spread_codes(ground.graph, mine, known.class_weight) for ground, mine in each]
    if known.teachers and len(known.aligned) > 0:
        for s in set(range(len(graphs))) - set(known.teachers):
            told = _taught(graphs, shares, s, known, random)
            shares[s] = _beside_own(told, shares[s], codes[s])
    return shares


def make_soft_labels(ground: ViewGraph, shares: Array, codes: IntArray) -> Tensor:
    """Shares of the classes in every row of a view: its label, or what reaches it.

    Parameters
    ----------
    ground : ViewGraph
        The view.
    shares : ndarray of shape (n_voters, n_classes)
        Of its voters.
    codes : ndarray of int64
        Class of every row, −1 where it is not known.

    Returns
    -------
    Tensor of float32, shape (n_rows, n_classes)
        On the view's device.
    """
    soft_labels = np.empty((len(codes), shares.shape[1]), dtype=np.float32)
    soft_labels[ground.voters] = shares
    soft_labels[ground.others] = _means(shares, ground.near)
    known = codes >= 0
    soft_labels[known] = np.eye(shares.shape[1], dtype=np.float32)[codes[known]]
    return torch.from_numpy(soft_labels).to(ground.rows.device)


def make_coordinates(ground: ViewGraph, n: int) -> Tensor:
    """Diffusion coordinates of every row of a view, on its device.

    Parameters
    ----------
    ground : ViewGraph
        The view.
    n : int
        Number of coordinates.

    Returns
    -------
    Tensor of float32, shape (n_rows, n)
        Rows that do not vote are in the middle of their neighbors.
    """
    found = np.empty((len(ground.rows), n), dtype=np.float32)
    found[ground.voters] = diffusion_coordinates(ground.graph, n)
    found[ground.others] = _means(found[ground.voters], ground.near)
    return torch.from_numpy(found).to(ground.rows.device)


def make_knn_predictor(ground: ViewGraph, shares: Array) -> KNNPredictor:
    """Those who vote on new rows of a view."""
    places, said = (
        torch.as_tensor(array, dtype=torch.float32, device=ground.rows.device)
        for array in (ground.places, shares)
    )
    return KNNPredictor(ground.basis, ground.unit, places, said, ground.n_neighbors)


def _taught(
    graphs: Sequence[ViewGraph],
    shares: Sequence[Array],
    s: int,
    known: Known,
    random: np.random.Generator,
) -> Array:
    """What the teachers pass on to view s, each by what its linked rows agree with."""
    pairs = [_pairs(graphs[t], graphs[s], known.aligned[:, [t, s]]) for t in known.teachers]
    pairs = [random.permutation(several)[:_ANCHORS] for several in pairs]
    pupil = graphs[s].graph
    each = list(zip(known.teachers, pairs, strict=True))
    told = [transfer_scores(graphs[t].graph, shares[t], pupil, p, random=random) for t, p in each]
    weights = source_weights(
        [anchor_profiles(graphs[t].graph, p[:, 0]) for t, p in each],
        [anchor_profiles(pupil, p[:, 1]) for _, p in each],
        pairs,
        random=random,
    )
    mixed: Array = np.tensordot(weights, np.stack(told), axes=1)
    return mixed


def _beside_own(told: Array, own: Array, codes: IntArray) -> Array:
    """What a view is told about classes that it does not know, and its own word on the others."""
    mine = np.unique(codes[codes >= 0])
    if len(mine) == 0:
        return told
    found = told.copy()
    found[:, mine] = told[:, mine].sum(axis=1, keepdims=True) * own[:, mine]
    found[codes >= 0] = own[codes >= 0]
    total = found.sum(axis=1, keepdims=True)
    mixed: Array = np.divide(found, total, out=told.copy(), where=total > 0)
    return mixed


def _pairs(first: ViewGraph, second: ViewGraph, rows: IntArray) -> IntArray:
    """Places among the voters of two views of individuals who are in both."""
    places = []
    for ground, mine in zip((first, second), rows.T, strict=True):
        where = np.full(len(ground.rows), -1, dtype=np.int64)
        where[ground.voters] = np.arange(len(ground.voters))
        places.append(where[mine])
    found = np.stack(places, axis=1)
    voting: IntArray = found[(found >= 0).all(axis=1)]
    return voting


def _spread_codes(graph: sparse.csr_array, codes: IntArray, class_weight: Array) -> Array:
    seeds = np.zeros((len(codes), len(class_weight)))
    known = codes >= 0
    seeds[known, codes[known]] = 1.0
    return normalize_by_class_mass(spread(graph, seeds) * class_weight, seeds.sum(axis=0))


def _graph(places: Array, n_neighbors: int) -> sparse.csr_array:
    return make_graph(neighbors_among(places, n_neighbors))


def _nearest(rows: ViewRows, basis: Basis, places: Array, others: IntArray, k: int) -> IntArray:
    voters = torch.as_tensor(places, device=rows.device)
    scorer = Scorer.of(voters)
    # In as few bytes as will do: there may be millions of these rows.
    near = np.empty((len(others), k), dtype=np.min_scalar_type(len(places)))
    for start in range(0, len(others), _CHUNK):
        part = others[start : start + _CHUNK]
        Y = basis.place(rows.take(part)).double()
        near[start : start + _CHUNK] = find_nearest(voters, Y, k, scorer).cpu().numpy()
    return near


def _means(values: Array, near: IntArray) -> Array:
    """Means over neighbors, a few rows at a time: all at once would take much memory."""
    parts = [
        values[several].mean(axis=1) for several in np.array_split(near, 1 + len(near) // 4096)
    ]
    return np.concatenate(parts)


def _chunks(rows: IntArray) -> list[IntArray]:
    return [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)]
