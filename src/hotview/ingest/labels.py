"""Labels from tables: whole numbers or text, some of them missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hotview._types import Array
from hotview.datasets.readers.errors import did_you_mean, listed
from hotview.datasets.readers.tables import TableFile
from hotview.ingest.tables import OpenView

__all__ = [
    "Label",
    "LabelCells",
    "LabelSource",
    "find_labels",
    "label_array",
    "match_classes",
    "name_classes",
]

Label: TypeAlias = int | str | None
_WHOLE = re.compile(r"(-?(?:0|[1-9]\d{0,15}))(?:\.0*)?")
_FRACTION = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")


@dataclass(frozen=True)
class LabelSource:
    """Where labels are, and what they are called there.

    Parameters
    ----------
    table : TableFile or None
        A table of their own; None for columns of the views' tables.
    label_column : str
        The column of labels.
    id_column : str or None, default=None
        The column of ids.
    marker : str or None, default=None
        What stands for no label, beside empty cells.
    """

    table: TableFile | None
    label_column: str
    id_column: str | None = None
    marker: str | None = None

    def read(self, table: TableFile) -> list[str | None]:
        """The labels of a table as text."""
        if self.label_column not in table.names:
            hint = did_you_mean(self.label_column, table.names)
            raise ValueError(f"{table.path} has no column {self.label_column!r} of labels.{hint}")
        [cells] = table.read_text([self.label_column])
        return [None if cell == self.marker else cell for cell in cells]


@dataclass(frozen=True)
class LabelCells:
    """Labels as text: by id, and, of rows without ids, by view."""

    by_id: dict[str, str | None]
    by_view: dict[str, list[str | None]]

    @property
    def known(self) -> list[str]:
        """All labels that are there."""
        every = [*self.by_id.values(), *(cell for cells in self.by_view.values() for cell in cells)]
        return [cell for cell in every if cell is not None]


def find_labels(
    source: LabelSource,
    views: Sequence[OpenView],
    ids: Mapping[str, Sequence[str | None] | None],
) -> LabelCells:
    """Read labels together with whose they are.

    Parameters
    ----------
    source : LabelSource
        Where they are.
    views : sequence of OpenView
        The views, whose tables are looked at where labels have no table of their own.
    ids : dict of str to sequence of str, or None
        Ids of the rows of every view, where it has any.

    Returns
    -------
    LabelCells
        The labels; no table may contradict another.
    """
    if source.table is not None:
        return LabelCells(_of_own_table(source, source.table), {})
    tables = {
        view.name: view.table
        for view in views
        if view.table is not None and source.label_column in view.table.names
    }
    if not tables:
        known = dict.fromkeys(n for v in views if v.table is not None for n in v.table.names)
        hint = did_you_mean(source.label_column, known)
        raise ValueError(
            f"No view has a column {source.label_column!r} of labels.{hint} Labels in a table of "
            "their own: --labels FILE."
        )
    found = {name: source.read(table) for name, table in tables.items()}
    named = {name: own for name, own in ids.items() if own is not None and name in found}
    parts = {name: _pair(str(tables[name].path), own, found[name]) for name, own in named.items()}
    alone = {name: cells for name, cells in found.items() if name not in named}
    return LabelCells(merge_labels(parts), alone)


def _of_own_table(source: LabelSource, table: TableFile) -> dict[str, str | None]:
    assert source.id_column is not None
    if source.id_column not in table.names:
        hint = did_you_mean(source.id_column, table.names)
        raise ValueError(f"{table.path} has no column {source.id_column!r} of ids.{hint}")
    [ids] = table.read_text([source.id_column])
    return _pair(str(table.path), ids, source.read(table))


def _pair(
    where: str, ids: Sequence[str | None], cells: Sequence[str | None]
) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for row, (key, cell) in enumerate(zip(ids, cells, strict=True), start=1):
        if key is None:
            raise ValueError(f"{where}: row {row} has no id. Give it one, or remove the row.")
        if key in found:
            raise ValueError(f"{where}: id {key!r} comes more than once. Keep one row of it.")
        found[key] = cell
    return found


def merge_labels(parts: Mapping[str, Mapping[Any, str | None]]) -> dict[Any, str | None]:
    """Put together what several tables say about people; they must not contradict each other.

    Parameters
    ----------
    parts : dict of str to dict of id to label
        The labels that each table has, by the table's name.

    Returns
    -------
    dict of id to (str or None)
        The label of everybody.

    Examples
    --------
    >>> merge_labels({"blood": {"anna": "ill", "bert": None}, "scan": {"bert": "well"}})
    {'anna': 'ill', 'bert': 'well'}
    """
    found: dict[Any, str | None] = {}
    against = []
    for cells in parts.values():
        for key, cell in cells.items():
            if cell is None:
                found.setdefault(key, None)
            elif found.get(key) is None:
                found[key] = cell
            elif found[key] != cell:
                against.append(str(key))
    if against:
        raise ValueError(
            f"Expected one label per row, but the tables of {listed(parts)} contradict each other "
            f"about {len(against)}: {listed(against)}. Correct them."
        )
    return found


def name_classes(known: Iterable[str]) -> dict[str, int | str]:
    """The class that every label stands for: whole numbers if all are, else text.

    Parameters
    ----------
    known : iterable of str
        All labels that are there.

    Returns
    -------
    dict of str to (int or str)
        The class of every text.

    Examples
    --------
    >>> name_classes(["2", "1.0"]), name_classes(["01", "1"])
    ({'2': 2, '1.0': 1}, {'01': '01', '1': '1'})
    """
    cells = list(known)
    texts = dict.fromkeys(cells)
    whole = {text: _WHOLE.fullmatch(text) for text in texts}
    if all(whole.values()):
        return {text: int(found[1]) for text, found in whole.items() if found is not None}
    if all(found or _FRACTION.fullmatch(text) for text, found in whole.items()):
        raise ValueError(
            f"Expected labels to be classes, but they are fractions: {listed(texts)}. Sort them "
            "into classes first; quantities cannot be predicted."
        )
    if len(texts) == len(cells) > 2:
        raise ValueError(
            f"Expected labels to be classes, but all {len(cells)} are different: {listed(texts)}. "
            "Check --label-column."
        )
    return {text: text for text in texts}


def match_classes(cells: Sequence[str | None], classes: Array) -> list[Any]:
    """Labels as the classes that a model knows; others stay text.

    Parameters
    ----------
    cells : sequence of (str or None)
        Labels as text.
    classes : ndarray
        The classes of the model.

    Returns
    -------
    list
        Classes, text that is none of them, and None where there is no label.

    Examples
    --------
    >>> import numpy as np
    >>> match_classes(["1.0", "7", "odd", None], np.array([1, 2]))
    [1, '7', 'odd', None]
    """
    known = {str(name): name for name in classes.tolist()}
    if classes.dtype.kind in "iuf":
        known |= {str(int(name)): name for name in classes.tolist() if float(name).is_integer()}
    found = []
    for cell in cells:
        whole = _WHOLE.fullmatch(cell) if cell is not None and classes.dtype.kind in "iuf" else None
        text = whole[1] if whole is not None else cell
        found.append(None if text is None else known.get(text, text))
    return found


def label_array(labels: Sequence[Any]) -> Array:
    """Labels as an array in which None stays None."""
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found
