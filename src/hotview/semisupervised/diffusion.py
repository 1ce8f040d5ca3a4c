"""Coordinates of a view's rows along its own graph: who can be reached from whom is near."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh

from hotview._types import Array

__all__ = ["diffusion_coordinates"]

_DAMPING = 0.99  # of a step along the graph: far ones must count
_SIZE = 2.0  # root mean square of a coordinate: classifiers with a penalty see features of size 1
_SMALL = 8  # times as many rows as coordinates are few enough for all eigenvectors at once


def diffusion_coordinates(S: sparse.csr_array, n: int) -> Array:
    r"""Leading coordinates of a walk on a graph, of the same length for all rows.

    .. math:: y_i ∝ \big(u_{ij} / \sqrt{1 - α λ_j}\big)_j, \qquad S u_j = λ_j u_j

    Before their length is made equal, products of these are what a seed in one row leaves in
    another after it has spread, :math:`(I - α S)^{-1}`.

    Parameters
    ----------
    S : csr_array, shape (n_rows, n_rows)
        From `hotview.semisupervised.propagation.make_graph`.
    n : int
        Number of coordinates; those beyond the number of rows are 0.

    Returns
    -------
    ndarray of float64, shape (n_rows, n)
        The coordinates, those of the largest eigenvalues first.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.diffusion import diffusion_coordinates
    >>> from hotview.semisupervised.propagation import make_graph
    >>> S = make_graph(np.array([[1], [0], [3], [2]]))
    >>> Y = diffusion_coordinates(S, 2)
    >>> (Y @ Y.T).round(6) + 0.0
    array([[8., 8., 0., 0.],
           [8., 8., 0., 0.],
           [0., 0., 8., 8.],
           [0., 0., 8., 8.]])
    """
    n_rows = S.shape[0]
    n_found = min(n, n_rows)
    if n_rows <= _SMALL * n_found:
        values, U = np.linalg.eigh(S.toarray())
    else:
        # A start of its own choice would differ from call to call.
        values, U = eigsh(S, k=n_found, which="LA", v0=np.ones(n_rows))
    order = np.argsort(values)[::-1][:n_found]
    values, U = values[order], U[:, order]
    U = U * np.where(U[np.abs(U).argmax(axis=0), np.arange(n_found)] < 0, -1.0, 1.0)
    Y = U / np.sqrt(1 - _DAMPING * np.minimum(values, 1.0))
    length = np.linalg.norm(Y, axis=1, keepdims=True)
    Y = np.divide(Y, length, out=np.zeros_like(Y), where=length > 0)
    return np.pad(_SIZE * np.sqrt(n) * Y, ((0, 0), (0, n - n_found)))
