"""What a view is held in: whose table it is, and how to get at its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._types import Array

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
    X = view
    if container_of(view) == "anndata":
        X = view.X
        if X is None:
            raise ValueError(
                f"Expected view {name!r} to be an AnnData with a matrix X, but its X is None. Pass "
                "what it holds instead, as in adata.layers['counts'] or adata.obsm['X_pca']."
            )
    home = type(X).__module__.partition(".")[0]
    if home == "h5py" and hasattr(X, "dtype"):
        return StoredRows(X)
    if home == "anndata" and hasattr(X, "to_memory"):  # a sparse matrix on disk
        return StoredRows(X) if X.format == "csr" else X.to_memory()
    return X


@dataclass(frozen=True)
class StoredRows:
    """A matrix in an HDF5 file, of which rows are read when they are asked for.

    Parameters
    ----------
    stored : h5py.Dataset or anndata.abc.CSRDataset
        The matrix.
    """

    stored: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        return tuple(self.stored.shape)

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
        if isinstance(rows, slice):
            return self.stored[rows]
        found, places = np.unique(rows, return_inverse=True)  # the only order that h5py takes
        return self.stored[found][places]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self[:]
        return np.asarray(whole.toarray() if hasattr(whole, "toarray") else whole, dtype=dtype)
