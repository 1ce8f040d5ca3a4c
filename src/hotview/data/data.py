"""Everything that is known about the rows of all views, and folds of their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview.data.columns import ViewColumns

__all__ = ["Data", "TableRows", "Targets", "deal_folds", "hold_out", "make_folds", "split_folds"]

_NONE: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of one view as they were given, in one table or more, numbered consecutively.

    Parameters
    ----------
    tables : tuple of ViewTable
        The tables, that of linked rows first.
    columns : ViewColumns
        The columns of all of them, and how they are encoded.
    """

    tables: tuple[ViewTable, ...]
    columns: ViewColumns

    @property
    def n_rows(self) -> int:
        """Number of rows of all tables."""
        return sum(table.n_rows for table in self.tables)

    def read(self, rows: IntArray) -> Array:
        """Rows by number, sorted, as float64: what the tables hold, NaN for missing cells."""
        parts = [np.empty((0, self.tables[0].n_columns))]
        start = 0
        for table in self.tables:
            own = rows[(rows >= start) & (rows < start + table.n_rows)] - start
            if len(own) > 0:
                part = table.rows(own, dense=False)
                dense = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
                parts.append(dense.astype(np.float64, copy=False))
            start += table.n_rows
        return np.vstack(parts)


@dataclass(frozen=True, eq=False)
class Targets:
    """The class of every row of every view, as far as it is known.

    Parameters
    ----------
    classes : ndarray
        The labels that occur, sorted.
    codes : tuple of ndarray of int64
        By view, the number of every row's class, −1 where it is unknown.
    text_gaps : dict of str to dict of str to int, default={}
        Texts in the place of missing labels, and their numbers, by argument of `fit`.
    """

    classes: Array
    codes: tuple[IntArray, ...]
    text_gaps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def found(self) -> list[set[int]]:
        """Classes of which each view has labels."""
        return [set(np.unique(codes[codes >= 0]).tolist()) for codes in self.codes]

    def of(self, rows: IntArray) -> IntArray:
        """Class of individuals by the numbers of their rows in every view, −1 where absent."""
        target = np.full(len(rows), -1, dtype=np.int64)
        for codes, own in zip(self.codes, rows.T, strict=True):
            if len(codes) > 0:
                target = np.where(own >= 0, codes[own], target)
        return target

    def hide(self, rows: IntArray) -> Targets:
        """The same without the labels of some individuals, by their rows in every view."""
        hidden = [codes.copy() for codes in self.codes]
        for codes, own in zip(hidden, rows.T, strict=True):
            codes[own[own >= 0]] = -1
        return replace(self, codes=tuple(hidden))

    def keep(self, present: Sequence[IntArray | slice]) -> Targets:
        """Those of some rows of every view."""
        kept = tuple(codes[rows] for codes, rows in zip(self.codes, present, strict=True))
        return replace(self, codes=kept)


@dataclass(frozen=True, eq=False)
class Data:
    """Everything that is known about the rows of all views.

    Every row belongs to one individual. Individuals who may be in several views are listed in
    `links`; any other row is an individual of its own, for whom no entry is stored.

    Parameters
    ----------
    views : dict of str to TableRows, or any source of rows with `n_rows`
        The rows of every view. Once they have been scanned, only rows that hold a value are
        numbered.
    links : ndarray of int64, shape (n_linked, n_views)
        The row in every view of each individual who may be in several, −1 where absent.
    targets : Targets or None, default=None
        Classes of the rows; None without any label.
    groups : tuple of ndarray of int64, or None, default=None
        By view, the group of every row (one person, family or site); None where every row is its
        own.
    validation : Data or None, default=None
        Labeled individuals by whom a fit is scored after every epoch, of the same classes; a class
        that the labels lack has the number after the last.
    silent : ndarray of int64, default=()
        Linked individuals who teach no view what another knows, so that views without labels can be
        scored by them.
    """

    views: Mapping[str, Any]
    links: IntArray
    targets: Targets | None = None
    groups: tuple[IntArray, ...] | None = None
    validation: Data | None = None
    silent: IntArray = field(default_factory=lambda: _NONE)

    @cached_property
    def names(self) -> list[str]:
        """Names of the views."""
        return list(self.views)

    @property
    def known(self) -> Targets:
        """The targets, of data that has some."""
        assert self.targets is not None
        return self.targets

    @cached_property
    def codes(self) -> tuple[IntArray, ...]:
        """By view, the class of every row, −1 where it is unknown."""
        if self.targets is not None:
            return self.targets.codes
        return tuple(np.full(rows.n_rows, -1, dtype=np.int64) for rows in self.views.values())

    @cached_property
    def target(self) -> IntArray:
        """Class of every linked individual, −1 where it is unknown."""
        if self.targets is None:
            return np.full(len(self.links), -1, dtype=np.int64)
        return self.targets.of(self.links)

    @property
    def labels_per_view(self) -> list[int]:
        """Number of classes that the labels of every view have."""
        return [0] * len(self.views) if self.targets is None else list(map(len, self.known.found))

    @cached_property
    def complete(self) -> IntArray:
        """Links of the individuals who are in all views."""
        is_complete = (self.links >= 0).all(axis=1)
        return self.links if is_complete.all() else self.links[is_complete]

    def labeled_in(self, s: int) -> IntArray:
        """Rows of view s with a label, of individuals who are not in all views, sorted."""
        is_own = self.codes[s] >= 0
        is_own[self.complete[:, s]] = False
        return np.flatnonzero(is_own)

    def unlinked(self, s: int) -> IntArray:
        """Rows of view s that no link names, sorted."""
        is_other = np.ones(list(self.views.values())[s].n_rows, dtype=bool)
        own = self.links[:, s]
        is_other[own[own >= 0]] = False
        return np.flatnonzero(is_other)

    def labeled(self) -> IntArray:
        """Rows of every labeled individual: linked ones first, then view by view.

        Returns
        -------
        ndarray of int64, shape (n_individuals, n_views)
            −1 where an individual is absent.
        """
        rows = [self.links[self.target >= 0]]
        for s, codes in enumerate(self.codes):
            own = self.unlinked(s)
            own = own[codes[own] >= 0]
            alone = np.full((len(own), len(self.views)), -1, dtype=np.int64)
            alone[:, s] = own
            rows.append(alone)
        return np.concatenate(rows)

    def groups_of(self, rows: IntArray) -> IntArray | None:
        """Group of individuals by their rows; None where rows have no groups."""
        return None if self.groups is None else Targets(np.empty(0), self.groups).of(rows)

    def hide(self, rows: IntArray, silent: IntArray = _NONE) -> Data:
        """The same rows, with some labels hidden and some links silent: a fold.

        Parameters
        ----------
        rows : ndarray of int64, shape (n_individuals, n_views)
            Individuals whose labels are hidden, as from `labeled`.
        silent : ndarray of int64, default=()
            Linked individuals who do not teach.
        """
        return replace(self, targets=self.known.hide(rows), silent=silent)

    def left_out(self, given: Data) -> tuple[IntArray, IntArray]:
        """Individuals with a label in the given data and not in this, and their classes."""
        rows = given.labeled()
        rows = rows[self.known.of(rows) < 0]
        return rows, given.known.of(rows)

    def keep(self, views: Mapping[str, Any], present: Sequence[IntArray | None]) -> Data:
        """Number the rows of every view anew, after it is known which of them hold a value.

        Parameters
        ----------
        views : dict of str to object
            The sources of these rows.
        present : sequence of ndarray of int64, or None
            Rows of every view that are kept, sorted; None for all.
        """
        links = self.links
        if any(rows is not None for rows in present):
            links = links.copy()
            for s, rows in enumerate(present):
                if rows is not None:
                    at = np.searchsorted(rows, links[:, s]).clip(max=max(len(rows) - 1, 0))
                    found = rows[at] == links[:, s] if len(rows) > 0 else np.zeros(len(at), bool)
                    links[:, s] = np.where(found, at, -1)
        where = [slice(None) if rows is None else rows for rows in present]
        targets = None if self.targets is None else self.targets.keep(where)
        groups = self.groups
        if groups is not None:
            groups = tuple(own[rows] for own, rows in zip(groups, where, strict=True))
        return replace(self, views=views, links=links, targets=targets, groups=groups)


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
    if groups is not None:  # of several classes, so that dealing by one of them is not enough
        for i, fold in enumerate(folds):
            lost = np.setdiff1d(codes[fold], np.delete(codes, fold))  # without a label elsewhere
            of_lost = groups[fold][np.isin(codes[fold], lost)]
            folds[i] = fold[~np.isin(groups[fold], of_lost)]
    return folds


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
