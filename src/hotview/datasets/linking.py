"""Who is who: rows of several tables that belong to one individual, by their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hotview._types import Array, IntArray
from hotview.datasets.readers.errors import listed

__all__ = ["LinkedRows", "align_rows", "link_rows"]


@dataclass(frozen=True)
class LinkedRows:
    """Which rows of every view belong together.

    Parameters
    ----------
    ids : ndarray
        Ids that all views have, in the order of the first view.
    linked : dict of str to ndarray of int64
        Where these ids are in every view; the same place is the same individual.
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
    """Link rows whose id is found in all views.

    Parameters
    ----------
    ids : dict of str to sequence
        The id of every row, by view: each has its own, none is missing.

    Returns
    -------
    LinkedRows
        Which rows are linked, and which are not.

    Examples
    --------
    >>> from hotview.datasets import link_rows
    >>> rows = link_rows({"blood": ["anna", "bert", "carl"], "scan": ["carl", "dora", "anna"]})
    >>> rows.ids.tolist(), rows.linked["scan"].tolist(), rows.unaligned["scan"].tolist()
    (['anna', 'carl'], [2, 0], [1])
    """
    places = {view: _places(view, column) for view, column in ids.items()}
    first, *others = places.values()
    shared = [key for key in first if all(key in other for other in others)]
    linked = {view: _numbers([where[key] for key in shared]) for view, where in places.items()}
    unaligned = {
        view: np.setdiff1d(np.arange(len(where)), linked[view]) for view, where in places.items()
    }
    return LinkedRows(_as_array(shared), linked, unaligned)


def align_rows(ids: Mapping[str, Sequence[object] | Array]) -> tuple[Array, dict[str, IntArray]]:
    """Line up all individuals, whichever views they are in.

    Parameters
    ----------
    ids : dict of str to sequence
        The id of every row, by view: each has its own, none is missing.

    Returns
    -------
    ids : ndarray
        Everybody, in the order of the first view, then of the next.
    rows : dict of str to ndarray of int64
        Their rows in every view, −1 where they are absent.

    Examples
    --------
    >>> from hotview.datasets.linking import align_rows
    >>> everybody, rows = align_rows({"blood": ["anna", "bert"], "scan": ["carl", "anna"]})
    >>> everybody.tolist(), rows["scan"].tolist()
    (['anna', 'bert', 'carl'], [1, -1, 0])
    """
    places = {view: _places(view, column) for view, column in ids.items()}
    everybody = list(dict.fromkeys(key for where in places.values() for key in where))
    rows = {
        view: _numbers([where.get(key, -1) for key in everybody]) for view, where in places.items()
    }
    return _as_array(everybody), rows


def _places(view: str, ids: Sequence[object] | Array) -> dict[object, int]:
    """Where every id is; refuses ids that are missing or not unique."""
    values: list[object] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    missing = [i for i, value in enumerate(values) if value is None or value != value]
    if missing:
        raise ValueError(
            f"Expected every row of view {view!r} to have an id, but {len(missing)} have none, the "
            f"first being row {missing[0] + 1}. Give it one, or remove the row."
        )
    where = {value: i for i, value in enumerate(values)}
    if len(where) < len(values):
        twice = [str(value) for value, n in Counter(values).items() if n > 1]
        raise ValueError(
            f"Expected every id once in view {view!r}, but {len(twice)} come more often: "
            f"{listed(twice)}. Keep one row of each, or make them columns of one row."
        )
    return where


def _numbers(places: list[int]) -> IntArray:
    return np.array(places, dtype=np.int64)


def _as_array(values: list[object]) -> Array:
    """An array of the very objects: numpy would turn mixed ids into text."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
