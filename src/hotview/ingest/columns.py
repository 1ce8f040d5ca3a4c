"""Numeric and categorical columns of a table, and their encoding as numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._lazy import LazyRows
from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.readers.errors import listed
from hotview.datasets.readers.tables import TableFile, refuse_index
from hotview.ingest.tables import check_column

__all__ = ["RULE", "Column", "ViewColumns", "choose_columns", "encode_table"]

_MAX_CATEGORIES = 50
_ROWS_PER_CATEGORY = 2  # on average; names and addresses have fewer
_MAX_TEXT_FRACTION = 0.2  # of the cells of a numeric column
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d*(,\d+)?([eE][-+]?\d+)?")

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
        Values of a categorical column; None for a numeric column.
    """

    name: str
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1 if self.categories is None else len(self.categories)


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
        """Return plain values for JSON."""
        columns = None
        if self.columns is not None:
            columns = [[c.name, c.categories and list(c.categories)] for c in self.columns]
        return {"columns": columns, "n_columns": self.n_columns}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ViewColumns:
        """Return the columns described by `to_json`."""
        columns = values["columns"]
        if columns is not None:
            columns = tuple(Column(n, None if c is None else tuple(c)) for n, c in columns)
        return cls(columns, int(values["n_columns"]))


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
    names = [name for name in table.names if name not in leave_out]
    refuse_index(table, leave_out)
    if not names:
        raise ValueError(f"{table.path}: no column is left to read. Drop fewer of them.")
    text = set(table.find_text())
    chosen = [name for name in names if name in text or name in categorical]
    cells = dict(zip(chosen, table.read_text(chosen), strict=True)) if chosen else {}
    values = {name: sorted({c for c in column if c is not None}) for name, column in cells.items()}
    detected = {name: column for name, column in cells.items() if name not in categorical}
    _refuse_few_words(table, detected)
    _refuse_free_text(table, detected, values)
    columns = tuple(Column(n, tuple(values[n]) if n in values else None) for n in names)
    return ViewColumns(columns, sum(column.width for column in columns))


def _refuse_few_words(table: TableFile, cells: Mapping[str, Sequence[str | None]]) -> None:
    """Raise if a few cells of a numeric column are text: these are mistakes."""
    for name, column in cells.items():
        known = [(row, cell) for row, cell in enumerate(column, start=1) if cell is not None]
        words = [(row, cell) for row, cell in known if not _NUMBER.fullmatch(cell)]
        if words and len(words) < _MAX_TEXT_FRACTION * len(known):
            row, cell = words[0]
            raise ParameterError(
                f"{table.path}: column {name!r} holds numbers but for {len(words)} of "
                f"{len(known)} cells, the first being {cell!r} in row {row}. Correct them (an "
                "empty cell is a missing value), ",
                "or treat the column as categorical: {categorical}.",
                categorical=[name],
            )


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
    if commas := [name for name in free if all(map(_DECIMAL_COMMA.fullmatch, free[name]))]:
        raise ParameterError(
            f"{table.path}: column {commas[0]!r} holds numbers with a decimal comma, such as "
            f"{free[commas[0]][0]!r}. ",
            "Pass {decimal} (and, if needed, {delimiter}).",
            **{"decimal": ",", "delimiter": ";"},
        )
    described = [f"{n!r} ({len(v)} different: {listed(v[:3])})" for n, v in free.items()]
    first = next(iter(free))
    raise ParameterError(
        f"{table.path}: expected text columns to be categorical, with at most {_MAX_CATEGORIES} "
        f"different values and {_ROWS_PER_CATEGORY} rows per value, but these are not: "
        f"{'; '.join(described)}. ",
        "Leave them out: {drop}. For a column that identifies rows: {id_column}. For a column that "
        "is categorical nevertheless: {categorical}.",
        **{"drop": list(free), "id_column": first, "categorical": [first]},
    )


def encode_table(
    table: TableFile, view: ViewColumns
) -> tuple[Array | LazyRows, dict[str, list[str]]]:
    """Encode a table, whatever the order of its columns.

    Parameters
    ----------
    table : TableFile
        The table, opened.
    view : ViewColumns
        Its columns.

    Returns
    -------
    X : ndarray or LazyRows of shape (rows, columns)
        The numbers, NaN where a cell is missing.
    unseen : dict of str to list of str
        Values that are not among the categories of a column, by column.
    """
    assert view.columns is not None
    for column in view.columns:
        check_column(table, column.name, ", as at fit")
    numbers = [column.name for column in view.columns if column.categories is None]
    if not view.categorical:  # a table larger than memory stays on disk
        return table.read(numbers), {}
    read = np.asarray(table.read(numbers)).T if numbers else ()
    blocks = {n: x[:, None] for n, x in zip(numbers, read, strict=True)}
    unseen: dict[str, list[str]] = {}
    texts = table.read_text([column.name for column in view.categorical])
    for column, cells in zip(view.categorical, texts, strict=True):
        categories = column.categories or ()
        blocks[column.name] = _one_hot(cells, categories)
        if others := sorted({cell for cell in cells if cell is not None} - set(categories)):
            unseen[column.name] = others
    return np.hstack([blocks[column.name] for column in view.columns]), unseen


def _one_hot(cells: Sequence[str | None], categories: Sequence[str]) -> Array:
    """Return a column of 0 and 1 per category, NaN where a cell is missing."""
    values = np.array(cells, dtype=object)[:, None]
    X: Array = np.equal(values, np.array(categories, dtype=object)).astype(np.float64)
    X[[cell is None for cell in cells]] = np.nan
    return X
