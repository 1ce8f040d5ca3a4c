"""What a view is held in: whose table it is, and how to get at its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._types import Array, IntArray

__all__ = ["StoredRows", "container_of", "matrix_of"]

#: Where a class of tables is from, and its name: nothing has to be imported to know it.
_TABLES = (
    ("pandas", "DataFrame"),
    ("polars", "DataFrame"),
    ("pyarrow", "Table"),
    ("torch", "Tensor"),
    ("anndata", "AnnData"),
)


def container_of(view: Any) -> str:
    """The library whose table a view is; ``"numpy"`` for arrays, sparse matrices and lists.

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
    for kind in type(view).__mro__:
        home = kind.__module__.partition(".")[0]
        if (home, kind.__name__) in _TABLES:
            return home
    return "numpy"


def matrix_of(name: str, view: Any) -> Any:
    """The matrix of a view: X of an AnnData, else the view itself.

    Parameters
    ----------
    name : str
        What the view is called, for the error.
    view : object
        The view.

    Returns
    -------
    object
        Array, sparse matrix or frame; a dense or CSR matrix that is on disk stays there, as
        `StoredRows`.
    """
    X, rows = view, None
    if container_of(view) == "anndata":
        X, rows = _stored_part(view) or (view.X, None)
        if X is None:
            raise ValueError(
                f"Expected view {name!r} to be an AnnData with a matrix X, but its X is None. Pass "
                "what it holds instead, as in adata.layers['counts'] or adata.obsm['X_pca']."
            )
    home = type(X).__module__.partition(".")[0]
    if home == "h5py" and hasattr(X, "dtype"):
        return StoredRows(X, rows)
    if home == "anndata" and hasattr(X, "to_memory"):  # a sparse matrix on disk
        return StoredRows(X, rows) if X.format == "csr" else X.to_memory()
    return X


def _stored_part(adata: Any) -> tuple[Any, IntArray] | None:
    """The matrix on disk that some cells of an AnnData are in, and where; their X would read it."""
    whole = getattr(adata, "_adata_ref", None)
    if whole is None or not adata.isbacked:
        return None
    every = np.arange(whole.n_vars)
    is_by_row = getattr(whole.X, "format", "csr") == "csr"
    if not is_by_row or not np.array_equal(every[adata._vidx], every):
        return None
    return whole.X, np.arange(whole.n_obs)[adata._oidx]


@dataclass(frozen=True)
class StoredRows:
    """A matrix in an HDF5 file, of which rows are read when they are asked for.

    Parameters
    ----------
    stored : h5py.Dataset or anndata.abc.CSRDataset
        The matrix.
    chosen : ndarray of int64 or None
        Which of its rows these are; None for all.
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
        """Kind of its numbers."""
        dtype: np.dtype[Any] = self.stored.dtype
        return dtype

    def __getitem__(self, rows: Array | slice) -> Any:
        if self.chosen is not None:
            rows = self.chosen[rows]
        if isinstance(rows, slice):
            return self.stored[rows]
        found, places = np.unique(rows, return_inverse=True)  # the only order that h5py takes
        return self.stored[found][places]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self[:]
        return np.asarray(whole.toarray() if hasattr(whole, "toarray") else whole, dtype=dtype)
