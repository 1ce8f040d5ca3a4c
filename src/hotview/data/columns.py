"""Columns of numbers, dates and categories of a table, and their encoding as numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from hotview._messages import ParameterError, listed
from hotview._types import Array
from hotview.data.dates import DateFormat, recognize_dates, resembles_dates
from hotview.data.linking import object_array
from hotview.data.numbers import (
    NumberFormat,
    TextColumn,
    TwoReadingsError,
    name_missing,
    recognize_numbers,
    refuse_groups,
    sole_decimal,
)
from hotview.data.table_file import TableFile, select

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

    encodes_itself: ClassVar[bool] = True  # columns of numbers are many, and short in a file

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
    detected = {n: TextColumn(table, n, c) for n, c in cells.items() if n not in categorical}
    dates = {name: recognize_dates(column) for name, column in detected.items()}
    formats: dict[str, NumberFormat | DateFormat] = {n: d for n, d in dates.items() if d}
    written = _WrittenDecimals(table, detected, [name for name in names if name not in text])
    for name, column in detected.items():
        if dates[name] is None:
            number = recognize_numbers(column, partial(written.of_others, name))
            if number is not None:
                formats[name] = number
    written.check_points(formats)
    written.check_thousands()
    values = {
        name: sorted({cell for cell in own if cell is not None})
        for name, own in cells.items()
        if name not in formats
    }
    n_rows = len(next(iter(cells.values()), ()))
    most = min(_MAX_CATEGORIES, n_rows / _ROWS_PER_CATEGORY)
    if free := {n: v for n, v in values.items() if n in detected and len(v) > most}:
        raise _free_text_error(table, free)
    columns = tuple(
        Column(n, tuple(values[n]) if n in values else None, formats.get(n)) for n in names
    )
    return ViewColumns(columns, sum(column.width for column in columns))


@dataclass
class _WrittenDecimals:
    """Decimal points that the columns of a table show, read where numbers are ambiguous.

    Parameters
    ----------
    table : TableFile
        The table.
    columns : dict of str to TextColumn
        Its columns of text.
    numeric : sequence of str
        Its other columns.
    """

    table: TableFile
    columns: Mapping[str, TextColumn]
    numeric: Sequence[str]

    @property
    def _is_given(self) -> bool:
        """Whether the user says how numbers are written."""
        return any((self.table.options.decimal, self.table.options.thousands))

    @cached_property
    def _points(self) -> dict[str, list[str]]:
        """Cells of columns of numbers that have a point, by column."""
        columns = self.table.read_text(list(self.numeric)) if self.numeric else ()
        pairs = zip(self.numeric, columns, strict=True)
        return {name: [c for c in dict.fromkeys(cells) if c and "." in c] for name, cells in pairs}

    def of_others(self, name: str) -> set[str]:
        """Return the decimal points that columns other than one show beyond doubt."""
        others = (column for other, column in self.columns.items() if other != name)
        shown = {found for column in others if (found := sole_decimal(column))}
        points = chain.from_iterable(self._points.values())
        if any(_POINT.fullmatch(c) and not _GROUPED_BY_POINT.fullmatch(c) for c in points):
            shown.add(".")
        return shown

    def check_points(self, formats: Mapping[str, NumberFormat | DateFormat]) -> None:
        """Raise if points separate thousands in a column of numbers, where commas are decimal."""
        commas = [n for n, f in formats.items() if isinstance(f, NumberFormat) and f.decimal == ","]
        if not commas or self._is_given:
            return
        for name, points in self._points.items():
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
        if self._is_given or self.table.delimiter != ";":
            return
        if not all(map(_GROUPED_BY_POINT.fullmatch, chain.from_iterable(self._points.values()))):
            return
        for name in [name for name, cells in self._points.items() if cells]:
            if not self.of_others(name):
                [cells] = self.table.read_text([name])
                refuse_groups(TextColumn(self.table, name, cells))


def _free_text_error(table: TableFile, free: Mapping[str, Sequence[str]]) -> ParameterError:
    """Return the error for text columns that are not categorical, with values of all of them."""
    described = [f"{n!r} ({len(v)} different: {listed(v[:3])})" for n, v in free.items()]
    first = next(iter(free))
    no_dates = [name for name, cells in free.items() if not resembles_dates(cells)]
    hints = "For a column that identifies rows: {id_column}. " if no_dates else ""
    if len(no_dates) < len(free):
        hints += "Dates are read if they are written as 2024-01-31. "
    return ParameterError(
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
    cells = table.read_text([column.name for column in text])
    encoded, numbers = EncodedTable(read), []
    for column, own in zip(text, cells, strict=True):
        if column.categories is None:
            numbers.append((TextColumn(table, column.name, own), column.format or NumberFormat()))
            blocks[column.name] = _read_numbers(*numbers[-1], encoded)[:, None]
            continue
        is_one = np.equal(object_array(own)[:, None], object_array(column.categories))
        blocks[column.name] = X = is_one.astype(np.float64)
        X[[cell is None for cell in own]] = np.nan
        known = set(column.categories)
        if others := sorted({cell for cell in own if cell is not None} - known):
            encoded.unseen[column.name] = others
    # Decimal commas where the file of the fit had points, and both in it, are an error.
    written = [column for column, format in numbers if isinstance(format, NumberFormat)]
    commas = {c.name: NumberFormat(",") for c in written if sole_decimal(c) == ","}
    points = [*plain, *(column.name for column in written if column.name not in commas)]
    _WrittenDecimals(table, {}, points).check_points(commas)
    return replace(encoded, X=np.hstack([blocks[column.name] for column in view.columns]))


def _read_numbers(
    column: TextColumn, stored: NumberFormat | DateFormat, encoded: EncodedTable
) -> Array:
    """Return the numbers or dates of a column of text, written as at fit or otherwise."""
    cells, format = column.cells, stored
    try:
        if not stored.fits(column.table.options):
            raise ValueError(next(filter(None, cells), ""))
        values = stored.parse(cells)
    except ValueError as error:
        format = _recognize_again(column, str(error), stored)
        values = format.parse(cells)
        encoded.notes.extend(_note_differences(column, stored, format))
    if text := format.describe(cells):
        encoded.formats[column.name] = text
    return values


def _recognize_again(
    column: TextColumn, cell: str, stored: NumberFormat | DateFormat
) -> NumberFormat | DateFormat:
    """Find how a column is written in a file where it is written otherwise than at fit."""
    try:
        if (found := stored.recognize_again(column)) is not None:
            return found
    except TwoReadingsError:
        raise
    except ParameterError:
        pass
    row = column.cells.index(cell) + 1 if cell in column.cells else 1
    raise ParameterError(
        f"{column.table.path}: expected {stored.kind} in column {column.name!r}, as at fit, but "
        f"got {cell!r} in row {row}. Correct it (an empty cell is a missing value)",
        ", or, if it means that the value is missing, pass {missing}.",
        missing=name_missing(cell, column.table.name),
    )


def _note_differences(
    column: TextColumn, stored: NumberFormat | DateFormat, found: NumberFormat | DateFormat
) -> Iterator[str]:
    """Yield notes on a column that is written otherwise than at fit; another unit raises."""
    same_unit = found
    if isinstance(stored, NumberFormat) and isinstance(found, NumberFormat):
        same_unit = replace(found, unit=stored.unit)
        if found.unit != stored.unit:
            units = [repr(unit) if unit else "none" for unit in (stored.unit, found.unit)]
            text = f"{column.table.path}: the unit of column {column.name!r} was {units[0]} at fit"
            text += f", and is {units[1]} here."
            if found.unit and stored.unit:
                raise ValueError(f"{text} Convert the numbers to {units[0]}.")
            yield f"{text} The numbers are taken as they are."
    if same_unit != stored:
        text = found.describe(column.cells) or "decimal point '.'"
        where = f"{column.table.path}: column {column.name!r}"
        yield f"{where} is written otherwise than at fit: {text}."
