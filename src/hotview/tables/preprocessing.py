"""Preprocessing of tables, stored with a model so that new files are read like those of the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from hotview._messages import ParameterError, did_you_mean, listed
from hotview._types import Array
from hotview.data.columns import Column, EncodedTable, ViewColumns, encode_table
from hotview.data.linking import IdMatcher, align_rows, match_spellings, take_rows
from hotview.data.numbers import count_cells
from hotview.data.options import Options
from hotview.tables.arrays import Matrix
from hotview.tables.files import Ids, OpenView, open_views
from hotview.tables.labels import read_ids


@dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """What the columns of files mean, and how their cells are written.

    Parameters
    ----------
    id_column : str or None, default=None
        Column of ids, by which rows are linked; None links nothing.
    label_column : str or None, default=None
        Column of labels.
    drop : sequence of str, default=()
        Columns to leave out.
    text : dict of str to object
        Format of the files, as `Options` has it: delimiter, decimal, encoding, ….
    group_column : str or None, default=None
        Column of groups, as one person seen several times, in any of the tables.
    match_ids : sequence of str, default=()
        Differences between ids that are ignored, of "zeros", "case" and "spaces"; "exact" ignores
        none. By default it is an error if more ids would match without these differences.
    batch_column : str or None, default=None
        Column of batches, in the views' own tables or in `obs`.
    """

    id_column: str | None = None
    label_column: str | None = None
    drop: Sequence[str] = ()
    text: Mapping[str, Any] = field(default_factory=dict)
    group_column: str | None = None
    match_ids: Sequence[str] = ()
    batch_column: str | None = None

    @property
    def left_out(self) -> set[str]:
        """Columns that are no features."""
        columns = (self.id_column, self.label_column, self.group_column, self.batch_column)
        return {*self.drop, *filter(None, columns)}

    @property
    def options(self) -> Options:
        """Options for opening files."""
        return Options(**self.text, mmap=True)

    def make_matcher(self, ids: Ids) -> IdMatcher:
        """Return what spells ids like those of the views."""
        matcher = IdMatcher(self.match_ids)
        for name, own in ids.items():
            matcher.spell_all(f"view {name!r}", own or ())
        return matcher


@dataclass(frozen=True)
class Preprocessing(ColumnRoles):
    """How the files of a fit were read; `views` are their columns."""

    views: Mapping[str, ViewColumns]

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        views = [[name, view.to_json()] for name, view in self.views.items()]
        lists = {"drop": list(self.drop), "match_ids": list(self.match_ids)}
        values = {**vars(self), **lists, "views": views, "text": dict(self.text)}
        optional = ("group_column", "match_ids", "batch_column")
        return {name: x for name, x in values.items() if x or name not in optional}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Return the preprocessing described by `to_json`; a ValueError for anything else."""
        try:
            views = {name: ViewColumns.from_json(view) for name, view in values["views"]}
            lists = {name: tuple(values.get(name, ())) for name in ("drop", "match_ids")}
            found = cls(**{**values, **lists, "views": views, "text": dict(values["text"])})
            columns = [column for view in views.values() for column in view.columns or ()]
            special = (found.id_column, found.label_column, found.group_column, found.batch_column)
            given = [x for x in special if x is not None]
            names = [*views, *found.drop, *given, *(column.name for column in columns)]
            names += [category for column in columns for category in column.categories or ()]
            is_same = found.options is not None and found.to_json() == values
            IdMatcher(found.match_ids)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"its preprocessing is not valid ({type(error).__name__})") from error
        if not is_same or not all(isinstance(name, str) for name in names):
            raise ValueError("its preprocessing is not valid")
        return found


@dataclass(frozen=True)
class TableRows:
    """Rows of a view as numbers.

    Parameters
    ----------
    X : ndarray or csr_array
        The numbers.
    ids : list of str or None, default=None
        Ids of the rows, if they have any.
    notes : list of str
        Notes for the user about how the file was read.
    view : OpenView or None, default=None
        The file.
    """

    X: Matrix
    ids: list[str | None] | None = None
    notes: list[str] = field(default_factory=list)
    view: OpenView | None = None


def read_rows(
    preprocessing: Preprocessing, specs: Sequence[str], id_files: Mapping[str, str]
) -> dict[str, TableRows]:
    """Read files of some or all views like those of the fit.

    Parameters
    ----------
    preprocessing : Preprocessing
        How the files of the fit were read.
    specs : sequence of str
        ``name=file``, or files named after their view.
    id_files : dict of str to str
        Tables with the ids of views whose files have none.

    Returns
    -------
    dict of str to TableRows
        The rows of each view, in the order of the fit.
    """
    opened = {view.name: view for view in open_views(specs, preprocessing.options)}
    for name, view in opened.items():
        if name not in preprocessing.views:
            hint = did_you_mean(name, preprocessing.views)
            raise ValueError(f"The model has no view {name!r} ({view.path}).{hint}")
    ids = read_ids(opened.values(), preprocessing.id_column, id_files, preprocessing.options)
    return {
        name: _read_rows(opened[name], columns, preprocessing.left_out, ids[name])
        for name, columns in preprocessing.views.items()
        if name in opened
    }


def match_ids(
    ids: Ids,
    preprocessing: Preprocessing,
    others: Mapping[str, Sequence[str | None]] | None = None,
) -> Ids:
    """Return the ids of all views in one spelling; raise if more would match in another one.

    Parameters
    ----------
    ids : dict of str to (list of (str or None), or None)
        Ids of every view, if it has any.
    preprocessing : Preprocessing
        Says which differences are ignored.
    others : dict of str to sequence of (str or None), or None, default=None
        Ids of other tables, such as labels, by a name for errors.
    """
    tables = {f"view {name!r}": column for name, column in ids.items() if column is not None}
    spelled = match_spellings(tables, preprocessing.match_ids, others)
    return {name: spelled.get(f"view {name!r}") for name in ids}


def match_rows(rows: Mapping[str, TableRows], preprocessing: Preprocessing) -> dict[str, TableRows]:
    """Return the rows of all views with their ids in one spelling; see `match_ids`."""
    ids = match_ids({name: view.ids for name, view in rows.items()}, preprocessing)
    return {name: replace(view, ids=ids[name]) for name, view in rows.items()}


def _read_rows(
    view: OpenView, columns: ViewColumns, left_out: set[str], ids: list[str | None] | None
) -> TableRows:
    notes = []
    if view.table is not None and columns.columns is None:
        names = [name for name in view.table.names if name not in left_out]
        _check_width(view, len(names), columns)
        columns = ViewColumns(tuple(Column(name) for name in names), columns.n_columns)
        notes.append(
            f"{view.path}: columns are matched by position; the training data had no column names."
        )
    encoded = read_view(view, columns, ids)
    _check_width(view, encoded.X.shape[1], columns)
    notes += encoded.notes
    if view.table is not None and columns.columns is not None:
        known = {column.name for column in columns.columns} | left_out
        if extra := [name for name in view.table.names if name not in known]:
            notes.append(f"{view.path}: columns not in the training data: {listed(extra)}")
    return TableRows(encoded.X, ids, notes, view)


def _check_width(view: OpenView, width: int, columns: ViewColumns) -> None:
    if width != columns.n_columns:
        raise ValueError(
            f"Expected view {view.name!r} to have {columns.n_columns} columns, as at fit, but "
            f"{view.path} has {width}, not counting ids and labels. Pass the same columns in the "
            "same order."
        )


def read_view(view: OpenView, columns: ViewColumns, ids: list[str | None] | None) -> EncodedTable:
    """Return the rows of a view as numbers, with notes on differences from the training data."""
    if view.table is None:
        assert view.X is not None
        encoded = EncodedTable(view.X)
    else:
        encoded = encode_table(view.table, columns)
        _refuse_infinity(view, columns, encoded.X)
    n_rows = encoded.X.shape[0]
    if ids is not None and len(ids) != n_rows:
        raise ValueError(
            f"Expected an id for each of the {n_rows} rows of view {view.name!r} "
            f"({view.path}), but there are {len(ids)}. Give a table with one row per row."
        )
    unseen = [
        f"{view.path}: column {name!r} has values not in the training data, encoded as 0 in "
        f"all categories: {listed(values)}"
        for name, values in encoded.unseen.items()
    ]
    return replace(encoded, notes=encoded.notes + unseen)


def _refuse_infinity(view: OpenView, columns: ViewColumns, X: Any) -> None:
    """Raise if a table in memory holds infinity; others are checked when they are read."""
    if not isinstance(X, np.ndarray) or not (cells := np.argwhere(np.isinf(X))).size:
        return
    row, j = cells[0]
    name = columns.source_names[j]
    raise ParameterError(
        f"{view.path}: expected finite numbers, but there is infinity in "
        f"{count_cells(len(cells))}, the first in column {name!r}, row {row + 1}. ",
        "Correct them (an empty cell is a missing value), or leave the column out: {drop}.",
        drop=[name],
    )


@dataclass(frozen=True)
class AlignedRows:
    """Rows aligned across views: row i is the same individual in every view.

    Parameters
    ----------
    ids : ndarray
        Ids of the individuals; counted from 1 if files have no ids.
    views : dict of str to ndarray or csr_array
        Their rows; NaN throughout where an individual is absent from a view.
    has_ids : bool
        Whether the ids come from the files.
    present : dict of str to ndarray of bool
        Whether each individual is in each view.
    target : ndarray or None, default=None
        Their labels, None where there is none; None if there are none at all.
    groups : ndarray or None, default=None
        Their groups, by the column of the fit.
    """

    ids: Array
    views: dict[str, Matrix]
    has_ids: bool
    present: dict[str, Array]
    target: Array | None = None
    groups: Array | None = None

    def take(self, rows: Array) -> Self:
        """Return some of the individuals."""
        return replace(
            self,
            ids=self.ids[rows],
            views={name: X[rows] for name, X in self.views.items()},
            present={name: here[rows] for name, here in self.present.items()},
            target=None if self.target is None else self.target[rows],
            groups=None if self.groups is None else self.groups[rows],
        )

    @property
    def is_labeled(self) -> Array:
        """Whether each individual has a label."""
        labels = [None] * len(self.ids) if self.target is None else self.target
        return np.array([label is not None for label in labels], dtype=bool)


def align_views(rows: Mapping[str, TableRows]) -> AlignedRows:
    """Align the rows of all views by id, or by position if there are no ids.

    Parameters
    ----------
    rows : dict of str to TableRows
        The rows of each view.

    Returns
    -------
    AlignedRows
        All individuals that are in at least one of the views.
    """
    ids = {name: view.ids for name, view in rows.items() if view.ids is not None}
    if not ids:
        counts = {name: int(view.X.shape[0]) for name, view in rows.items()}
        n_rows = next(iter(counts.values()))
        if set(counts.values()) != {n_rows}:
            raise ParameterError(
                "Expected the same number of rows in all views, because without ids row i is the "
                "same individual in each, but there are "
                f"{', '.join(f'{name}: {n}' for name, n in counts.items())}. ",
                "Predict one view at a time, or fit with {id_column}.",
            )
        present = dict.fromkeys(rows, np.ones(n_rows, dtype=bool))
        views = {name: view.X for name, view in rows.items()}
        return AlignedRows(np.arange(1, n_rows + 1), views, False, present)
    if without := [name for name in rows if name not in ids]:
        raise ParameterError(
            f"Expected ids in all views or in none, but {listed(without)} have none. ",
            "Pass {ids}, or leave these views out.",
            ids={without[0]: "FILE"},
        )
    all_ids, positions = align_rows(ids)
    views = {name: take_rows(rows[name].X, where) for name, where in positions.items()}
    return AlignedRows(all_ids, views, True, {n: where >= 0 for n, where in positions.items()})
