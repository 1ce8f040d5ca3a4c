"""Unbiased centered kernel alignment (CKA) of views on the same rows."""

from __future__ import annotations

import numpy as np

from hotview._types import Array, IntArray

__all__ = ["divide", "inner_products", "kernel_alignment", "median_squared_distance", "u_center"]

_ROUNDING = 1e-12


def median_squared_distance(Z: Array, classes: IntArray | None = None) -> float:
    """Median squared distance of all pairs of rows, or of those of one class; 1 if it is 0.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        The rows.
    classes : ndarray of int64, shape (n,), or None, default=None
        Class of every row.
    """
    from scipy.spatial.distance import pdist

    distances = pdist(Z, "sqeuclidean")
    if classes is not None:
        first, second = np.triu_indices(len(Z), 1)
        distances = distances[classes[first] == classes[second]]
    median = float(np.median(distances)) if len(distances) > 0 else 0.0
    return median if median > 0 else 1.0


def u_center(K: Array) -> Array:
    r"""Center kernel matrices so that inner products are unbiased estimates of HSIC.

    .. math:: A_{ij} = K_{ij} - \frac{K_{i·} + K_{·j}}{n - 2} + \frac{K_{··}}{(n - 1)(n - 2)},
        \qquad A_{ii} = 0

    with a zero diagonal of K (Székely and Rizzo, 2014). :math:`⟨A, B⟩ / (n (n - 3))` is the
    unbiased estimate of Song et al. (2012).

    Parameters
    ----------
    K : ndarray of shape (..., n, n)
        Symmetric matrices; n is at least 4.

    Returns
    -------
    ndarray of shape (..., n, n)
        A.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity.alignment import u_center
    >>> A = u_center(np.random.default_rng(0).normal(size=(5, 5)))
    >>> bool(np.allclose(A.diagonal(), 0))
    True
    """
    n = K.shape[-1]
    off_diagonal = ~np.eye(n, dtype=bool)
    K = K * off_diagonal
    rows, columns = K.sum(-1, keepdims=True), K.sum(-2, keepdims=True)
    total = rows.sum(-2, keepdims=True)
    A: Array = K - (rows + columns) / (n - 2) + total / ((n - 1) * (n - 2))
    return _without_rounding(A * off_diagonal, K)


def _without_rounding(A: Array, K: Array) -> Array:
    """Zeros in the place of matrices that are no more than what rounding leaves of K."""
    size, original = (np.square(X).sum((-2, -1), keepdims=True) for X in (A, K))
    return np.where(size > _ROUNDING**2 * original, A, 0.0)


def kernel_alignment(K: Array, classes: IntArray | None = None) -> Array:
    r"""Unbiased centered kernel alignment of every pair of views (CKA).

    .. math:: \frac{⟨A_s, A_t⟩}{\|A_s\| \, \|A_t\|}

    of U-centered kernel matrices. With classes, the mean of every matrix over each pair of classes
    is subtracted: the mean of :math:`⟨A_s, A_t⟩` over permutations of rows within classes is then
    0, and what is left is what views share beyond the class.

    Parameters
    ----------
    K : ndarray of shape (S, n, n)
        Kernel matrices of the same n rows; n is at least 4.
    classes : ndarray of int64, shape (n,), or None, default=None
        Class of every row.

    Returns
    -------
    ndarray of shape (S, S)
        The alignments; 0 beside a view whose rows are all alike.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity.alignment import kernel_alignment
    >>> classes = np.repeat([0, 1, 2], 10)
    >>> same = np.equal.outer(classes, classes).astype(float)
    >>> noise = np.random.default_rng(0).normal(size=(2, 30, 30))
    >>> K = same + 0.1 * (noise + noise.swapaxes(1, 2))  # two views that share the class alone
    >>> float(kernel_alignment(K)[0, 1].round(1))
    0.9
    >>> abs(float(kernel_alignment(K, classes)[0, 1].round(1)))
    0.0
    """
    A = u_center(K)
    if classes is not None:
        A = _without_rounding(A - _class_means(A, classes), K)
    products = inner_products(A)
    norm = np.sqrt(np.diag(products))
    return divide(products, np.outer(norm, norm))


def _class_means(A: Array, classes: IntArray) -> Array:
    """Means of matrices over every pair of classes, in the place of entries off the diagonal."""
    one_hot = np.eye(classes.max() + 1)[classes]
    counts = one_hot.sum(axis=0)
    n_entries = np.outer(counts, counts) - np.diag(counts)
    means = one_hot.T @ A @ one_hot / np.maximum(n_entries, 1)
    return np.asarray(one_hot @ means @ one_hot.T * ~np.eye(len(classes), dtype=bool))


def inner_products(A: Array) -> Array:
    """Inner products of all pairs of matrices, (S, S) of (S, n, n)."""
    flat = A.reshape(len(A), -1)
    return np.asarray(flat @ flat.T)


def divide(a: Array, b: Array) -> Array:
    """A / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
