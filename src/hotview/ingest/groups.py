"""Groups of rows, as one person seen several times, read from a column of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hotview.datasets.readers.tables import TableFile
from hotview.ingest.labels import LabelCells, merge_labels
from hotview.ingest.preprocessing import Preprocessing
from hotview.ingest.tables import OpenView, open_table

__all__ = ["GroupTable", "find_groups", "list_group_tables"]

#: A view or another table by its name, its rows, and their ids if they have any.
GroupTable = tuple[str, TableFile, Sequence[str | None] | None]


def list_group_tables(
    views: Iterable[OpenView],
    ids: Mapping[str, Sequence[str | None] | None],
    id_files: Mapping[str, str],
    labels: str | None,
    preprocessing: Preprocessing,
) -> list[GroupTable]:
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
    list of GroupTable
        The tables.
    """
    options, id_column = preprocessing.options, preprocessing.id_column
    tables: list[GroupTable] = [
        (v.name, v.label_table, ids[v.name]) for v in views if v.label_table is not None
    ]
    tables += [(path, open_table(path, options), ids[name]) for name, path in id_files.items()]
    if labels is not None:
        table = open_table(labels, options)
        if id_column in table.names:
            matcher = preprocessing.make_matcher(ids)
            keys = matcher.spell_all(labels, table.read_text([id_column])[0])
            tables.append((labels, table, keys))
    return tables


def find_groups(column: str, tables: Sequence[GroupTable]) -> LabelCells | None:
    """Read the groups of rows, by id, or by view for rows without ids.

    Parameters
    ----------
    column : str
        Column of groups.
    tables : sequence of GroupTable
        The tables to search.

    Returns
    -------
    LabelCells or None
        The groups; tables that contradict each other raise an error. None if no table has the
        column.
    """
    found = [(name, table, ids) for name, table, ids in tables if column in table.names]
    if not found:
        return None
    by_id: dict[str, dict[str | None, str | None]] = {}
    by_view: dict[str, list[str | None]] = {}
    for name, table, ids in found:
        [cells] = table.read_text([column])
        if ids is None:
            by_view[name] = cells
        else:
            by_id[name] = dict(zip(ids, cells, strict=True))
    return LabelCells(merge_labels(by_id, what="group"), by_view)
