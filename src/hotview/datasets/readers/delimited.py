"""Text tables: csv, tsv and what else has a delimiter, through pyarrow.

pyarrow, because it refuses a row that is too short as well as one that is too long.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hotview._messages import Parameter, ParameterError
from hotview._types import Array
from hotview.datasets.readers.errors import listed, reading, unreadable
from hotview.datasets.readers.tables import (
    LARGEST_INTEGER,
    MISSING,
    Table,
    clean_text,
    integer_error,
    refuse_duplicates,
    text_error,
)

DELIMITERS = (",", ";", "\t", "|")
_KIND = "a table in UTF-8 text"


class _Layout(NamedTuple):
    """All that is known of a text table before its numbers are read."""

    path: Path
    names: list[str]
    has_header: bool
    delimiter: str
    decimal: str


def open_delimited(
    path: Path,
    *,
    header: bool | None,
    delimiter: str | None,
    decimal: str,
    default_delimiter: str,
) -> Table:
    r"""Open a text table: read its first line and see that it makes sense.

    Parameters
    ----------
    path : Path
        The file, compressed if its name ends in ``.gz``.
    header : bool or None
        Whether the first line holds names; None refuses a first line of numbers.
    delimiter : str or None
        What separates cells; None is ``default_delimiter``, and refuses a file that seems to
        use another.
    decimal : str
        The decimal point.
    default_delimiter : str
        The delimiter that the file's name stands for.

    Returns
    -------
    Table
        Columns without a name count as a saved index. Without a header the columns are called
        ``column_0``, ``column_1``, ….

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("age;weight\n31;70,5\n;82,0\n")
    ...     table = open_delimited(
    ...         path, header=None, delimiter=";", decimal=",", default_delimiter=","
    ...     )
    ...     table.read(["weight", "age"])
    array([[70.5, 31. ],
           [82. ,  nan]])
    """
    cells, has_rows = _first_line(path, delimiter or default_delimiter)
    _check_encoding(path, cells)
    if delimiter is None:
        _check_delimiter(path, cells)
    if header is None:
        _check_header(path, cells)
    has_header = header is not False
    if has_header:
        refuse_duplicates(path, cells)
    if has_header and not has_rows:
        raise ValueError(f"{path} has a line of column names but no rows.")
    names = cells if has_header else [f"column_{j}" for j in range(len(cells))]
    layout = _Layout(path, names, has_header, delimiter or default_delimiter, decimal)
    index = [name for name in names if not name.strip()]
    return Table(
        path,
        names,
        index,
        lambda wanted: _read_numbers(layout, wanted),
        lambda: _find_text(layout),
        lambda wanted: _read_text(layout, wanted),
    )


def _first_line(path: Path, delimiter: str) -> tuple[list[str], bool]:
    """Return the cells of the first line that is not blank, and whether more lines follow."""
    with reading(path, _KIND), _stream(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        lines = (line for line in text if line.strip("\r\n"))
        try:
            first = next(csv.reader(lines, delimiter=delimiter), None)
        except csv.Error as error:  # a cell of more than 131,072 characters
            raise ValueError(
                f"Its first line does not split at {delimiter!r}: {error}. If something else "
                "separates the cells, pass that delimiter."
            ) from None
        has_rows = next(lines, None) is not None
    if first is None:
        raise ValueError(f"{path} is empty.")
    return first, has_rows


def _stream(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None)


def _check_encoding(path: Path, cells: list[str]) -> None:
    # Bytes that are not UTF-8 arrive as lone surrogates; UTF-16 without its mark has zeros.
    if re.search("[\0\udc80-\udcff]", "".join(cells)):
        raise _encoding_error(path)


def _encoding_error(path: Path) -> ValueError:
    return ValueError(f"{path} is not UTF-8 text. Save it again with the encoding UTF-8.")


def _check_delimiter(path: Path, cells: list[str]) -> None:
    others = [mark for mark in DELIMITERS if mark in cells[0]]
    if len(cells) == 1 and others:
        raise ParameterError(
            f"{path}: the first line is one single cell, {cells[0][:60]!r}. If its columns are "
            f"separated by {others[0]!r}, ",
            "pass {delimiter}.",
            delimiter=others[0],
        )


def _check_header(path: Path, cells: list[str]) -> None:
    if all(cell in MISSING or _is_number(cell) for cell in cells):
        raise ParameterError(
            f"{path}: the first line holds only numbers: {listed(cells)}. ",
            "Pass {header} if these are the names of the columns, {no_header} if there are none.",
            header=True,
            no_header=Parameter("header", False),
        )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_numbers(layout: _Layout, wanted: list[str]) -> Array:
    import pyarrow as pa

    table = _convert(layout, wanted, pa.float64())
    _refuse_blank_lines(layout, table.num_rows)
    X = np.empty((table.num_rows, len(wanted)))
    for j in range(len(wanted)):
        X[:, j] = table.column(j).to_numpy()
    large = {name: np.flatnonzero(abs(X[:, j]) >= LARGEST_INTEGER) for j, name in enumerate(wanted)}
    _refuse_long_integers(layout, {name: rows for name, rows in large.items() if len(rows)})
    return X


def _read_text(layout: _Layout, wanted: list[str]) -> list[list[str | None]]:
    import pyarrow as pa

    table = _convert(layout, wanted, pa.string())
    _refuse_blank_lines(layout, table.num_rows)
    return [[clean_text(cell) for cell in table.column(name).to_pylist()] for name in wanted]


def _find_text(layout: _Layout) -> list[str]:
    """Columns with a cell that is neither a number nor missing; one pass, block by block."""
    import pyarrow as pa
    from pyarrow.csv import open_csv

    text: set[str] = set()
    options = _conversion(layout, layout.names, pa.string(), strings_can_be_null=True)
    try:
        with _stream(layout.path) as stream:
            for block in open_csv(stream, **_how(layout, options, threads=False)):
                unknown = [name for name in layout.names if name not in text]
                text |= {n for n in unknown if not _holds_numbers(block.column(n), layout.decimal)}
    except (pa.ArrowException, OSError) as error:
        raise _explain(layout, error) from error
    return [name for name in layout.names if name in text]


def _holds_numbers(cells: Any, decimal: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(cells)
    try:
        pc.replace_substring(trimmed, decimal, ".").cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _conversion(layout: _Layout, wanted: list[str], kind: Any, **options: Any) -> Any:
    """Read columns as one type: what is float in row one million was float from the start."""
    from pyarrow.csv import ConvertOptions

    return ConvertOptions(
        include_columns=wanted,
        column_types=dict.fromkeys(wanted, kind),
        null_values=MISSING,
        decimal_point=layout.decimal,
        **options,
    )


def _convert(layout: _Layout, wanted: list[str], kind: Any, *, threads: bool = True) -> Any:
    import pyarrow as pa

    try:
        return _read_arrow(layout, _conversion(layout, wanted, kind), threads=threads)
    except (pa.ArrowException, OSError) as error:
        if threads:  # only the serial reader says which row it is, and it takes longer lines
            return _convert(layout, wanted, kind, threads=False)
        raise _explain(layout, error) from error


def _read_arrow(layout: _Layout, convert: Any, **options: bool) -> Any:
    from pyarrow.csv import read_csv

    with _stream(layout.path) as stream:
        return read_csv(stream, **_how(layout, convert, **options))


def _how(
    layout: _Layout, convert: Any, *, threads: bool = True, ignore_empty_lines: bool = True
) -> dict[str, Any]:
    from pyarrow.csv import ParseOptions, ReadOptions

    # A line must fit into a block, and a line of numbers may be far longer than their names.
    longest = 64 * sum(len(name) + 1 for name in layout.names)
    block = min(max(longest, 2**20 if threads else 2**26), 2**30)
    names = None if layout.has_header else layout.names
    return {
        "read_options": ReadOptions(use_threads=threads, block_size=block, column_names=names),
        "parse_options": ParseOptions(
            delimiter=layout.delimiter,
            newlines_in_values=True,
            ignore_empty_lines=ignore_empty_lines,
        ),
        "convert_options": convert,
    }


_NOT_A_NUMBER = re.compile(r"column #(\d+): Row #(\d+): .*? invalid value '(.*)'", re.DOTALL)
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def _explain(layout: _Layout, error: Exception) -> ValueError:
    """Put pyarrow's error into words that say which file, column and row."""
    if found := _NOT_A_NUMBER.search(str(error)):
        column, row, value = found.groups()
        if "\ufffd" in value:  # what stands for bytes that are not UTF-8
            return _encoding_error(layout.path)
        return text_error(layout.path, layout.names[int(column)], value, _row(layout, row))
    if found := _RAGGED.search(str(error)):
        row, expected, got = found.groups()
        return ValueError(
            f"{layout.path}: {_row(layout, row)} has {got} cells where {expected} were expected. "
            f"Every row needs a cell for each column, be it an empty one."
        )
    return unreadable(layout.path, _KIND, error)


def _row(layout: _Layout, number: str) -> str:
    """Say where a row is; pyarrow counts the header but no blank lines."""
    return f"row {int(number) - 1} below the names" if layout.has_header else f"row {number}"


def _refuse_blank_lines(layout: _Layout, n_rows: int) -> None:
    """Refuse a blank line where it may be a missing value, in a file of one column."""
    from pyarrow.csv import ConvertOptions

    if len(layout.names) > 1:
        return
    if _read_arrow(layout, ConvertOptions(), ignore_empty_lines=False).num_rows != n_rows:
        raise ValueError(
            f"{layout.path} has the one column {layout.names[0]!r} and a blank line, which may be "
            f"a missing value or nothing. Write NA on that line, or remove it."
        )


def _refuse_long_integers(layout: _Layout, suspects: dict[str, Array]) -> None:
    """Refuse whole numbers that float64 cannot hold, among the large numbers of some columns."""
    import pyarrow as pa

    if not suspects:
        return
    table = _convert(layout, list(suspects), pa.string())
    for name, rows in suspects.items():
        for cell in table.column(name).take(pa.array(rows)).to_pylist():
            if re.fullmatch(r"[+-]?\d+", cell.strip()) and _is_long(cell.strip().lstrip("+-0")):
                raise integer_error(layout.path, name, cell)


def _is_long(digits: str) -> bool:
    # Python refuses to read thousands of digits, and 2**53 has 16.
    return len(digits) > 16 or int(digits or 0) > LARGEST_INTEGER
