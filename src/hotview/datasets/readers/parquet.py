"""Parquet files as tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hotview._lazy import LazyRows
from hotview._types import Array
from hotview.datasets.readers.errors import reading
from hotview.datasets.readers.groups import ParquetRows
from hotview.datasets.readers.tables import (
    LARGEST_INTEGER,
    Table,
    clean_text,
    integer_error,
    refuse_duplicates,
    text_error,
)

_LARGE = 2**28  # bytes of a table that are read at once, also where it may be mapped


def open_parquet(path: Path, *, mmap: bool = False) -> Table:
    """Open a parquet file as a table.

    Parameters
    ----------
    path : Path
        The file.
    mmap : bool, default=False
        Whether numbers that would take more than 256 MB are read, a row group at a time and when
        one of its rows is asked for, into a temporary file that is mapped into memory.

    Returns
    -------
    Table
        Integer, float, decimal and boolean columns can be read, nulls become NaN.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> people = pa.table({"age": [31, None], "ill": [True, False]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(people, folder + "/a.parquet")
    ...     table = open_parquet(Path(folder, "a.parquet"))
    ...     table.read(["ill", "age"])
    array([[ 1., 31.],
           [ 0., nan]])
    """
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"):
        schema = pq.read_schema(path)
    refuse_duplicates(path, schema.names)
    # An index that is only a range is described by a dict and takes no column.
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    saved = [name for name in index if isinstance(name, str) and name in schema.names]
    return Table(
        path,
        schema.names,
        saved,
        lambda names: _read_parquet(path, names, mmap=mmap),
        lambda: [field.name for field in schema if _is_text(field.type)],
        lambda names: _read_parquet_text(path, names),
    )


def _read_columns(path: Path, names: list[str]) -> Any:
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"), pq.ParquetFile(path) as file:
        return file.read(columns=names)


def _read_parquet_text(path: Path, names: list[str]) -> list[list[str | None]]:
    import pyarrow as pa

    table = _read_columns(path, names)
    columns = []
    for name in names:
        column = table.column(name)
        if pa.types.is_boolean(column.type):  # as text tables have them
            columns.append([None if x is None else str(x) for x in column.to_pylist()])
            continue
        with reading(path, "a parquet file"):
            cells = column.cast(pa.string()).to_pylist()
        columns.append([clean_text(cell) for cell in cells])
    return columns


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(getattr(pa.types, test)(kind) for test in ("is_string", "is_large_string"))


def _read_parquet(path: Path, names: list[str], *, mmap: bool) -> Array | LazyRows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"):
        n_rows, schema = pq.read_metadata(path).num_rows, pq.read_schema(path)
    kinds = [schema.field(name).type for name in names]
    dtype = np.dtype(np.float32 if all(kind == pa.float32() for kind in kinds) else np.float64)
    is_large = n_rows * len(names) * dtype.itemsize > _LARGE
    if mmap and is_large and all(map(_is_numeric, kinds)):
        return ParquetRows(path, names, dtype, partial(_fill, path, names))
    table = _read_columns(path, names)
    X = np.empty((table.num_rows, len(names)), dtype=dtype)
    _fill(path, names, X, table)
    return X


def _fill(path: Path, names: list[str], X: Array, table: Any) -> None:
    for j, name in enumerate(names):
        X[:, j] = _numbers(path, name, table.column(name))


def _numbers(path: Path, name: str, column: Any) -> Array:
    """Convert one column of a parquet file to float64, nulls to NaN."""
    import pyarrow as pa

    if not _is_numeric(column.type):
        row, value = next(
            ((i, v) for i, v in enumerate(column.to_pylist(), start=1) if v is not None), (1, None)
        )
        raise text_error(path, name, value, f"row {row}", kind=str(column.type))
    try:
        # Safe: refuses an integer that float64 cannot hold.
        values: Array = np.asarray(column.cast(pa.float64()))
    except pa.ArrowInvalid:
        worst = max(column.drop_null().to_pylist(), key=abs)
        raise integer_error(path, name, worst) from None
    if pa.types.is_decimal(column.type) and (np.abs(values) > LARGEST_INTEGER).any():
        raise integer_error(path, name, max(column.drop_null().to_pylist(), key=abs))
    return values


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    tests = ("is_boolean", "is_integer", "is_floating", "is_decimal", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests)
