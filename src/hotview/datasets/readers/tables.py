"""Tables with named columns: which columns to read, and parquet files."""

from __future__ import annotations

import reprlib
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hotview._types import Array
from hotview.datasets.readers.errors import did_you_mean, listed, reading

#: Every whole number up to this one is a float64; above it, digits would be lost.
LARGEST_INTEGER = 2**53
_LARGE = 2**28  # bytes of a table that are read at once, also where it may be mapped
_TOGETHER = 2**22  # bytes of a larger one that are


#: Cells that mean "missing", with or without a space before them.
MISSING = tuple(
    space + marker
    for space in ("", " ")
    for marker in (
        *("", "NA", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan"),
        *("NULL", "Null", "null", "None", "none"),
    )
)
_NO_TEXT = {marker.strip() for marker in MISSING} - {"None", "none"}  # which may be an answer


def clean_text(cell: str | None) -> str | None:
    """A cell of text without spaces around it; None where it means "missing".

    Examples
    --------
    >>> clean_text(" flu "), clean_text("NA"), clean_text("none")
    ('flu', None, 'none')
    """
    if cell is None or (trimmed := cell.strip()) in _NO_TEXT:
        return None
    return trimmed


class Table(NamedTuple):
    """A table that has been opened but not read.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Its columns.
    saved_index : list of str
        Those columns that are no measurements but a row index that pandas saved.
    read : callable
        Reads the columns of the given names, in that order, into one 2-D array.
    find_text : callable
        Tells which columns hold text.
    read_text : callable
        Reads the columns of the given names as text, None where a cell is missing.
    """

    path: Path
    names: list[str]
    saved_index: list[str]
    read: Callable[[list[str]], Array]
    find_text: Callable[[], list[str]]
    read_text: Callable[[list[str]], list[list[str | None]]]


def select(table: Table, columns: Sequence[str] | None, drop: Collection[str]) -> list[str]:
    """Choose the columns of a table.

    Parameters
    ----------
    table : Table
        The table.
    columns : sequence of str or None
        The columns to keep, in this order; each must exist. None keeps them all.
    drop : collection of str
        The columns to leave out; they need not exist in this table.

    Returns
    -------
    list of str
        At least one name.

    Examples
    --------
    >>> table = Table(Path("a.csv"), ["id", "age", "weight"], [], print, list, print)
    >>> select(table, None, drop=["id"])
    ['age', 'weight']
    """
    known = set(table.names)
    for name, count in Counter(columns or ()).items():
        if name not in known:
            hint = did_you_mean(name, table.names)
            raise ValueError(f"{table.path} has no column {name!r}.{hint}")
        if count > 1:
            raise ValueError(f"{table.path}: columns= names the column {name!r} twice.")
    if columns is None:
        refuse_index(table, drop)
        columns = table.names
    kept = [name for name in columns if name not in drop]
    if not kept:
        raise ValueError(f"{table.path}: no column is left to read. Drop fewer of them.")
    return kept


def refuse_index(table: Table, drop: Collection[str]) -> None:
    """Refuse to read a saved row index as if it were a measurement."""
    for name in table.saved_index:
        if name not in drop:
            raise ValueError(
                f"{table.path}: column {name!r} looks like a row index that was saved along with "
                f"the table, not like a measurement. Leave it out with drop=[{name!r}], or list "
                f"the columns to read in columns=[…]."
            )


def refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    """Raise if two columns of a file have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"{path}: more than one column is called {listed(twice)}. Rename all but one."
        )


def text_error(path: Path, column: str, value: object, row: str, kind: str = "text") -> ValueError:
    """Make the error for a column that does not hold numbers.

    Examples
    --------
    >>> str(text_error(Path("a.csv"), "sex", "F", "row 1"))
    "a.csv: column 'sex' holds text, not numbers ('F' in row 1). ..."
    """
    return ValueError(
        f"{path}: column {column!r} holds {kind}, not numbers ({reprlib.repr(value)} in {row}). "
        f"Encode it as numbers, or leave it out with drop=[{column!r}]. A missing value is an "
        f"empty cell or NA."
    )


def integer_error(path: Path, column: str, value: object) -> ValueError:
    """Make the error for a whole number that float64 cannot hold.

    Examples
    --------
    >>> str(integer_error(Path("a.csv"), "id", 2**53 + 1))
    "a.csv: column 'id' holds the whole number 9007199254740993, beyond 2**53, ..."
    """
    return ValueError(
        f"{path}: column {column!r} holds the whole number {str(value)[:40]}, beyond 2**53, which "
        f"would lose digits as a float64. If it is an identifier, leave it out with "
        f"drop=[{column!r}]."
    )


def open_parquet(path: Path, *, mmap: bool = False) -> Table:
    """Open a parquet file as a table.

    Parameters
    ----------
    path : Path
        The file.
    mmap : bool, default=False
        Whether numbers that would take more than 256 MB are read, a few rows at a time, into a
        temporary file that is mapped into memory. Rows of a parquet file cannot be read in any
        other order than by groups.

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


def _read_parquet(path: Path, names: list[str], *, mmap: bool) -> Array:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"):
        n_rows, schema = pq.read_metadata(path).num_rows, pq.read_schema(path)
    kinds = [schema.field(name).type for name in names]
    dtype = np.dtype(np.float32 if all(kind == pa.float32() for kind in kinds) else np.float64)
    is_large = n_rows * len(names) * dtype.itemsize > _LARGE
    if mmap and is_large and all(map(_is_numeric, kinds)):
        return _map_parquet(path, names, (n_rows, len(names)), dtype)
    table = _read_columns(path, names)
    X = np.empty((table.num_rows, len(names)), dtype=dtype)
    _fill(X, path, names, table)
    return X


def _map_parquet(
    path: Path, names: list[str], shape: tuple[int, int], dtype: np.dtype[Any]
) -> Array:
    """Copy columns of a parquet file into a temporary file, and map it."""
    rows = max(1, _TOGETHER // (len(names) * dtype.itemsize))
    part = np.empty((rows, len(names)), dtype=dtype)
    # Written as a file, because a full disk under a mapping kills the process. It is gone when
    # nobody maps it.
    with tempfile.TemporaryFile(prefix="hotview-", buffering=0) as stream:
        for batch in _batches(path, names, rows):
            here = part[: batch.num_rows]
            _fill(here, path, names, batch)
            left = memoryview(here.data).cast("B")
            while left:
                left = left[stream.write(left) :]
        return np.memmap(stream, dtype=dtype, mode="r", shape=shape)


def _batches(path: Path, names: list[str], rows: int) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"):
        file = pq.ParquetFile(path)
        batches = file.iter_batches(batch_size=rows, columns=names)
    with file:
        while True:
            with reading(path, "a parquet file"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _fill(X: Array, path: Path, names: list[str], table: Any) -> None:
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
