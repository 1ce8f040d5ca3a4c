"""Ids, labels, groups and batches of rows, read from columns of tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from hotview._messages import ParameterError, did_you_mean, listed, unknown_error
from hotview._types import Array
from hotview.data.linking import IdMatcher
from hotview.data.options import Options
from hotview.data.table_file import TableFile
from hotview.tables.files import Ids, OpenView, open_table

if TYPE_CHECKING:
    from hotview.tables.preprocessing import Preprocessing

Label: TypeAlias = int | str | None
_INTEGER = re.compile(r"(-?(?:0|[1-9]\d{0,15}))(?:\.0*)?")
_FRACTION = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")


@dataclass(frozen=True)
class LabelSource:
    """Table and columns that hold the labels.

    Parameters
    ----------
    table : TableFile or None
        A table of labels; None for a label column in the views' tables.
    label_column : str
        Column of labels.
    id_column : str or None, default=None
        Column of ids.
    unlabeled_marker : str or None, default=None
        Cell that marks a row without a label, in addition to empty cells.
    matcher : IdMatcher
        Spells ids like those of the views.
    """

    table: TableFile | None
    label_column: str
    id_column: str | None = None
    unlabeled_marker: str | None = None
    matcher: IdMatcher = field(default_factory=IdMatcher)

    def read(self, table: TableFile) -> list[str | None]:
        """Return the labels of a table as text."""
        table.check_columns([self.label_column], " of labels")
        [cells] = table.read_text([self.label_column])
        marks = {self.unlabeled_marker}
        if match := _INTEGER.fullmatch(self.unlabeled_marker or ""):  # with and without a decimal
            marks |= {match[1], f"{match[1]}.0"}
        return [None if cell in marks else cell for cell in cells]

    def read_ids(self) -> list[str | None]:
        """Return the ids of the table of labels, as they are written there."""
        assert self.table is not None
        assert self.id_column is not None
        self.table.check_columns([self.id_column], " of ids")
        return self.table.read_text([self.id_column])[0]


@dataclass(frozen=True)
class LabelCells:
    """Labels by id, and by view for rows without ids: first as text, then as classes."""

    by_id: dict[str, Any]
    by_view: dict[str, list[Any]]

    def of_rows(self, view: str, ids: Iterable[Any] | None, n_rows: int) -> list[Any]:
        """Return the label of every row of a view, by its ids if there are any."""
        if ids is None:
            return self.by_view.get(view, [None] * n_rows)
        return [self.by_id.get(key) for key in ids]

    def as_classes(self) -> LabelCells:
        """Return the labels as classes in place of text."""
        cells = chain(self.by_id.values(), *self.by_view.values())
        classes: dict[Any, Label] = {None: None}
        classes |= parse_classes(cell for cell in cells if cell is not None)
        return LabelCells(
            {key: classes[cell] for key, cell in self.by_id.items()},
            {name: [classes[cell] for cell in column] for name, column in self.by_view.items()},
        )


def find_labels(source: LabelSource, views: Sequence[OpenView], ids: Ids) -> LabelCells:
    """Read labels and the ids that they belong to.

    Parameters
    ----------
    source : LabelSource
        Where the labels are.
    views : sequence of OpenView
        The views, whose tables are searched if labels have no table of their own.
    ids : dict of str to sequence of str, or None
        Ids of the rows of every view, if it has any.

    Returns
    -------
    LabelCells
        The labels; tables that contradict each other raise an error.
    """
    if source.table is not None:
        keys = source.matcher.spell_all(str(source.table.path), source.read_ids())
        return LabelCells(_pair(source.table, keys, source.read(source.table)), {})
    tables = _tables_of(views, ids)
    labeled = [table for table in tables if source.label_column in table[1].names]
    if not labeled:
        known = dict.fromkeys(name for _, table, _ in tables for name in table.names)
        raise ParameterError(
            f"No view has a column {source.label_column!r} of labels."
            f"{did_you_mean(source.label_column, known)}",
            " For labels in a table of their own, pass {labels}.",
        )
    return _merge(labeled, source.read, "label")


#: A view or another table by its name, its rows, and their ids if they have any.
CellTable: TypeAlias = tuple[str, TableFile, "Sequence[str | None] | None"]


def _tables_of(views: Iterable[OpenView], ids: Ids) -> list[CellTable]:
    """Return the tables of views, and of cells, that may have columns of labels or groups."""
    tables = ((view.name, view.label_table, ids.get(view.name)) for view in views)
    return [(name, table, own) for name, table, own in tables if table is not None]


def _merge(
    tables: Iterable[CellTable], read: Callable[[TableFile], list[str | None]], what: str
) -> LabelCells:
    """Return the cells of tables by their ids, and by the name of a table where it has none."""
    by_id: dict[str, dict[str, str | None]] = {}
    by_view: dict[str, list[str | None]] = {}
    for name, table, ids in tables:
        if ids is None:
            by_view[name] = read(table)
        else:
            by_id[name] = _pair(table, ids, read(table))
    return LabelCells(merge_labels(by_id, what=what), by_view)


def _pair(
    table: TableFile, ids: Sequence[str | None], cells: Sequence[str | None]
) -> dict[str, str | None]:
    labels: dict[str, str | None] = {}
    for row, (key, cell) in enumerate(zip(ids, cells, strict=True), start=1):
        if key is None:
            raise ValueError(f"{table.path}: row {row} has no id. Give it one, or remove the row.")
        if key in labels:
            raise ValueError(f"{table.path}: id {key!r} occurs more than once. Keep one row of it.")
        labels[key] = cell
    return labels


def merge_labels(
    parts: Mapping[str, Mapping[Any, str | None]], *, what: str = "label"
) -> dict[Any, str | None]:
    """Merge the labels of several tables, which must not contradict each other.

    Parameters
    ----------
    parts : dict of str to dict of id to label
        Labels of each table, by the table's name.
    what : str, default="label"
        What one of them is, for the error.

    Returns
    -------
    dict of id to (str or None)
        The label of every id.

    Examples
    --------
    >>> merge_labels({"blood": {"anna": "ill", "bert": None}, "scan": {"bert": "well"}})
    {'anna': 'ill', 'bert': 'well'}
    """
    labels: dict[Any, str | None] = {}
    conflicts = []
    for cells in parts.values():
        for key, cell in cells.items():
            if labels.setdefault(key, cell) is None:
                labels[key] = cell
            elif cell is not None and labels[key] != cell:
                conflicts.append(str(key))
    if conflicts:
        raise ValueError(
            f"Expected one {what} per row, but the tables of {listed(parts)} contradict each other "
            f"about {len(conflicts)}: {listed(conflicts)}. Correct them."
        )
    return labels


def list_group_tables(
    views: Iterable[OpenView],
    ids: Ids,
    id_files: Mapping[str, str],
    labels: str | None,
    preprocessing: Preprocessing,
) -> list[CellTable]:
    """List the tables that may hold groups: views, and the files of ids and labels.

    Parameters
    ----------
    views : iterable of OpenView
        The views.
    ids : dict of str to sequence of str, or None
        Ids of the rows of every view, if it has any.
    id_files : dict of str to str
        Tables with the ids of some views, row by row.
    labels : str or None
        A table of labels.
    preprocessing : Preprocessing
        How files are read.

    Returns
    -------
    list of CellTable
        The tables.
    """
    options, id_column = preprocessing.options, preprocessing.id_column
    tables = _tables_of(views, ids)
    tables += [(path, open_table(path, options), ids[name]) for name, path in id_files.items()]
    if labels is not None:
        table = open_table(labels, options)
        if id_column in table.names:
            matcher = preprocessing.make_matcher(ids)
            keys = matcher.spell_all(labels, table.read_text([id_column])[0])
            tables.append((labels, table, keys))
    return tables


def find_groups(column: str, tables: Sequence[CellTable]) -> LabelCells | None:
    """Read the groups of rows, by id, or by view for rows without ids.

    Parameters
    ----------
    column : str
        Column of groups.
    tables : sequence of CellTable
        The tables to search.

    Returns
    -------
    LabelCells or None
        The groups; tables that contradict each other raise an error. None if no table has the
        column.
    """
    found = [table for table in tables if column in table[1].names]
    return _merge(found, lambda table: table.read_text([column])[0], "group") if found else None


def parse_classes(known: Iterable[str]) -> dict[str, int | str]:
    """Map label texts to classes: integers if all are whole numbers, else text.

    Parameters
    ----------
    known : iterable of str
        All labels that are not missing.

    Returns
    -------
    dict of str to (int or str)
        The class of every text.

    Examples
    --------
    >>> parse_classes(["2", "1.0"]), parse_classes(["01", "1"])
    ({'2': 2, '1.0': 1}, {'01': '01', '1': '1'})
    """
    cells = list(known)
    texts = dict.fromkeys(cells)
    integers = {text: match[1] for text in texts if (match := _INTEGER.fullmatch(text))}
    if len(integers) == len(texts):
        return {text: int(digits) for text, digits in integers.items()}
    if all(text in integers or _FRACTION.fullmatch(text) for text in texts):
        raise ValueError(
            f"Expected labels to be classes, but they are fractions: {listed(texts)}. Bin them "
            "into classes first; regression is not supported."
        )
    if len(texts) == len(cells) > 2:
        raise ParameterError(
            f"Expected labels to be classes, but all {len(cells)} are different: {listed(texts)}.",
            " Check {label_column}.",
        )
    return {text: text for text in texts}


def match_classes(cells: Sequence[str | None], classes: Array) -> list[Any]:
    """Match label texts with the classes of a model; other labels stay text.

    Parameters
    ----------
    cells : sequence of (str or None)
        Labels as text.
    classes : ndarray
        The classes of the model.

    Returns
    -------
    list
        Classes, text that matches no class, and None for a missing label.

    Examples
    --------
    >>> import numpy as np
    >>> match_classes(["1.0", "7", "odd", None], np.array([1, 2]))
    [1, '7', 'odd', None]
    """
    known = {str(name): name for name in classes.tolist()}
    if classes.dtype.kind not in "iuf":
        return [None if cell is None else known.get(cell, cell) for cell in cells]
    known |= {str(int(name)): name for name in classes.tolist() if float(name).is_integer()}
    matches = [cell and _INTEGER.fullmatch(cell) for cell in cells]
    texts = [match[1] if match else cell for match, cell in zip(matches, cells, strict=True)]
    return [None if text is None else known.get(text, text) for text in texts]


def read_batches(view: OpenView, column: str) -> list[str] | None:
    """Return the batch of every row of a view; None if it has no such column.

    Parameters
    ----------
    view : OpenView
        The view.
    column : str
        Column of batches.

    Returns
    -------
    list of str or None
        The batches.
    """
    table = view.label_table
    if table is None or column not in table.names:
        return None
    [cells] = table.read_text([column])
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        raise ParameterError(
            f"Expected every row of view {view.name!r} to have a batch in {column!r}, but "
            f"{len(cells) - len(known):,} have none. ",
            "Fill the column in, or correct {batch_column}.",
        )
    return known


def read_ids(
    views: Collection[OpenView],
    id_column: str | None,
    files: Mapping[str, str],
    options: Options,
) -> dict[str, list[str | None] | None]:
    """Return the ids of the rows of each view, or None for a view without ids.

    Parameters
    ----------
    views : collection of OpenView
        The views.
    id_column : str or None
        Column of ids; None if there are no ids.
    files : dict of str to str
        Tables with the ids of some views, row by row.
    options : Options
        Format of text tables.

    Returns
    -------
    dict of str to (list of (str or None), or None)
        Ids as text, by view; None for a missing one.
    """
    names = [view.name for view in views]
    for name in files:
        if name not in names:
            raise unknown_error(f"No view is called {name!r}", name, names, "ids")
    tables = {name: open_table(path, options) for name, path in files.items()}
    ids: dict[str, list[str | None] | None] = dict.fromkeys(names)
    if id_column is None:
        return ids
    for view in views:
        table = tables.get(view.name, view.table)
        if table is not None:
            table.check_columns([id_column], f" to link view {view.name!r} by")
            [ids[view.name]] = table.read_text([id_column])
        elif view.obs is not None:
            in_obs = id_column in view.obs.names
            ids[view.name] = view.obs.read_text([id_column])[0] if in_obs else [*view.obs.cells]
    return ids
