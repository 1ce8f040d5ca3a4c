"""Tables in Arrow's memory format, results of SQL queries among them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hotview._lazy import LazyRows
from hotview._messages import ParameterError
from hotview._types import Array
from hotview._validation.containers import is_numeric_arrow
from hotview.datasets.readers.errors import listed, reading
from hotview.datasets.readers.tables import (
    LARGEST_INTEGER,
    TableFile,
    integer_error,
    is_number,
    refuse_duplicates,
    text_error,
)

#: A query reads this database and nothing else.
_SETTINGS: dict[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
}


class ArrowColumns(TableFile):
    """A table of numbers, booleans, text and dates in Arrow's types; nulls become NaN.

    Parameters
    ----------
    path : Path or str
        Where the table comes from, for messages: a file, or a name.
    schema : pyarrow.Schema
        Its columns and their types.
    name : str, default=""
        Name of the file in options.
    """

    _kind = "a table"

    def __init__(self, path: Path | str, schema: Any, *, name: str = "") -> None:
        refuse_duplicates(path, schema.names)
        # An index that is only a range is described by a dict and takes no column.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        saved = [name for name in index if isinstance(name, str) and name in schema.names]
        super().__init__(path, schema.names, saved, name=name)
        self._schema = schema

    @abstractmethod
    def _select(self, names: list[str]) -> Any:
        """Return some columns as a pyarrow.Table."""

    def _read(self, names: list[str]) -> Array | LazyRows:
        table = self._select(names)
        X = np.empty((table.num_rows, len(names)), dtype=number_dtype(table.schema.types))
        fill_numbers(self.path, names, X, table, missing=self.missing)
        return X

    def _read_text(self, names: list[str]) -> list[list[str | None]]:
        table = self._select(names)
        return [read_cells(self.path, table.column(name), self._kind) for name in names]

    def find_text(self) -> list[str]:
        """Return the columns of strings, dictionary-encoded or not, and of dates."""
        import pyarrow as pa

        types = {field.name: _decoded_type(field.type) for field in self._schema}
        tests = (_is_text, pa.types.is_date, pa.types.is_timestamp)
        return [name for name, dtype in types.items() if any(test(dtype) for test in tests)]


class ArrowTable(ArrowColumns):
    """A table in memory; see `ArrowColumns`.

    Parameters
    ----------
    path : Path or str
        Where the table comes from, for messages: a file, or a name.
    table : pyarrow.Table
        The table.
    name : str, default=""
        Name of the file in options.
    missing : sequence of str, default=()
        Cells that mean "missing", besides the usual ones.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = ArrowTable("people", pa.table({"age": [31, None], "sex": ["F", "M"]}))
    >>> people.find_text(), people.read(["age"])
    (['sex'], array([[31.], [nan]]))
    """

    def __init__(
        self, path: Path | str, table: Any, *, name: str = "", missing: Sequence[str] = ()
    ) -> None:
        super().__init__(path, table.schema, name=name)
        self._table, self.missing = table, missing

    def _select(self, names: list[str]) -> Any:
        return self._table.select(names)


def _is_text(dtype: Any) -> bool:
    import pyarrow as pa

    return dtype in (pa.string(), pa.large_string(), pa.string_view())


def _decoded_type(dtype: Any) -> Any:
    """Return the type of the values of an Arrow column, dictionary-encoded or not."""
    import pyarrow as pa

    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def number_dtype(types: Iterable[Any]) -> np.dtype[Any]:
    """Return float32 if all columns are of it, else float64."""
    import pyarrow as pa

    return np.dtype(np.float32 if all(t == pa.float32() for t in types) else np.float64)


def read_cells(path: Path | str, column: Any, kind: str) -> list[str | None]:
    """Return the cells of an Arrow column as text, None where one is missing.

    Parameters
    ----------
    path : Path or str
        Where the table comes from, for the error.
    column : pyarrow.ChunkedArray
        The column, of any type that can be written as text.
    kind : str
        Kind of the table, for the error, as ``"a parquet file"``.

    Returns
    -------
    list of str or None
        Booleans are "True" and "False", as in text tables, and whole numbers have no point.
    """
    import pyarrow as pa

    with reading(path, kind):
        column = column.cast(_decoded_type(column.type))
        if pa.types.is_boolean(column.type):
            return [None if cell is None else str(cell) for cell in column.to_pylist()]
        text = column if _is_text(column.type) else column.cast(pa.string())
        cells: list[str | None] = text.to_pylist()
        if pa.types.is_floating(column.type):  # ids, as whole numbers are written: not 1e+11
            numbers = zip(cells, column.to_pylist(), strict=True)
            return [str(int(x)) if _is_whole(x) else cell for cell, x in numbers]
        return cells


def _is_whole(number: float | None) -> bool:
    return number is not None and abs(number) <= LARGEST_INTEGER and float(number).is_integer()


def fill_numbers(
    path: Path | str, names: list[str], X: Array, table: Any, *, missing: Sequence[str] = ()
) -> None:
    """Convert columns of an Arrow table to numbers and write them into an array.

    Parameters
    ----------
    path : Path or str
        Where the table comes from, for errors.
    names : list of str
        Its columns, in the order of the array.
    X : ndarray of shape (rows, columns)
        The array, overwritten.
    table : pyarrow.Table or pyarrow.RecordBatch
        The table, of as many rows.
    missing : sequence of str, default=()
        Cells that mean "missing"; those that are numbers, such as ``"-99"``, become NaN.
    """
    import pyarrow as pa

    markers = [float(cell) for cell in missing if is_number(cell)]
    for j, name in enumerate(names):
        column = table.column(name)
        if not is_numeric_arrow(column.type):
            row, value = next(
                ((i, v) for i, v in enumerate(column.to_pylist(), start=1) if v is not None),
                (1, None),
            )
            raise text_error(path, name, value, f"row {row}", kind=str(column.type))
        try:
            # A safe cast refuses an integer that float64 cannot represent.
            X[:, j] = values = np.asarray(column.cast(pa.float64()))
        except pa.ArrowInvalid:
            is_exact = False
        else:
            is_decimal = pa.types.is_decimal(column.type)
            is_exact = not (is_decimal and (np.abs(values) > LARGEST_INTEGER).any())
        if not is_exact:
            raise integer_error(path, name, max(column.drop_null().to_pylist(), key=abs))
        if markers and not pa.types.is_boolean(column.type):
            X[np.isin(values, markers), j] = np.nan


def read_query(path: Path, name: str = "", *, query: str | None = None) -> ArrowTable:
    """Read the result of a query to a database, which is opened read-only.

    Parameters
    ----------
    path : Path
        A DuckDB file.
    name : str, default=""
        Name of the file in options.
    query : str or None, default=None
        The query; None reads a database of one table.

    Returns
    -------
    ArrowTable
        The result.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(
            f'Reading {path} needs duckdb. Run pip install "hotview[sql]".'
        ) from error
    with reading(path, "a DuckDB database"):
        database = duckdb.connect(str(path), read_only=True, config=_SETTINGS)
    with database:
        query = query or _query_of_one_table(path, name, database)
        try:
            result = database.sql(query)
            table = None if result is None else result.to_arrow_table()
        except duckdb.Error as error:
            # The rest shows the place in the query.
            reason = " ".join(str(error).partition("\n\nLINE ")[0].split())
            raise ValueError(f"{path}: the query {query!r} fails: {reason}") from error
    if table is None or table.num_rows == 0:
        raise ValueError(f"{path}: the query {query!r} returns no rows. Correct it.")
    return ArrowTable(path, table, name=name)


def _query_of_one_table(path: Path, name: str, database: Any) -> str:
    tables = [row[0] for row in database.execute("SHOW TABLES").fetchall()]
    queries = [f'SELECT * FROM "{table.replace(chr(34), chr(34) * 2)}"' for table in tables]
    if len(tables) != 1:
        raise ParameterError(
            f"Expected {path} to have one table, but it has {listed(tables) or 'none'}. ",
            "Pass {query}." if tables else "",
            query={name: next(iter(queries), "")},
        )
    return queries[0]
