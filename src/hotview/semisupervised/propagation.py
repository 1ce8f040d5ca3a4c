"""Label propagation and diffusion coordinates on the neighbor graph of one view."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import eigsh
from torch import Tensor

from hotview._types import Array, IntArray

__all__ = ["diffusion_coordinates", "normalize_by_class_mass", "normalized_adjacency", "propagate"]

_DAMPING = 0.95  # share of a row's mass that its neighbors receive
_TOLERANCE, _MAX_ITER = 1e-6, 500
_TINY = float(np.finfo(np.float64).tiny)
_DIFFUSION_DAMPING = 0.99  # closer to 1 than for labels: distant rows count as well
_COORDINATE_SIZE = 2.0  # root mean square; penalized classifiers see features of size 1
_DENSE_FACTOR = 8  # up to this many rows per coordinate, all eigenvectors are computed at once


def normalized_adjacency(neighbors: IntArray) -> sparse.csr_array:
    r"""Symmetric normalized adjacency of a nearest-neighbor graph.

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
    >>> from hotview.semisupervised.propagation import normalized_adjacency
    >>> normalized_adjacency(np.array([[1], [0], [1]])).toarray().round(2)
    array([[0.  , 0.82, 0.  ],
           [0.82, 0.  , 0.58],
           [0.  , 0.58, 0.  ]])
    """
    n, k = neighbors.shape
    ends = np.arange(n + 1) * k
    N = sparse.csr_array((np.ones(n * k), neighbors.ravel(), ends), shape=(n, n))
    A = (N + N.T) / 2
    # A row without neighbors, as in a table of one row, has degree 0.
    degree = np.maximum(A.sum(axis=1), np.finfo(np.float64).tiny)
    half = sparse.diags_array(degree**-0.5)
    return sparse.csr_array(half @ A @ half)


def propagate(
    S: sparse.csr_array,
    seeds: Array,
    damping: float = _DAMPING,
    device: torch.device | None = None,
) -> Array:
    r"""Propagate seeds along a graph until convergence.

    .. math:: F = (I - α S)^{-1} Y = Y + α S Y + α^2 S^2 Y + …

    Parameters
    ----------
    S : csr_array, shape (n_rows, n_rows)
        From `normalized_adjacency`.
    seeds : ndarray of shape (n_rows, n_columns)
        Y: the initial mass of every row; columns do not mix.
    damping : float, default=0.95
        α: the share of a seed that remains after one step.
    device : torch.device or None, default=None
        Device of the computation; None is the CPU.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_columns)
        F, to 6 digits.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import normalized_adjacency, propagate
    >>> S = normalized_adjacency(np.array([[1], [0], [3], [2]]))
    >>> propagate(S, np.array([[1.0], [0.0], [0.0], [0.0]]), damping=0.5).round(3).ravel()
    array([1.333, 0.667, 0.   , 0.   ])
    """
    # Conjugate gradients for all columns side by side: I − αS is positive definite.
    F = torch.tensor(seeds, dtype=torch.float64, device=device)
    multiply = _multiplier(S, F.device)
    R = damping * multiply(F)
    P, rr = R.clone(), (R * R).sum(0)
    enough = _TOLERANCE**2 * (F * F).sum(0).clamp_min(_TINY)
    for _ in range(_MAX_ITER):
        if bool((rr <= enough).all()):
            break
        Q = P - damping * multiply(P)
        # A column that has converged stays as it is: its residual may be 0.
        step = rr / (P * Q).sum(0).clamp_min(_TINY)
        F += step * P
        R -= step * Q
        new = (R * R).sum(0)
        P = R + new / rr.clamp_min(_TINY) * P
        rr = new
    return np.asarray(F.cpu().numpy())


def _multiplier(S: sparse.csr_array, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Product of a sparse matrix and dense columns on a device, the same in every run."""
    if device.type == "cpu":
        return lambda P: torch.from_numpy(S @ P.numpy())
    values, columns, ends = (
        torch.from_numpy(a).to(device) for a in (S.data, S.indices.astype(np.int64), S.indptr)
    )

    def multiply(P: Tensor) -> Tensor:
        # In a fixed order, unlike the additions of a sparse product on a GPU.
        return torch.segment_reduce(values[:, None] * P[columns], "sum", offsets=ends.long())

    return multiply


def normalize_by_class_mass(F: Array, mass: Array) -> Array:
    """Class probabilities of every row, as if all classes had the same initial mass.

    Parameters
    ----------
    F : ndarray of shape (n_rows, n_classes)
        Propagated seeds of every class.
    mass : ndarray of shape (n_classes,)
        Initial mass of every class. Many labels of a class mean that it was easy to label, not
        that every row which they reach belongs to it.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_classes)
        Rows add up to 1; equal probabilities in rows that no seed reaches.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import normalize_by_class_mass
    >>> normalize_by_class_mass(np.array([[2.0, 1.0], [0.0, 0.0]]), np.array([4.0, 1.0]))
    array([[0.33333333, 0.66666667],
           [0.5       , 0.5       ]])
    """
    # Conjugate gradients leave tiny negative numbers in rows that no seed reaches.
    scaled = _divide(np.maximum(F, 0.0), np.broadcast_to(mass, F.shape))
    total = scaled.sum(axis=1, keepdims=True)
    equal = np.full_like(scaled, 1 / scaled.shape[1])
    probabilities: Array = np.divide(scaled, total, out=equal, where=total > 0)
    return probabilities


def diffusion_coordinates(S: sparse.csr_array, n: int) -> Array:
    r"""Leading diffusion coordinates of a graph, normalized to the same length for all rows.

    .. math:: y_i ∝ \big(u_{ij} / \sqrt{1 - α λ_j}\big)_j, \qquad S u_j = λ_j u_j

    Before the normalization, their inner products are the entries of :math:`(I - α S)^{-1}`, as
    of `propagate`.

    Parameters
    ----------
    S : csr_array, shape (n_rows, n_rows)
        From `normalized_adjacency`.
    n : int
        Number of coordinates; those beyond the number of rows are 0.

    Returns
    -------
    ndarray of float64, shape (n_rows, n)
        The coordinates, those of the largest eigenvalues first.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import diffusion_coordinates, normalized_adjacency
    >>> S = normalized_adjacency(np.array([[1], [0], [3], [2]]))
    >>> Y = diffusion_coordinates(S, 2)
    >>> (Y @ Y.T).round(6) + 0.0
    array([[8., 8., 0., 0.],
           [8., 8., 0., 0.],
           [0., 0., 8., 8.],
           [0., 0., 8., 8.]])
    """
    n_rows = S.shape[0]
    n_vectors = min(n, n_rows)
    if n_rows <= _DENSE_FACTOR * n_vectors:
        values, U = np.linalg.eigh(S.toarray())
    else:
        # The default start vector is random and would differ from call to call.
        values, U = eigsh(S, k=n_vectors, which="LA", v0=np.ones(n_rows))
    order = np.argsort(values)[::-1][:n_vectors]
    values, U = values[order], U[:, order]
    U = U * np.where(U[np.abs(U).argmax(axis=0), np.arange(n_vectors)] < 0, -1.0, 1.0)
    Y = U / np.sqrt(1 - _DIFFUSION_DAMPING * np.minimum(values, 1.0))
    length = np.linalg.norm(Y, axis=1, keepdims=True)
    Y = np.divide(Y, length, out=np.zeros_like(Y), where=length > 0)
    return np.pad(_COORDINATE_SIZE * np.sqrt(n) * Y, ((0, 0), (0, n - n_vectors)))


def _divide(a: Array, b: Array) -> Array:
    quotient: Array = np.divide(a, b, out=np.zeros(np.shape(a)), where=b > 0)
    return quotient
