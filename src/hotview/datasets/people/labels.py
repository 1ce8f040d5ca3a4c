"""Labels from a table: whole numbers or text, some of them missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hotview._types import Array
from hotview.datasets.readers.errors import did_you_mean, listed
from hotview.datasets.readers.tables import Table

__all__ = ["Label", "label_array", "labels_by_id", "merge_labels", "read_labels"]

Label: TypeAlias = int | str | None


def read_labels(table: Table, column: str, *, as_text: bool = False) -> list[Label]:
    """Read a column of labels.

    Parameters
    ----------
    table : Table
        The table, opened.
    column : str
        Its column of labels.
    as_text : bool, default=False
        Whether labels are text even where they look like numbers.

    Returns
    -------
    list of int, str or None
        Whole numbers if all labels are, else text; None where a cell is empty.
    """
    if column not in table.names:
        hint = did_you_mean(column, table.names)
        raise ValueError(f"{table.path} has no column {column!r} of labels.{hint}")
    [cells] = table.read_text([column])
    known = [cell for cell in cells if cell is not None]
    if not as_text and known and all(_is_whole(cell) for cell in known):
        return [None if cell is None else int(float(cell)) for cell in cells]
    return list(cells)


def _is_whole(cell: str) -> bool:
    try:
        return float(cell).is_integer() and abs(float(cell)) < 2**53
    except (ValueError, OverflowError):
        return False


def labels_by_id(
    table: Table, id_column: str, label_column: str, *, as_text: bool = False
) -> dict[str, Label]:
    """Read labels together with whose they are.

    Parameters
    ----------
    table : Table
        The table, opened.
    id_column, label_column : str
        Its columns of ids and of labels.
    as_text : bool, default=False
        As for `read_labels`.

    Returns
    -------
    dict of str to (int, str or None)
        The label of every id.
    """
    if id_column not in table.names:
        hint = did_you_mean(id_column, table.names)
        raise ValueError(f"{table.path} has no column {id_column!r} of ids.{hint}")
    [ids] = table.read_text([id_column])
    return _pair(str(table.path), ids, read_labels(table, label_column, as_text=as_text))


def _pair(where: str, ids: Sequence[str | None], labels: Sequence[Label]) -> dict[str, Label]:
    found: dict[str, Label] = {}
    for row, (key, label) in enumerate(zip(ids, labels, strict=True), start=1):
        if key is None:
            raise ValueError(f"{where}: row {row} has no id. Give it one, or remove the row.")
        if key in found:
            raise ValueError(f"{where}: id {key!r} comes more than once. Keep one row of it.")
        found[key] = label
    return found


def merge_labels(parts: Mapping[str, Mapping[str, Label]]) -> dict[str, Label]:
    """Put together what several tables say about people; they must not contradict each other.

    Parameters
    ----------
    parts : dict of str to dict of str to label
        The labels that each table has, by the table's name.

    Returns
    -------
    dict of str to (int, str or None)
        The label of every id.

    Examples
    --------
    >>> merge_labels({"blood": {"anna": 1, "bert": None}, "scan": {"bert": 0}})
    {'anna': 1, 'bert': 0}
    """
    found: dict[str, Label] = {}
    against = []
    for labels in parts.values():
        for key, label in labels.items():
            if label is None:
                found.setdefault(key, None)
            elif found.get(key) is None:
                found[key] = label
            elif found[key] != label:
                against.append(key)
    if against:
        raise ValueError(
            f"Expected one label per id, but the tables of {listed(parts)} contradict each other "
            f"about {len(against)}: {listed(against)}. Correct them."
        )
    return found


def label_array(labels: Sequence[Any]) -> Array:
    """Labels as an array in which None stays None."""
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found
