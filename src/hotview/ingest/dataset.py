"""Datasets read from users' files: rows linked by ids, with their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, repeat
from typing import Any, TypeAlias

import numpy as np

from hotview._messages import Message, ParameterError
from hotview._types import Array, IntArray
from hotview._validation import EncodedView
from hotview.datasets.files import file_stem
from hotview.datasets.linking import (
    ID_DIFFERENCES,
    IdMatcher,
    LinkedRows,
    link_rows,
    object_array,
    take_rows,
)
from hotview.datasets.options import Options
from hotview.datasets.readers.arrays import Matrix
from hotview.datasets.readers.errors import listed, unknown_error
from hotview.datasets.readers.tables import is_number
from hotview.ingest.columns import ViewColumns, choose_columns
from hotview.ingest.labels import (
    Label,
    LabelCells,
    LabelSource,
    find_groups,
    find_labels,
    list_group_tables,
)
from hotview.ingest.numbers import name_missing
from hotview.ingest.preprocessing import Preprocessing, match_ids, read_view
from hotview.ingest.tables import OpenView, open_table, open_views, read_batches, read_ids

__all__ = ["CELL_NAMES", "DatasetFiles", "TableDataset", "read_dataset"]

#: Returns the rows of a view without batches, by its batches and labels, row by row.
Correction: TypeAlias = Callable[[OpenView, Matrix, list[str], list[Any]], Matrix]

#: Column of ids of h5ad and h5mu files, if the user names none.
CELL_NAMES = "obs_names"
_MIN_ROWS, _MAX_ROWS = 20, 1_000_000  # between which columns are checked for ids and dates
_ALL = slice(None)
_PARTS = (slice(0, 1000), _ALL)  # the first rows rule out nearly every column


@dataclass(frozen=True)
class DatasetFiles:
    """Files of a dataset, and the meaning of their columns.

    Parameters
    ----------
    views : sequence of str
        ``name=file``, or files, after which views are named.
    labels : str or None, default=None
        A table of labels; None reads the label column of the views' own tables.
    label_column : str or None, default=None
        Column of labels; None for a dataset without labels.
    id_column : str or None, default=None
        Column of ids, by which rows are linked; None links nothing.
    ids : dict of str to str
        Tables with the ids of views whose files have no columns.
    drop : sequence of str
        Columns to leave out.
    categorical : sequence of str
        Numeric columns to treat as categorical.
    text : dict of str to object
        Format of the files, as `Options` has it: delimiter, decimal, encoding, ….
    unlabeled_marker : str or None, default=None
        Cell that marks a row without a label, in addition to empty cells.
    group_column : str or None, default=None
        Column of groups, as one person seen several times, in any of the tables.
    match_ids : sequence of str, default=()
        Differences between ids that are ignored, of "zeros", "case" and "spaces"; "exact" ignores
        none. By default it is an error if more ids would match without these differences.
    batch_column : str or None, default=None
        Column of batches, in the views' own tables or in `obs`.
    """

    views: Sequence[str]
    labels: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    text: Mapping[str, Any] = field(default_factory=dict)
    unlabeled_marker: str | None = None
    group_column: str | None = None
    match_ids: Sequence[str] = ()
    batch_column: str | None = None

    def check(self) -> None:
        """Raise if a column is missing that another setting needs."""
        if self.labels is not None and self.label_column is None:
            text = f"Expected the name of the column of labels in {self.labels}. "
            raise ParameterError(text, "Pass {label_column}.")
        if self.labels is not None and self.id_column is None:
            raise ParameterError(
                f"Expected the name of the column of ids in {self.labels}. ",
                "Pass {id_column}, or, for labels in the views' own tables, leave out {labels}.",
            )
        if self.ids and self.id_column is None:
            raise ParameterError("", "{ids} needs {id_column}, the column of ids in these tables.")


@dataclass(frozen=True)
class TableDataset:
    """Rows and labels to train on.

    Parameters
    ----------
    linked : dict of str to ndarray or csr_array
        Rows of individuals that are in two views or more; NaN throughout where one is absent.
    target : ndarray
        Their labels, None where there is none.
    unaligned : dict of str to ndarray or csr_array
        Unlinked rows of each view that has any.
    unaligned_target : dict of str to ndarray
        Their labels, for views where any row has one.
    ids : ndarray
        Ids of the linked rows.
    unaligned_ids : dict of str to ndarray
        Ids of the unlinked rows, for views that have ids.
    rows : dict of str to ndarray or csr_array
        All rows of each view, in the order of its file.
    preprocessing : Preprocessing
        How the files were read.
    opened : list of OpenView
        The files.
    notes : list of str
        Notes for the user about how the files were read.
    groups : ndarray or None, default=None
        Groups of the linked rows, None for a row without one; None if no row has a group.
    unaligned_groups : dict of str to ndarray
        Groups of the unlinked rows of each view that has any; empty if no row has a group.
    present : dict of str to ndarray of bool
        Whether each linked individual is in each view.
    formats : dict of str to dict of str to str
        How numbers and dates in columns of text were read, by view and column.
    hashed_without : tuple of str, default=()
        Differences between spellings that do not count where rows are recognized by their ids:
        all that leave the ids different.
    """

    linked: dict[str, Matrix]
    target: Array
    unaligned: dict[str, Matrix]
    unaligned_target: dict[str, Array]
    ids: Array
    unaligned_ids: dict[str, Array]
    rows: dict[str, Matrix]
    preprocessing: Preprocessing
    opened: list[OpenView]
    notes: list[str]
    groups: Array | None = None
    unaligned_groups: dict[str, Array] = field(default_factory=dict)
    present: dict[str, Array] = field(default_factory=dict)
    formats: dict[str, dict[str, str]] = field(default_factory=dict)
    hashed_without: tuple[str, ...] = ()

    @property
    def links(self) -> dict[tuple[str, str], int]:
        """Number of linked individuals that are in both views of a pair."""
        pairs = combinations(self.present, 2)
        return {(a, b): int((self.present[a] & self.present[b]).sum()) for a, b in pairs}

    @property
    def is_complete(self) -> Array:
        """Whether each linked individual is in all views."""
        complete: Array = np.all(list(self.present.values()), axis=0)
        return complete

    def take_linked(self, rows: IntArray) -> TableDataset:
        """Return the dataset with some of its linked rows."""
        return replace(
            self,
            linked={name: X[rows] for name, X in self.linked.items()},
            target=self.target[rows],
            ids=self.ids[rows],
            groups=None if self.groups is None else self.groups[rows],
            present={name: here[rows] for name, here in self.present.items()},
        )

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label."""
        return bool(self.label_counts)

    @property
    def labeled_ids(self) -> list[object]:
        """Ids of the rows that have a label, without differences in spelling."""
        simplify = IdMatcher(self.hashed_without).simplify
        pairs = [(key, label) for key, label in self._labels() if key is not None]
        return [simplify(str(key)) for key, label in pairs if label is not None]

    @property
    def labeled_groups(self) -> set[object]:
        """Groups of the rows that have a label."""
        if self.groups is None:
            return set()
        named = self.unaligned_target.items()
        pairs = [(self.groups, self.target), *((self.unaligned_groups[n], y) for n, y in named)]
        found = {g for groups, y in pairs for g, c in zip(groups, y, strict=True) if c is not None}
        return found - {None}

    @property
    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of a classifier's `fit`."""
        has_links = len(self.ids) > 0
        return {
            "Xs": self.with_columns(self.linked) if has_links else None,
            "y": self.target if has_links else None,
            "unaligned": self.with_columns(self.unaligned) or None,
            "unaligned_y": self.unaligned_target or None,
            "groups": self.groups if has_links else None,
            "unaligned_groups": self.unaligned_groups or None,
        }

    def with_columns(self, views: Mapping[str, Matrix]) -> dict[str, Any]:
        """Return views with their columns, so that an estimator knows names and categories."""
        columns = self.preprocessing.views
        return {
            name: X if columns[name].columns is None else EncodedView(X, columns[name])
            for name, X in views.items()
        }

    @property
    def label_counts(self) -> Counter[Label]:
        """Number of individuals per label; an id in several views counts once."""
        by_id = {key: label for key, label in self._labels() if key is not None}
        without_id = [label for key, label in self._labels() if key is None]
        return Counter(label for label in (*by_id.values(), *without_id) if label is not None)

    def _labels(self) -> Iterator[tuple[object, Label]]:
        """Yield the id and the label of every row; the id is None for views without ids."""
        yield from zip(self.ids, self.target, strict=True)
        for name, target in self.unaligned_target.items():
            yield from zip(self.unaligned_ids.get(name, repeat(None)), target, strict=False)


def read_dataset(files: DatasetFiles, correct: Correction | None = None) -> TableDataset:
    """Read files, link their rows by ids and assign the labels.

    Ids found in two views or more are linked rows, with or without a label, and NaN throughout the
    views that do not have them. Every other row is unaligned, and keeps its label if it has one.

    Parameters
    ----------
    files : DatasetFiles
        The files, and the meaning of their columns.
    correct : callable or None, default=None
        Called with the rows of a view, to remove its batches, if there is a column of batches.

    Returns
    -------
    TableDataset
        Rows and labels to train on.
    """
    files.check()
    opened = open_views(files.views, Options(**files.text, mmap=True))
    if files.id_column is None and all(view.obs is not None for view in opened):
        files = replace(files, id_column=CELL_NAMES)
    columns: dict[str, ViewColumns] = {}
    preprocessing = Preprocessing(
        columns,
        files.id_column,
        files.label_column,
        tuple(files.drop),
        dict(files.text),
        files.group_column,
        tuple(files.match_ids),
        files.batch_column,
    )
    _check_names(files, opened, preprocessing.options)
    ids = read_ids(opened, files.id_column, files.ids, preprocessing.options)
    source, others = None, {}
    if files.label_column is not None:
        table = None if files.labels is None else open_table(files.labels, preprocessing.options)
        source = LabelSource(table, files.label_column, files.id_column, files.unlabeled_marker)
        others = {} if table is None else {files.labels or "": source.read_ids()}
    ids = match_ids(ids, preprocessing, others)
    Xs: dict[str, Matrix] = {}
    formats: dict[str, dict[str, str]] = {}
    for view in opened:
        if view.table is None:
            assert view.X is not None
            columns[view.name] = ViewColumns(None, int(view.X.shape[1]))
        else:
            chosen = choose_columns(view.table, preprocessing.left_out, files.categorical)
            columns[view.name] = chosen
        encoded = read_view(view, columns[view.name], ids[view.name])
        Xs[view.name], formats[view.name] = encoded.X, encoded.formats
    labels = LabelCells({}, {})
    if source is not None:
        matched = replace(source, matcher=preprocessing.make_matcher(ids))
        labels = find_labels(matched, opened, ids).as_classes()
    if files.batch_column is not None and correct is not None:
        Xs = _correct_batches(files.batch_column, opened, Xs, ids, labels, correct)
    dataset = _link(Xs, ids, labels, preprocessing, opened)
    dataset = replace(dataset, formats=formats, hashed_without=_find_differences(files, ids))
    if source is not None and not dataset.has_labels:
        raise _no_labels(files, labels)
    _refuse_no_links(files, dataset, ids)
    dataset = _add_groups(files, dataset, ids)
    return replace(dataset, notes=_notes(files, dataset, ids, labels))


def _correct_batches(
    column: str,
    opened: Sequence[OpenView],
    Xs: Mapping[str, Matrix],
    ids: Mapping[str, Sequence[str | None] | None],
    labels: LabelCells,
    correct: Correction,
) -> dict[str, Matrix]:
    """Return all views without their batches."""
    corrected, batches = dict(Xs), {view.name: read_batches(view, column) for view in opened}
    if all(own is None for own in batches.values()):
        tables = [view.label_table for view in opened]
        known = [name for table in tables if table is not None for name in table.names]
        text = f"No view has a column {column!r} of batches"
        raise unknown_error(text, column, known, "batch_column")
    for view in opened:
        if (own := batches[view.name]) is not None:
            y = labels.of_rows(view.name, ids[view.name], len(own))
            corrected[view.name] = correct(view, Xs[view.name], own, y)
    return corrected


def _no_labels(files: DatasetFiles, labels: LabelCells) -> ParameterError:
    """Return the error for a column of labels in which no row of a view has one."""
    known = [key for key, label in labels.by_id.items() if label is not None]
    who = f" {len(known):,} labels are of ids in no view: {listed(known)}." if known else ""
    return ParameterError(
        f"Expected rows with a label in {files.label_column!r}, but no row has one.{who} ",
        "Check {label_column} and {id_column}; to train an encoder, leave out {label_column}.",
    )


def _find_differences(
    files: DatasetFiles, ids: Mapping[str, Sequence[str | None] | None]
) -> tuple[str, ...]:
    """Return the differences without which all ids of a dataset are still different."""
    different = {key for own in ids.values() for key in own or () if key is not None}
    simplify = IdMatcher(tuple(ID_DIFFERENCES)).simplify
    if "exact" in files.match_ids or len({simplify(key) for key in different}) < len(different):
        return tuple(files.match_ids)
    return tuple(ID_DIFFERENCES)


def _refuse_no_links(
    files: DatasetFiles, dataset: TableDataset, ids: Mapping[str, Sequence[str | None] | None]
) -> None:
    """Raise if ids link nothing, unless every view has labels of its own to learn from."""
    has_labels = all(name in dataset.unaligned_target for name in ids)
    if files.id_column in (None, CELL_NAMES) or len(dataset.ids) > 0 or len(ids) < 2 or has_labels:
        return
    first = ", ".join(f"{name}: {own[0]!r}" for name, own in ids.items() if own)
    without = [name for name, own in ids.items() if own is None]
    reason = f"No id is in two views, so no rows are linked. First ids: {first}."
    if without:
        reason += f" There are no ids in {listed(without)}."
    raise ParameterError(
        f"Expected ids in {files.id_column!r} that several views share. {reason} ",
        "Correct {id_column}"
        + (", or pass {ids}" if without else "")
        + "; to train without links, leave it out and drop the column: {drop}.",
        ids={without[0]: "FILE"} if without else None,
        drop=[files.id_column],
    )


def _check_names(files: DatasetFiles, opened: Sequence[OpenView], options: Options) -> None:
    """Raise if an option names a column or a file that does not exist."""
    tables = [*files.ids.values(), *([] if files.labels is None else [files.labels])]
    options.check_names([*(view.name for view in opened), *map(file_stem, tables)])
    options.check_endings({view.name: view.path for view in opened})
    known = [name for view in opened if view.table is not None for name in view.table.names]
    for parameter, names in (("drop", files.drop), ("categorical", files.categorical)):
        if unknown := [name for name in names if name not in known]:
            text = f"No table has a column {unknown[0]!r}"
            raise unknown_error(text, unknown[0], known, parameter)


def _add_groups(
    files: DatasetFiles, dataset: TableDataset, ids: Mapping[str, Sequence[str | None] | None]
) -> TableDataset:
    """Add the group of every row, from the views or from the tables of labels and ids."""
    if files.group_column is None:
        return dataset
    tables = list_group_tables(dataset.opened, ids, files.ids, files.labels, dataset.preprocessing)
    cells = find_groups(files.group_column, tables)
    if cells is None:
        known = [name for _, table, _ in tables for name in table.names]
        text = f"No table has a column {files.group_column!r} of groups"
        raise unknown_error(text, files.group_column, known, "group_column")
    own = {
        name: cells.of_rows(name, dataset.unaligned_ids.get(name), int(X.shape[0]))
        for name, X in dataset.unaligned.items()
    }
    return replace(
        dataset,
        groups=object_array([cells.by_id.get(key) for key in dataset.ids]),
        unaligned_groups={name: object_array(groups) for name, groups in own.items()},
    )


def _link(
    Xs: Mapping[str, Matrix],
    ids: Mapping[str, Sequence[str | None] | None],
    labels: LabelCells,
    preprocessing: Preprocessing,
    opened: list[OpenView],
) -> TableDataset:
    id_arrays = {name: object_array(own) for name, own in ids.items() if own is not None}
    links = link_rows(id_arrays) if id_arrays else LinkedRows(object_array([]), {}, {})
    nowhere = np.full(len(links.ids), -1)
    positions = {name: links.rows.get(name, nowhere) for name in Xs}
    linked = {name: take_rows(X, positions[name]) for name, X in Xs.items()}
    unaligned, targets, unaligned_ids = {}, {}, {}
    for name, X in Xs.items():
        own_ids, rest = id_arrays.get(name), links.unaligned.get(name, np.arange(X.shape[0]))
        if len(rest) == 0:
            continue
        unaligned[name] = take_rows(X, rest)
        if own_ids is not None:
            unaligned_ids[name] = own_ids[rest]
        target = object_array(labels.of_rows(name, unaligned_ids.get(name), X.shape[0]))
        if any(label is not None for label in target):
            targets[name] = target
    target = object_array([labels.by_id.get(key) for key in links.ids])
    rows = (links.ids, unaligned_ids, dict(Xs))
    present = {name: where >= 0 for name, where in positions.items()}
    dataset = TableDataset(linked, target, unaligned, targets, *rows, preprocessing, opened, [])
    return replace(dataset, present=present)


def _notes(
    files: DatasetFiles,
    dataset: TableDataset,
    ids: Mapping[str, Sequence[str | None] | None],
    labels: LabelCells,
) -> list[str]:
    """Return what the user should check about ids and labels."""
    notes: list[str] = []
    without = [name for name, own in ids.items() if own is None]
    if files.id_column is not None and without:
        text = f"There are no ids in {listed(without)}, so no row there is linked. "
        notes.append(Message(text, "Pass {ids}.", ids={without[0]: "FILE"}))
    alone = [name for name, own in ids.items() if own and not dataset.present[name].any()]
    if len(dataset.ids) > 0 and alone:
        notes.append(f"No id of {listed(alone)} is in another view, so no row there is linked.")
    if files.id_column is not None and len(dataset.ids) == 0 and len(ids) > 1:
        text = "No id is in two views, so no rows are linked"
        notes.append(f"{text}; every view learns from labels." if labels.by_id else f"{text}.")
    if dataset.groups is not None:
        groups = [dataset.groups, *dataset.unaligned_groups.values()]
        if n := sum(group is None for part in groups for group in part):
            notes.append(f"{n:,} rows have no group in {files.group_column!r}: each is its own.")
    for name, X in dataset.rows.items():
        if isinstance(X, np.ndarray) and (n := int(np.isnan(X).all(axis=1).sum())):
            notes.append(f"{n:,} rows of {name!r} have no value, and count as absent from it.")
    notes += _notes_on_columns(files, dataset)
    if -1 in dataset.label_counts:
        remedy = "If it marks rows without a label, pass {unlabeled_marker}."
        notes.append(Message("-1 counts as a class. ", remedy, unlabeled_marker=-1))
    if like_ids := _columns_like_ids(dataset):
        columns = ", ".join(like_ids[:5])
        text = f"{columns}: whole numbers, all different, like ids, but used as features."
        notes.append(Message(text, " If they are ids, pass {id_column} or {drop}."))
    in_views = {key for own in ids.values() if own is not None for key in own}
    if unknown := [key for key in labels.by_id if key not in in_views]:
        notes.append(f"{len(unknown)} ids of labels are in no view: {listed(unknown)}")
    return notes


def _notes_on_columns(files: DatasetFiles, dataset: TableDataset) -> Iterator[str]:
    """Yield notes on categories that may be numbers, and on numbers that may be dates."""
    for name, view in dataset.preprocessing.views.items():
        X, j = dataset.rows[name], 0
        for column in view.columns or ():
            where = f"{column.name!r} of {name}"
            words = [cell for cell in column.categories or () if not is_number(cell)]
            is_chosen = column.name in files.categorical
            if words and not is_chosen and 2 * len(words) <= len(column.categories or ()):
                text = f"{where} holds numbers and {listed(words)}, and is read as categories. "
                remedy = "If the text means missing, pass {missing}."
                yield Message(text, remedy, missing=name_missing(words[0], name))
            is_plain = column.categories is None and column.format is None
            is_plain &= X.shape[0] <= _MAX_ROWS
            if is_plain and all(_are_dates(np.asarray(X[rows, j])) for rows in _PARTS):
                first = np.nanmin(np.asarray(X[_ALL, j]))
                text = f"{where}: whole numbers like dates, such as {first:.0f}, but used as "
                yield f"{text}numbers. For days, write them as 2024-01-31."
            j += column.width


def _are_dates(values: Array) -> bool:
    """Whether numbers are dates such as 20240131."""
    known = values[~np.isnan(values)]
    if len(known) == 0 or not ((known >= 19000101) & (known <= 20991231)).all():
        return False
    month, day = known // 100 % 100, known % 100
    valid = (known == np.round(known)) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool(valid.all())


def _columns_like_ids(dataset: TableDataset) -> list[str]:
    """Return numeric columns that hold distinct whole numbers, as ids do."""
    like_ids = []
    for name, view in dataset.preprocessing.views.items():
        X = dataset.rows[name]
        if view.columns is None or not _MIN_ROWS <= X.shape[0] <= _MAX_ROWS:
            continue
        starts = np.cumsum([0, *(column.width for column in view.columns)])
        for column, j in zip(view.columns, starts[:-1], strict=True):
            is_plain = column.categories is None and column.format is None
            if is_plain and all(_are_distinct_integers(np.asarray(X[rows, j])) for rows in _PARTS):
                like_ids.append(f"{column.name!r} of {name}")
    return like_ids


def _are_distinct_integers(values: Array) -> bool:
    whole = not np.isnan(values).any() and bool((values == np.round(values)).all())
    return whole and len(np.unique(values)) == len(values)
