"""Labels that are left out: folds, and rows to validate on; whole groups of rows together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hotview._types import IntArray
from hotview.data.data import Data, TableRows

__all__ = ["deal_folds", "hold_out", "make_folds", "split_folds"]


def split_folds(data: Data, n_folds: int, random: np.random.Generator) -> list[IntArray]:
    """Split labeled individuals into folds, as `deal_folds` does.

    Parameters
    ----------
    data : Data
        All labels.
    n_folds : int
        Number of folds.
    random : numpy Generator
        Source of the order of rows.

    Returns
    -------
    list of ndarray of int64, shape (n_individuals, n_views)
        By fold, the rows of its individuals in every view, −1 where absent.
    """
    rows = data.labeled()
    codes, groups = data.known.of(rows), data.groups_of(rows)
    return [rows[fold] for fold in deal_folds(codes, groups, n_folds, random)]


def hold_out(data: Data, share: float, random: np.random.Generator) -> Data:
    """Hold out the labels of a share of the linked rows, stratified by class where possible.

    Parameters
    ----------
    data : Data
        All labels, of rows that are not scanned yet.
    share : float
        Share of the labeled linked rows.
    random : numpy Generator
        Source of the choice of rows.

    Returns
    -------
    Data
        Without these labels; `validation` has them.
    """
    from sklearn.model_selection import train_test_split

    codes, groups = data.target, data.groups_of(data.links)
    units = pick_units(codes, groups)
    n_held = round(share * len(units))
    if not 0 < n_held < len(units):
        what = "linked rows" if groups is None else "groups of linked rows"
        raise ValueError(
            f"Expected validation_fraction to leave labels on both sides, but {share} of "
            f"{len(units)} {what} with a label are {n_held}. Change it, or label more rows."
        )
    counts = np.bincount(codes[units])
    even = counts[counts > 0].min() > 1 and min(n_held, len(units) - n_held) >= (counts > 0).sum()
    _, drawn = train_test_split(
        units,
        test_size=n_held,
        random_state=int(random.integers(2**31)),
        stratify=codes[units] if even else None,
    )
    held = data.links[take_groups(drawn, codes, groups)]
    hidden = held
    if groups is not None:  # unlinked rows of the same groups would tell what is held out
        rows = data.labeled()
        own, out = data.groups_of(rows), data.groups_of(held)
        assert own is not None
        assert out is not None
        hidden = rows[np.isin(own, out)]
    linked = {name: TableRows(rows.tables[:1], rows.columns) for name, rows in data.views.items()}
    n_linked = len(data.links)
    targets = data.known.keep([slice(n_linked)] * len(linked))
    return replace(data.hide(hidden), validation=Data(linked, held, targets))


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


def make_folds(data: Data, n_members: int, n_folds: int, random: np.random.Generator) -> list[Data]:
    """The labels that every ensemble member is trained on.

    Parameters
    ----------
    data : Data
        All labels, if there are any.
    n_members : int
        Number of members.
    n_folds : int
        As many, or 0 where no label is left out.
    random : numpy Generator
        Source of the order of rows.

    Returns
    -------
    list of Data
        Where a view has no labels, some linked rows without a label are silent in each.
    """
    if n_folds == 0 or data.targets is None:
        return [data] * n_members
    folds, free = [], np.flatnonzero(data.target < 0)
    for i, rows in enumerate(split_folds(data, n_folds, random)):
        fold = data.hide(rows)
        silent = free[i::n_folds] if min(fold.labels_per_view) == 0 else free[:0]
        folds.append(replace(fold, silent=silent))
    return folds
