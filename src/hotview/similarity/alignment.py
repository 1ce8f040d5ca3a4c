"""Unbiased centered kernel alignment (CKA) of views, its null, and groups of aligned views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hotview._types import Array, IntArray

MAX_ROWS = 100  # linked rows of a pair; of more, a random sample
MIN_ROWS = 8  # linked rows of a pair: a half of them must have 4
_MIN_STABILITY = 0.9  # share of half-samples in which groups hold
_MIN_GAP = 0.1  # below, unequal noise in views of one group looks like groups
_MIN_VIEWS = 4  # with fewer, pairs say all
_ROUNDING, _NULL_ROUNDING = 1e-12, 1e-4  # of kernels; of a null in standard deviations


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
        one_hot = np.eye(classes.max() + 1)[classes]
        counts = one_hot.sum(axis=0)
        n_entries = np.outer(counts, counts) - np.diag(counts)
        means = one_hot @ (one_hot.T @ A @ one_hot / np.maximum(n_entries, 1)) @ one_hot.T
        A = _without_rounding(A - means * ~np.eye(len(classes), dtype=bool), K)
    products = inner_products(A)
    norm = np.sqrt(np.diag(products))
    return divide(products, np.outer(norm, norm))


def inner_products(A: Array) -> Array:
    """Inner products of all pairs of matrices, (S, S) of (S, n, n)."""
    flat = A.reshape(len(A), -1)
    return np.asarray(flat @ flat.T)


def divide(a: Array, b: Array) -> Array:
    """A / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


@dataclass(frozen=True)
class Block:
    """Pairs of views that have the same linked rows in common, and kernels of these rows."""

    rows: IntArray
    pairs: tuple[IntArray, ...]  # numbers of views
    at: tuple[IntArray, ...]  # the same, among the kernels
    kernels: Array
    classes: IntArray | None  # sorted

    def align(self, chosen: IntArray | slice = slice(None)) -> Array:
        """Alignments of the pairs on some of the rows."""
        classes = None if self.classes is None else self.classes[chosen]
        return kernel_alignment(self.kernels[:, chosen][:, :, chosen], classes)[self.at]

    def halve(self, keys: Array) -> Array:
        """Alignments on the half of the rows with the smallest random keys."""
        return self.align(np.sort(np.argsort(keys[self.rows])[: len(self.rows) // 2]))

    def draw_null(self, n_permutations: int, random: np.random.Generator) -> Array:
        """Inner products of the pairs, and after permutations of the rows of every view."""
        A = u_center(self.kernels).astype(np.float32)  # half as much memory to move
        n = A.shape[1]
        classes = np.zeros(n) if self.classes is None else self.classes
        products = [inner_products(A)[self.at]]
        permuted = np.empty_like(A)
        for _ in range(n_permutations):
            for B, out in zip(A, permuted, strict=True):
                order = np.lexsort(np.stack([random.random(n), classes]))  # within classes
                B.take(order, axis=0).take(order, axis=1, out=out)
            products.append(inner_products(permuted)[self.at])
        return np.array(products)


def make_blocks(
    points: Sequence[Array],
    bandwidths: Sequence[float],
    present: Array,
    classes: IntArray | None,
) -> list[Block]:
    """Pairs of views by the linked rows that they have in common, if there are enough."""
    by_rows: dict[bytes, list[tuple[int, int]]] = {}
    for s, t in combinations(range(len(points)), 2):
        by_rows.setdefault((present[:, s] & present[:, t]).tobytes(), []).append((s, t))
    blocks = []
    for mask, pairs in by_rows.items():
        rows = np.flatnonzero(np.frombuffer(mask, dtype=bool))[:MAX_ROWS]
        of_rows, n_classes = None, 0
        if classes is not None:
            rows = rows[np.argsort(classes[rows], kind="stable")]
            names, of_rows = np.unique(classes[rows], return_inverse=True)
            n_classes = len(names)
        if len(rows) - n_classes < MIN_ROWS:  # every class takes away one degree of freedom
            continue
        views, at = np.unique(np.array(pairs).T, return_inverse=True)
        at = at.reshape(2, -1)
        kernels = [gaussian_kernel(points[s][rows], bandwidths[s]) for s in views]
        blocks.append(Block(rows, tuple(views[at]), tuple(at), np.stack(kernels), of_rows))
    return blocks


def gaussian_kernel(Z: Array, bandwidth: float) -> Array:
    """Gaussian kernel of all pairs of rows; the bandwidth is squared."""
    from scipy.spatial.distance import cdist

    K: Array = np.exp(-cdist(Z, Z, "sqeuclidean") / (2 * bandwidth))
    return K


def p_values(blocks: Sequence[Block], n_permutations: int, random: np.random.Generator) -> Array:
    """P-values of all pairs by permutations of every view's rows, for the maximum over pairs."""
    null = np.hstack([block.draw_null(n_permutations, random) for block in blocks])
    z = divide(null - null.mean(axis=0), np.broadcast_to(null.std(axis=0), null.shape))
    largest = z[1:].max(axis=1, keepdims=True)
    p: Array = (1 + (largest >= z[0] - _NULL_ROUNDING).sum(axis=0)) / len(z)
    return p


def group_views(similarity: Array) -> tuple[IntArray | None, float]:
    """Groups of views at the largest gap between similarities.

    Views are in one group if they are more similar than a threshold. Only thresholds count at which
    this holds for all pairs of a group; the one in the largest gap is chosen.

    Parameters
    ----------
    similarity : ndarray of shape (S, S)
        Similarities of all pairs.

    Returns
    -------
    groups : ndarray of int64, shape (S,), or None
        Groups, numbered in order of appearance: at least two, and less than S. None if there are
        none.
    gap : float
        The gap: the smallest similarity within a group less the largest between groups.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity.alignment import group_views
    >>> group_views(np.array([[1, 0.2, 0.8], [0.2, 1, 0.3], [0.8, 0.3, 1]]))
    (array([0, 1, 0]), 0.5)
    """
    S = len(similarity)
    first, second = np.triu_indices(S, 1)
    values = similarity[first, second]
    if np.isnan(values).any():
        return None, 0.0
    labels, best, largest = np.arange(S), None, 0.0
    order = np.argsort(-values, kind="stable")
    for k, pair in enumerate(order[:-1]):
        a, b = labels[first[pair]], labels[second[pair]]
        labels = np.where(labels == max(a, b), min(a, b), labels)
        sizes = np.bincount(labels)
        gap = float(values[pair] - values[order[k + 1]])
        if gap > largest and (sizes * (sizes - 1)).sum() == 2 * (k + 1):  # all pairs are in
            best, largest = labels, gap
    return (None if best is None else np.unique(best, return_inverse=True)[1]), largest


def stable_groups(
    similarity: Array, halves: Array, *, min_found: float
) -> tuple[IntArray | None, float]:
    """Groups that hold, and the share of half-samples in which they hold.

    Parameters
    ----------
    similarity : ndarray of shape (S, S)
        Similarities of all pairs.
    halves : ndarray of shape (n_halves, S, S)
        Similarities in random halves of the rows.
    min_found : float
        Share of half-samples in which the largest gap must be that between the same groups.

    Returns
    -------
    groups : ndarray of int64, shape (S,), or None
        None unless the gap is at least 0.1 and, in 90 % of the half-samples, every pair within a
        group is more similar than every pair between groups; None with fewer than four views.
    stability : float
        The share of half-samples in which they are; 0 if the similarities have no groups.
    """
    groups, gap = group_views(similarity) if len(similarity) >= _MIN_VIEWS else (None, 0.0)
    if groups is None:
        return None, 0.0
    same = groups[:, None] == groups
    within = same & ~np.eye(len(groups), dtype=bool)
    stability = float(np.mean(halves[:, within].min(axis=1) > halves[:, ~same].max(axis=1)))
    if gap < _MIN_GAP or stability < _MIN_STABILITY:
        return None, stability
    found = [labels for half in halves if (labels := group_views(half)[0]) is not None]
    n_same = sum(np.array_equal(labels, groups) for labels in found)
    return (groups if n_same >= min_found * len(halves) else None), stability
