"""Tables in Arrow's memory format: in memory, of a sheet, or the result of a query."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hotview._messages import ParameterError, check_known, listed, reading
from hotview._types import Array, LazyRows
from hotview._validation.containers import is_numeric_arrow
from hotview.data.options import NO_OPTIONS, Options
from hotview.data.table_file import (
    LARGEST_INTEGER,
    TableFile,
    as_text,
    header_error,
    integer_error,
    is_number,
    refuse_duplicates,
    text_error,
)

_XLSX = "an xlsx file"
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
    name, options : str and Options
        As of `TableFile`.
    """

    _kind = "a table"

    def __init__(
        self, path: Path | str, schema: Any, name: str = "", options: Options = NO_OPTIONS
    ) -> None:
        refuse_duplicates(path, schema.names)
        # An index that is only a range is described by a dict and takes no column.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        saved = [name for name in index if isinstance(name, str) and name in schema.names]
        super().__init__(path, schema.names, saved, name, options)
        self._schema = schema

    @abstractmethod
    def _select(self, names: list[str]) -> Any:
        """Return some columns as a pyarrow.Table."""

    def _read(self, names: list[str]) -> Array | LazyRows:
        table = self._select(names)
        X = np.empty((table.num_rows, len(names)), dtype=number_dtype(table.schema.types))
        fill_numbers(self.path, names, X, table, missing=self.options.missing_cells)
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
    name, options : str and Options
        As of `TableFile`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> people = ArrowTable("people", pa.table({"age": [31, None], "sex": ["F", "M"]}))
    >>> people.find_text(), people.read(["age"])
    (['sex'], array([[31.], [nan]]))
    """

    def __init__(
        self, path: Path | str, table: Any, name: str = "", options: Options = NO_OPTIONS
    ) -> None:
        super().__init__(path, table.schema, name, options)
        self._table = table

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
            for row, x in enumerate(column.to_pylist()):
                if x is not None and abs(x) <= LARGEST_INTEGER and float(x).is_integer():
                    cells[row] = str(int(x))
        return cells


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


def read_query(path: Path, name: str = "", options: Options = NO_OPTIONS) -> ArrowTable:
    """Read the result of a query to a DuckDB file, or its only table, without changing it."""
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(
            f'Reading {path} needs duckdb. Run pip install "hotview[sql]".'
        ) from error
    with reading(path, "a DuckDB database"):
        database = duckdb.connect(str(path), read_only=True, config=_SETTINGS)
    with database:
        query = options.query or _query_of_one_table(path, name, database)
        try:
            result = database.sql(query)
            table = None if result is None else result.to_arrow_table()
        except duckdb.Error as error:
            # The rest shows the place in the query.
            reason = " ".join(str(error).partition("\n\nLINE ")[0].split())
            raise ValueError(f"{path}: the query {query!r} fails: {reason}") from error
    if table is None or table.num_rows == 0:
        raise ValueError(f"{path}: the query {query!r} returns no rows. Correct it.")
    return ArrowTable(path, table, name, options)


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


def read_sheet(path: Path, name: str = "", options: Options = NO_OPTIONS) -> ArrowTable:
    """Read a sheet of an xlsx file; formulas have the values that were stored with them."""
    import pyarrow as pa

    rows = _read_cells(path, name, options.sheet, values=True)
    if any(cell is None for row in rows for cell in row):
        _refuse_formulas(path, rows, _read_cells(path, name, options.sheet, values=False))
    # Empty rows and columns at the end are left out.
    used = [i for i, row in enumerate(rows) if any(cell is not None for cell in row)]
    if not used or used[-1] == 0:
        raise ValueError(f"{path}: expected a sheet with a row of names and rows below.")
    rows = rows[: used[-1] + 1]
    width = max(j + 1 for row in rows for j, cell in enumerate(row) if cell is not None)
    rows = [[*row[:width], *[None] * (width - len(row))] for row in rows]
    names, rows = _name_columns(path, rows, options.header)
    columns = list(zip(*rows, strict=True))
    # A column without a name and without cells is only a gap between others.
    kept = [j for j, column in enumerate(columns) if names[j] or any(x is not None for x in column)]
    with reading(path, _XLSX):
        arrays = [pa.array(_as_column(columns[j])) for j in kept]
    table = pa.table(arrays, names=[names[j] for j in kept])
    opened = ArrowTable(path, table, name, options)
    opened.saved_index = [column for column in opened.names if not column]
    return opened


def _read_cells(path: Path, name: str, sheet: str | None, *, values: bool) -> list[list[Any]]:
    """Return the cells of a sheet."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ImportError(
            f'Reading {path} needs openpyxl. Run pip install "hotview[excel]", or save the sheet '
            "as csv."
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which are not read
        with reading(path, _XLSX):
            book = load_workbook(path, read_only=True, data_only=values)
        try:
            sheets = book.sheetnames
            if sheet is None and len(sheets) > 1:
                raise ParameterError(
                    f"{path} has {len(sheets)} sheets: {listed(sheets)}. ",
                    "Choose one: {sheet}.",
                    sheet={name: sheets[0]},
                )
            chosen = sheets[0] if sheet is None else sheet
            check_known([chosen], sheets, f"{path} has no sheet")
            with reading(path, _XLSX):
                cells = book[chosen].iter_rows(values_only=True)
                return [
                    [None if isinstance(x, str) and not x.strip() else x for x in row]
                    for row in cells
                ]
        finally:
            book.close()


def _refuse_formulas(path: Path, rows: list[list[Any]], formulas: list[list[Any]]) -> None:
    """Raise if a formula has no stored value: it would seem to be a missing one."""
    for i, (row, stored) in enumerate(zip(rows, formulas, strict=False)):
        for cell, formula in zip(row, stored, strict=False):
            if cell is None and formula is not None:
                text = getattr(formula, "text", formula)  # of an array formula
                raise ValueError(
                    f"{path}: the formula {text!r} in row {i + 1} has no stored value. Open the "
                    "file in a spreadsheet program and save it, which computes the values."
                )


def _name_columns(
    path: Path, rows: list[list[Any]], header: bool | None
) -> tuple[list[str], list[list[Any]]]:
    """Return the names of columns, and the rows below."""
    if header is False:
        return [f"column_{j}" for j in range(len(rows[0]))], rows
    first = [cell for cell in rows[0] if cell is not None]
    if len(first) < min(2, len(rows[0])):
        found = f"it has the one cell {first[0]!r}" if first else "it is empty"
        raise ValueError(
            f"{path}: expected names of columns in the first row of the sheet, but {found}. Remove "
            "the rows above the names."
        )
    if header is None and all(isinstance(cell, int | float) for cell in first):
        raise header_error(path, "row", map(str, first))
    return ["" if cell is None else str(cell).strip() for cell in rows[0]], rows[1:]


def _as_column(cells: Sequence[Any]) -> list[Any]:
    """Return cells of one type: numbers, truth values or dates, or else text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    if len(kinds) <= 1 or kinds <= {date, datetime}:
        return list(cells)
    return [None if cell is None else as_text(cell) for cell in cells]
