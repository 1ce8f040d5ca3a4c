"""Target latents of all rows, from linked rows: generalized CCA on components and graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.graph import ViewGraph, root_mean_square
from hotview.semisupervised.propagation import diffusion_coordinates

__all__ = ["generalized_cca", "make_link_targets"]

_N_COORDINATES = 20  # diffusion coordinates of a view
_PENALTY = 1.0  # of the ridge, relative to the mean variance of a column
_TINY = 1e-12


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
    >>> from hotview.semisupervised.link_targets import generalized_cca
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
