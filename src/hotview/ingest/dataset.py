"""What an estimator learns from: files, ids and labels, put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview.datasets.files import Options
from hotview.datasets.linking import link_rows
from hotview.datasets.readers.errors import did_you_mean, listed
from hotview.datasets.readers.matlab import Matrix
from hotview.ingest.columns import ViewColumns, choose_columns
from hotview.ingest.labels import (
    Label,
    LabelSource,
    find_labels,
    label_array,
    name_classes,
)
from hotview.ingest.preprocessing import Recipe, check_number_of_ids, open_id_files, read_view
from hotview.ingest.tables import OpenView, open_table, open_views, row_ids

__all__ = ["Files", "Study", "read_study"]

_FEW_ROWS, _MANY_ROWS = 20, 1_000_000  # between which columns are looked at for ids
_FIRST_ROWS, _ALL_ROWS = slice(0, 1000), slice(None)


@dataclass(frozen=True)
class Files:
    """The files of a study, and what their columns mean.

    Parameters
    ----------
    views : sequence of str
        ``name=file``, or files, which name their views.
    labels : str or None, default=None
        A table of labels; None looks for the column of labels in the views' own tables.
    label_column : str or None, default=None
        The column of labels; None learns without.
    id_column : str or None, default=None
        The column of ids, by which rows are linked; None links nothing.
    ids : dict of str to str
        Tables with the ids of views whose files have no columns.
    drop : sequence of str
        Columns to leave out.
    categorical : sequence of str
        Columns of numbers that are categories.
    text : dict of str to object
        How files are read: header, delimiter, decimal, variables.
    marker : str or None, default=None
        What stands for no label, beside empty cells.
    """

    views: Sequence[str]
    labels: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    text: Mapping[str, Any] = field(default_factory=dict)
    marker: str | None = None

    def check(self) -> None:
        """Refuse what does not go together."""
        if self.labels is not None and self.label_column is None:
            raise ValueError(f"Say which column of {self.labels} holds the labels: --label-column.")
        if self.labels is not None and self.id_column is None:
            raise ValueError(
                f"Say which column tells whose labels {self.labels} holds: --id-column. Labels "
                "that stand in a view's own table need no ids: leave --labels out."
            )
        if self.ids and self.id_column is None:
            raise ValueError("--ids needs --id-column, the column of ids in these tables.")


@dataclass(frozen=True)
class Study:
    """What an estimator learns from.

    Parameters
    ----------
    linked : dict of str to ndarray or csr_array
        Rows of individuals that all views with ids have.
    target : ndarray
        Their labels, None where there is none.
    unaligned : dict of str to ndarray or csr_array
        All other rows of each view, where there are any.
    unaligned_target : dict of str to ndarray
        Their labels, for views where any has one.
    ids : ndarray
        Ids of the linked rows.
    unaligned_ids : dict of str to ndarray
        Ids of the other rows, for views that have ids.
    rows : dict of str to ndarray or csr_array
        All rows of each view, as they are in its file.
    recipe : Recipe
        How the files were read.
    opened : list of OpenView
        The files.
    remarks : list of str
        What a user should know.
    """

    linked: dict[str, Matrix]
    target: Array
    unaligned: dict[str, Matrix]
    unaligned_target: dict[str, Array]
    ids: Array
    unaligned_ids: dict[str, Array]
    rows: dict[str, Matrix]
    recipe: Recipe
    opened: list[OpenView]
    remarks: list[str]

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label."""
        return bool(self.label_counts)

    @property
    def labeled_ids(self) -> list[object]:
        """Ids of the rows that have a label."""
        pairs = [(self.ids, self.target)]
        pairs += [
            (self.unaligned_ids[name], y)
            for name, y in self.unaligned_target.items()
            if name in self.unaligned_ids
        ]
        return [
            key for ids, y in pairs for key, label in zip(ids, y, strict=True) if label is not None
        ]

    @property
    def label_counts(self) -> Counter[Label]:
        """How many people have each label; who is in several views counts once."""
        people = dict(zip(self.ids, self.target, strict=True))
        nobody = []  # rows without an id are all of different people
        for name, labels in self.unaligned_target.items():
            if name in self.unaligned_ids:
                people |= zip(self.unaligned_ids[name], labels, strict=True)
            else:
                nobody += labels.tolist()
        return Counter(label for label in (*people.values(), *nobody) if label is not None)


def read_study(files: Files) -> Study:
    """Read the files of a study, link their rows by ids and give each its label.

    Ids found in all views are linked rows, with or without a label. Every other row is unaligned,
    and keeps its label if it has one. A view without ids has no linked rows: it is absent (NaN)
    from those of the others.

    Parameters
    ----------
    files : Files
        The files, and what their columns mean.

    Returns
    -------
    Study
        What an estimator learns from.
    """
    files.check()
    options = Options(**files.text, mmap=True)
    opened = open_views(files.views, options)
    _check_column_names(files, opened)
    id_files = open_id_files(files.ids, [view.name for view in opened], options)
    ids = {view.name: row_ids(view, files.id_column, id_files) for view in opened}
    columns = {view.name: _columns(view, files) for view in opened}
    Xs: dict[str, Matrix] = {}
    for view in opened:
        Xs[view.name], _ = read_view(view, columns[view.name])
        check_number_of_ids(view, ids[view.name], Xs[view.name])
    labels = _labels(files, opened, ids, options)
    recipe = Recipe(
        columns, files.id_column, files.label_column, tuple(files.drop), dict(files.text)
    )
    study = _link(Xs, ids, labels, recipe, opened)
    return replace(study, remarks=_remarks(files, study, ids, labels))


def _check_column_names(files: Files, opened: Sequence[OpenView]) -> None:
    known = [name for view in opened if view.table is not None for name in view.table.names]
    for flag, names in (("--drop", files.drop), ("--categorical", files.categorical)):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, dict.fromkeys(known))
                raise ValueError(f"{flag} names a column {name!r} that no table has.{hint}")


def _columns(view: OpenView, files: Files) -> ViewColumns:
    if view.table is None:
        assert view.X is not None
        return ViewColumns(None, int(view.X.shape[1]))
    named = (files.id_column, files.label_column)
    leave_out = {*files.drop, *(name for name in named if name is not None)}
    return choose_columns(view.table, leave_out, files.categorical)


@dataclass(frozen=True)
class _Labels:
    """Labels by id, and of rows without ids by view."""

    by_id: dict[str, Label]
    by_view: dict[str, list[Label]]


def _labels(
    files: Files,
    opened: Sequence[OpenView],
    ids: Mapping[str, Sequence[str | None] | None],
    options: Options,
) -> _Labels:
    if files.label_column is None:
        return _Labels({}, {})
    table = None if files.labels is None else open_table(files.labels, options)
    source = LabelSource(table, files.label_column, files.id_column, files.marker)
    cells = find_labels(source, opened, ids)
    classes = name_classes(cells.known)

    def class_of(cell: str | None) -> Label:
        return None if cell is None else classes[cell]

    return _Labels(
        {key: class_of(cell) for key, cell in cells.by_id.items()},
        {name: [class_of(cell) for cell in column] for name, column in cells.by_view.items()},
    )


def _link(
    Xs: Mapping[str, Matrix],
    ids: Mapping[str, Sequence[str | None] | None],
    labels: _Labels,
    recipe: Recipe,
    opened: list[OpenView],
) -> Study:
    named = {name: label_array(own) for name, own in ids.items() if own is not None}
    checked = link_rows(named) if named else None  # which refuses bad ids of a single view, too
    rows = checked if len(named) > 1 else None
    keys = label_array([]) if rows is None else rows.ids
    linked, unaligned, targets, others = {}, {}, {}, {}
    for name, X in Xs.items():
        here = _none() if rows is None else rows.linked.get(name, _none())
        rest = np.setdiff1d(np.arange(X.shape[0]), here)
        linked[name] = X[here] if name in named else np.full((len(keys), X.shape[1]), np.nan)
        if len(rest) > 0:
            unaligned[name] = X if len(rest) == X.shape[0] else X[rest]
            targets[name] = _labels_of(name, rest, named, labels)
            if name in named:
                others[name] = named[name][rest]
    known = {name: y for name, y in targets.items() if any(label is not None for label in y)}
    target = label_array([labels.by_id.get(key) for key in keys])
    return Study(linked, target, unaligned, known, keys, others, dict(Xs), recipe, opened, [])


def _none() -> IntArray:
    return np.empty(0, dtype=np.int64)


def _labels_of(name: str, rows: IntArray, named: Mapping[str, Array], labels: _Labels) -> Array:
    if name in named:
        return label_array([labels.by_id.get(key) for key in named[name][rows]])
    if name in labels.by_view:
        return label_array(labels.by_view[name])[rows]
    return label_array([None] * len(rows))


def _remarks(
    files: Files,
    study: Study,
    ids: Mapping[str, Sequence[str | None] | None],
    labels: _Labels,
) -> list[str]:
    remarks = []
    without = [name for name, own in ids.items() if own is None]
    if files.id_column is not None and without:
        remarks.append(
            f"There are no ids in {listed(without)}, so no row there is linked. Give them: "
            f"--ids {without[0]}=FILE, a table with the column {files.id_column!r}."
        )
    if files.id_column is not None and len(study.ids) == 0:
        told = ", ".join(f"{name}: {own[0]!r}" for name, own in ids.items() if own)
        remarks.append(f"No id is in all views, so no rows are linked. First ids: {told}.")
    if -1 in study.label_counts:
        remarks.append("-1 counts as a class. If it stands for no label: --unlabeled-marker -1.")
    remarks += _like_ids(study)
    everybody = {key for own in ids.values() if own is not None for key in own}
    if strangers := [key for key in labels.by_id if key not in everybody]:
        remarks.append(
            f"{len(strangers)} ids of labels are in no view and teach nothing: {listed(strangers)}"
        )
    return remarks


def _like_ids(study: Study) -> list[str]:
    """Columns of numbers that look as if they told who somebody is."""
    found = []
    for name, view in study.recipe.views.items():
        X = study.rows[name]
        if view.columns is None or not _FEW_ROWS <= X.shape[0] <= _MANY_ROWS:
            continue
        starts = np.cumsum([0, *(column.width for column in view.columns)])
        for column, j in zip(view.columns, starts[:-1], strict=True):
            if column.categories is None and _is_like_an_id(X, j):
                found.append(f"{column.name!r} of {name}")
    if not found:
        return []
    return [
        f"{', '.join(found[:5])}: whole numbers, all different, as ids are, yet taken as "
        "measurements. If they are ids: --id-column, or --drop."
    ]


def _is_like_an_id(X: Matrix, j: int) -> bool:
    # Few rows tell of nearly every column that it is not, and then no others need to be read.
    return all(_are_distinct_numbers(np.asarray(X[rows, j])) for rows in (_FIRST_ROWS, _ALL_ROWS))


def _are_distinct_numbers(values: Array) -> bool:
    whole = not np.isnan(values).any() and bool((values == np.round(values)).all())
    return whole and len(np.unique(values)) == len(values)
