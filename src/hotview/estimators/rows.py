"""Stages of a fit on the rows alone: scan and standardize them, and build their neighbor graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from hotview._messages import ParameterError
from hotview._types import Array, IntArray
from hotview.data import Data
from hotview.estimators.randomness import Randomness
from hotview.model.parameters import impute_of, pick_device, preprocessing_of
from hotview.preprocessing.pca import principal_components
from hotview.preprocessing.row_stream import no_view_error
from hotview.preprocessing.rows import ViewRows
from hotview.preprocessing.table_scan import TableScan, check_finite, scan_tables
from hotview.semisupervised.graph import (
    N_COMPONENTS,
    ViewGraph,
    build_graph,
    make_coordinates,
    nearest_neighbors,
    root_mean_square,
)
from hotview.semisupervised.propagation import diffusion_coordinates
from hotview.semisupervised.soft_labels import node_order

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

__all__ = ["Graphs", "Rows", "build_graphs", "generalized_cca", "make_link_targets", "preprocess"]

_MIN_LINKS = 3  # linked rows that are aligned
_MIN_SPLIT, _MAX_HELD_OUT = 20, 20  # linked rows of which some are held out, and how many
_MAX_MEASURED = 100  # linked rows to measure on, where none are aligned
_NO_LINKS: IntArray = np.empty((0, 0), dtype=np.int64)
_N_COORDINATES = 20  # diffusion coordinates of a view
_PENALTY = 1.0  # of the ridge, relative to the mean variance of a column
_TINY = 1e-12


@dataclass(frozen=True)
class Rows:
    """The rows that hold a value, read once, and standardized when they are taken.

    Parameters
    ----------
    data : Data
        What is known about them; its views are `ViewRows`.
    scans : dict of str to TableScan
        Column statistics of every view.
    validation : dict of int to ViewRows
        Rows of the individuals to validate on, by number of the view; empty without any.
    """

    data: Data
    scans: dict[str, TableScan]
    validation: dict[int, ViewRows] = field(default_factory=dict)

    @property
    def views(self) -> list[ViewRows]:
        """The rows of every view."""
        return list(self.data.views.values())


def preprocess(
    data: Data,
    p: Mapping[str, Any],
    encoders: Sequence[nn.Module | None],
    *,
    load: bool = True,
) -> Rows:
    """Read the rows of every view once, reduce wide views, and number the rows that hold a value.

    Raises an error for what cannot be trained on.

    Parameters
    ----------
    data : Data
        The rows as they were given.
    p : dict of str to object
        The parameters of the estimator.
    encoders : sequence of nn.Module or None
        Encoders of the user's own, whose views are not reduced.
    load : bool, default=True
        Whether rows are loaded for training; False only checks them.
    """
    device, imputed = pick_device(p["device"]), impute_of(p["impute"], data.names)
    kinds = preprocessing_of(p, encoders, data.names)
    scans, views, present = {}, {}, []
    for name, rows in data.views.items():
        scan = scans[name] = scan_tables(
            name,
            rows.tables,
            preprocessing=kinds[name],
            impute=imputed[name],
            device=device,
        )
        place = (scan.scaler, device, scan.present)
        views[name] = ViewRows(rows.tables, *place, often=load, once=not load)
        sizes = [table.n_rows for table in rows.tables]
        present.append(_number(scan.present, sizes))
    kept = data.keep(views, present)
    _check_links(kept, p["coupling"], data)
    validation = {} if data.validation is None else _validation_rows(data, scans, imputed, device)
    return Rows(kept, scans, validation)


def _number(present: Sequence[IntArray | None], sizes: Sequence[int]) -> IntArray | None:
    """Present rows of all tables of a view, numbered consecutively; None where all are."""
    if all(rows is None for rows in present):
        return None
    starts = np.cumsum([0, *sizes])
    return np.concatenate(
        [
            start + (np.arange(n) if rows is None else rows)
            for start, n, rows in zip(starts, sizes, present, strict=False)
        ]
    )


def _validation_rows(
    data: Data, scans: Mapping[str, TableScan], imputed: Mapping[str, Any], device: torch.device
) -> dict[int, ViewRows]:
    """The rows of individuals to validate on, by number of the view."""
    validation = data.validation
    assert validation is not None
    chosen, seen = {}, np.zeros(len(validation.links), dtype=bool)
    for own, (name, rows) in zip(validation.links.T, validation.views.items(), strict=True):
        scaler = scans[name].scaler
        seen |= np.isin(own, check_finite(name, rows.tables[0], imputed[name]))
        chosen[data.names.index(name)] = ViewRows(rows.tables, scaler, device, [own])
    if not seen.all():
        raise no_view_error(np.flatnonzero(~seen), data.names)
    return chosen


def _check_links(data: Data, coupling: Any, given: Data) -> None:
    """Raise an error for rows that no view has, and for views that nothing connects to labels."""
    present = data.links >= 0
    nowhere = np.flatnonzero(~present.any(axis=1))
    if len(nowhere) > 0:
        raise ValueError(
            f"Expected every linked row to have at least one view, but {len(nowhere)} are NaN "
            f"throughout all of them, the first being row {nowhere[0]}. Leave these rows out."
        )
    n_complete = int(present.all(axis=1).sum())
    unaligned = [s for s, rows in enumerate(given.views.values()) if rows.n_rows > len(given.links)]
    if coupling.needs_alignment and (unaligned or n_complete < 2):
        raise ValueError(
            f"Expected aligned rows for coupling={coupling.label!r}, which compares the same "
            "individuals in all views, but "
            + (
                f"views {[data.names[s] for s in unaligned]} have unaligned ones. "
                if unaligned
                else f"{n_complete} have all views. "
            )
            + "Pass paired=True to MultiViewEncoder if row i is the same individual in every "
            "view, leave unaligned rows out, or use coupling='hot-reference'."
        )
    if data.targets is None or n_complete > 0:
        return
    known, linked = data.labels_per_view, present.astype(np.int64)
    _, parts = connected_components(linked.T @ linked)
    reached = {part for part, n in zip(parts, known, strict=True) if n > 0}
    lost = [name for name, part in zip(data.names, parts, strict=True) if part not in reached]
    if lost:
        listed = " and ".join(map(repr, lost))
        raise ParameterError(
            "Expected every view to have labels, or linked rows that connect it to a view with "
            f"labels, because classes cannot be identified without, but {listed} "
            f"{'has' if len(lost) == 1 else 'have'} neither. ",
            "Link a few rows ({Xs}), or label some ({unaligned_y}).",
        )


@dataclass(frozen=True)
class Graphs:
    """What is computed from the rows once, for all members of an ensemble.

    Lists are empty where the parameters do not need them.

    Parameters
    ----------
    components : list of PCA
        Principal components of every view.
    neighbors : list of ndarray of int64
        Neighbors of every row of every view, for ``view_regularizer="manifold"``.
    graphs : list of ViewGraph
        Neighbor graph of every view, for pseudo-labels and ``view_regularizer="diffusion"``.
    coordinates : list of Tensor
        Diffusion coordinates of every row of every view, for ``view_regularizer="diffusion"``.
    links : ndarray of int64, shape (n_links, n_views)
        Row in every view of linked individuals whose latents are to agree, −1 where absent.
    held_out_links : ndarray of int64, shape (n_held_out, n_views)
        The same of individuals by whom it is measured whether latents agree.
    link_targets : list of Tensor
        Target latents of every row of every view, from `links`.
    """

    components: list[PCA] = field(default_factory=list)
    neighbors: list[IntArray] = field(default_factory=list)
    graphs: list[ViewGraph] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)
    links: IntArray = field(default_factory=lambda: _NO_LINKS)
    held_out_links: IntArray = field(default_factory=lambda: _NO_LINKS)
    link_targets: list[Tensor] = field(default_factory=list)


def build_graphs(rows: Rows, p: Mapping[str, Any], random: Randomness) -> Graphs:
    """Compute the components, neighbors, graphs and coordinates that the parameters require.

    Parameters
    ----------
    rows : Rows
        From `preprocess`; labeled rows become nodes of the graphs before others.
    p : dict of str to object
        The parameters of the estimator.
    random : Randomness
        That of the first member.
    """
    regularizer, k, n_features = p["view_regularizer"], p["n_neighbors"], p["encoder_dim"]
    links, held_out = _split_links(rows.data.links, p, random.stage("links").numpy)
    needs_graphs = p.get("pseudo_labels", False) or regularizer.needs_coordinates
    needs_graphs = needs_graphs or len(links) > 0
    if not (needs_graphs or p["initialization"] == "pca" or regularizer.needs_neighbors):
        return Graphs(links=links, held_out_links=held_out)
    n = max(n_features, p["n_components"], N_COMPONENTS * needs_graphs)
    components = principal_components(rows.views, n, random.stage("components").numpy)
    neighbors, graphs, coordinates = [], [], []
    for_graphs = random.stage("graphs").numpy
    for s, (view, pca) in enumerate(zip(rows.views, components, strict=True)):
        if regularizer.needs_neighbors:
            neighbors.append(nearest_neighbors(view, pca, k))
        if needs_graphs:
            graphs.append(build_graph(view, pca, k, for_graphs, node_order(rows.data, s)))
        if regularizer.needs_coordinates:
            coordinates.append(make_coordinates(graphs[s], n_features))
    targets = make_link_targets(graphs, links, p["n_components"]) if len(links) > 0 else []
    return Graphs(components, neighbors, graphs, coordinates, links, held_out, targets)


def _split_links(
    links: IntArray, p: Mapping[str, Any], random: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Linked rows whose latents are to agree, and others by which it is measured whether they do.

    A fifth of the rows, at most 20, are held out; none of fewer than 20, which are too few for
    both. Where nothing is aligned, it can be measured on all.
    """
    links = links[(links >= 0).sum(axis=1) > 1]
    none = links[:0]
    if p["coupling"].needs_alignment:  # it aligns the rows itself
        return none, none
    if p["alignment_weight"] == 0:  # the same training as without linked rows
        order = np.random.default_rng(0).permutation(len(links))
        return none, links[np.sort(order[:_MAX_MEASURED])]
    order = random.permutation(len(links))
    n = min(_MAX_HELD_OUT, len(links) // 5) if len(links) >= _MIN_SPLIT else 0
    trained = links[np.sort(order[n:])]
    return trained if len(trained) >= _MIN_LINKS else none, links[np.sort(order[:n])]


def make_link_targets(
    graphs: Sequence[ViewGraph], links: IntArray, n_components: int
) -> list[Tensor]:
    """Target latents of all rows of every view, such that linked rows have similar ones.

    A few linked rows determine no map of many columns. Principal components and diffusion
    coordinates, which all rows of a view give, are the columns here, and generalized CCA of the
    linked rows with a ridge penalty is the map; other rows than nodes get the mean of the nearest.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The neighbor graph of every view.
    links : ndarray of int64, shape (n_links, n_views)
        Row of every linked individual in every view, −1 where absent.
    n_components : int
        Dimension of the latents.

    Returns
    -------
    list of Tensor of float32, shape (n_rows, n_components)
        The targets of every view. Their columns have a mean variance of 1 over the views.
    """
    features = []
    for graph in graphs:
        Y = diffusion_coordinates(graph.adjacency, min(_N_COORDINATES, len(graph.nodes)))
        features.append(np.hstack([graph.points, Y / root_mean_square(Y)]))
    pairs = zip(graphs, links.T, strict=True)
    nodes = np.stack([graph.node_numbers(rows) for graph, rows in pairs], axis=1)
    latents = generalized_cca(features, nodes, n_components)
    variance = float(np.mean([Z.var(axis=0).mean() for Z in latents]))
    scale = variance**-0.5 if variance > _TINY else 0.0
    return [graph.extend(scale * Z) for graph, Z in zip(graphs, latents, strict=True)]


def generalized_cca(Xs: Sequence[Array], links: IntArray, n_components: int) -> list[Array]:
    r"""Canonical variables of all rows by generalized CCA (MAXVAR) of the linked rows.

    The shared G of the linked rows minimizes the squared error of ridge regressions from the views
    that a row has,

    .. math:: \min_{G, B_s} \sum_s \|X_s B_s - G_s\|_F^2 + λ_s \|B_s\|_F^2

    and its columns are weighted by how well these predict it.

    Parameters
    ----------
    Xs : sequence of ndarray of shape (n_rows, n_columns)
        All rows of every view.
    links : ndarray of int64, shape (n_links, n_views)
        Row of every linked individual in every view, −1 where absent.
    n_components : int
        Number of canonical variables; those beyond the rank are 0.

    Returns
    -------
    list of ndarray of shape (n_rows, n_components)
        The canonical variables of all rows of every view.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.estimators.rows import generalized_cca
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> links = np.stack([np.arange(20)] * 2, axis=1)
    >>> a, b = generalized_cca([X, X[:, ::-1]], links, 2)  # the same columns in another order
    >>> bool(np.allclose(a, b))
    True
    """
    links = links[(links >= 0).sum(axis=1) > 1]
    root = np.sqrt((links >= 0).sum(axis=1))
    maps, means, factors = [], [], []
    for X, rows in zip(Xs, links.T, strict=True):
        is_present = rows >= 0
        A = X[rows[is_present]].astype(np.float64)
        means.append(A.mean(axis=0) if len(A) > 0 else np.zeros(X.shape[1]))
        A = A - means[-1]
        gram = A.T @ A
        ridge = _PENALTY * np.trace(gram) / len(gram) + _TINY
        L = np.linalg.cholesky(gram + ridge * np.eye(len(gram)))
        half = np.zeros((len(links), len(gram)))  # half halfᵀ predicts G from the view
        half[is_present] = solve_triangular(L, A.T, lower=True).T
        factors.append(half / root[:, None])
        maps.append(solve_triangular(L, half.T, lower=True, trans="T"))
    U, values, _ = np.linalg.svd(np.hstack(factors), full_matrices=False)
    U, values = U[:, :n_components], values[:n_components]
    U = U * np.where(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])] < 0, -1.0, 1.0)
    G = U / root[:, None] * values**2  # the eigenvalue, between 0 and 1, is the weight
    G = np.pad(G, ((0, 0), (0, n_components - G.shape[1])))
    return [(X - mean) @ (B @ G) for X, mean, B in zip(Xs, means, maps, strict=True)]
