"""Everything that is known about the rows of all views, and nothing that was computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview.data.columns import ViewColumns

__all__ = ["Data", "TableRows", "Targets"]

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
        if self.targets is None:
            return [0] * len(self.views)
        return [len(np.unique(codes[codes >= 0])) for codes in self.codes]

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
