"""Each view's own graph of nearest neighbors, for what spreads or is smooth along it."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from hotview._types import Array, IntArray
from hotview.training.rows import ViewRows

__all__ = ["nearest_neighbors", "neighbors_among"]


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
