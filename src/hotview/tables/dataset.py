"""Datasets read from users' files: rows linked by ids, with their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from hotview._messages import Message, ParameterError, listed, unknown_error
from hotview._types import Array
from hotview.data.columns import ViewColumns, choose_columns
from hotview.data.linking import (
    ID_DIFFERENCES,
    IdMatcher,
    LinkedRows,
    link_rows,
    object_array,
    take_rows,
)
from hotview.data.numbers import name_missing
from hotview.data.options import Options
from hotview.data.table_file import is_number
from hotview.preprocessing.batch_correction import BatchOffsets, fit_offsets
from hotview.tables.arrays import Matrix
from hotview.tables.files import Ids, OpenView, file_stem, open_table, open_views
from hotview.tables.labels import (
    LabelCells,
    LabelSource,
    find_groups,
    find_labels,
    list_group_tables,
    read_batches,
    read_ids,
)
from hotview.tables.preprocessing import ColumnRoles, Preprocessing, match_ids, read_view
from hotview.tables.table_dataset import TableDataset

#: Column of ids of h5ad and h5mu files, if the user names none.
CELL_NAMES = "obs_names"
_MIN_ROWS, _MAX_ROWS = 20, 1_000_000  # between which columns are checked for ids and dates
_ALL = slice(None)
_PARTS = (slice(0, 1000), _ALL)  # the first rows rule out nearly every column


@dataclass(frozen=True)
class DatasetFiles(ColumnRoles):
    """Files of a dataset, and the meaning of their columns.

    Parameters
    ----------
    views : sequence of str
        A file per view, as ``path`` or ``name=path``.
    labels : str or None, default=None
        Table of labels by id. By default, the views' own tables have the column of labels.
    ids : dict of str to str
        Tables with the ids of views whose files have no columns.
    categorical : sequence of str
        Numeric columns to treat as categorical.
    unlabeled_marker : str or None, default=None
        Cell that marks a row without a label, in addition to empty cells.
    """

    views: Sequence[str]
    labels: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    categorical: Sequence[str] = ()
    unlabeled_marker: str | None = None

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

    def check_names(self, opened: Sequence[OpenView], options: Options) -> None:
        """Raise if an option names a column or a file that does not exist."""
        tables = [*self.ids.values(), *([] if self.labels is None else [self.labels])]
        options.check_names([*(view.name for view in opened), *map(file_stem, tables)])
        options.check_endings({view.name: view.path for view in opened})
        known = [name for view in opened if view.table is not None for name in view.table.names]
        for parameter, names in (("drop", self.drop), ("categorical", self.categorical)):
            if unknown := [name for name in names if name not in known]:
                text = f"No table has a column {unknown[0]!r}"
                raise unknown_error(text, unknown[0], known, parameter)


def read_dataset(
    files: DatasetFiles,
    offsets: Mapping[str, BatchOffsets | None] | None = None,
    *,
    use_labels: bool = True,
) -> TableDataset:
    """Read files, link their rows by ids and assign the labels.

    Ids found in two views or more are linked rows, with or without a label, and NaN throughout the
    views that do not have them. Every other row is unaligned, and keeps its label if it has one.

    Parameters
    ----------
    files : DatasetFiles
        The files, and the meaning of their columns.
    offsets : dict of str to (BatchOffsets or None), default=None
        Known offsets of batches, by view; those of other views with batches are estimated.
    use_labels : bool, default=True
        Whether labels tell differences in composition from those of batches; not where some of
        them are held out.

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
    roles = {item.name: getattr(files, item.name) for item in fields(ColumnRoles)}
    preprocessing = Preprocessing(columns, **roles)
    options = preprocessing.options
    files.check_names(opened, options)
    ids: Ids = read_ids(opened, files.id_column, files.ids, options)
    source, others = None, {}
    if files.label_column is not None:
        table = None if files.labels is None else open_table(files.labels, options)
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
    labels, groups = LabelCells({}, {}), None
    if source is not None:
        matched = replace(source, matcher=preprocessing.make_matcher(ids))
        labels = find_labels(matched, opened, ids).as_classes()
    offsets = dict(offsets or {})
    if files.batch_column is not None:
        known_labels = labels if use_labels else LabelCells({}, {})
        _remove_batches(files.batch_column, opened, Xs, ids, known_labels, offsets)
    if files.group_column is not None:
        tables = list_group_tables(opened, ids, files.ids, files.labels, preprocessing)
        groups = find_groups(files.group_column, tables)
        if groups is None:
            known = [name for _, table, _ in tables for name in table.names]
            text = f"No table has a column {files.group_column!r} of groups"
            raise unknown_error(text, files.group_column, known, "group_column")
    dataset = _link(Xs, ids, labels, groups, preprocessing, opened, formats)
    hashed_without = _find_differences(files, ids)
    dataset = replace(dataset, hashed_without=hashed_without, offsets=offsets)
    if source is not None and not dataset.has_labels:
        known = [key for key, label in labels.by_id.items() if label is not None]
        who = f" {len(known):,} labels are of ids in no view: {listed(known)}." if known else ""
        raise ParameterError(
            f"Expected rows with a label in {files.label_column!r}, but no row has one.{who} ",
            "Check {label_column} and {id_column}; to train an encoder, leave out {label_column}.",
        )
    _refuse_no_links(files, dataset, ids)
    dataset.notes.extend(_notes(files, dataset, ids, labels))
    return dataset


def _remove_batches(
    column: str,
    opened: Sequence[OpenView],
    Xs: dict[str, Matrix],
    ids: Ids,
    labels: LabelCells,
    offsets: dict[str, BatchOffsets | None],
) -> None:
    """Remove batches from the views that have some, by offsets that are known or estimated."""
    batches = {view.name: read_batches(view, column) for view in opened}
    if not any(batches.values()):
        tables = [view.label_table for view in opened]
        known = [name for table in tables if table is not None for name in table.names]
        text = f"No view has a column {column!r} of batches"
        raise unknown_error(text, column, known, "batch_column")
    for view in opened:
        name, own = view.name, batches[view.name]
        if own is None:
            continue
        X, is_matrix = Xs[name], view.table is None
        if name not in offsets:
            rows = X if is_matrix else np.asarray(X)
            classes = labels.of_rows(name, ids[name], len(own))
            # The columns of a table keep their names.
            offsets[name] = fit_offsets(name, rows, own, classes, reduce=is_matrix)
        if (found := offsets[name]) is not None:
            Xs[name] = found.correct(X, own, name)


def _find_differences(files: DatasetFiles, ids: Ids) -> tuple[str, ...]:
    """Return the differences without which all ids of a dataset are still different."""
    different = {key for own in ids.values() for key in own or () if key is not None}
    simplify = IdMatcher(tuple(ID_DIFFERENCES)).simplify
    if "exact" in files.match_ids or len({simplify(key) for key in different}) < len(different):
        return tuple(files.match_ids)
    return tuple(ID_DIFFERENCES)


def _refuse_no_links(files: DatasetFiles, dataset: TableDataset, ids: Ids) -> None:
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


def _link(
    Xs: Mapping[str, Matrix],
    ids: Ids,
    labels: LabelCells,
    groups: LabelCells | None,
    preprocessing: Preprocessing,
    opened: list[OpenView],
    formats: dict[str, dict[str, str]],
) -> TableDataset:
    """Link rows by their ids, and give each its label and its group."""
    id_arrays = {name: object_array(own) for name, own in ids.items() if own is not None}
    links = link_rows(id_arrays) if id_arrays else LinkedRows(object_array([]), {}, {})
    nowhere = np.full(len(links.ids), -1)
    positions = {name: links.rows.get(name, nowhere) for name in Xs}
    rest = {name: links.unaligned.get(name, np.arange(X.shape[0])) for name, X in Xs.items()}
    rest = {name: rows for name, rows in rest.items() if len(rows) > 0}
    unaligned_ids = {name: own[rest[name]] for name, own in id_arrays.items() if name in rest}

    def split(cells: LabelCells) -> tuple[Array, dict[str, Array]]:
        """Values of linked rows, and of the others of each view."""
        others = {
            name: object_array(cells.of_rows(name, unaligned_ids.get(name), len(rows)))
            for name, rows in rest.items()
        }
        return object_array([cells.by_id.get(key) for key in links.ids]), others

    target, targets = split(labels)
    group, own_groups = (None, {}) if groups is None else split(groups)
    return TableDataset(
        {name: take_rows(X, positions[name]) for name, X in Xs.items()},
        target,
        {name: take_rows(Xs[name], rows) for name, rows in rest.items()},
        {n: own for n, own in targets.items() if any(label is not None for label in own)},
        links.ids,
        unaligned_ids,
        dict(Xs),
        preprocessing,
        opened,
        [],
        group,
        own_groups,
        {name: where >= 0 for name, where in positions.items()},
        formats,
    )


def _notes(
    files: DatasetFiles, dataset: TableDataset, ids: Ids, labels: LabelCells
) -> Iterator[str]:
    """Yield what the user should check about ids, labels and columns."""
    without = [name for name, own in ids.items() if own is None]
    if files.id_column is not None and without:
        text = f"There are no ids in {listed(without)}, so no row there is linked. "
        yield Message(text, "Pass {ids}.", ids={without[0]: "FILE"})
    alone = [name for name, own in ids.items() if own and not dataset.present[name].any()]
    if len(dataset.ids) > 0 and alone:
        yield f"No id of {listed(alone)} is in another view, so no row there is linked."
    if files.id_column is not None and len(dataset.ids) == 0 and len(ids) > 1:
        text = "No id is in two views, so no rows are linked"
        yield f"{text}; every view learns from labels." if labels.by_id else f"{text}."
    if dataset.groups is not None:
        groups = [dataset.groups, *dataset.unaligned_groups.values()]
        if n := sum(group is None for part in groups for group in part):
            yield f"{n:,} rows have no group in {files.group_column!r}: each is its own."
    for name, X in dataset.rows.items():
        if isinstance(X, np.ndarray) and (n := int(np.isnan(X).all(axis=1).sum())):
            yield f"{n:,} rows of {name!r} have no value, and count as absent from it."
    yield from _notes_on_columns(files, dataset)
    if -1 in dataset.label_counts:
        remedy = "If it marks rows without a label, pass {unlabeled_marker}."
        yield Message("-1 counts as a class. ", remedy, unlabeled_marker=-1)
    in_views = {key for own in ids.values() if own is not None for key in own}
    if unknown := [key for key in labels.by_id if key not in in_views]:
        yield f"{len(unknown)} ids of labels are in no view: {listed(unknown)}"


def _notes_on_columns(files: DatasetFiles, dataset: TableDataset) -> Iterator[str]:
    """Yield notes on categories that may be numbers, and on numbers that may be dates or ids."""
    like_ids = []
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
            if is_plain and _hold(X, j, _are_dates):
                first = np.nanmin(np.asarray(X[_ALL, j]))
                text = f"{where}: whole numbers like dates, such as {first:.0f}, but used as "
                yield f"{text}numbers. For days, write them as 2024-01-31."
            if is_plain and X.shape[0] >= _MIN_ROWS and _hold(X, j, _are_distinct_integers):
                like_ids.append(where)
            j += column.width
    if like_ids:
        columns = ", ".join(like_ids[:5])
        text = f"{columns}: whole numbers, all different, like ids, but used as features."
        yield Message(text, " If they are ids, pass {id_column} or {drop}.")


def _hold(X: Matrix, j: int, test: Callable[[Array], bool]) -> bool:
    """Whether the values of a column pass a test, for which many rows are too many."""
    return X.shape[0] <= _MAX_ROWS and all(test(np.asarray(X[rows, j])) for rows in _PARTS)


def _are_dates(values: Array) -> bool:
    """Whether numbers are dates such as 20240131."""
    known = values[~np.isnan(values)]
    if len(known) == 0 or not ((known >= 19000101) & (known <= 20991231)).all():
        return False
    month, day = known // 100 % 100, known % 100
    valid = (known == np.round(known)) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool(valid.all())


def _are_distinct_integers(values: Array) -> bool:
    whole = not np.isnan(values).any() and bool((values == np.round(values)).all())
    return whole and len(np.unique(values)) == len(values)
