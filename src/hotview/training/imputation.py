"""Imputation of missing cells: its methods, and the medians of columns."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview.training.column_scaler import root_shares

__all__ = ["IMPUTATIONS", "adds_indicators", "column_medians", "is_in_memory", "uses_median"]

#: what replaces a missing cell, and whether a column of 0 and 1 marks it
IMPUTATIONS = ("mean", "median", "mean+indicator", "median+indicator")
_N_ENTRIES = 2**22  # of dense columns that are read together

_Column = tuple[Array, int]  # known values that are stored, and the number of zeros that are not


def uses_median(method: str) -> bool:
    """Whether missing cells become the median of their column."""
    return method.startswith("median")


def adds_indicators(method: str) -> bool:
    """Whether columns of 0 and 1 mark missing cells."""
    return method.endswith("+indicator")


def is_in_memory(table: ViewTable) -> bool:
    """Whether a table is an array or a sparse matrix in memory, not in a file.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import ViewTable
    >>> from hotview.training.imputation import is_in_memory
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
    >>> from hotview.training.imputation import column_medians
    >>> table = ViewTable(np.array([[1.0, np.nan], [2.0, 4.0], [9.0, 5.0]]))
    >>> column_medians([table], [None])
    array([2. , 4.5])
    """
    readers = [
        _sparse_columns(table.data, rows, is_counts=is_counts)
        if is_counts or sparse.issparse(table.data)
        else _dense_columns(table.data, rows)
        for table, rows in zip(tables, present, strict=True)
    ]
    n_rows = sum(table.n_rows for table in tables)
    n_columns, step = tables[0].n_columns, max(1, _N_ENTRIES // n_rows)
    medians = np.empty(n_columns)
    for start in range(0, n_columns, step):
        block = range(start, min(start + step, n_columns))
        for j, *parts in zip(block, *(read(block) for read in readers), strict=True):
            values = np.concatenate([stored for stored, _ in parts])
            medians[j] = _median(values, sum(n_zeros for _, n_zeros in parts))
    return medians


def _dense_columns(X: Array, rows: IntArray | None) -> Callable[[range], Iterator[_Column]]:
    def read(block: range) -> Iterator[_Column]:
        part = X[:, block.start : block.stop]
        columns = np.ascontiguousarray((part if rows is None else part[rows]).T, dtype=np.float64)
        return ((column[~np.isnan(column)], 0) for column in columns)

    return read


def _sparse_columns(
    X: Any, rows: IntArray | None, *, is_counts: bool
) -> Callable[[range], Iterator[_Column]]:
    chosen = sparse.csr_array(X if rows is None else X[rows])
    if not chosen.has_canonical_format:  # else it may be the caller's
        chosen = chosen.copy()
        chosen.sum_duplicates()
    by_column = (root_shares(chosen) if is_counts else chosen).tocsc()

    def read(block: range) -> Iterator[_Column]:
        for j in block:
            start, stop = by_column.indptr[j : j + 2]
            stored = by_column.data[start:stop].astype(np.float64)
            yield stored[~np.isnan(stored)], by_column.shape[0] - len(stored)

    return read


def _median(values: Array, n_zeros: int) -> float:
    """Median of some values and a number of zeros."""
    n = len(values) + n_zeros
    if n == 0:
        return float("nan")
    if n_zeros == 0:
        return float(np.median(values))
    ordered, n_negative = np.sort(values), int((values < 0).sum())

    def value_at(i: int) -> float:
        if n_negative <= i < n_negative + n_zeros:
            return 0.0
        return float(ordered[i if i < n_negative else i - n_zeros])

    return (value_at((n - 1) // 2) + value_at(n // 2)) / 2
