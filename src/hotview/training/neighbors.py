"""Each view's own graph of nearest neighbors, for the manifold regularizer."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from hotview._types import Array, IntArray
from hotview.training.rows import ViewRows

__all__ = ["nearest_neighbors"]

_N_DIRECTIONS = 20  # principal components in which neighbors are sought
_N_SAMPLE = 10_000  # rows that these are found from


def nearest_neighbors(rows: ViewRows, n_neighbors: int, random: np.random.Generator) -> IntArray:
    """Nearest neighbors of every row of a view among its other rows.

    Neighbors are sought among the leading principal components of the standardized columns: noise
    in many small directions hides who is near.

    Parameters
    ----------
    rows : ViewRows
        The view.
    n_neighbors : int
        Neighbors per row; fewer where there are fewer other rows.
    random : numpy Generator
        Which rows the components are found from, where not all.

    Returns
    -------
    ndarray of int64, shape (n_rows, n_neighbors)
        Row numbers.
    """
    Y = _principal_components(rows, random)
    search = NearestNeighbors(n_neighbors=min(n_neighbors, len(Y) - 1), n_jobs=1).fit(Y)
    found: IntArray = search.kneighbors(return_distance=False)
    return found


def _principal_components(rows: ViewRows, random: np.random.Generator) -> Array:
    n, D = len(rows), rows.n_columns
    sample = np.arange(n) if n <= _N_SAMPLE else np.sort(random.choice(n, _N_SAMPLE, replace=False))
    pca = PCA(min(_N_DIRECTIONS, D, len(sample)), random_state=0)
    pca.fit(rows.take(sample).cpu().numpy())
    return np.concatenate([pca.transform(X.cpu().numpy()) for X in rows.chunks()])
