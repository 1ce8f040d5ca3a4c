"""Columns of data frames: which hold numbers, and how all of them become an array of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hotview._types import Array
from hotview._validation.containers import container_of

__all__ = ["NUMERIC_KINDS", "as_numbers", "column_names", "text_columns"]

#: numpy's letters for booleans, signed and unsigned integers and floats
NUMERIC_KINDS = "biuf"


def column_names(view: Any) -> list[Any]:
    """Names of the columns of a data frame; none for anything else.

    Parameters
    ----------
    view : object
        The view.

    Returns
    -------
    list
        The names, of any kind in pandas.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hotview._validation.columns import column_names
    >>> column_names(pa.table({"age": [61.0]}))
    ['age']
    """
    if container_of(view) == "pyarrow":  # which calls the columns themselves columns
        return list(view.column_names)
    return list(view.columns) if container_of(view) in ("pandas", "polars") else []


def text_columns(view: Any) -> list[Any]:
    """Names of the columns of a data frame that do not hold numbers.

    Parameters
    ----------
    view : object
        The view.

    Returns
    -------
    list
        Their names; empty for what is no data frame.

    Examples
    --------
    >>> import polars as pl
    >>> from hotview._validation.columns import text_columns
    >>> text_columns(pl.DataFrame({"age": [61.0, 48.0], "smokes": [True, None], "sex": ["f", "m"]}))
    ['sex']
    """
    is_numeric = _IS_NUMERIC.get(container_of(view))
    if is_numeric is None:
        return []
    return [name for name in column_names(view) if not is_numeric(view[name])]


def as_numbers(view: Any) -> Array | None:
    """Numbers of a data frame of which numpy makes objects: nulls are NaN, true and false 1 and 0.

    Parameters
    ----------
    view : object
        The view.

    Returns
    -------
    ndarray of float64, or None
        None for what is no data frame, or has columns of other things than numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from hotview._validation.columns import as_numbers
    >>> as_numbers(pd.DataFrame({"age": pd.array([61, None], dtype="Int64")}))
    array([[61.], [nan]])
    """
    convert = _CONVERT.get(container_of(view))
    return convert(view) if convert is not None and not text_columns(view) else None


def _is_numeric_in_pandas(column: Any) -> bool:
    kinds = [dtype.kind for dtype in getattr(column, "dtypes", [])] if column.ndim > 1 else []
    return all(kind in NUMERIC_KINDS for kind in kinds or [column.dtype.kind])


def _is_numeric_in_polars(column: Any) -> bool:
    return bool(column.dtype.is_numeric()) or str(column.dtype) in ("Boolean", "Null")


def _is_numeric_in_pyarrow(column: Any) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(test(column.type) for test in tests)


def _from_pandas(view: Any) -> Array:
    numbers: Array = view.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _from_polars(view: Any) -> Array:
    import polars as pl

    numbers: Array = view.cast(pl.Float64).to_numpy()
    return numbers


def _from_pyarrow(view: Any) -> Array:
    import pyarrow as pa

    return np.column_stack([column.cast(pa.float64()).to_numpy() for column in view.columns])


_IS_NUMERIC: dict[str, Callable[[Any], bool]] = {
    "pandas": _is_numeric_in_pandas,
    "polars": _is_numeric_in_polars,
    "pyarrow": _is_numeric_in_pyarrow,
}
_CONVERT: dict[str, Callable[[Any], Array]] = {
    "pandas": _from_pandas,
    "polars": _from_polars,
    "pyarrow": _from_pyarrow,
}


def as_array(what: str, values: Any) -> Array:
    """Convert to numpy, without a copy where numpy can look at the same memory."""
    if np.ma.isMaskedArray(values):  # np.asarray would drop the mask without a word
        raise TypeError(
            f"Expected {what} to be a plain array, but it is a masked array. "
            "Write missing values as NaN: X.filled(np.nan)."
        )
    if hasattr(values, "detach"):  # a torch tensor that carries a gradient or lives on a device
        values = values.detach().cpu()
    elif hasattr(values, "toarray"):  # a scipy sparse matrix, which np.asarray would wrap
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
