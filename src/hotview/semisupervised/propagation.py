"""Labels that spread among the rows of one view, along its graph of nearest neighbors."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from hotview._types import Array, IntArray

__all__ = ["make_graph", "normalize_by_class_mass", "spread"]

_DAMPING = 0.95  # of what a row has, as much goes on to its neighbors
_TOLERANCE, _MAX_ITER = 1e-6, 500


def make_graph(neighbors: IntArray) -> sparse.csr_array:
    r"""Normalized adjacency of rows that are neighbors one way or the other.

    .. math:: S = D^{-1/2} A D^{-1/2}, \qquad A = (N + N^T) / 2

    Parameters
    ----------
    neighbors : ndarray of int64, shape (n_rows, n_neighbors)
        Neighbors of every row.

    Returns
    -------
    csr_array of float64, shape (n_rows, n_rows)
        Symmetric; its eigenvalues are within [−1, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import make_graph
    >>> make_graph(np.array([[1], [0], [1]])).toarray().round(2)
    array([[0.  , 0.82, 0.  ],
           [0.82, 0.  , 0.58],
           [0.  , 0.58, 0.  ]])
    """
    n, k = neighbors.shape
    ends = np.arange(n + 1) * k
    N = sparse.csr_array((np.ones(n * k), neighbors.ravel(), ends), shape=(n, n))
    A = (N + N.T) / 2
    # A row without neighbors, as in a table of one row, has nowhere to pass anything on to.
    degree = np.maximum(A.sum(axis=1), np.finfo(np.float64).tiny)
    half = sparse.diags_array(degree**-0.5)
    return sparse.csr_array(half @ A @ half)


def spread(S: sparse.csr_array, seeds: Array, damping: float = _DAMPING) -> Array:
    r"""Let seeds flow along a graph until nothing changes.

    .. math:: F = (I - α S)^{-1} Y = Y + α S Y + α^2 S^2 Y + …

    Parameters
    ----------
    S : csr_array, shape (n_rows, n_rows)
        From `make_graph`.
    seeds : ndarray of shape (n_rows, n_columns)
        Y: what every row has to begin with; columns do not mix.
    damping : float, default=0.95
        α: what is left of a seed after one step.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_columns)
        F, to 6 digits.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import make_graph, spread
    >>> S = make_graph(np.array([[1], [0], [3], [2]]))
    >>> spread(S, np.array([[1.0], [0.0], [0.0], [0.0]]), damping=0.5).round(3).ravel()
    array([1.333, 0.667, 0.   , 0.   ])
    """
    # Conjugate gradients for all columns side by side: I − αS is positive definite.
    F = np.array(seeds, dtype=np.float64)
    R = damping * (S @ F)
    P, rr = R.copy(), (R * R).sum(axis=0)
    enough = _TOLERANCE**2 * np.maximum((F * F).sum(axis=0), np.finfo(np.float64).tiny)
    for _ in range(_MAX_ITER):
        if (rr <= enough).all():
            break
        Q = P - damping * (S @ P)
        step = _divide(rr, (P * Q).sum(axis=0))
        F += step * P
        R -= step * Q
        new = (R * R).sum(axis=0)
        P = R + _divide(new, rr) * P
        rr = new
    return F


def normalize_by_class_mass(F: Array, mass: Array) -> Array:
    """What every class has in every row, as if all classes had begun with the same mass.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_classes)
        Spread seeds of every class.
    mass : ndarray of shape (n_classes,)
        How much each class began with. Many labels of a class say that it was easy to label, not
        that it is wherever it can be reached.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_classes)
        Shares that add up to 1; equal ones in rows that nothing reaches.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import normalize_by_class_mass
    >>> normalize_by_class_mass(np.array([[2.0, 1.0], [0.0, 0.0]]), np.array([4.0, 1.0]))
    array([[0.33333333, 0.66666667],
           [0.5       , 0.5       ]])
    """
    # Conjugate gradients leave tiny negative numbers where nothing arrives.
    each = _divide(np.maximum(F, 0.0), np.broadcast_to(mass, F.shape))
    total = each.sum(axis=1, keepdims=True)
    equal = np.full_like(each, 1 / each.shape[1])
    shares: Array = np.divide(each, total, out=equal, where=total > 0)
    return shares


def _divide(a: Array, b: Array) -> Array:
    quotient: Array = np.divide(a, b, out=np.zeros(np.shape(a)), where=b > 0)
    return quotient
