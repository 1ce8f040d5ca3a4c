"""Principal components: of wide views, with aligned signs, and the effective rank of a cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array
from hotview.preprocessing.column_scaler import N_COMPONENTS, ColumnScaler, is_sparse, root_shares

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

    from hotview.preprocessing.rows import ViewRows

__all__ = [
    "align_signs",
    "component_weights",
    "effective_rank",
    "effective_ranks",
    "fit_components",
    "looks_like_components",
    "principal_components",
    "singular_vectors",
    "total_std",
]

_N_SAMPLE = 10_000  # maximum number of rows for the components
_MIN_COMPONENTS, _MAX_COMPONENTS = 8, 1024  # columns that may be recognized as components
_MIN_RATIO, _MAX_RATIO = 3.0, 1e4  # of the largest to the smallest variance of components
_FULL = 0.3  # share of its variance above the noise floor from which a component counts fully
_LEAST = 0.2  # factor of a component at the noise floor
_N_ITERATIONS = 4  # of the range finder: enough for singular values that fall slowly
_N_EXTRA = 10  # directions beyond those that are asked for
_QUANTILES = (np.arange(100) + 0.5) / 100


def principal_components(
    views: Sequence[ViewRows], n: int, random: np.random.Generator
) -> list[PCA]:
    """Fit principal components of the standardized columns of every view.

    Parameters
    ----------
    views : sequence of ViewRows
        The views.
    n : int
        Maximum number of components of each.
    random : numpy Generator
        Source of the sample of rows, where a view has more than 10,000.

    Returns
    -------
    list of PCA
        Fitted, with signs from `align_signs`.
    """
    from sklearn.decomposition import PCA

    fitted, scores = [], []
    for view in views:
        rows = np.arange(view.n_rows)
        if view.n_rows > _N_SAMPLE:
            rows = np.sort(random.choice(view.n_rows, _N_SAMPLE, replace=False))
        X: Array = view.take_on_all_ranks(rows).cpu().numpy()
        with np.errstate(invalid="ignore"):  # ratios of the variance, where there is none
            pca = PCA(min(n, *X.shape), random_state=0).fit(X)
        fitted.append(pca)
        scores.append(pca.transform(X))
    for pca, signs in zip(fitted, align_signs(scores), strict=True):
        pca.components_ *= signs[:, None].astype(pca.components_.dtype)
    return fitted


def align_signs(scores: Sequence[Array]) -> list[Array]:
    """Return signs for the columns of clouds that make equally numbered columns most similar.

    The sign of a principal component is arbitrary and its distribution is not symmetric: without
    a rule, views of one distribution look different. Column by column, a similarity of all pairs
    of clouds is positive where their signs should be equal, and its leading eigenvector has the
    signs (synchronization over two signs). The remaining global sign makes the third moments
    positive.

    Parameters
    ----------
    scores : sequence of ndarray of shape (rows, columns)
        The clouds; sizes may differ.

    Returns
    -------
    list of ndarray of shape (columns,)
        1 or −1.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.preprocessing.pca import align_signs
    >>> Y = np.random.default_rng(0).exponential(size=(200, 1))
    >>> [signs.tolist() for signs in align_signs([Y - 1, 1 - Y, Y - 1])]
    [[1.0], [-1.0], [1.0]]
    """
    signs = [np.ones(Y.shape[1]) for Y in scores]
    quantiles = [_quantiles(Y) for Y in scores]
    for j in range(max(Y.shape[1] for Y in scores)):
        views = [s for s, Y in enumerate(scores) if Y.shape[1] > j]
        column_signs = _synchronize_signs(np.stack([quantiles[s][:, j] for s in views]))
        for s, sign in zip(views, column_signs, strict=True):
            signs[s][j] = sign
    return signs


def _quantiles(Y: Array) -> Array:
    """Return interpolated quantiles of every column, as ``np.quantile`` in a tenth of its time."""
    ordered = np.sort(Y.T.astype(np.float64)).T  # along memory
    at = _QUANTILES * (len(Y) - 1)
    low = at.astype(np.int64)
    high = np.minimum(low + 1, len(Y) - 1)
    values: Array = ordered[low] + (at - low)[:, None] * (ordered[high] - ordered[low])
    return values


def _synchronize_signs(q: Array) -> Array:
    """Return signs of clouds that make their quantiles, the rows of `q`, most similar."""
    reflected = -q[:, ::-1]
    equal = ((q[:, None] - q) ** 2).mean(axis=2)
    opposite = ((q[:, None] - reflected) ** 2).mean(axis=2)
    total = equal + opposite
    similarity = np.divide(opposite - equal, total, out=np.zeros_like(total), where=total > 0)
    _, vectors = np.linalg.eigh(similarity * np.abs(similarity))
    signs = np.where(vectors[:, -1] < 0, -1.0, 1.0)
    return signs if signs @ (q**3).mean(axis=1) >= 0 else -signs


def effective_rank(Z: Tensor) -> float:
    r"""Return the exponential of the entropy of the normalized eigenvalues of the covariance.

    It is d for an isotropic cloud, 1 for a line, and 0 for a point (Roy and Vetterli, 2007).

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        A point cloud.

    Returns
    -------
    float
        The effective rank, from 0 to d.

    Examples
    --------
    >>> import torch
    >>> from hotview.preprocessing.pca import effective_rank
    >>> corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> round(effective_rank(corners), 3), effective_rank(torch.ones(5, 2))
    (2.0, 0.0)
    """
    return effective_ranks([Z.unsqueeze(0)])[0][0]


def effective_ranks(Zs: Sequence[Tensor]) -> list[list[float]]:
    """Return the `effective_rank` of every cloud of every (clouds, n, d), where n may differ."""
    alike = len({Z.shape for Z in Zs}) == 1  # then a few operations do for all
    parts = [_moments(torch.stack(list(Zs)))] if alike else [_moments(Z)[:, None] for Z in Zs]
    moments = torch.cat(parts, dim=1).transpose(0, 1).cpu()  # one wait for all
    eigenvalues = torch.linalg.eigvalsh(moments[:, 0]).clamp_min(0)
    total, size = eigenvalues.sum(-1), moments[:, 1].diagonal(dim1=-2, dim2=-1).sum(-1)
    # Less than rounding leaves of a cloud that is one point.
    is_point = (total <= 1e-10 * size) | (total == 0)
    p = eigenvalues / total.masked_fill(is_point, 1.0).unsqueeze(-1)
    ranks: list[list[float]] = torch.exp(-torch.xlogy(p, p).sum(-1)).where(~is_point, 0).tolist()
    return ranks


def _moments(Z: Tensor) -> Tensor:
    """Return second moments around the mean and around zero, (2, …, d, d) of (…, n, d)."""
    Z = Z.detach().double()
    centered = Z - Z.mean(-2, keepdim=True)
    return torch.stack([centered.mT @ centered, Z.mT @ Z])


def total_std(Z: Tensor) -> float:
    """Return the square root of the total variance of a point cloud."""
    return float(Z.detach().var(0, correction=0).sum().sqrt())


def fit_components(scaler: ColumnScaler, X: Any, device: torch.device) -> ColumnScaler:
    """Add the leading components of standardized columns, with a mean variance of 1.

    Parameters
    ----------
    scaler : ColumnScaler
        Statistics of the columns.
    X : ndarray or scipy CSR array
        Some rows, as they were given.
    device : torch.device
        Where to compute.

    Returns
    -------
    ColumnScaler
        The scaler with components. They do not depend on any random state.
    """
    mean, scale = scaler.mean, scaler.scale
    X = root_shares(X) if scaler.is_counts else X
    if is_sparse(X):
        X = scaler.impute_sparse(X).astype(scaler.sparse_dtype, copy=False)
    else:
        X, mean, scale = scaler._standardize(X).numpy(), np.zeros_like(mean), np.ones_like(scale)
    vectors, Y = singular_vectors(X, mean, scale, N_COMPONENTS, np.random.default_rng(0), device)
    weights = np.ones(Y.shape[1])
    if scaler.is_counts:
        weights = component_weights(Y.var(axis=0))
    size = np.sqrt((Y * weights).var(axis=0).mean()) or 1.0  # of a constant view
    return replace(scaler, components=(vectors * weights / size).astype(np.float32))


def component_weights(variance: Array) -> Array:
    r"""Weights of components of a view: less for large ones, and little for those that are noise.

    .. math:: w_j = \operatorname{clip}\big((1 - f / v_j) / 0.3,\, 0.2,\, 1\big) / v_j^{1/4}

    The noise floor f continues the tail of the sorted variances v by as much as it falls over its
    last third: it is close below a flat tail, which is noise, and far below a steep one.

    Parameters
    ----------
    variance : ndarray of shape (n_components,)
        Variances of the components.

    Returns
    -------
    ndarray of shape (n_components,)
        Factors of the components, which then have a mean variance of 1; 1 for constant ones.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.preprocessing.pca import component_weights
    >>> component_weights(np.array([90, 40, 20, 10, 1.2, 1.1, 1.05, 1.02, 1.0])).round(2)
    array([0.2 , 0.24, 0.28, 0.34, 0.46, 0.34, 0.27, 0.22, 0.18])
    """
    weights = np.ones(len(variance))
    some = variance > 1e-12 * variance.max(initial=0.0)
    v = variance[some]
    if len(v) == 0:
        return weights
    tail = np.sort(v)
    has_tail = len(v) >= _MIN_COMPONENTS and tail[-1] >= _MIN_RATIO * tail[0]
    floor = tail[0] ** 2 / tail[len(v) // 3] if has_tail else 0.0
    raw = np.clip((1 - floor / v) / _FULL, _LEAST, 1.0) / v**0.25
    weights[some] = raw / np.sqrt((raw**2 * v).mean())
    return weights


def looks_like_components(X: Array) -> bool:
    """Whether columns look like principal components: orthogonal, of falling variance, signed.

    Variances that differ by more than a factor of 10,000 are those of units of measurement.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Some rows; NaN counts as the mean of its column.

    Returns
    -------
    bool
        False for fewer than 8 or more than 1,024 columns.
    """
    n, d = X.shape
    if not _MIN_COMPONENTS <= d <= _MAX_COMPONENTS:
        return False
    X = np.asarray(X, dtype=np.float64)
    if np.isnan(X).any():
        X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    if not ((X.min(axis=0) < 0) & (X.max(axis=0) > 0))[1:].all():
        return False  # counts, shares, topics; the first component without centering has one sign
    variance = X.var(axis=0)
    if not _MIN_RATIO * variance.min() <= variance.max() <= _MAX_RATIO * variance.min():
        return False
    place = np.argsort(np.argsort(-variance))
    if np.corrcoef(place, np.arange(d))[0, 1] < max(0.6, 2.2 / np.sqrt(d - 1)):
        return False
    apart = ~np.eye(d, dtype=bool)
    for Z in (X - X.mean(axis=0), X):  # components of centered rows, or of rows as they are
        Z = Z / np.sqrt((Z * Z).mean(axis=0))
        C, E = Z.T @ Z / n, (Z * Z).T @ (Z * Z) / n**2
        correlation, error = np.sqrt((C[apart] ** 2).mean()), np.sqrt(E[apart].mean())
        # With few rows, ordinary columns may be as little correlated, but no less than by chance.
        if correlation < (0.03 + 1.5 * error if n >= 4 * d else 0.85 * error):
            return True
    return False


def singular_vectors(
    X: Any, mean: Array, scale: Array, n: int, random: np.random.Generator, device: torch.device
) -> tuple[Array, Array]:
    """Leading right singular vectors of centered and scaled columns, and the rows' coordinates.

    Randomized subspace iteration (Halko, Martinsson and Tropp, 2011); the mean is subtracted from
    products, so that sparse rows stay sparse.

    Parameters
    ----------
    X : ndarray or scipy CSR array, shape (n_rows, n_columns)
        The rows, finite, in the precision in which to compute.
    mean, scale : ndarray of shape (n_columns,)
        Subtracted from every column, and its divisor.
    n : int
        Number of vectors; fewer where there are fewer rows or columns.
    random : numpy Generator
        Source of the first directions.
    device : torch.device
        Where to compute; a GPU holds the rows as a dense matrix.

    Returns
    -------
    vectors : ndarray of float64, shape (n_columns, n)
        Orthonormal, those of the largest singular values first.
    coordinates : ndarray of float64, shape (n_rows, n)
        The centered and scaled rows times the vectors.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from hotview.preprocessing.pca import singular_vectors
    >>> X = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> random = np.random.default_rng(0)
    >>> V, Y = singular_vectors(X, np.zeros(2), np.ones(2), 1, random, torch.device("cpu"))
    >>> np.abs(V).round(3).ravel(), np.abs(Y).round(3).ravel()
    (array([1., 0.]), array([3., 3., 0., 0.]))
    """
    product = _CenteredRows(X, mean, scale, device)
    n = min(n, *X.shape)
    n_directions = min(n + _N_EXTRA, *X.shape)
    start = random.normal(size=(X.shape[1], n_directions))
    Q = torch.as_tensor(start.astype(X.dtype), device=device)
    for _ in range(_N_ITERATIONS):
        Q = torch.linalg.qr(product.times(Q)).Q
        Q = torch.linalg.qr(product.transposed_times(Q)).Q
    U, values, Wt = torch.linalg.svd(product.times(Q).double(), full_matrices=False)
    vectors = Q.double() @ Wt[:n].T
    return vectors.cpu().numpy(), (U[:, :n] * values[:n]).cpu().numpy()


class _CenteredRows:
    """Products of centered and scaled rows with matrices, without forming the rows."""

    def __init__(self, X: Any, mean: Array, scale: Array, device: torch.device) -> None:
        self.X: Any = X
        if not is_sparse(X):
            self.X = torch.from_numpy(X).to(device)
        elif device.type != "cpu":  # to which only the nonzero entries are copied
            coo = X.tocoo()
            places = [
                torch.as_tensor(x, dtype=torch.int64, device=device) for x in (coo.row, coo.col)
            ]
            values = torch.from_numpy(coo.data).to(device)
            self.X = torch.zeros(X.shape, dtype=values.dtype, device=device)
            self.X[places[0], places[1]] = values
        self.mean, self.scale = (
            torch.as_tensor(values.astype(X.dtype), device=device) for values in (mean, scale)
        )

    def times(self, Q: Tensor) -> Tensor:
        Q = Q / self.scale.unsqueeze(1)
        return self._multiply(self.X, Q) - self.mean @ Q

    def transposed_times(self, Y: Tensor) -> Tensor:
        product = self._multiply(self.X.T, Y) - torch.outer(self.mean, Y.sum(0))
        return product / self.scale.unsqueeze(1)

    def _multiply(self, X: Any, Q: Tensor) -> Tensor:
        return torch.as_tensor(X @ Q.numpy()) if is_sparse(X) else X @ Q
