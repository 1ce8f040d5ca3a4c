"""How files become numbers, kept with a model so that new files are read as those of then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview.datasets.files import Options
from hotview.datasets.linking import align_rows
from hotview.datasets.readers.errors import did_you_mean, listed
from hotview.datasets.readers.matlab import Matrix
from hotview.datasets.readers.tables import TableFile
from hotview.ingest.columns import Column, ViewColumns, encode_table
from hotview.ingest.tables import OpenView, open_table, open_views, row_ids

__all__ = ["People", "Recipe", "TableRows", "gather_people", "read_rows"]


@dataclass(frozen=True)
class Recipe:
    """How the files of a fit were read.

    Parameters
    ----------
    views : dict of str to ViewColumns
        The columns of every view.
    id_column : str or None, default=None
        The column of ids.
    label_column : str or None, default=None
        The column of labels.
    drop : tuple of str, default=()
        Columns that were left out.
    text : dict of str to object
        How text tables are written: header, delimiter, decimal.
    """

    views: Mapping[str, ViewColumns]
    id_column: str | None = None
    label_column: str | None = None
    drop: tuple[str, ...] = ()
    text: Mapping[str, Any] = field(default_factory=dict)

    @property
    def left_out(self) -> set[str]:
        """Columns that are no measurements."""
        named = (self.id_column, self.label_column)
        return {*self.drop, *(name for name in named if name is not None)}

    @property
    def options(self) -> Options:
        """Options to open files with."""
        return Options(**self.text, mmap=True)

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "views": [[name, view.to_json()] for name, view in self.views.items()],
            "id_column": self.id_column,
            "label_column": self.label_column,
            "drop": list(self.drop),
            "text": dict(self.text),
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Recipe:
        """The same from what `to_json` gave."""
        views = {name: ViewColumns.from_json(view) for name, view in facts["views"]}
        drop, text = tuple(facts["drop"]), dict(facts["text"])
        return cls(views, facts["id_column"], facts["label_column"], drop, text)


@dataclass(frozen=True)
class TableRows:
    """Rows of a view, in numbers.

    Parameters
    ----------
    X : ndarray or csr_array
        The numbers.
    ids : list of str or None, default=None
        Whose they are, where that is known.
    remarks : list of str
        What a user should know about how they were read.
    view : OpenView or None, default=None
        Where they come from.
    """

    X: Matrix
    ids: list[str | None] | None = None
    remarks: list[str] = field(default_factory=list)
    view: OpenView | None = None


def read_rows(
    recipe: Recipe, specs: Sequence[str], id_files: Mapping[str, str]
) -> dict[str, TableRows]:
    """Read files of some or all views as those of the fit were read.

    Parameters
    ----------
    recipe : Recipe
        How these were read.
    specs : sequence of str
        ``name=file``, or files named after their view.
    id_files : dict of str to str
        Tables with the ids of views whose files have none.

    Returns
    -------
    dict of str to TableRows
        The rows of each view, in the order of the fit.
    """
    opened = {view.name: view for view in open_views(specs, recipe.options)}
    for name, view in opened.items():
        if name not in recipe.views:
            hint = did_you_mean(name, recipe.views)
            raise ValueError(f"The model knows no view {name!r} ({view.path}).{hint}")
    tables = open_id_files(id_files, list(opened), recipe.options)
    return {
        name: _read_view(opened[name], columns, recipe, tables)
        for name, columns in recipe.views.items()
        if name in opened
    }


def open_id_files(
    files: Mapping[str, str], views: Sequence[str], options: Options
) -> dict[str, TableFile]:
    """Open the tables that hold ids of views."""
    for name in files:
        if name not in views:
            raise ValueError(f"--ids names a view {name!r}.{did_you_mean(name, views)}")
    return {name: open_table(path, options) for name, path in files.items()}


def _read_view(
    view: OpenView, columns: ViewColumns, recipe: Recipe, id_files: Mapping[str, TableFile]
) -> TableRows:
    remarks = []
    if view.table is not None and columns.columns is None:
        columns = _name_columns(view, view.table, columns, recipe)
        remarks.append(f"{view.path}: columns are taken in their order; training knew no names.")
    X, more = read_view(view, columns)
    remarks += more
    _check_width(view, X, columns)
    ids = row_ids(view, recipe.id_column, id_files)
    check_number_of_ids(view, ids, X)
    if view.table is not None and columns.columns is not None:
        known = {column.name for column in columns.columns} | recipe.left_out
        if extra := [name for name in view.table.names if name not in known]:
            remarks.append(f"{view.path}: columns that training did not see: {listed(extra)}")
    return TableRows(X, ids, remarks, view)


def _name_columns(
    view: OpenView, table: TableFile, columns: ViewColumns, recipe: Recipe
) -> ViewColumns:
    """Take the columns of a table in their order, where those of the fit had no names."""
    names = [name for name in table.names if name not in recipe.left_out]
    if len(names) != columns.n_columns:
        raise ValueError(
            f"Expected view {view.name!r} to have {columns.n_columns} columns, as at fit, but "
            f"{view.path} has {len(names)} beside ids and labels. Pass the same columns."
        )
    return ViewColumns(tuple(Column(name) for name in names), columns.n_columns)


def _check_width(view: OpenView, X: Matrix, columns: ViewColumns) -> None:
    if X.shape[1] != columns.n_columns:
        raise ValueError(
            f"Expected view {view.name!r} to have {columns.n_columns} columns, as at fit, but "
            f"{view.path} has {X.shape[1]}. Pass the same columns in the same order."
        )


def read_view(view: OpenView, columns: ViewColumns) -> tuple[Matrix, list[str]]:
    """Read a view in numbers, and what is to be said about that."""
    if view.table is None:
        assert view.X is not None
        return view.X, []
    encoded = encode_table(view.table, columns)
    return encoded.X, [
        f"{view.path}: column {name!r} has values that training did not see, which count as none "
        f"of those it did: {listed(values)}"
        for name, values in encoded.unseen.items()
    ]


def check_number_of_ids(view: OpenView, ids: Sequence[Any] | None, X: Matrix) -> None:
    """Refuse ids of which there are more or fewer than rows."""
    if ids is not None and len(ids) != X.shape[0]:
        raise ValueError(
            f"Expected an id for each of the {X.shape[0]} rows of view {view.name!r} "
            f"({view.path}), but there are {len(ids)}. Give a table with one row per row."
        )


@dataclass(frozen=True)
class People:
    """Individuals, with their rows in all views that have them.

    Parameters
    ----------
    ids : ndarray
        Who they are; counted from 1 where files have no ids.
    views : dict of str to ndarray or csr_array
        Their rows; NaN throughout where a view does not have somebody.
    has_ids : bool
        Whether the ids are those of the files.
    present : dict of str to ndarray of bool
        Who is in which view.
    """

    ids: Array
    views: dict[str, Matrix]
    has_ids: bool
    present: dict[str, Array]


def gather_people(rows: Mapping[str, TableRows]) -> People:
    """Line up the rows of all views by their ids, or, where nobody has any, by their place.

    Parameters
    ----------
    rows : dict of str to TableRows
        The rows of each view.

    Returns
    -------
    People
        Everybody who is in at least one of the views.
    """
    ids = {name: view.ids for name, view in rows.items() if view.ids is not None}
    if ids and len(ids) < len(rows):
        without = [name for name in rows if name not in ids]
        raise ValueError(
            f"Expected ids in all views or in none, but {listed(without)} have none. Give them "
            "with --ids VIEW=FILE, or leave these views out."
        )
    if not ids:
        return _by_place(rows)
    everybody, places = align_rows(ids)
    views = {name: _take(rows[name].X, where) for name, where in places.items()}
    return People(everybody, views, True, {name: where >= 0 for name, where in places.items()})


def _by_place(rows: Mapping[str, TableRows]) -> People:
    numbers = {name: int(view.X.shape[0]) for name, view in rows.items()}
    if len(set(numbers.values())) > 1:
        told = ", ".join(f"{name}: {n}" for name, n in numbers.items())
        raise ValueError(
            f"Expected the same number of rows in all views, because without ids row i is the same "
            f"individual in each, but there are {told}. Predict one view at a time, or fit with "
            "--id-column."
        )
    n = next(iter(numbers.values()))
    everybody = np.ones(n, dtype=bool)
    return People(
        np.arange(1, n + 1),
        {name: view.X for name, view in rows.items()},
        False,
        dict.fromkeys(rows, everybody),
    )


def _take(X: Matrix, rows: IntArray) -> Matrix:
    """Rows in a new order, NaN throughout where there is none; as it is if nothing changes."""
    if len(rows) == X.shape[0] and (rows == np.arange(len(rows))).all():
        return X
    if (rows >= 0).all():
        return X[rows]
    kept: Any = X[rows[rows >= 0]]
    dense = kept.toarray() if hasattr(kept, "toarray") else kept
    single = dense.dtype == np.float32
    found = np.full((len(rows), X.shape[1]), np.nan, dtype=np.float32 if single else np.float64)
    found[rows >= 0] = dense
    return found
