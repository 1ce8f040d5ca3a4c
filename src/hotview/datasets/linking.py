"""Link rows of several views that have the same id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hotview._types import Array, IntArray
from hotview._validation import check_one_line
from hotview.datasets.readers.errors import listed

__all__ = ["LinkedRows", "align_rows", "link_rows"]


@dataclass(frozen=True)
class LinkedRows:
    """Rows of every view that are the same individuals.

    Parameters
    ----------
    ids : ndarray
        Ids of all views, in the order of the first view.
    linked : dict of str to ndarray of int64
        Rows of these ids in every view.
    unaligned : dict of str to ndarray of int64
        The other rows of every view, in their order.

    Examples
    --------
    >>> from hotview.datasets import link_rows
    >>> link_rows({"blood": ["anna", "bert"], "scan": ["bert"]}).unaligned["blood"].tolist()
    [0]
    """

    ids: Array
    linked: dict[str, IntArray]
    unaligned: dict[str, IntArray]


def link_rows(ids: Mapping[str, Sequence[object] | Array]) -> LinkedRows:
    """Link rows whose id occurs in all views.

    Parameters
    ----------
    ids : dict of str to sequence
        The ids of the rows, by view: unique and not missing.

    Returns
    -------
    LinkedRows
        Linked and unaligned rows.

    Examples
    --------
    >>> from hotview.datasets import link_rows
    >>> rows = link_rows({"blood": ["anna", "bert", "carl"], "scan": ["carl", "dora", "anna"]})
    >>> rows.ids.tolist(), rows.linked["scan"].tolist(), rows.unaligned["scan"].tolist()
    (['anna', 'carl'], [2, 0], [1])
    """
    row_of = {view: _rows_by_id(view, column) for view, column in ids.items()}
    first, *others = row_of.values()
    shared = [key for key in first if all(key in rows for rows in others)]
    linked = {view: np.array([rows[key] for key in shared], int) for view, rows in row_of.items()}
    unaligned = {
        view: np.setdiff1d(np.arange(len(rows)), linked[view]) for view, rows in row_of.items()
    }
    return LinkedRows(_as_objects(shared), linked, unaligned)


def align_rows(ids: Mapping[str, Sequence[object] | Array]) -> tuple[Array, dict[str, IntArray]]:
    """Return all individuals of any view, and their row in every view.

    Parameters
    ----------
    ids : dict of str to sequence
        The ids of the rows, by view: unique and not missing.

    Returns
    -------
    ids : ndarray
        Ids of all views, in the order of the first view, then of the next.
    rows : dict of str to ndarray of int64
        Their rows in every view, −1 where they are absent.

    Examples
    --------
    >>> from hotview.datasets.linking import align_rows
    >>> all_ids, rows = align_rows({"blood": ["anna", "bert"], "scan": ["carl", "anna"]})
    >>> all_ids.tolist(), rows["scan"].tolist()
    (['anna', 'bert', 'carl'], [1, -1, 0])
    """
    row_of = {view: _rows_by_id(view, column) for view, column in ids.items()}
    all_ids = list(dict.fromkeys(key for rows in row_of.values() for key in rows))
    rows = {v: np.array([rows.get(key, -1) for key in all_ids], int) for v, rows in row_of.items()}
    return _as_objects(all_ids), rows


def _rows_by_id(view: str, ids: Sequence[object] | Array) -> dict[object, int]:
    """Return the row of every id; raise if an id is missing or repeated."""
    values: list[object] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    missing = [i for i, value in enumerate(values) if value is None or value != value]
    if missing:
        raise ValueError(
            f"Expected every row of view {view!r} to have an id, but {len(missing)} have none, the "
            f"first being row {missing[0] + 1}. Give it one, or remove the row."
        )
    check_one_line(values, lambda i: f"the id of row {i + 1} of view {view!r}")
    rows = {value: i for i, value in enumerate(values)}
    if len(rows) < len(values):
        twice = [str(value) for value, n in Counter(values).items() if n > 1]
        raise ValueError(
            f"Expected every id once in view {view!r}, but {len(twice)} come more often: "
            f"{listed(twice)}. Keep one row of each, or make them columns of one row."
        )
    return rows


def _as_objects(values: list[object]) -> Array:
    # np.array would turn mixed ids into text.
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
