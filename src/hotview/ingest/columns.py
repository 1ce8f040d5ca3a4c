"""Columns of numbers, dates and categories of a table, and their encoding as numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.readers.errors import listed
from hotview.datasets.readers.tables import TableFile, select
from hotview.ingest.dates import DateFormat, recognize_dates, resembles_dates
from hotview.ingest.numbers import (
    NumberFormat,
    TwoReadingsError,
    name_missing,
    recognize_numbers,
    refuse_groups,
    sole_decimal,
)

__all__ = ["RULE", "Column", "EncodedTable", "ViewColumns", "choose_columns", "encode_table"]

_MAX_CATEGORIES = 50
_ROWS_PER_CATEGORY = 2  # on average; names and addresses have fewer
_POINT = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")
_GROUPED_BY_POINT = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")

#: How text columns are encoded, in a sentence.
RULE = (
    f"A text column of at most {_MAX_CATEGORIES} different values, each in {_ROWS_PER_CATEGORY} "
    "rows on average or more, is one-hot encoded: a column of 0 and 1 per value, sorted. An empty "
    "cell is missing in all of them, and a value that is not in the training data is 0 in all of "
    "them."
)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : str
        Its name.
    categories : tuple of str or None, default=None
        Values of a categorical column; None for any other.
    format : NumberFormat, DateFormat or None, default=None
        How the numbers or dates of a column of text are written; None for any other column.
    """

    name: str
    categories: tuple[str, ...] | None = None
    format: NumberFormat | DateFormat | None = None

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1 if self.categories is None else len(self.categories)

    def to_json(self) -> list[Any]:
        """Return plain values for JSON."""
        values: list[Any] = [self.name, self.categories and list(self.categories)]
        return values if self.format is None else [*values, asdict(self.format)]

    @classmethod
    def from_json(
        cls, name: str, categories: Sequence[str] | None, format: Mapping[str, Any] | None = None
    ) -> Column:
        """Return the column described by `to_json`."""
        kept = None if categories is None else tuple(categories)
        if format is None:
            return cls(name, kept)
        return cls(name, kept, (DateFormat if "origin" in format else NumberFormat)(**format))


@dataclass(frozen=True)
class ViewColumns:
    """Columns of a view and their encoding.

    Parameters
    ----------
    columns : tuple of Column or None
        The columns, in order; None for a matrix, whose columns have no names.
    n_columns : int
        Number of encoded columns.
    """

    columns: tuple[Column, ...] | None
    n_columns: int

    @property
    def categorical(self) -> list[Column]:
        """The categorical columns."""
        return [column for column in self.columns or () if column.categories is not None]

    @property
    def source_names(self) -> list[str]:
        """Column that each encoded column comes from, by name or by number."""
        if self.columns is None:
            return [f"column {j + 1}" for j in range(self.n_columns)]
        return [column.name for column in self.columns for _ in range(column.width)]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON; of a column of numbers its name: there may be many."""
        columns = None
        if self.columns is not None:
            columns = [c.name if c == Column(c.name) else c.to_json() for c in self.columns]
        return {"columns": columns, "n_columns": self.n_columns}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ViewColumns:
        """Return the columns described by `to_json`."""
        entries, n_columns = values["columns"], int(values["n_columns"])
        if entries is None:
            return cls(None, n_columns)
        columns = tuple(
            Column(entry) if isinstance(entry, str) else Column.from_json(*entry)
            for entry in entries
        )
        texts = [text for column in columns for text in (column.name, *(column.categories or ()))]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("names and categories are text")
        if n_columns != sum(column.width for column in columns):
            raise ValueError("columns are encoded in another number of columns")
        return cls(columns, n_columns)


def choose_columns(
    table: TableFile, leave_out: Collection[str], categorical: Collection[str]
) -> ViewColumns:
    """Classify the columns of a table as numeric or categorical.

    Parameters
    ----------
    table : TableFile
        The table, opened.
    leave_out : collection of str
        Columns that are no features; they need not exist.
    categorical : collection of str
        Columns to treat as categorical, whatever they hold; they need not exist.

    Returns
    -------
    ViewColumns
        At least one column.
    """
    names = select(table, None, leave_out)
    text = set(table.find_text())
    chosen = [name for name in names if name in text or name in categorical]
    cells = dict(zip(chosen, table.read_text(chosen), strict=True)) if chosen else {}
    detected = {name: column for name, column in cells.items() if name not in categorical}
    formats = _find_formats(table, detected, [name for name in names if name not in text])
    values = {
        name: sorted({c for c in column if c is not None})
        for name, column in cells.items()
        if name not in formats
    }
    _refuse_free_text(table, {n: detected[n] for n in detected if n in values}, values)
    columns = tuple(
        Column(n, tuple(values[n]) if n in values else None, formats.get(n)) for n in names
    )
    return ViewColumns(columns, sum(column.width for column in columns))


def _find_formats(
    table: TableFile, cells: Mapping[str, Sequence[str | None]], numeric: Sequence[str]
) -> dict[str, NumberFormat | DateFormat]:
    """Recognize the columns of text that hold numbers or dates."""
    formats: dict[str, NumberFormat | DateFormat] = {}
    for name, column in cells.items():
        dates = recognize_dates(str(table.path), name, column, table.dates, table.name)
        if dates is not None:
            formats[name] = dates
    written = _WrittenDecimals(table, cells, numeric)
    for name, column in cells.items():
        if name in formats:
            continue
        others = partial(written.of_others, name)
        given = (table.number_marks, others, table.name)
        number = recognize_numbers(str(table.path), name, column, *given)
        if number is not None:
            formats[name] = number
    written.check_points(formats)
    written.check_thousands()
    return formats


@dataclass
class _WrittenDecimals:
    """Decimal points that the columns of a table show, read where numbers are ambiguous.

    Parameters
    ----------
    table : TableFile
        The table.
    cells : dict of str to sequence of (str or None)
        Its columns of text.
    numeric : sequence of str
        Its other columns.
    """

    table: TableFile
    cells: Mapping[str, Sequence[str | None]]
    numeric: Sequence[str]
    _numbers: dict[str, list[str]] = field(default_factory=dict)

    def of_others(self, name: str) -> set[str]:
        """Return the decimal points that columns other than one show beyond doubt."""
        shown = set()
        if any(_POINT.fullmatch(c) and not _GROUPED_BY_POINT.fullmatch(c) for c in self._points()):
            shown.add(".")
        for other, column in self.cells.items():
            if other != name and (found := sole_decimal(column, self.table.number_marks)):
                shown.add(found)
        return shown

    def check_points(self, formats: Mapping[str, NumberFormat | DateFormat]) -> None:
        """Raise if points separate thousands in a column of numbers, where commas are decimal."""
        commas = [n for n, f in formats.items() if isinstance(f, NumberFormat) and f.decimal == ","]
        if not commas or any(self.table.number_marks.values()):
            return
        self._points()
        for name, cells in self._numbers.items():
            points = [cell for cell in cells if "." in cell]
            if points and all(map(_GROUPED_BY_POINT.fullmatch, points)):
                raise ParameterError(
                    f"{self.table.path}: the numbers of column {name!r}, such as {points[0]!r}, "
                    f"have a point, and those of column {commas[0]!r} a decimal comma. ",
                    "Pass {decimal} if the comma is the decimal point of all columns, which makes "
                    "the point a separator of thousands; else write both with the same one.",
                    decimal={self.table.name: ","},
                )

    def check_thousands(self) -> None:
        """Raise if all points of a file with semicolons may separate thousands, and seem to."""
        if any(self.table.number_marks.values()) or getattr(self.table, "delimiter", "") != ";":
            return
        if not all(map(_GROUPED_BY_POINT.fullmatch, self._points())):
            return
        for name in [name for name, cells in self._numbers.items() if cells]:
            if not self.of_others(name):
                [cells] = self.table.read_text([name])
                refuse_groups(str(self.table.path), name, cells, self.table.name)

    def _points(self) -> list[str]:
        """Return the cells of columns of numbers that have a point."""
        if not self._numbers and self.numeric:
            columns = self.table.read_text(list(self.numeric))
            for name, cells in zip(self.numeric, columns, strict=True):
                self._numbers[name] = [c for c in dict.fromkeys(cells) if c and "." in c]
        return [cell for cells in self._numbers.values() for cell in cells]


def _refuse_free_text(
    table: TableFile, cells: Mapping[str, Sequence[str | None]], values: Mapping[str, Sequence[str]]
) -> None:
    """Raise if text columns are not categorical, naming all such columns at once."""
    free = {
        name: values[name]
        for name, column in cells.items()
        if len(values[name]) > min(_MAX_CATEGORIES, len(column) / _ROWS_PER_CATEGORY)
    }
    if not free:
        return
    described = [f"{n!r} ({len(v)} different: {listed(v[:3])})" for n, v in free.items()]
    first = next(iter(free))
    no_dates = [name for name, cells in free.items() if not resembles_dates(cells)]
    hints = "For a column that identifies rows: {id_column}. " if no_dates else ""
    if len(no_dates) < len(free):
        hints += "Dates are read if they are written as 2024-01-31. "
    raise ParameterError(
        f"{table.path}: expected text columns to be categorical, with at most {_MAX_CATEGORIES} "
        f"different values and {_ROWS_PER_CATEGORY} rows per value, but these are not: "
        f"{'; '.join(described)}. ",
        f"Leave them out: {{drop}}. {hints}For a column that is categorical nevertheless: "
        "{categorical}.",
        **{"drop": list(free), "id_column": next(iter(no_dates), first), "categorical": [first]},
    )


@dataclass(frozen=True)
class EncodedTable:
    """A table as numbers.

    Parameters
    ----------
    X : ndarray, csr_array or LazyRows of shape (rows, columns)
        The numbers, NaN where a cell is missing.
    unseen : dict of str to list of str
        Values that are not among the categories of a column, by column.
    formats : dict of str to str
        How numbers and dates in columns of text were read, by column, in words.
    notes : list of str
        Differences from the training data, for the user.
    """

    X: Any
    unseen: dict[str, list[str]] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def encode_table(table: TableFile, view: ViewColumns) -> EncodedTable:
    """Encode a table, whatever the order of its columns.

    Parameters
    ----------
    table : TableFile
        The table, opened.
    view : ViewColumns
        Its columns.

    Returns
    -------
    EncodedTable
        The numbers, and what there is to say about them.
    """
    assert view.columns is not None
    table.check_columns((column.name for column in view.columns), ", as at fit")
    plain = [c.name for c in view.columns if c.categories is None and c.format is None]
    try:
        read = table.read(plain) if plain else np.empty((0, 0))
    except ParameterError:  # numbers at fit, but here some are written otherwise
        respelled = set(plain) & set(table.find_text())
        if not respelled:
            raise
        plain = [name for name in plain if name not in respelled]
        read = table.read(plain) if plain else np.empty((0, 0))
    if len(plain) == len(view.columns):
        return EncodedTable(read)  # a table larger than memory stays on disk
    blocks = {n: x[:, None] for n, x in zip(plain, np.asarray(read).T, strict=True)}
    text = [column for column in view.columns if column.name not in blocks]
    encoded = EncodedTable(read)
    for column, cells in zip(text, table.read_text([c.name for c in text]), strict=True):
        if column.categories is None:
            blocks[column.name] = _read_numbers(table, column, cells, encoded)[:, None]
            continue
        blocks[column.name] = _one_hot(cells, column.categories)
        known = set(column.categories)
        if others := sorted({cell for cell in cells if cell is not None} - known):
            encoded.unseen[column.name] = others
    _check_points(table, text, plain)
    return replace(encoded, X=np.hstack([blocks[column.name] for column in view.columns]))


def _check_points(table: TableFile, text: Sequence[Column], plain: Sequence[str]) -> None:
    """Raise if a new file has decimal commas where that of the fit had points, and both in it."""
    if any(table.number_marks.values()):
        return
    names = [c.name for c in text if c.categories is None and not isinstance(c.format, DateFormat)]
    commas = {
        name: NumberFormat(",")
        for name, cells in zip(names, table.read_text(names) if names else (), strict=True)
        if sole_decimal(cells, {}) == ","
    }
    others = [*plain, *(name for name in names if name not in commas)]
    _WrittenDecimals(table, {}, others).check_points(commas)


def _read_numbers(
    table: TableFile, column: Column, cells: Sequence[str | None], encoded: EncodedTable
) -> Array:
    """Return the numbers or dates of a column of text, written as at fit or otherwise."""
    stored = format = column.format or NumberFormat()
    try:
        if not _is_as_given(table, stored):
            raise ValueError(next(filter(None, cells), ""))
        values = stored.parse(cells)
    except ValueError as error:
        format = _recognize_again(table, column.name, cells, str(error), stored)
        values = format.parse(cells)
        encoded.notes.extend(_note_differences(table, column.name, cells, stored, format))
    if text := format.describe(cells):
        encoded.formats[column.name] = text
    return values


def _is_as_given(table: TableFile, format: NumberFormat | DateFormat) -> bool:
    """Whether a format does not contradict what the user says of a file."""
    if isinstance(format, DateFormat):
        return None in (table.dates, format.order) or table.dates == format.order
    return table.decimal in (None, format.decimal) and format.decimal != table.thousands


def _recognize_again(
    table: TableFile,
    name: str,
    cells: Sequence[str | None],
    cell: str,
    stored: NumberFormat | DateFormat,
) -> NumberFormat | DateFormat:
    """Find how a column is written in a file where it is written otherwise than at fit."""
    where, what = (str(table.path), name, cells), "dates"
    found: NumberFormat | DateFormat | None
    try:
        if isinstance(stored, DateFormat):
            found = recognize_dates(*where, table.dates, table.name)
            if isinstance(found, DateFormat):
                return replace(found, origin=stored.origin)
        else:
            what = f"numbers with the unit {stored.unit!r}" if stored.unit else "numbers"
            # Nothing in one file speaks for either decimal point.
            others = {".", ","}
            found = recognize_numbers(*where, table.number_marks, lambda: others, table.name)
    except TwoReadingsError as error:
        if isinstance(stored, DateFormat):
            raise
        same = [f for f in error.formats if replace(f, unit=stored.unit) == stored]
        if not same:
            raise
        return same[0]
    except ParameterError:
        found = None
    if found is not None:
        return found
    row = cells.index(cell) + 1 if cell in cells else 1
    raise ParameterError(
        f"{table.path}: expected {what} in column {name!r}, as at fit, but got {cell!r} in row "
        f"{row}. Correct it (an empty cell is a missing value)",
        ", or, if it means that the value is missing, pass {missing}.",
        missing=name_missing(cell, table.name),
    )


def _note_differences(
    table: TableFile,
    name: str,
    cells: Sequence[str | None],
    stored: NumberFormat | DateFormat,
    found: NumberFormat | DateFormat,
) -> Iterator[str]:
    """Yield notes on a column that is written otherwise than at fit; another unit raises."""
    same_unit = found
    if isinstance(stored, NumberFormat) and isinstance(found, NumberFormat):
        same_unit = replace(found, unit=stored.unit)
        if found.unit != stored.unit:
            units = [repr(unit) if unit else "none" for unit in (stored.unit, found.unit)]
            text = f"{table.path}: the unit of column {name!r} was {units[0]} at fit, and is "
            if found.unit and stored.unit:
                raise ValueError(f"{text}{units[1]} here. Convert the numbers to {units[0]}.")
            yield f"{text}{units[1]} here. The numbers are taken as they are."
    if same_unit != stored:
        text = found.describe(cells) or "decimal point '.'"
        yield f"{table.path}: column {name!r} is written otherwise than at fit: {text}."


def _one_hot(cells: Sequence[str | None], categories: Sequence[str]) -> Array:
    """Return a column of 0 and 1 per category, NaN where a cell is missing."""
    values = np.array(cells, dtype=object)[:, None]
    X: Array = np.equal(values, np.array(categories, dtype=object)).astype(np.float64)
    X[[cell is None for cell in cells]] = np.nan
    return X
