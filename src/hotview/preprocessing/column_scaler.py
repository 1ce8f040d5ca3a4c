"""Preprocessing of the rows of a view: imputation, standardization, reduction of wide views."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from hotview._codec import require, require_array, shorten
from hotview._types import Array, IntArray
from hotview._validation import ViewTable

__all__ = [
    "IMPUTATIONS",
    "ColumnScaler",
    "column_medians",
    "is_in_memory",
    "is_sparse",
    "looks_like_counts",
    "root_shares",
]

#: what replaces a missing cell, and whether a column of 0 and 1 marks it
IMPUTATIONS = ("mean", "median", "mean+indicator", "median+indicator")
#: what is done to the columns of a view, in words
KINDS = {
    "none": "as given",
    "standardize": "standardized",
    "components": "components, standardized in part",
    "counts": "square roots of the shares of counts in their row",
}
WIDE = 256  # columns beyond which a view is reduced
N_COMPONENTS = 64  # to which it is reduced
_MAX_SHARE = 0.2  # of a column in all counts
_MAX_MEAN = 100  # of a sparse column, in standard deviations, for products in float32
_N_ENTRIES = 2**22  # of dense rows that are reduced together
#: mean, its rounding error, scale and what is filled in, of every column
Constants = tuple[Tensor, Tensor, Tensor, Tensor | None]


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
            return self._standardize(X.toarray() if is_sparse(X) else X)
        if not is_sparse(X):  # in float64, so that components do not depend on the other rows
            components = torch.from_numpy(self.components).double()
            size = max(1, _N_ENTRIES // X.shape[1])
            parts = (X[start : start + size] for start in range(0, len(X), size))
            reduced = [(self._standardize(part).double() @ components).float() for part in parts]
            return torch.cat(reduced) if reduced else torch.empty(0, self.n_outputs)
        map_, offset = self._sparse_map
        X = self.impute_sparse(X).astype(map_.dtype, copy=False)
        return torch.from_numpy((X @ map_ - offset).astype(np.float32, copy=False))

    def impute_sparse(self, X: Any) -> Any:
        """Sparse rows with what is missing imputed, and indicators."""
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

    @cached_property
    def _sparse_map(self) -> tuple[Array, Array]:
        """Linear map of columns that are not standardized, and what is subtracted from it."""
        assert self.components is not None
        map_ = self.components / self.scale[:, None]
        dtype = self.sparse_dtype
        return map_.astype(dtype), (self.mean @ map_).astype(dtype)

    def _standardize(self, X: Array) -> Tensor:
        exact = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        if not exact.flags.writeable or min(exact.strides) < 0:  # which torch does not take
            exact = exact.copy()
        rows = torch.from_numpy(exact)
        return self.standardize(rows, self.constants(rows.dtype, rows.device))

    def constants(self, dtype: torch.dtype, device: torch.device) -> Constants:
        """Statistics of the columns, in the precision of some rows, on their device."""
        mean = torch.from_numpy(self.mean)
        rounded = mean.to(dtype)
        parts = [rounded, (mean - rounded).to(dtype), torch.from_numpy(self.scale).to(dtype)]
        fill = None if self.fill is None else torch.from_numpy(self.fill).to(device, dtype)
        return *(x.to(device) for x in parts), fill  # type: ignore[return-value]

    def standardize(self, X: Tensor, constants: Constants) -> Tensor:
        """Standardize rows on any device, and add indicators; the rows are not changed.

        What is missing is imputed, but not in rows that are NaN throughout, which are absent.
        """
        mean, rounding, scale, fill = constants
        if fill is not None:
            missing = X.isnan()
            absent = missing.all(1, keepdim=True)
            X = torch.where(missing & ~absent, fill, X)
            if self.indicators is not None:
                marks = missing[:, torch.from_numpy(self.indicators)].to(X.dtype)
                X = torch.cat([X, marks.masked_fill(absent, torch.nan)], dim=1)
        return (X - mean).sub_(rounding).div_(scale).to(torch.float32).contiguous()

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state, without what is cached."""
        return {name: value for name, value in self.__dict__.items() if name != "_sparse_map"}


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
    >>> from hotview.preprocessing.column_scaler import looks_like_counts
    >>> looks_like_counts(np.eye(8)), looks_like_counts(np.eye(8) / 2)
    (True, False)
    """
    values: Array = X.data if is_sparse(X) else X
    known = ~np.isnan(values)
    n, n_missing = np.count_nonzero(values), int((~known).sum())
    if not 0 < 2 * (n - n_missing) <= np.prod(X.shape) - n_missing:
        return False
    if not ((values >= 0) & (values % 1 == 0))[known].all():
        return False
    if is_sparse(X):
        X = sparse.csr_array((np.nan_to_num(values), X.indices, X.indptr), shape=X.shape)
    total = np.asarray(X.sum(axis=0) if is_sparse(X) else np.nansum(X, axis=0), dtype=np.float64)
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
    >>> from hotview.preprocessing.column_scaler import root_shares
    >>> root_shares(np.array([[9, 16, 0], [0, 0, 0]]))
    array([[0.6, 0.8, 0. ],
           [0. , 0. , 0. ]], dtype=float32)
    """
    if is_sparse(X):
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


def is_in_memory(table: ViewTable) -> bool:
    """Whether a table is an array or a sparse matrix in memory, not in a file.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import ViewTable
    >>> from hotview.preprocessing.column_scaler import is_in_memory
    >>> is_in_memory(ViewTable(np.zeros((3, 2))))
    True
    """
    owner = table.data
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return not isinstance(owner, mmap.mmap) and (table.is_array or sparse.issparse(table.data))


def column_medians(
    tables: Sequence[ViewTable],
    present: Sequence[IntArray | None],
    *,
    is_counts: bool = False,
) -> Array:
    """Medians of the known cells of every column, over the rows of all tables.

    Parameters
    ----------
    tables : sequence of ViewTable
        Tables in memory, with the same columns.
    present : sequence of ndarray of int64 or None
        Which rows of every table count; None for all.
    is_counts : bool, default=False
        Whether medians are those of `root_shares`.

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        NaN for columns without any known cell.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import ViewTable
    >>> from hotview.preprocessing.column_scaler import column_medians
    >>> table = ViewTable(np.array([[1.0, np.nan], [2.0, 4.0], [9.0, 5.0]]))
    >>> column_medians([table], [None])
    array([2. , 4.5])
    """
    parts = []
    for table, rows in zip(tables, present, strict=True):
        X = table.data
        if is_sparse(X) and rows is not None:
            X, rows = X[rows], None
        X = root_shares(X) if is_counts else X
        parts.append((X.tocsc() if is_sparse(X) else X, rows))
    n_rows = sum(table.n_rows for table in tables)
    n_columns, step = tables[0].n_columns, max(1, _N_ENTRIES // n_rows)
    medians = np.empty(n_columns)
    for start in range(0, n_columns, step):
        block = slice(start, min(start + step, n_columns))
        dense = [(X[:, block].toarray() if is_sparse(X) else X[:, block], k) for X, k in parts]
        values = np.concatenate([x if k is None else x[k] for x, k in dense]).astype(np.float64)
        n = values.shape[0] - np.isnan(values).sum(axis=0)
        values.sort(axis=0)  # NaN last
        columns = np.arange(values.shape[1])
        low, high = values[np.maximum(n - 1, 0) // 2, columns], values[n // 2, columns]
        medians[block] = np.where(n > 0, (low + high) / 2, np.nan)
    return medians


def is_sparse(X: Any) -> bool:
    """Return whether rows are sparse."""
    return bool(sparse.issparse(X))
