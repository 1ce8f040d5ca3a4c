"""Rows and labels to train on, their hold-out split by hashed ids, and hashes of ids."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, repeat
from typing import Any

import numpy as np

from hotview._messages import ParameterError
from hotview._types import Array, IntArray
from hotview._validation import EncodedView
from hotview.data.linking import IdMatcher
from hotview.preprocessing.batch_correction import BatchOffsets
from hotview.tables.arrays import Matrix
from hotview.tables.files import OpenView
from hotview.tables.labels import Label
from hotview.tables.preprocessing import AlignedRows, Preprocessing

#: Attributes of a dataset about unlinked rows, by view.
_UNALIGNED = ("unaligned", "unaligned_target", "unaligned_ids", "unaligned_groups")
_BYTES = 8  # of a hash: two ids collide with probability 5e-20


@dataclass(frozen=True)
class TableDataset:
    """Rows and labels to train on.

    Parameters
    ----------
    linked : dict of str to ndarray or csr_array
        Rows of individuals that are in two views or more; NaN throughout where one is absent.
    target : ndarray
        Their labels, None where there is none.
    unaligned : dict of str to ndarray or csr_array
        Unlinked rows of each view that has any.
    unaligned_target : dict of str to ndarray
        Their labels, for views where any row has one.
    ids : ndarray
        Ids of the linked rows.
    unaligned_ids : dict of str to ndarray
        Ids of the unlinked rows, for views that have ids.
    rows : dict of str to ndarray or csr_array
        All rows of each view, in the order of its file.
    preprocessing : Preprocessing
        How the files were read.
    opened : list of OpenView
        The files.
    notes : list of str
        Notes for the user about how the files were read.
    groups : ndarray or None, default=None
        Groups of the linked rows, None for a row without one; None if no row has a group.
    unaligned_groups : dict of str to ndarray
        Groups of the unlinked rows of each view that has any; empty if no row has a group.
    present : dict of str to ndarray of bool
        Whether each linked individual is in each view.
    formats : dict of str to dict of str to str
        How numbers and dates in columns of text were read, by view and column.
    hashed_without : tuple of str, default=()
        Differences between spellings that do not count where rows are recognized by their ids:
        all that leave the ids different.
    """

    linked: dict[str, Matrix]
    target: Array
    unaligned: dict[str, Matrix]
    unaligned_target: dict[str, Array]
    ids: Array
    unaligned_ids: dict[str, Array]
    rows: dict[str, Matrix]
    preprocessing: Preprocessing
    opened: list[OpenView]
    notes: list[str]
    groups: Array | None = None
    unaligned_groups: dict[str, Array] = field(default_factory=dict)
    present: dict[str, Array] = field(default_factory=dict)
    formats: dict[str, dict[str, str]] = field(default_factory=dict)
    hashed_without: tuple[str, ...] = ()
    offsets: dict[str, BatchOffsets | None] = field(default_factory=dict)

    @property
    def links(self) -> dict[tuple[str, str], int]:
        """Number of linked individuals that are in both views of a pair."""
        pairs = combinations(self.present, 2)
        return {(a, b): int((self.present[a] & self.present[b]).sum()) for a, b in pairs}

    @property
    def is_complete(self) -> Array:
        """Whether each linked individual is in all views."""
        complete: Array = np.all(list(self.present.values()), axis=0)
        return complete

    def take_linked(self, rows: IntArray) -> TableDataset:
        """Return the dataset with some of its linked rows."""
        return replace(
            self,
            linked={name: X[rows] for name, X in self.linked.items()},
            target=self.target[rows],
            ids=self.ids[rows],
            groups=None if self.groups is None else self.groups[rows],
            present={name: here[rows] for name, here in self.present.items()},
        )

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label."""
        return bool(self.label_counts)

    @property
    def labeled_ids(self) -> list[object]:
        """Ids of the rows that have a label, without differences in spelling."""
        simplify = IdMatcher(self.hashed_without).simplify
        pairs = [(key, label) for key, label in self._labels() if key is not None]
        return [simplify(str(key)) for key, label in pairs if label is not None]

    @property
    def labeled_groups(self) -> set[object]:
        """Groups of the rows that have a label."""
        if self.groups is None:
            return set()
        named = self.unaligned_target.items()
        pairs = [(self.groups, self.target), *((self.unaligned_groups[n], y) for n, y in named)]
        found = {g for groups, y in pairs for g, c in zip(groups, y, strict=True) if c is not None}
        return found - {None}

    @property
    def fit_arguments(self) -> dict[str, Any]:
        """Arguments of a classifier's `fit`."""
        has_links = len(self.ids) > 0
        return {
            "Xs": self.with_columns(self.linked) if has_links else None,
            "y": self.target if has_links else None,
            "unaligned": self.with_columns(self.unaligned) or None,
            "unaligned_y": self.unaligned_target or None,
            "groups": self.groups if has_links else None,
            "unaligned_groups": self.unaligned_groups or None,
        }

    def encoder_arguments(self, *, paired: bool) -> dict[str, Any]:
        """Arguments of an encoder's `fit`: without unlinked rows, all rows are paired."""
        has_links, has_others = len(self.ids) > 0, bool(self.unaligned)
        if paired or (has_links and not has_others):
            return {"Xs": self.with_columns(self.linked), "paired": True}
        if not has_links:
            return {"Xs": self.with_columns(self.rows), "paired": False}
        linked = self.with_columns(self.linked)
        return {"Xs": self.with_columns(self.unaligned), "linked": linked}

    def with_columns(self, views: Mapping[str, Matrix]) -> dict[str, Any]:
        """Return views with their columns, so that an estimator knows names and categories."""
        columns = self.preprocessing.views
        return {
            name: X if columns[name].columns is None else EncodedView(X, columns[name])
            for name, X in views.items()
        }

    @property
    def label_counts(self) -> Counter[Label]:
        """Number of individuals per label; an id in several views counts once."""
        by_id = {key: label for key, label in self._labels() if key is not None}
        without_id = [label for key, label in self._labels() if key is None]
        return Counter(label for label in (*by_id.values(), *without_id) if label is not None)

    def _labels(self) -> Iterator[tuple[object, Label]]:
        """Yield the id and the label of every row; the id is None for views without ids."""
        yield from zip(self.ids, self.target, strict=True)
        for name, target in self.unaligned_target.items():
            yield from zip(self.unaligned_ids.get(name, repeat(None)), target, strict=False)


def keep_linked(dataset: TableDataset) -> TableDataset:
    """Leave out rows that are not linked in all views.

    Parameters
    ----------
    dataset : TableDataset
        All rows.

    Returns
    -------
    TableDataset
        The rows that are linked in all views.
    """
    complete = np.flatnonzero(dataset.is_complete)
    if len(complete) == 0:
        remedy = "Check {id_column}, or do without {linked_only}."
        raise ParameterError(
            "Expected rows that are linked in all views, but there are none. ", remedy
        )
    kept = dataset if len(complete) == len(dataset.ids) else dataset.take_linked(complete)
    none: dict[str, Any] = {name: {} for name in _UNALIGNED}
    return replace(kept, **none, rows=kept.linked)


def split_holdout(dataset: TableDataset, fraction: float) -> tuple[TableDataset, AlignedRows]:
    """Hold out a fraction of the linked rows of every class, or of the groups of such rows.

    The split depends on the ids alone, or on the groups, so that the same files give the same split
    without a record of it. No row of a group that is held out is trained on, linked or not.

    Parameters
    ----------
    dataset : TableDataset
        All rows.
    fraction : float
        Between 0 and 1.

    Returns
    -------
    TableDataset
        The dataset without the held-out rows.
    AlignedRows
        The held-out rows and their labels.
    """
    chosen = _choose_groups(dataset, fraction)
    if not chosen:
        n = sum(label is not None for label in dataset.target)
        raise ValueError(
            f"Expected enough linked rows with a label to hold out {fraction:g} of, but there are "
            f"{n}. Hold out a larger fraction, or none and evaluate on other files."
        )
    is_out = np.array([key in chosen for key in _group_keys(dataset)], dtype=bool)
    held = AlignedRows(dataset.ids, dataset.linked, True, dataset.present, dataset.target)
    training = dataset.take_linked(np.flatnonzero(~is_out))
    training = replace(training, **_leave_groups_out(dataset, chosen))
    return training, held.take(np.flatnonzero(is_out & held.is_labeled))


def _group_keys(dataset: TableDataset) -> list[Hashable]:
    """Group of every linked row; its id where rows have no groups, and a tuple where this one."""
    if dataset.groups is None:
        return list(dataset.ids)
    pairs = zip(dataset.ids, dataset.groups, strict=True)
    return [(key,) if group is None else group for key, group in pairs]


def _choose_groups(dataset: TableDataset, fraction: float) -> set[Hashable]:
    """Groups to hold out: a fraction of those of every class, of which one at least is left."""
    pairs = zip(_group_keys(dataset), dataset.target, strict=True)
    labeled = [(key, label) for key, label in pairs if label is not None]
    counts = Counter(label for _, label in labeled)
    rarest: dict[Hashable, Label] = {}  # class of every group: the rarest of its labels
    for key, label in sorted(labeled, key=lambda pair: counts[pair[1]]):
        rarest.setdefault(key, label)
    digests = {key: hashlib.sha256(f"hotview id {key}".encode()).digest() for key in rarest}
    order, chosen = sorted(rarest, key=digests.__getitem__), set[Hashable]()
    for label in counts:
        keys = [key for key in order if rarest[key] == label]
        chosen |= set(keys[: min(round(fraction * len(keys)), len(keys) - 1)])
    left = {label for key, label in labeled if key not in chosen}
    return chosen - {key for key, label in labeled if label not in left}


def _leave_groups_out(dataset: TableDataset, chosen: Collection[Hashable]) -> dict[str, Any]:
    """Unlinked rows of a dataset without those of some groups, as its attributes."""
    parts: dict[str, dict[str, Any]] = {name: dict(getattr(dataset, name)) for name in _UNALIGNED}
    for view, groups in dataset.unaligned_groups.items():
        kept = np.flatnonzero([group is None or group not in chosen for group in groups])
        for part in parts.values():
            if view in part and len(kept) == 0:
                del part[view]
            elif view in part and len(kept) < len(groups):
                part[view] = part[view][kept]
    targets = parts["unaligned_target"]
    for view in [name for name, y in targets.items() if all(label is None for label in y)]:
        del targets[view]
    return parts


def hash_ids(ids: Iterable[object]) -> str:
    """Return a random salt and the sorted hashes of ids as one text.

    The salt differs from model to model, so that neither tables of hashes computed in advance nor
    another model tell who is in this one. Whoever has the text can still test ids one by one: it
    does not hide ids that can be guessed, such as numbers of a few digits.

    Parameters
    ----------
    ids : iterable
        The ids.

    Returns
    -------
    str
        Salt and hashes in Base64, separated by a colon.

    Examples
    --------
    >>> find_ids(["anna", "carl"], hash_ids(["carl", "bert"])).tolist()
    [False, True]
    """
    salt = os.urandom(hashlib.blake2b.SALT_SIZE)
    hashes = sorted({_salted_hash(key, salt) for key in ids})
    return ":".join(base64.b64encode(part).decode() for part in (salt, b"".join(hashes)))


def find_ids(ids: Sequence[object] | Array, hashes: str) -> Array:
    """Return whether each id is among the hashed ones.

    Parameters
    ----------
    ids : sequence
        The ids.
    hashes : str
        The return value of `hash_ids`.

    Returns
    -------
    ndarray of bool
        One per id.
    """
    salt, raw = (base64.b64decode(part, validate=True) for part in hashes.split(":"))
    known = {raw[i : i + _BYTES] for i in range(0, len(raw), _BYTES)}
    return np.array([_salted_hash(key, salt) in known for key in ids], dtype=bool)


def _salted_hash(key: object, salt: bytes) -> bytes:
    return hashlib.blake2b(str(key).encode(), digest_size=_BYTES, salt=salt).digest()
