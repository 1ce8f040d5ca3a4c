"""Which columns of a table are numbers, which are categories, and how these become numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._lazy import LazyRows
from hotview._types import Array
from hotview.datasets.readers.errors import did_you_mean, listed
from hotview.datasets.readers.tables import TableFile, refuse_index

__all__ = ["RULE", "Column", "ViewColumns", "choose_columns", "encode_table"]

_MOST_CATEGORIES = 50
_ROWS_PER_CATEGORY = 2  # on average; names and addresses have fewer

_MOST_WORDS = 0.2  # of the cells of a column of numbers
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d*(,\d+)?([eE][-+]?\d+)?")

#: How text becomes numbers, in a sentence.
RULE = (
    f"A text column of at most {_MOST_CATEGORIES} different values, each in {_ROWS_PER_CATEGORY} "
    "rows on average or more, becomes a column of 0 and 1 per value, sorted; an empty cell is "
    "missing in all of them, and a value that training did not see is 0 in all of them."
)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : str
        Its name.
    categories : tuple of str or None, default=None
        Its values, where it is a category; None for a column of numbers.
    """

    name: str
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """How many numbers stand for a cell."""
        return 1 if self.categories is None else len(self.categories)

    @property
    def output_names(self) -> list[str]:
        """What these numbers are called."""
        if self.categories is None:
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]


@dataclass(frozen=True)
class ViewColumns:
    """How the rows of a view become numbers.

    Parameters
    ----------
    columns : tuple of Column or None
        Its columns, in order; None for a matrix, whose columns have no names.
    n_columns : int
        How many numbers a row becomes.
    """

    columns: tuple[Column, ...] | None
    n_columns: int

    @property
    def categorical(self) -> list[Column]:
        """Columns that are categories."""
        return [column for column in self.columns or () if column.categories is not None]

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        columns = None
        if self.columns is not None:
            columns = [[c.name, c.categories and list(c.categories)] for c in self.columns]
        return {"columns": columns, "n_columns": self.n_columns}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> ViewColumns:
        """The same from what `to_json` gave."""
        if facts["columns"] is None:
            return cls(None, int(facts["n_columns"]))
        columns = [Column(n, None if c is None else tuple(c)) for n, c in facts["columns"]]
        return cls(tuple(columns), int(facts["n_columns"]))


def choose_columns(
    table: TableFile, leave_out: Collection[str], categorical: Collection[str]
) -> ViewColumns:
    """Find out what the columns of a table are.

    Parameters
    ----------
    table : TableFile
        The table, opened.
    leave_out : collection of str
        Columns that are no measurements; they need not exist.
    categorical : collection of str
        Columns to take as categories, whatever they hold; they need not exist.

    Returns
    -------
    ViewColumns
        At least one column.
    """
    names = [name for name in table.names if name not in leave_out]
    refuse_index(table, leave_out)
    if not names:
        raise ValueError(f"{table.path}: no column is left to read. Drop fewer of them.")
    text = [name for name in table.find_text() if name in names]
    chosen = [name for name in names if name in text or name in categorical]
    cells = dict(zip(chosen, table.read_text(chosen), strict=True)) if chosen else {}
    values = {name: sorted({c for c in column if c is not None}) for name, column in cells.items()}
    found = {name: column for name, column in cells.items() if name not in categorical}
    _refuse_few_words(table, found)
    _refuse_free_text(table, {name: values[name] for name in found}, cells)
    columns = tuple(Column(n, tuple(values[n]) if n in values else None) for n in names)
    return ViewColumns(columns, sum(column.width for column in columns))


def _refuse_few_words(table: TableFile, cells: Mapping[str, Sequence[str | None]]) -> None:
    """Refuse columns of numbers in which some cells are text: these are mistakes."""
    for name, column in cells.items():
        known = [(row, cell) for row, cell in enumerate(column, start=1) if cell is not None]
        words = [(row, cell) for row, cell in known if not _NUMBER.fullmatch(cell)]
        if words and len(words) < _MOST_WORDS * len(known):
            row, cell = words[0]
            raise ValueError(
                f"{table.path}: column {name!r} holds numbers but for {len(words)} of "
                f"{len(known)} cells, the first being {cell!r} in row {row}. Correct them (an "
                f"empty cell is a missing value), or insist: --categorical {name!r}."
            )


def _refuse_free_text(
    table: TableFile, values: Mapping[str, Sequence[str]], cells: Mapping[str, Sequence[str | None]]
) -> None:
    """Refuse text that is no category, all such columns at once."""
    wrong = {
        name: found
        for name, found in values.items()
        if len(found) > min(_MOST_CATEGORIES, len(cells[name]) / _ROWS_PER_CATEGORY)
    }
    if not wrong:
        return
    if commas := [n for n, found in wrong.items() if all(map(_DECIMAL_COMMA.fullmatch, found))]:
        raise ValueError(
            f"{table.path}: column {commas[0]!r} holds numbers with a decimal comma, such as "
            f"{wrong[commas[0]][0]!r}. Say so: --decimal , (and, if need be, --delimiter ';')."
        )
    told = [
        f"{name!r} ({len(found)} different: {listed(found[:3])})" for name, found in wrong.items()
    ]
    flags = " ".join(f"--drop {name!r}" for name in wrong)
    first = next(iter(wrong))
    raise ValueError(
        f"{table.path}: expected text columns to be categories, of at most {_MOST_CATEGORIES} "
        f"different values and {_ROWS_PER_CATEGORY} rows per value, but these are not: "
        f"{'; '.join(told)}. Leave them out: {flags}. One that tells who a row is: --id-column "
        f"{first!r}. One that is a category nevertheless: --categorical {first!r}."
    )


@dataclass(frozen=True)
class Encoded:
    """A table in numbers.

    Parameters
    ----------
    X : ndarray or LazyRows of shape (rows, columns)
        The numbers, NaN where a cell is missing.
    unseen : dict of str to list of str
        Values that are not among the categories of a column, by column.
    """

    X: Array | LazyRows
    unseen: dict[str, list[str]]


def encode_table(table: TableFile, view: ViewColumns) -> Encoded:
    """Read a table by the columns that were chosen before, in whatever order it has them.

    Parameters
    ----------
    table : TableFile
        The table, opened.
    view : ViewColumns
        Its columns.

    Returns
    -------
    Encoded
        Its rows in numbers.
    """
    assert view.columns is not None
    for column in view.columns:
        if column.name not in table.names:
            hint = did_you_mean(column.name, table.names)
            raise ValueError(f"{table.path} has no column {column.name!r}, as at fit.{hint}")
    numbers = [column.name for column in view.columns if column.categories is None]
    texts = [column.name for column in view.categorical]
    if not texts:  # as they are: a table that is larger than memory stays on disk
        return Encoded(table.read(numbers), {})
    read = np.asarray(table.read(numbers)).T if numbers else ()
    blocks = {n: X[:, None] for n, X in zip(numbers, read, strict=True)}
    unseen: dict[str, list[str]] = {}
    for column, cells in zip(view.categorical, table.read_text(texts), strict=True):
        blocks[column.name] = _one_hot(cells, column.categories or ())
        if strange := sorted({c for c in cells if c is not None} - set(column.categories or ())):
            unseen[column.name] = strange
    return Encoded(np.hstack([blocks[column.name] for column in view.columns]), unseen)


def _one_hot(cells: Sequence[str | None], categories: Sequence[str]) -> Array:
    """A column of 0 and 1 per category; NaN where a cell is missing."""
    place = {category: j for j, category in enumerate(categories)}
    X = np.zeros((len(cells), len(categories)))
    for i, cell in enumerate(cells):
        if cell is None:
            X[i] = np.nan
        elif cell in place:
            X[i, place[cell]] = 1.0
    return X
