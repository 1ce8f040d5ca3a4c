"""Tables with named columns: which columns to read, and what is missing or no number in them."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from hotview._lazy import LazyRows
from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.readers.errors import did_you_mean, listed

#: Every whole number up to this one is a float64; above it, digits would be lost.
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
        Reads the columns of the given names, in that order, into one 2-D array, or stands ready to.
    find_text : callable
        Tells which columns hold text.
    read_text : callable
        Reads the columns of the given names as text, None where a cell is missing.
    """

    path: Path
    names: list[str]
    saved_index: list[str]
    read: Callable[[list[str]], Array | LazyRows]
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
            raise ParameterError(
                f"{table.path}: column {name!r} looks like a row index that was saved along with "
                "the table, not like a feature. ",
                "Leave it out with {drop}, or list the columns to read.",
                drop=[name],
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
    return ParameterError(
        f"{path}: column {column!r} holds {kind}, not numbers ({reprlib.repr(value)} in {row}). ",
        "Encode it as numbers, or leave it out with {drop}. A missing value is an empty cell or "
        "NA.",
        drop=[column],
    )


def integer_error(path: Path, column: str, value: object) -> ValueError:
    """Make the error for a whole number that float64 cannot hold.

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
