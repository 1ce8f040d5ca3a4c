"""Containers of views: the library of a table, and access to its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._types import Array, IntArray

__all__ = ["StoredRows", "container_of", "matrix_of"]

#: Module and class of every supported container, so that none has to be imported to be detected.
_TABLES = (
    ("pandas", "DataFrame"),
    ("polars", "DataFrame"),
    ("pyarrow", "Table"),
    ("torch", "Tensor"),
    ("anndata", "AnnData"),
)


def container_of(view: Any) -> str:
    """Return the library of a view; ``"numpy"`` for arrays, sparse matrices and lists.

    Parameters
    ----------
    view : object
        The view.

    Returns
    -------
    str
        One of ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"torch"``, ``"anndata"``, ``"numpy"``.

    Examples
    --------
    >>> import pandas as pd
    >>> from hotview._validation.containers import container_of
    >>> container_of(pd.DataFrame()), container_of([[1.0]])
    ('pandas', 'numpy')
    """
    for parent in type(view).__mro__:
        library = parent.__module__.partition(".")[0]
        if (library, parent.__name__) in _TABLES:
            return library
    return "numpy"


def matrix_of(name: str, view: Any) -> Any:
    """Return the matrix of a view: X of an AnnData, else the view itself.

    Parameters
    ----------
    name : str
        Name of the view, for the error.
    view : object
        The view.

    Returns
    -------
    object
        Array, sparse matrix or data frame; a dense or CSR matrix on disk stays there, as
        `StoredRows`.
    """
    X, rows = view, None
    if container_of(view) == "anndata":
        X, rows = _stored_part(view) or (view.X, None)
        if X is None:
            raise ValueError(
                f"Expected view {name!r} to be an AnnData with a matrix X, but its X is None. Pass "
                "another matrix of it, as in adata.layers['counts'] or adata.obsm['X_pca']."
            )
    library = type(X).__module__.partition(".")[0]
    if library == "h5py" and hasattr(X, "dtype"):
        return StoredRows(X, rows)
    if library == "anndata" and hasattr(X, "to_memory"):  # a sparse matrix on disk
        return StoredRows(X, rows) if X.format == "csr" else X.to_memory()
    return X


def _stored_part(adata: Any) -> tuple[Any, IntArray] | None:
    """Return the matrix on disk behind a subset of cells, and their rows; None if in memory.

    The `X` of a subset would read all its rows.
    """
    whole = getattr(adata, "_adata_ref", None)
    if whole is None or not adata.isbacked:
        return None
    columns = np.arange(whole.n_vars)
    has_all_columns = np.array_equal(columns[adata._vidx], columns)
    if not has_all_columns or getattr(whole.X, "format", "csr") != "csr":
        return None
    return whole.X, np.arange(whole.n_obs)[adata._oidx]


@dataclass(frozen=True)
class StoredRows:
    """A matrix in an HDF5 file whose rows are read on access.

    Parameters
    ----------
    stored : h5py.Dataset or anndata.abc.CSRDataset
        The matrix.
    chosen : ndarray of int64 or None
        Rows of the matrix to expose; None for all.
    """

    stored: Any
    chosen: IntArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        n, *width = self.stored.shape
        return (n if self.chosen is None else len(self.chosen), *width)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the matrix."""
        dtype: np.dtype[Any] = self.stored.dtype
        return dtype

    def __getitem__(self, rows: Array | slice) -> Any:
        if self.chosen is not None:
            rows = self.chosen[rows]
        if isinstance(rows, slice):
            return self.stored[rows]
        unique, inverse = np.unique(rows, return_inverse=True)  # h5py needs increasing indices
        return self.stored[unique][inverse]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        X = self[:]
        return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=dtype)
