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
from hotview.datasets.people.columns import ViewColumns, choose_columns
from hotview.datasets.people.labels import (
    Label,
    label_array,
    labels_by_id,
    merge_labels,
    read_labels,
)
from hotview.datasets.people.opening import OpenView, open_table, open_views, row_ids
from hotview.datasets.people.recipe import Recipe, check_number_of_ids, open_id_files, read_view
from hotview.datasets.readers.errors import did_you_mean, listed
from hotview.datasets.readers.matlab import Matrix

__all__ = ["Files", "Study", "read_study"]


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
        How text tables are written: header, delimiter, decimal.
    """

    views: Sequence[str]
    labels: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    text: Mapping[str, Any] = field(default_factory=dict)

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
    column = files.label_column
    if column is None:
        return _Labels({}, {})
    if files.labels is not None:
        assert files.id_column is not None
        return _Labels(labels_by_id(open_table(files.labels, options), files.id_column, column), {})
    tables = {v.name: v.table for v in opened if v.table is not None and column in v.table.names}
    if not tables:
        known = dict.fromkeys(n for v in opened if v.table is not None for n in v.table.names)
        raise ValueError(
            f"No view has a column {column!r} of labels.{did_you_mean(column, known)} Labels in a "
            "table of their own: --labels FILE."
        )
    found = {name: read_labels(table, column) for name, table in tables.items()}
    if any(isinstance(label, str) for labels in found.values() for label in labels):
        found = {name: read_labels(t, column, as_text=True) for name, t in tables.items()}
    named = {name: own for name, own in ids.items() if own is not None and name in found}
    by_id = {
        name: dict(zip([str(key) for key in own], found[name], strict=True))
        for name, own in named.items()
    }
    return _Labels(
        merge_labels(by_id), {name: labels for name, labels in found.items() if name not in named}
    )


def _link(
    Xs: Mapping[str, Matrix],
    ids: Mapping[str, Sequence[str | None] | None],
    labels: _Labels,
    recipe: Recipe,
    opened: list[OpenView],
) -> Study:
    named = {name: label_array(own) for name, own in ids.items() if own is not None}
    several = len(named) > 1
    rows = link_rows(named) if several else None
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
        remarks.append("No id is in all views, so no rows are linked.")
    everybody = {key for own in ids.values() if own is not None for key in own}
    if strangers := [key for key in labels.by_id if key not in everybody]:
        remarks.append(
            f"{len(strangers)} ids of labels are in no view and teach nothing: {listed(strangers)}"
        )
    return remarks
