"""Containers of views and labels: detection, columns, conversion to numpy, and rows on disk."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hotview._types import Array, IntArray

#: Module and class of every supported container, so that none has to be imported to be detected.
_TABLES = (
    ("pandas", "DataFrame"),
    ("polars", "DataFrame"),
    ("pyarrow", "Table"),
    ("torch", "Tensor"),
    ("anndata", "AnnData"),
)
PANDAS_NA = ("NAType", "NaTType")  # classes of pandas' missing values


def container_of(view: Any) -> str:
    """Return the library of a view; ``"numpy"`` for arrays, sparse matrices and lists.

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

    A dense or CSR matrix on disk stays there, as `StoredRows`.
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


@dataclass(eq=False)
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

    def __post_init__(self) -> None:
        n, *width = self.stored.shape
        self.shape = (n if self.chosen is None else len(self.chosen), *width)
        self.ndim, self.dtype = len(self.shape), self.stored.dtype

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


#: numpy's kinds of booleans, signed and unsigned integers and floats
NUMERIC_KINDS = "biuf"


def column_names(view: Any) -> list[Any]:
    """Return the names of the columns of a data frame; none for anything else.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hotview._validation.containers import column_names
    >>> column_names(pa.table({"age": [61.0]}))
    ['age']
    """
    container = container_of(view)
    if container == "pyarrow":  # its `columns` are the data
        return list(view.column_names)
    return list(view.columns) if container in ("pandas", "polars") else []


def text_columns(view: Any) -> list[Any]:
    """Return the names of the columns of a data frame that are not numeric.

    Examples
    --------
    >>> import polars as pl
    >>> from hotview._validation.containers import text_columns
    >>> text_columns(pl.DataFrame({"age": [61.0, 48.0], "smokes": [True, None], "sex": ["f", "m"]}))
    ['sex']
    """
    container = container_of(view)
    if container == "pandas":
        is_numeric = [dtype.kind in NUMERIC_KINDS for dtype in view.dtypes]
    elif container == "polars":
        is_numeric = [t.is_numeric() or str(t) in ("Boolean", "Null") for t in view.dtypes]
    elif container == "pyarrow":
        is_numeric = [is_numeric_arrow(field.type) for field in view.schema]
    else:
        return []
    return [name for name, ok in zip(column_names(view), is_numeric, strict=True) if not ok]


def is_numeric_arrow(dtype: Any) -> bool:
    """Whether a pyarrow type holds numbers, booleans or nothing but nulls."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(dtype) for test in tests)


def as_numbers(view: Any) -> Array | None:
    """Convert a numeric data frame to float64: nulls to NaN, booleans to 1 and 0; else return None.

    Examples
    --------
    >>> import pandas as pd
    >>> from hotview._validation.containers import as_numbers
    >>> as_numbers(pd.DataFrame({"age": pd.array([61, None], dtype="Int64")}))
    array([[61.], [nan]])
    """
    container = container_of(view)
    numbers: Array | None = None
    if text_columns(view):
        return None
    if container == "pandas":
        numbers = view.to_numpy(dtype=np.float64, na_value=np.nan)
    elif container == "polars":
        import polars as pl

        numbers = view.cast(pl.Float64).to_numpy()
    elif container == "pyarrow":
        numbers = np.column_stack([column.cast("float64").to_numpy() for column in view.columns])
    return numbers


def as_array(what: str, values: Any) -> Array:
    """Convert to numpy, without a copy where numpy can share the memory."""
    if np.ma.isMaskedArray(values):  # np.asarray would drop the mask silently
        raise TypeError(
            f"Expected {what} to be a plain array, but it is a masked array. "
            "Write missing values as NaN: X.filled(np.nan)."
        )
    if hasattr(values, "detach"):  # a torch tensor, perhaps with a gradient or on a GPU
        values = values.detach().cpu()
    elif hasattr(values, "toarray"):  # a scipy sparse matrix; np.asarray would wrap it
        values = values.toarray()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {what} to be a rectangular array of one kind, but numpy cannot read it "
            f"({error}). "
            + (
                "Convert the tensor first, by .float() or .to_dense()."
                if hasattr(values, "to_dense")
                else "Give every row the same number of entries."
            )
        ) from error


def check_view(name: str, view: Any) -> Array:
    """Validate one view and return it as a dense 2-D numeric array."""
    X = as_array(f"view {name!r}", matrix_of(name, view))
    if X.dtype.kind == "O" and (numbers := as_numbers(view)) is not None:
        X = numbers  # numpy makes objects of nulls, and of numbers beside booleans
    check_numeric(name, X, view)
    return X


def check_numeric(name: str, X: Any, view: Any) -> None:
    """Check that a dense or sparse array is numeric, 2-D and not empty."""
    if X.dtype.kind not in NUMERIC_KINDS:
        remedy, columns = "Encode text as numbers, then convert with .astype(float); of a data ", ""
        remedy += "frame, text columns are encoded."
        if view is None:
            remedy = "It is None: leave the view out, or give it rows."
        elif X.dtype.kind == "c":
            remedy = "Make the real and the imaginary part columns of their own."
        if column_names(view):
            text = ", ".join(map(repr, text_columns(view)))
            columns = f" (not numeric: {text})" if text else " (mixed columns)"
        raise TypeError(
            f"Expected view {name!r} to hold real numbers, but its dtype is {X.dtype}{columns}. "
            f"{remedy}"
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected view {name!r} to be 2-D (rows are individuals, columns are features), but "
            f"its shape is {X.shape}. For a single feature use X.reshape(-1, 1); flatten images "
            "with X.reshape(len(X), -1)."
        )
    for count, what in zip(X.shape, ("row", "column"), strict=True):
        if count == 0:
            raise ValueError(
                f"Expected view {name!r} to have at least one {what}, but its shape is {X.shape}. "
                "Leave an empty view out."
            )


def check_target(y: ArrayLike, n_rows: int, *, what: str = "y", entry: str = "label") -> Array:
    """Convert labels to a 1-D array with one entry per row.

    Parameters
    ----------
    y : 1-D array-like
        The labels: numbers or text.
    n_rows : int
        Expected number of labels.
    what : str, default="y"
        Name of the labels, for the error.
    entry : str, default="label"
        What one of them is, for the error.

    Returns
    -------
    ndarray of shape (n_rows,)
        The labels, their dtype kept, without a copy where none is needed.

    Examples
    --------
    >>> from hotview._validation import check_target
    >>> check_target([0, 1, 1], 3)
    array([0, 1, 1])
    """
    labels = as_array(what, y)
    if labels.ndim != 1:
        raise ValueError(
            f"Expected {what} to be 1-D, one {entry} per row, but it has shape {labels.shape}. "
            "Pass a flat array: y.ravel() for a single column, frame['name'] for one of a data "
            "frame, y.argmax(axis=1) for one-hot rows."
        )
    if len(labels) != n_rows:
        raise ValueError(
            f"Expected {what} to hold one {entry} for each of the {n_rows} rows, but it holds "
            f"{len(labels)}. Pass the {entry}s of exactly these rows, in the same order."
        )
    return labels


def keep_kinds(y: Any) -> Any:
    """Return labels with gaps as objects, because numpy would turn gaps into text or floats."""
    if hasattr(y, "columns"):  # a data frame, which is not 1-D
        return np.asarray(y)
    if hasattr(y, "isna") and getattr(y.dtype, "kind", "") != "f":  # pandas
        return np.asarray(y.astype(object)) if y.isna().any() else y
    if hasattr(y, "null_count"):  # polars, where it is a method, and pyarrow
        n_gaps = y.null_count() if callable(y.null_count) else y.null_count
        y = (y.to_list() if hasattr(y, "to_list") else y.to_pylist()) if n_gaps else y
    if isinstance(y, list | tuple) and any(label is None or isinstance(label, str) for label in y):
        labels = np.empty(len(y), dtype=object)
        labels[:] = y
        return labels
    return y


def is_known(labels: Array) -> Array:
    """Return which labels are not None, NaN or pandas' NA."""
    if labels.dtype.kind == "f":
        return ~np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.ones(len(labels), dtype=bool)
    # None, NaN, and pandas' NA, whose comparisons are neither true nor false.
    missing = [
        label is None or type(label).__name__ in PANDAS_NA or label != label for label in labels
    ]
    return ~np.array(missing, dtype=bool)


def check_one_line(texts: Iterable[object], describe: Callable[[int], str]) -> None:
    r"""Raise if one of several ids, names or classes has a line break.

    Parameters
    ----------
    texts : iterable
        The ids, names or classes; those that are not text pass.
    describe : callable
        Called with the position of a text, says what it is, for the error.

    Examples
    --------
    >>> from hotview._validation import check_one_line
    >>> check_one_line(["ill", "well\n7,ill"], lambda i: f"label {i}")
    Traceback (most recent call last):
    ...
    ValueError: Expected text of one line, but label 1 has a line break: 'well\n7,ill'. ...
    """
    for i, text in enumerate(texts):
        if isinstance(text, str) and ("\n" in text or "\r" in text):
            raise line_break_error(describe(i), text)


def line_break_error(what: str, text: str) -> ValueError:
    """Return the error for an id, a name or a cell of several lines."""
    return ValueError(
        f"Expected text of one line, but {what} has a line break: {reprlib.repr(text)}. In a text "
        "table, a quotation mark without its partner makes one cell of several rows: remove it. "
        "Replace other line breaks by spaces."
    )
