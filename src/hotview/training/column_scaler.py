"""Preprocessing of the rows of a view: imputation, standardization, reduction of wide views."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from hotview._codec import require, require_array, shorten
from hotview._types import Array, IntArray

__all__ = [
    "ColumnScaler",
    "component_weights",
    "fit_components",
    "looks_like_components",
    "looks_like_counts",
    "root_shares",
    "singular_vectors",
]

#: what is done to the columns of a view, in words
KINDS = {
    "none": "as given",
    "standardize": "standardized",
    "components": "components, standardized in part",
    "counts": "square roots of the shares of counts in their row",
}
WIDE = 256  # columns beyond which a view is reduced
N_COMPONENTS = 64  # to which it is reduced
_MIN_COMPONENTS, _MAX_COMPONENTS = 8, 1024  # columns that may be recognized as components
_MIN_RATIO, _MAX_RATIO = 3.0, 1e4  # of the largest to the smallest variance of components
_MAX_SHARE = 0.2  # of a column in all counts
_MAX_MEAN = 100  # of a sparse column, in standard deviations, for products in float32
_FULL = 0.3  # share of its variance above the noise floor from which a component counts fully
_LEAST = 0.2  # factor of a component at the noise floor
_N_ENTRIES = 2**22  # of dense rows that are reduced together
_N_ITERATIONS = 4  # of the range finder: enough for singular values that fall slowly
_N_EXTRA = 10  # directions beyond those that are asked for


@dataclass(frozen=True)
class ColumnScaler:
    """Imputes, standardizes and, in a wide view, reduces the rows of one view.

    Parameters
    ----------
    mean : ndarray of float64
        Subtracted from every column, and from the indicators behind them; 0 without
        standardization.
    scale : ndarray of float64
        Divisor of every column and indicator; 1 for constant columns.
    fill : ndarray of float64 or None
        Values that replace NaN; None where NaN is an error.
    kind : {"none", "standardize", "components", "counts"}, default="standardize"
        What the mean and the scale are for; of counts, `root_shares` are taken before all else.
    components : ndarray of float32, shape (n_inputs, n_components), or None, default=None
        Linear map of the standardized columns and indicators; None where these are not reduced.
    impute : str or None, default=None
        The method of imputation, one of `IMPUTATIONS`, that `fill` is from.
    indicators : ndarray of int64 or None, default=None
        Columns with an indicator: a further column, 1 where a cell is missing, 0 elsewhere.
    """

    mean: Array
    scale: Array
    fill: Array | None
    kind: str = "standardize"
    components: Array | None = None
    impute: str | None = None
    indicators: IntArray | None = None

    def __post_init__(self) -> None:
        require(self.kind in KINDS, f"its columns cannot be {shorten(self.kind)}")
        n_inputs, marked = len(self.mean), self.indicators
        # The squares of these are finite, and more than 0.
        require_array("mean", self.mean, (n_inputs,), "float64", -1e154, 1e154)
        require_array("scale", self.scale, (n_inputs,), "float64", 1e-162, 1e155)
        if marked is not None:
            require_array("indicators", marked, (None,), "int64", 0, self.n_columns - 1)
            fits = len(marked) > 0 and bool((np.diff(marked) > 0).all())
            require(fits and self.fill is not None, "its indicators mark no columns in order")
        if self.fill is not None:
            require_array("fill", self.fill, (self.n_columns,), "float64", -1e154, 1e154)
        if self.components is not None:
            require_array("components", self.components, (n_inputs, None), "float32")
            require(self.n_outputs > 0, "its components are none")

    @property
    def is_counts(self) -> bool:
        """Whether the rows are counts."""
        return self.kind == "counts"

    @property
    def description(self) -> str:
        """What is done to the columns, in words."""
        parts = [KINDS[self.kind]]
        if self.impute is not None:
            parts.append(f"missing cells replaced by the {self.impute.partition('+')[0]}")
        if self.n_indicators > 0:
            parts[-1] += f" and marked in {self.n_indicators:,} more columns"
        if self.components is not None:
            parts.append(f"{len(self.mean):,} columns reduced to {self.n_outputs} components")
        return "; ".join(parts)

    @property
    def n_columns(self) -> int:
        """Number of columns of a row as it is given, without indicators."""
        return len(self.mean) - self.n_indicators

    @property
    def n_indicators(self) -> int:
        """Number of columns that mark missing cells."""
        return 0 if self.indicators is None else len(self.indicators)

    @property
    def n_outputs(self) -> int:
        """Number of columns after indicators are added and columns are reduced."""
        return len(self.mean) if self.components is None else self.components.shape[1]

    def transform(self, X: Any) -> Tensor:
        """Preprocess dense or sparse rows to float32; `X` itself is not changed."""
        if self.is_counts:
            X = root_shares(X)
        if self.components is None:
            return self._standardize(X.toarray() if _is_sparse(X) else X)
        if not _is_sparse(X):
            return self._reduce(X, torch.from_numpy(self.components).double())
        map_, offset = self._sparse_map
        X = self.impute_sparse(X).astype(map_.dtype, copy=False)
        return torch.from_numpy((X @ map_ - offset).astype(np.float32, copy=False))

    def impute_sparse(self, X: Any) -> Any:
        """Sparse rows as `_impute` makes dense ones."""
        if self.fill is None or (self.indicators is None and not np.isnan(X.data).any()):
            return X
        if not X.has_canonical_format:  # a cell that is stored in parts is missing once
            X = X.copy()
            X.sum_duplicates()
        missing = np.isnan(X.data)
        n_missing = np.diff(np.concatenate([[0], missing.cumsum()])[X.indptr])
        missing &= ~np.repeat(n_missing == X.shape[1], np.diff(X.indptr))
        values = np.where(missing, self.fill[X.indices].astype(X.dtype), X.data)
        filled = sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)
        if self.indicators is None:
            return filled
        marks = sparse.csr_array((missing.astype(X.dtype), X.indices, X.indptr), shape=X.shape)
        marks = marks[:, self.indicators]
        marks.eliminate_zeros()
        return sparse.csr_array(sparse.hstack([filled, marks]))

    @property
    def sparse_dtype(self) -> type[np.floating]:
        """Precision of products of sparse rows, from which large means are subtracted."""
        far = (np.abs(self.mean) > _MAX_MEAN * self.scale).any()
        return np.float64 if far else np.float32

    def _reduce(self, X: Array, components: Tensor) -> Tensor:
        """Components of dense rows, in float64 so that they do not depend on the other rows."""
        size = max(1, _N_ENTRIES // X.shape[1])
        parts = (X[start : start + size] for start in range(0, len(X), size))
        reduced = [(self._standardize(part).double() @ components).float() for part in parts]
        return torch.cat(reduced) if reduced else torch.empty(0, self.n_outputs)

    @cached_property
    def _sparse_map(self) -> tuple[Array, Array]:
        """Linear map of columns that are not standardized, and what is subtracted from it."""
        assert self.components is not None
        map_ = self.components / self.scale[:, None]
        dtype = self.sparse_dtype
        return map_.astype(dtype), (self.mean @ map_).astype(dtype)

    def _standardize(self, X: Array) -> Tensor:
        exact = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        if self.fill is not None:
            exact = self._impute(exact, self.fill.astype(exact.dtype))
        mean, rounding, scale = self.constants(exact.dtype)
        # The first operation makes a copy; the others are torch's, twice as fast on narrow rows.
        standardized = torch.from_numpy(exact - mean)
        standardized.sub_(torch.from_numpy(rounding)).div_(torch.from_numpy(scale))
        return standardized.to(torch.float32).contiguous()

    def _impute(self, X: Array, fill: Array) -> Array:
        """Rows with NaN replaced, and indicators; a row that is NaN throughout is absent."""
        missing = np.isnan(X)
        if self.indicators is None and not missing.any():
            return X
        absent = missing.all(axis=1, keepdims=True)
        filled = np.where(missing & ~absent, fill, X)
        if self.indicators is None:
            return filled
        marks = np.where(absent, np.nan, missing[:, self.indicators]).astype(X.dtype)
        return np.concatenate([filled, marks], axis=1)

    def constants(self, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
        """Mean, its rounding error and scale of every column, in the precision of some rows.

        Rows are standardized by subtracting the first two, one after the other, and dividing by the
        third.
        """
        mean = self.mean.astype(dtype)
        return mean, (self.mean - mean).astype(dtype), self.scale.astype(dtype)

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state, without what is cached."""
        return {name: value for name, value in self.__dict__.items() if name != "_sparse_map"}


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
    if _is_sparse(X):
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
    >>> from hotview.training.column_scaler import component_weights
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


def looks_like_counts(X: Any) -> bool:
    """Whether rows hold counts: whole numbers from 0 on, half of them 0, in no column most.

    Parameters
    ----------
    X : ndarray or scipy CSR array
        Some rows; NaN is left out.

    Returns
    -------
    bool
        False where one column has more than a fifth of all counts: a number of another kind, or the
        number of a row, would drown the others.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.training.column_scaler import looks_like_counts
    >>> looks_like_counts(np.eye(8)), looks_like_counts(np.eye(8) / 2)
    (True, False)
    """
    values: Array = X.data if _is_sparse(X) else X
    known = ~np.isnan(values)
    n, n_missing = np.count_nonzero(values), int((~known).sum())
    if not 0 < 2 * (n - n_missing) <= np.prod(X.shape) - n_missing:
        return False
    if not ((values >= 0) & (values % 1 == 0))[known].all():
        return False
    if _is_sparse(X):
        X = sparse.csr_array((np.nan_to_num(values), X.indices, X.indptr), shape=X.shape)
    total = np.asarray(X.sum(axis=0) if _is_sparse(X) else np.nansum(X, axis=0), dtype=np.float64)
    return bool(total.max() <= _MAX_SHARE * total.sum())


def root_shares(X: Any) -> Any:
    r"""Square root of the share of every entry in the sum of its row, in float32.

    .. math:: \sqrt{x_{ij} / \sum_j x_{ij}}

    Distances between such rows are Hellinger distances. They do not depend on how much was counted
    in a row, and the variance of a count is that of any other.

    Parameters
    ----------
    X : ndarray or scipy CSR array
        Counts; NaN stays NaN and counts as 0 in the sum.

    Returns
    -------
    ndarray or scipy CSR array of float32
        A new array; rows without counts are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.training.column_scaler import root_shares
    >>> root_shares(np.array([[9, 16, 0], [0, 0, 0]]))
    array([[0.6, 0.8, 0. ],
           [0. , 0. , 0. ]], dtype=float32)
    """
    if _is_sparse(X):
        if not X.has_canonical_format:  # roots are of sums, not of their parts
            X = X.copy()
            X.sum_duplicates()
        known = sparse.csr_array((np.nan_to_num(X.data), X.indices, X.indptr), shape=X.shape)
        total = np.asarray(known.sum(axis=1), dtype=np.float64).ravel()
        of_entries = np.repeat(np.where(total > 0, total, 1.0), np.diff(X.indptr))
        with np.errstate(invalid="ignore"):  # as below
            roots = np.sqrt(X.data / of_entries).astype(np.float32)
        return sparse.csr_array((roots, X.indices, X.indptr), shape=X.shape)
    total = np.nansum(X, axis=1, keepdims=True, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # negative numbers: the caller raises an error
        return np.sqrt(X / np.where(total > 0, total, 1.0)).astype(np.float32)


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
    >>> from hotview.training.column_scaler import singular_vectors
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
        if device.type != "cpu":
            self.X = _to_dense(self.X, device)
        elif not _is_sparse(X):
            self.X = torch.from_numpy(self.X)
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
        return torch.as_tensor(X @ Q.numpy()) if _is_sparse(X) else X @ Q


def _to_dense(X: Any, device: torch.device) -> Tensor:
    """The rows as a dense matrix on a device, to which only their nonzero entries are copied."""
    if not _is_sparse(X):
        return torch.from_numpy(X).to(device)
    values = torch.from_numpy(X.data).to(device)
    dense = torch.zeros(X.shape, dtype=values.dtype, device=device)
    counts = torch.as_tensor(np.diff(X.indptr), device=device)
    rows = torch.repeat_interleave(torch.arange(X.shape[0], device=device), counts)
    columns = torch.as_tensor(X.indices, device=device).long()
    return dense.index_put_((rows, columns), values, accumulate=True)


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))
