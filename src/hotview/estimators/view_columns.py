"""Which columns of one table belong to which view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hotview._types import Array, IntArray

__all__ = ["as_slice", "resolve_views"]


def resolve_views(slices: Any, n: int, names: Array | None) -> dict[str, IntArray]:
    """Numbers of the columns of every view.

    Parameters
    ----------
    slices : dict or list
        For every view a slice, a list of column numbers or a list of column names.
    n : int
        Columns of the table.
    names : ndarray of str or None
        Their names, where they have any.

    Returns
    -------
    dict of str to ndarray of int64
        At least two views that share no column, each with one column at least.
    """
    if isinstance(slices, Mapping):
        pairs = list(slices.items())
    elif isinstance(slices, Sequence) and not isinstance(slices, str):
        pairs = [(f"view_{s}", columns) for s, columns in enumerate(slices)]
    else:
        raise ValueError(
            "Expected view_slices to be a dict or list that says which columns each view has, but "
            f"it is {slices!r}. Pass, say, view_slices={{'a': slice(0, 3), 'b': slice(3, None)}}."
        )
    if len(pairs) < 2:
        raise ValueError(
            f"Expected view_slices to hold at least two views, but it holds {len(pairs)}. For a "
            "single table use any other estimator."
        )
    found = {name: _resolve(name, columns, n, names) for name, columns in pairs}
    _check_disjoint(found)
    return found


def _resolve(view: str, columns: Any, n: int, names: Array | None) -> IntArray:
    if isinstance(columns, slice):
        numbers = _from_slice(view, columns, n)
    else:
        listed = np.asarray(columns)
        if listed.ndim != 1 or (listed.dtype.kind not in "iuUOT" and len(listed) > 0):
            raise ValueError(
                f"Expected view_slices[{view!r}] to be a slice or a list of column numbers or "
                f"names, but it is {columns!r}. "
                + (f"Write [{columns!r}]." if listed.ndim == 0 else "Use numbers or text.")
            )
        by_name = listed.dtype.kind in "UOT"
        numbers = _from_names(view, listed, names) if by_name else _from_numbers(view, listed, n)
    if len(numbers) == 0:
        raise ValueError(
            f"Expected view {view!r} to have at least one column, but view_slices[{view!r}] = "
            f"{columns!r} picks none of X, which has n_features = {n}. Change it, or leave the "
            "view out."
        )
    return numbers


def _from_slice(view: str, columns: slice, n: int) -> IntArray:
    bounds = [b for b in (columns.start, columns.stop) if b is not None]
    if any(not isinstance(b, int | np.integer) for b in bounds):
        raise ValueError(
            f"Expected view_slices[{view!r}] to be a slice of column numbers, but it is "
            f"{columns!r}. List the names of columns one by one."
        )
    # Python cuts such a slice short without a word; here it means another table than was meant.
    beyond = [b for b in bounds if not -n <= b <= n]
    if beyond:
        _refuse_number(view, beyond[0], n)
    return np.arange(n, dtype=np.int64)[columns]


def _from_numbers(view: str, columns: Array, n: int) -> IntArray:
    beyond = columns[(columns < -n) | (columns >= n)]
    if len(beyond) > 0:
        _refuse_number(view, beyond[0], n)
    return np.arange(n, dtype=np.int64)[columns.astype(np.int64)]


def _refuse_number(view: str, column: int, n: int) -> None:
    raise ValueError(
        f"Expected view_slices[{view!r}] to stay within the columns of X, which has n_features = "
        f"{n}, but it names {column}. Columns are counted from 0; slice(start, None) goes to the "
        "end."
    )


def _from_names(view: str, columns: Array, names: Array | None) -> IntArray:
    if names is None:
        raise ValueError(
            f"Expected X to be a data frame, because view_slices[{view!r}] lists names of columns, "
            f"but X has no names. Pass a data frame, or list column numbers instead of {columns}."
        )
    places = {name: j for j, name in enumerate(names)}
    unknown = [name for name in columns.tolist() if name not in places]
    if unknown:
        raise ValueError(
            f"Expected view_slices[{view!r}] to list columns of X, but it has none named "
            f"{', '.join(map(repr, unknown))}. Its columns are {', '.join(map(repr, names))}."
        )
    return np.array([places[name] for name in columns.tolist()], dtype=np.int64)


def _check_disjoint(views: Mapping[str, IntArray]) -> None:
    owner: dict[int, str] = {}
    for view, columns in views.items():
        for column in columns.tolist():
            if column in owner:
                raise ValueError(
                    f"Expected every column to belong to one view, but column {column} is in "
                    f"{owner[column]!r} and again in {view!r}. Give it to one of them."
                )
            owner[column] = view


def as_slice(columns: IntArray) -> IntArray | slice:
    """Columns as a slice where they follow each other, so that taking them copies nothing."""
    start, stop = int(columns[0]), int(columns[-1]) + 1
    follow = np.array_equal(columns, np.arange(start, stop))
    return slice(start, stop) if follow else columns
