"""Columns of data frames: their names, which are numeric, and their conversion to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from hotview._types import Array
from hotview._validation.containers import container_of

__all__ = [
    "NUMERIC_KINDS",
    "as_array",
    "as_numbers",
    "column_names",
    "is_numeric_arrow",
    "text_columns",
]

#: numpy's kinds of booleans, signed and unsigned integers and floats
NUMERIC_KINDS = "biuf"


def column_names(view: Any) -> list[Any]:
    """Return the names of the columns of a data frame; none for anything else.

    Parameters
    ----------
    view : object
        The view.

    Returns
    -------
    list
        The names; in pandas they may be of any type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hotview._validation.columns import column_names
    >>> column_names(pa.table({"age": [61.0]}))
    ['age']
    """
    if container_of(view) == "pyarrow":  # its `columns` are the data
        return list(view.column_names)
    return list(view.columns) if container_of(view) in ("pandas", "polars") else []


def text_columns(view: Any) -> list[Any]:
    """Return the names of the columns of a data frame that are not numeric.

    Parameters
    ----------
    view : object
        The view.

    Returns
    -------
    list
        Their names; empty if the view is not a data frame.

    Examples
    --------
    >>> import polars as pl
    >>> from hotview._validation.columns import text_columns
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
    """Convert a numeric data frame to float64: nulls to NaN, booleans to 1 and 0.

    Parameters
    ----------
    view : object
        The view.

    Returns
    -------
    ndarray of float64, or None
        None if the view is not a data frame or not all its columns are numeric.

    Examples
    --------
    >>> import pandas as pd
    >>> from hotview._validation.columns import as_numbers
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
