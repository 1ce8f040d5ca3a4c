"""Tables with named columns: selection of columns, missing values, errors."""

from __future__ import annotations

import re
import reprlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hotview._messages import Parameter, ParameterError, check_known, listed, within_memory
from hotview._types import Array, LazyRows
from hotview._validation import check_one_line
from hotview.data.options import NO_OPTIONS, Options

#: float64 represents all whole numbers up to this one.
LARGEST_INTEGER = 2**53

#: Cells that mean "missing", with or without a space before them.
MISSING = tuple(
    space + marker
    for space in ("", " ")
    for marker in (
        *("", "NA", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan"),
        *("NULL", "Null", "null", "None", "none"),
    )
)
#: Text that spreadsheets would run as a formula, perhaps escaped or behind characters that do not
#: show; numbers are not.
_FORMULA = re.compile(
    r"'*([\t\r\n]|[\s\x00-\x20\u200b-\u200f\u2060\ufeff]*"
    r"(?![-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\Z)[=+\-@＝＋－＠])"
)
_NO_TEXT = {marker.strip() for marker in MISSING} - {"None", "none"}  # may be a category


def clean_text(cell: str | None) -> str | None:
    """Strip a cell of text; return None if it means "missing".

    Examples
    --------
    >>> clean_text(" flu "), clean_text("NA"), clean_text("none")
    ('flu', None, 'none')
    """
    if cell is None or (trimmed := cell.strip()) in _NO_TEXT:
        return None
    return trimmed


def is_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal point, as Python reads it.

    Examples
    --------
    >>> is_number("-1.5e3"), is_number("1,5")
    (True, False)
    """
    try:
        float(cell)
    except ValueError:
        return False
    return True


def as_text(cell: object) -> str:
    """Return a cell as text: whole numbers without a decimal.

    Examples
    --------
    >>> as_text(2.0), as_text(2.5)
    ('2', '2.5')
    """
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def escape_formulas(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Put an apostrophe before names and cells of text that spreadsheets would run as a formula.

    Parameters
    ----------
    columns : dict of str to sequence
        The columns of a table.

    Returns
    -------
    dict of str to sequence
        The same, but for text that is not a number and begins with a tab, a line end or, behind
        spaces and characters that do not show, with = + - @.

    Examples
    --------
    >>> escape_formulas({"id": ["=1+1", "-7", "anna"], "age": [31, -1, 58]})
    {'id': ["'=1+1", '-7', 'anna'], 'age': [31, -1, 58]}
    """
    escaped: dict[str, Any] = {}
    for name, values in columns.items():
        array = np.asarray(values)
        cells = [_escape(x) for x in array.tolist()] if array.dtype.kind in "OU" else values
        escaped[_escape(name)] = cells
    return escaped


def _escape(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def unescape_formula(cell: str | None) -> str | None:
    """Return a cell of a text table without the apostrophe of `escape_formulas`.

    Examples
    --------
    >>> unescape_formula("'=1+1"), unescape_formula("'t Hooft")
    ('=1+1', "'t Hooft")
    """
    return cell[1:] if cell is not None and cell[:1] == "'" and _FORMULA.match(cell) else cell


class TableFile(ABC):
    """A table with named columns, in a file that is opened but not read, or in memory.

    Parameters
    ----------
    path : Path or str
        The file, or where else the table comes from, for messages.
    names : list of str
        Names of its columns.
    saved_index : list of str
        Columns that are not measurements but a row index that pandas saved.
    name : str, default=""
        Name of the file in options; by default that of the file without its ending.
    options : Options
        What the user says about the file.
    """

    delimiter = ""  # between cells, of text tables

    def __init__(
        self,
        path: Path | str,
        names: list[str],
        saved_index: list[str],
        name: str = "",
        options: Options = NO_OPTIONS,
    ) -> None:
        self.path: Any = path
        self.names, self.saved_index, self.options = names, saved_index, options
        self.name = name or Path(path).name.partition(".")[0]
        check_one_line(names, lambda j: f"the name of column {j + 1} of {path}")

    def check_columns(self, names: Iterable[str], purpose: str = "") -> None:
        """Raise if there is no column of one of these names; `purpose` completes the message."""
        check_known(names, self.names, f"{self.path} has no column", purpose)

    def read(self, names: list[str]) -> Array | LazyRows:
        """Read columns, in this order, as a 2-D array of numbers."""
        with within_memory(self.path):
            return self._read(names)

    def read_text(self, names: list[str]) -> list[list[str | None]]:
        """Read columns as text of one line, None where a cell is missing."""
        with within_memory(self.path):
            columns = [[clean_text(cell) for cell in cells] for cells in self._read_text(names)]
        if self.options.missing:
            marks = {mark.strip() for mark in self.options.missing_cells}
            columns = [[None if cell in marks else cell for cell in cells] for cells in columns]
        for name, cells in zip(names, columns, strict=True):
            check_one_line(cells, partial(self._place, name))
        return columns

    def _place(self, name: str, row: int) -> str:
        """Describe a cell, for an error."""
        return f"column {name!r} of {self.path}, in row {row + 1},"

    @abstractmethod
    def _read(self, names: list[str]) -> Array | LazyRows: ...

    @abstractmethod
    def _read_text(self, names: list[str]) -> Iterable[list[str | None]]: ...

    @abstractmethod
    def find_text(self) -> list[str]:
        """Return the names of the columns that hold text."""


def select(table: TableFile, columns: Sequence[str] | None, drop: Collection[str]) -> list[str]:
    """Return the columns of a table to read.

    Parameters
    ----------
    table : TableFile
        The table.
    columns : sequence of str or None
        The columns to keep, in this order; each must exist. None keeps them all.
    drop : collection of str
        The columns to leave out, which may be absent from this table.

    Returns
    -------
    list of str
        At least one name.
    """
    table.check_columns(columns or ())
    for name, count in Counter(columns or ()).items():
        if count > 1:
            raise ValueError(f"{table.path}: columns= names the column {name!r} twice.")
    index = [name for name in table.saved_index if name not in drop]
    if columns is None and index:
        raise ParameterError(
            f"{table.path}: column {index[0]!r} looks like a row index that was saved along with "
            "the table, not like a feature. ",
            "Leave it out with {drop}, or list the columns to read.",
            drop=index[:1],
        )
    kept = [name for name in (table.names if columns is None else columns) if name not in drop]
    if not kept:
        raise ValueError(f"{table.path}: no column is left to read. Drop fewer of them.")
    return kept


def refuse_duplicates(path: Path | str, names: Sequence[str]) -> None:
    """Raise if two columns of a table have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"{path}: more than one column is called {listed(twice)}. Rename all but one."
        )


def header_error(path: Path, line: str, cells: Iterable[str]) -> ParameterError:
    """Return the error for a first line of numbers, which may be names or a row."""
    return ParameterError(
        f"{path}: the first {line} holds only numbers: {listed(cells)}. ",
        "Pass {header} if these are the names of the columns, {no_header} if there are none.",
        header=True,
        no_header=Parameter("header", False),
    )


def text_error(
    path: Path | str, column: str, value: object, row: str, kind: str = "text"
) -> ValueError:
    """Return the error for a column that does not hold numbers.

    Examples
    --------
    >>> str(text_error(Path("a.csv"), "sex", "F", "row 1"))
    "a.csv: column 'sex' holds text, not numbers ('F' in row 1). ..."
    """
    return ParameterError(
        f"{path}: column {column!r} holds {kind}, not numbers ({reprlib.repr(value)} in {row}). ",
        "Encode it as numbers, or leave it out with {drop}. A missing value is an empty cell or "
        "NA.",
        drop=[column],
    )


def integer_error(path: Path | str, column: str, value: object) -> ValueError:
    """Return the error for a whole number that float64 cannot represent.

    Examples
    --------
    >>> str(integer_error(Path("a.csv"), "id", 2**53 + 1))
    "a.csv: column 'id' holds the whole number 9007199254740993, beyond 2**53, ..."
    """
    return ParameterError(
        f"{path}: column {column!r} holds the whole number {str(value)[:40]}, beyond 2**53, which "
        "would lose digits as a float64. ",
        "If it is an identifier, leave it out with {drop}.",
        drop=[column],
    )
