"""Text tables: csv, tsv and other delimited files, read by pyarrow, which refuses ragged rows."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hotview._messages import ParameterError, reading, unreadable
from hotview._types import Array
from hotview._validation.containers import line_break_error
from hotview.data.options import NO_OPTIONS, Options
from hotview.data.table_file import (
    LARGEST_INTEGER,
    MISSING,
    TableFile,
    header_error,
    integer_error,
    is_number,
    refuse_duplicates,
    text_error,
    unescape_formula,
)

_KIND = "a table in UTF-8 text"
_NOT_A_NUMBER = re.compile(r"column #(\d+): Row #(\d+): .*? invalid value '(.*)'", re.DOTALL)
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


class TextTable(TableFile):
    r"""A delimited text file, of which the first line is read and checked.

    Columns without a name count as a saved index. Without a header the columns are called
    ``column_0``, ``column_1``, ….

    Parameters
    ----------
    path : Path
        The file, compressed if its name ends in ``.gz``.
    name, options : str and Options
        As of `TableFile`. Without a delimiter, a file that seems to use another than that of its
        ending is refused; without `header`, a first line of numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv")
    ...     _ = path.write_text("age;weight\n31;70,5\n;82,0\n")
    ...     TextTable(path, options=Options(delimiter=";", decimal=",")).read(["weight", "age"])
    array([[70.5, 31. ],
           [82. ,  nan]])
    """

    def __init__(self, path: Path, name: str = "", options: Options = NO_OPTIONS) -> None:
        self.path, self.name = path, name or path.name.partition(".")[0]
        self._encoding = encoding = options.encoding
        self._point, self.has_header = options.decimal_point, options.header is not False
        is_tsv = path.name.lower().endswith((".tsv", ".tsv.gz"))
        self.delimiter = options.delimiter or ("\t" if is_tsv else ",")
        missing = options.missing_cells
        self._markers = (*MISSING, *missing, *(f" {marker}" for marker in missing))
        self._rows_are_checked = False
        try:
            cells, has_rows = _first_line(path, self.delimiter, encoding)
        except ValueError as error:
            if isinstance(error.__cause__, UnicodeError):
                raise self._encoding_error() from error
            raise
        # Bytes that are not UTF-8 become lone surrogates; UTF-16 without its mark has zeros.
        if re.search("[\0\udc80-\udcff]", "".join(cells)):
            raise self._encoding_error()
        if encoding is not None and _looks_like_utf8(path, encoding):
            raise ParameterError(
                f"{path} is UTF-8 text, whose letters would be others in the encoding {encoding}. ",
                "Pass {encoding}.",
                encoding={self.name: "utf-8"},
            )
        if match := re.fullmatch("sep=(.?)", cells[0]):
            mark = match[1] or self.delimiter
            raise ParameterError(
                f"{path}: the first line, {'sep=' + mark!r}, is for spreadsheet programs. ",
                "Remove it, and pass {delimiter}.",
                delimiter={self.name: mark},
            )
        others = [mark for mark in ",;\t|" if mark in cells[0]]
        if options.delimiter is None and len(cells) == 1 and others:
            raise ParameterError(
                f"{path}: the first line is one single cell, {cells[0][:60]!r}. If its columns are "
                f"separated by {others[0]!r}, ",
                "pass {delimiter}.",
                delimiter={self.name: others[0]},
            )
        if options.header is None and all(
            cell in self._markers or is_number(cell) for cell in cells
        ):
            raise header_error(path, "line", cells)
        names = [f"column_{j}" for j in range(len(cells))]
        if self.has_header:
            names = [unescape_formula(cell) or "" for cell in cells]
            refuse_duplicates(path, names)
        self._stored = dict(zip(names, cells if self.has_header else names, strict=True))
        super().__init__(path, names, [n for n in names if not n.strip()], name, options)
        if self.has_header and not has_rows:
            raise ValueError(f"{path} has a line of column names but no rows.")

    def _read(self, names: list[str]) -> Array:
        import pyarrow as pa

        table = self._convert(names, pa.float64())
        self._check_rows(table.num_rows)
        X = np.empty((table.num_rows, len(names)))
        for j in range(len(names)):
            X[:, j] = table.column(j).to_numpy()
        large = {
            n: np.flatnonzero(abs(x) >= LARGEST_INTEGER) for n, x in zip(names, X.T, strict=True)
        }
        if suspects := {name: rows for name, rows in large.items() if len(rows)}:
            text = self._convert(list(suspects), pa.string())
            for name, rows in suspects.items():
                for cell in text.column(name).take(pa.array(rows)).to_pylist():
                    match = re.fullmatch(r"[+-]?0*(\d*)", cell.strip())
                    # int() refuses thousands of digits, and 2**53 has 16.
                    if match and (len(match[1]) > 16 or int(match[1] or 0) > LARGEST_INTEGER):
                        raise integer_error(self.path, name, cell)
        return X

    def _read_text(self, names: list[str]) -> Iterator[list[str | None]]:
        import pyarrow as pa

        table = self._convert(names, pa.string())
        self._check_rows(table.num_rows)
        return ([unescape_formula(cell) for cell in table.column(n).to_pylist()] for n in names)

    def _place(self, name: str, row: int) -> str:
        n_left, start = row + self.has_header, 1
        # A cell that is too long for csv is the one that is looked for.
        with _open(self.path, self._encoding) as stream, suppress(csv.Error):
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
            lines = csv.reader(text, delimiter=self.delimiter)
            for cells in lines:
                n_left -= bool(cells)
                if n_left < 0:
                    break
                start = lines.line_num + 1
        return f"column {name!r} of {self.path}, in the row that begins in line {start},"

    def find_text(self) -> list[str]:
        """Return the columns with a cell that is neither a number nor missing, in one pass."""
        import pyarrow as pa

        numeric = dict.fromkeys(self.names)
        try:
            for block in self._read_blocks(pa.string()):
                for name in list(numeric):
                    if not _is_numeric(block.column(self._stored[name]), self._point):
                        del numeric[name]
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self._explain(error) from error
        return [name for name in self.names if name not in numeric]

    def _read_blocks(self, dtype: Any) -> Iterator[Any]:
        """Yield all rows as record batches, of which one at a time is in memory."""
        from pyarrow.csv import open_csv

        options = self._conversion(self.names, dtype, strings_can_be_null=True)
        with _open(self.path, self._encoding) as stream:
            yield from open_csv(stream, **self._csv_options(options, threads=False))

    def _conversion(self, names: list[str], dtype: Any, **options: Any) -> Any:
        # All columns get one type: pyarrow would guess it from the first rows.
        from pyarrow.csv import ConvertOptions

        stored = [self._stored[name] for name in names]
        return ConvertOptions(
            include_columns=stored,
            column_types=dict.fromkeys(stored, dtype),
            null_values=self._markers,
            decimal_point=self._point,
            **options,
        )

    def _convert(self, names: list[str], dtype: Any, *, threads: bool = True) -> Any:
        import pyarrow as pa

        try:
            table = self._read_arrow(self._conversion(names, dtype), threads=threads)
            return table.rename_columns(names)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, UnicodeError) as error:
            if threads:  # only the serial reader reports the row, and it accepts longer lines
                return self._convert(names, dtype, threads=False)
            raise self._explain(error) from error

    def _read_arrow(self, convert: Any, **options: bool) -> Any:
        from pyarrow.csv import read_csv

        with _open(self.path, self._encoding) as stream:
            return read_csv(stream, **self._csv_options(convert, **options))

    def _csv_options(
        self, convert: Any, *, threads: bool = True, ignore_empty_lines: bool = True
    ) -> dict[str, Any]:
        from pyarrow.csv import ParseOptions, ReadOptions

        # A line must fit into a block, and a line of numbers may be far longer than their names.
        longest = 64 * sum(len(name) + 1 for name in self.names)
        block = min(max(longest, 2**20 if threads else 2**26), 2**30)
        names = None if self.has_header else self.names
        read = ReadOptions(use_threads=threads, block_size=block, column_names=names)
        parse = ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        parse.ignore_empty_lines = ignore_empty_lines
        return {"read_options": read, "parse_options": parse, "convert_options": convert}

    def _explain(self, error: Exception) -> ValueError:
        """Convert pyarrow's error to one that names the file, the column and the row."""
        if match := _NOT_A_NUMBER.search(str(error)):
            column, row, value = match.groups()
            if "\ufffd" in value:  # pyarrow's replacement of bytes that are not UTF-8
                return self._encoding_error()
            return text_error(self.path, self.names[int(column)], value, self._row(row))
        if match := _RAGGED.search(str(error)):
            row, expected, got = match.groups()
            return ValueError(
                f"{self.path}: {self._row(row)} has {got} cells where {expected} were expected. "
                f"Every row needs a cell for each column, be it an empty one."
            )
        if "invalid UTF8" in str(error) or isinstance(error, UnicodeError):
            return self._encoding_error()
        return unreadable(self.path, _KIND, error)

    def _encoding_error(self) -> ValueError:
        """Return the error for text in another encoding, which its bytes may tell."""
        if self._encoding is not None:
            return ParameterError(
                f"{self.path} is not text in the encoding {self._encoding}. ",
                "Pass another {encoding}, or save it again with the encoding UTF-8.",
            )
        guess = _guess_encoding(self.path)
        if guess is None:
            return ValueError(
                f"{self.path} is not text, but a file of another format whose name ends like that "
                "of a text table. Save it as csv, or rename it, such as to .xlsx."
            )
        return ParameterError(
            f"{self.path} is not UTF-8 text. ",
            "Try {encoding}, or save it again with the encoding UTF-8.",
            encoding={self.name: guess},
        )

    def _row(self, number: str) -> str:
        # pyarrow counts the header, but no blank lines.
        return f"row {int(number) - 1} below the names" if self.has_header else f"row {number}"

    def _check_rows(self, n_rows: int) -> None:
        """Refuse lines that are not rows as they should be, once per file."""
        from pyarrow.csv import ConvertOptions

        if self._rows_are_checked:
            return
        if len(self.names) == 1:  # a blank line may be a missing value
            rows = self._read_arrow(ConvertOptions(), ignore_empty_lines=False)
            if rows.num_rows != n_rows:
                raise ValueError(
                    f"{self.path} has the one column {self.names[0]!r} and a blank line, which "
                    "may be a missing value or nothing. Write NA on that line, or remove it."
                )
        self._refuse_swallowed_rows(n_rows)
        self._rows_are_checked = True

    def _refuse_swallowed_rows(self, n_rows: int) -> None:
        """Refuse a cell, also of a column that is left out, that holds whole rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        n_lines, has_quotes, first = 0, False, 0
        with _open(self.path, self._encoding) as stream:
            while block := stream.read(2**22):
                ends = block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
                n_lines, has_quotes = n_lines + ends, has_quotes or b'"' in block
        if not has_quotes or n_lines <= n_rows + self.has_header:
            return
        for batch in self._read_blocks(pa.binary()):  # whatever its encoding

            @cache
            def holds_numbers(j: int, columns: Any = batch.columns) -> bool:
                is_empty = columns[j].null_count == len(columns[j])
                return not is_empty and _is_numeric(columns[j], self._point)

            for j, cells in enumerate(batch.columns):
                found = pc.match_substring_regex(cells, "[\r\n]")
                for row in pc.indices_nonzero(found).to_pylist():
                    text = cells[row].as_py().decode(errors="replace")
                    if self._holds_rows(text, j, holds_numbers):
                        raise line_break_error(self._place(self.names[j], first + row), text)
            first += batch.num_rows

    def _holds_rows(self, text: str, j: int, holds_numbers: Callable[[int], bool]) -> bool:
        """Return whether lines of a cell of column j may be rows of the table.

        Either one is a whole row, or one holds the end of a row, from column j on, and the last
        one the beginning of another, up to column j.
        """

        def fits(cells: list[str], start: int = 0) -> bool:
            return not any(
                (x := cell.strip(' "')) not in self._markers
                and not is_number(x.replace(self._point, "."))
                and holds_numbers(i)
                for i, cell in enumerate(cells, start)
            )

        n = len(self.names)
        lines = [line.split(self.delimiter) for line in re.split(r"\r\n?|\n", text)]
        *before, last = lines
        if any(len(line) == n and line != [""] and fits(line) for line in lines[1:]):
            return True
        begins = len(last) > j and fits(last[:j])
        return begins and any(len(x) >= n - j and fits(x[: n - j], j) for x in before)


def _first_line(path: Path, delimiter: str, encoding: str | None) -> tuple[list[str], bool]:
    """Return the cells of the first line that is not blank, and whether more lines follow."""
    with reading(path, _KIND), _open(path, encoding) as stream:
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


def _open(path: Path, encoding: str | None = None) -> Any:
    """Open a file, perhaps compressed; its text is converted to UTF-8."""
    import pyarrow as pa

    compression = "gzip" if path.suffix.lower() == ".gz" else None
    stream = pa.input_stream(str(path), compression=compression)
    return stream if encoding is None else pa.transcoding_input_stream(stream, encoding, "utf-8")


def _looks_like_utf8(path: Path, encoding: str) -> bool:
    """Whether bytes of a file that is said to have one byte per letter are UTF-8, and not ASCII."""
    if any(len(letter.encode(encoding, "ignore")) > 1 for letter in "aäжあ"):
        return False
    with _open(path) as stream, suppress(UnicodeDecodeError):
        return not codecs.getincrementaldecoder("utf-8")().decode(stream.read(2**20)).isascii()
    return False


def _guess_encoding(path: Path) -> str | None:
    """Return the encoding that bytes of a file suggest: UTF-16, Windows' or Latin-1; or no text."""
    with _open(path) as stream:
        start = stream.read(2**20)
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16"
        head = start[: 2**12]
        few, many = sorted((head[::2].count(0), head[1::2].count(0)))
        may_be_text = many == 0 or (few == 0 and 8 * many > len(head))  # every second byte is 0
        if not may_be_text or head.startswith((b"PK\3\4", b"\xd0\xcf\x11\xe0")):
            return None
        if b"\0" in start:
            return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
        while start:
            if re.search(rb"[\x80-\x9f]", start):  # control characters in Latin-1
                return "cp1252"
            start = stream.read(2**22)
    return "latin-1"


def _is_numeric(cells: Any, decimal: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        trimmed = pc.utf8_trim_whitespace(cells.cast(pa.string()))
        if decimal != "." and pc.any(pc.match_substring(trimmed, ".")).as_py():
            return False  # it separates thousands
        pc.replace_substring(trimmed, decimal, ".").cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True
