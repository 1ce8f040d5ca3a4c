"""Groups of rows, as one person seen several times, encoded as numbers from 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._types import IntArray
from hotview._validation import ViewTable, check_aligned_tables, check_target
from hotview._validation.containers import is_known, keep_kinds

__all__ = [
    "RowGroups",
    "deal_folds",
    "encode_groups",
    "flatten_groups",
    "pick_units",
    "take_groups",
]


@dataclass(frozen=True)
class RowGroups:
    """Groups of rows, as one person seen several times: numbers that all views share.

    Parameters
    ----------
    linked : ndarray of int64
        Group of every linked row.
    unaligned : dict of str to ndarray of int64
        The same for the unaligned rows of every view that has any.
    """

    linked: IntArray
    unaligned: dict[str, IntArray]


def encode_groups(
    groups: Any,
    unaligned_groups: Mapping[str, Any] | None,
    linked: Mapping[str, ViewTable],
    unaligned: Mapping[str, ViewTable],
) -> RowGroups | None:
    """Validate groups of rows and encode them as numbers.

    Parameters
    ----------
    groups : array-like or None
        Groups of the linked rows.
    unaligned_groups : dict of str to array-like, or None
        Groups of some views' unaligned rows.
    linked, unaligned : dict of str to ViewTable
        The rows.

    Returns
    -------
    RowGroups or None
        A row without a group has a number of its own. None where no groups are given.
    """
    if groups is None and unaligned_groups is None:
        return None
    if not isinstance(unaligned_groups, Mapping | None):
        raise TypeError(
            "Expected unaligned_groups to be a dict of groups by view, but it is a "
            f"{type(unaligned_groups).__name__}. Pass unaligned_groups={{view: groups}}."
        )
    if groups is not None and not linked:
        raise ValueError(
            "Expected groups of linked rows, but Xs is None. Pass unaligned_groups instead."
        )
    given = dict(unaligned_groups or {})
    if unknown := [name for name in given if name not in unaligned]:
        raise ValueError(
            f"Expected unaligned_groups of views that unaligned holds, {list(unaligned)}, but it "
            f"has groups of {unknown[0]!r}. Pass that view's rows in unaligned."
        )
    keys = [_read_keys("groups", groups, linked)]
    for name, table in unaligned.items():
        keys.append(_read_keys(f"unaligned_groups[{name!r}]", given.get(name), {name: table}))
    numbers: dict[Any, int] = {}
    codes = [[numbers.setdefault(key, len(numbers)) for key in part] for part in keys]
    if len({isinstance(key, str) for key in numbers if type(key) is not object}) > 1:
        raise ValueError(
            "Expected groups and unaligned_groups to use the same names, but some are text and "
            "some are numbers. Convert all to one kind."
        )
    first, *others = (np.array(part, dtype=np.int64) for part in codes)
    return RowGroups(first, dict(zip(unaligned, others, strict=True)))


def _read_keys(what: str, groups: Any, tables: Mapping[str, ViewTable]) -> list[Any]:
    """The group of every row of aligned tables; a new object where a row has none."""
    n_rows = next((table.n_rows for table in tables.values()), 0)
    if groups is None:
        return [object() for _ in range(n_rows)]
    check_aligned_tables(tables, groups, what=what)
    names = check_target(keep_kinds(groups), n_rows, what=what, entry="group")
    if names.dtype.kind not in "biufUSO":
        raise ValueError(
            f"Expected {what} to hold numbers or text, but its dtype is {names.dtype}. Convert "
            "the groups to text."
        )
    pairs = zip(names.tolist(), is_known(names).tolist(), strict=True)
    return [name if known else object() for name, known in pairs]


def flatten_groups(groups: RowGroups | None) -> IntArray | None:
    """Groups of all rows, linked ones first, then view by view; None without groups."""
    return None if groups is None else np.concatenate([groups.linked, *groups.unaligned.values()])


def deal_folds(
    codes: IntArray, groups: IntArray | None, n_folds: int, random: np.random.Generator
) -> list[IntArray]:
    """Split labeled rows, or groups of them, into folds of equal size, stratified by class.

    Parameters
    ----------
    codes : ndarray of int64
        Class of every row, −1 where it has no label.
    groups : ndarray of int64 or None
        Group of every row; rows of one group are in one fold, if in any.
    n_folds : int
        Number of folds.
    random : numpy Generator
        Source of the order of rows.

    Returns
    -------
    list of ndarray of int64
        Labeled rows of every fold; outside of it, every class has a label. The numbers of rows, or
        groups, of a class differ by at most one between two folds.
    """
    units, dealt = pick_units(codes, groups), list[int]()
    for code in range(codes.max(initial=-1) + 1):
        of_class = random.permutation(units[codes[units] == code])
        dealt += of_class.tolist() if len(of_class) > 1 else []
    size = len(dealt) // n_folds
    drawn = [np.array(dealt[fold::n_folds][:size], dtype=np.int64) for fold in range(n_folds)]
    folds = [np.sort(take_groups(rows, codes, groups)) for rows in drawn]
    return folds if groups is None else [_leave_classes(fold, codes, groups) for fold in folds]


def pick_units(codes: IntArray, groups: IntArray | None) -> IntArray:
    """One labeled row of every group, of its rarest class; without groups, every labeled row."""
    rows = np.flatnonzero(codes >= 0)
    if groups is None:
        return rows
    rows = rows[np.argsort(np.bincount(codes[rows])[codes[rows]], kind="stable")]
    return np.sort(rows[np.unique(groups[rows], return_index=True)[1]])


def take_groups(rows: IntArray, codes: IntArray, groups: IntArray | None) -> IntArray:
    """All labeled rows of the groups of some rows."""
    if groups is None:
        return rows
    return np.flatnonzero((codes >= 0) & np.isin(groups, groups[rows]))


def _leave_classes(fold: IntArray, codes: IntArray, groups: IntArray) -> IntArray:
    """A fold without the groups of classes that have no label outside of it.

    The labels of a group may be of several classes, so that dealing by one of them is not enough.
    """
    lost = np.isin(codes[fold], np.setdiff1d(codes[fold], np.delete(codes, fold)))
    return fold[~np.isin(groups[fold], groups[fold][lost])]
