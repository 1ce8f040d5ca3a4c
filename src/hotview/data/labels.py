"""Labels with gaps and groups of rows, validated and encoded as numbers from 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._messages import ParameterError
from hotview._types import Array, IntArray
from hotview._validation import ViewTable, check_aligned_tables, check_one_line, check_target
from hotview._validation.containers import PANDAS_NA, is_known, keep_kinds
from hotview.data.data import Targets
from hotview.data.table_file import MISSING

__all__ = [
    "KnownLabels",
    "check_all_known",
    "encode_groups",
    "encode_labels",
    "number_labels",
    "read_labels",
]

#: what numpy and pandas make of missing labels that are turned into text, and cells that mean
#: missing in files
_TEXT_GAPS = frozenset(map(str.strip, MISSING)) - {"none"} | {"NaT"}


def encode_labels(
    y: Any,
    linked: Mapping[str, ViewTable],
    unaligned_y: Mapping[str, Any] | None,
    unaligned: Mapping[str, ViewTable],
    marker: Any,
) -> Targets:
    """Validate labels and encode them as class numbers.

    Parameters
    ----------
    y : array-like
        Labels of the linked rows; anything where there are none.
    linked : dict of str to ViewTable
        The linked rows of every view, or nothing.
    unaligned_y : dict of str to array-like, or None
        Labels of some views' unaligned rows.
    unaligned : dict of str to ViewTable
        The unaligned rows of some or all views.
    marker : object
        Marker of rows without a label, beside NaN and None; None for no other marker.

    Returns
    -------
    Targets
        With at least two classes.
    """
    n_linked = next(iter(linked.values())).n_rows if linked else 0
    known = {"y": read_labels("y", y if linked else np.empty(0), n_linked, marker)}
    _check_by_view("unaligned_y", "label", unaligned_y, unaligned)
    for name, labels in (unaligned_y or {}).items():
        check_aligned_tables({name: unaligned[name]}, labels)
        what = f"unaligned_y[{name!r}]"
        known[what] = read_labels(what, labels, unaligned[name].n_rows, marker)
    gaps = {what: found.text_gaps for what, found in known.items() if found.text_gaps}
    classes = _find_classes([found.values for found in known.values()], gaps)
    check_one_line(classes.tolist(), lambda i: "a class")
    codes: dict[str, IntArray] = {}
    for what, found in known.items():
        codes[what] = np.full(len(found.known), -1, dtype=np.int64)
        codes[what][found.known] = number_labels(found.values, classes)
    by_view = []
    for name in linked or unaligned:
        parts = [codes["y"]]
        if name in unaligned:
            none = np.full(unaligned[name].n_rows, -1, dtype=np.int64)
            parts.append(codes.get(f"unaligned_y[{name!r}]", none))
        by_view.append(np.concatenate(parts))
    return Targets(classes, tuple(by_view), gaps)


def encode_groups(
    groups: Any,
    linked: Mapping[str, ViewTable],
    unaligned_groups: Mapping[str, Any] | None,
    unaligned: Mapping[str, ViewTable],
) -> tuple[IntArray, ...] | None:
    """Validate groups of rows, as one person seen several times, and encode them as numbers.

    Parameters
    ----------
    groups : array-like or None
        Groups of the linked rows.
    linked : dict of str to ViewTable
        The linked rows of every view, or nothing.
    unaligned_groups : dict of str to array-like, or None
        Groups of some views' unaligned rows.
    unaligned : dict of str to ViewTable
        The unaligned rows of some or all views.

    Returns
    -------
    tuple of ndarray of int64, or None
        By view, the group of every row, linked ones first; a row without a group has a number of
        its own. None where no groups are given.
    """
    if groups is None and unaligned_groups is None:
        return None
    _check_by_view("unaligned_groups", "group", unaligned_groups, unaligned)
    if groups is not None and not linked:
        raise ValueError(
            "Expected groups of linked rows, but Xs is None. Pass unaligned_groups instead."
        )
    keys = {"": _read_keys("groups", groups, linked)}
    for name, table in unaligned.items():
        given = (unaligned_groups or {}).get(name)
        keys[name] = _read_keys(f"unaligned_groups[{name!r}]", given, {name: table})
    numbers: dict[Any, int] = {}
    codes = {
        name: np.array([numbers.setdefault(key, len(numbers)) for key in part], dtype=np.int64)
        for name, part in keys.items()
    }
    if len({isinstance(key, str) for key in numbers if type(key) is not object}) > 1:
        raise ValueError(
            "Expected groups and unaligned_groups to use the same names, but some are text and "
            "some are numbers. Convert all to one kind."
        )
    none = np.empty(0, dtype=np.int64)
    return tuple(np.r_[codes[""], codes.get(name, none)] for name in linked or unaligned)


def _check_by_view(what: str, entry: str, given: Any, unaligned: Mapping[str, ViewTable]) -> None:
    """Raise an error unless something is given by view, of views that have unaligned rows."""
    if not isinstance(given, Mapping | None):
        raise TypeError(
            f"Expected {what} to be a dict of {entry}s by view, but it is a "
            f"{type(given).__name__}. Pass {what}={{view: {entry}s}}."
        )
    if unknown := [name for name in given or () if name not in unaligned]:
        raise ValueError(
            f"Expected {what} to {entry} views that unaligned holds, {list(unaligned)}, but "
            f"it {entry}s {unknown[0]!r}. Pass that view's rows in unaligned."
        )


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


@dataclass(frozen=True)
class KnownLabels:
    """Labels with gaps, validated.

    Parameters
    ----------
    values : ndarray
        Labels of the rows that have one.
    known : ndarray of bool, shape (n_rows,)
        Which rows have a label.
    text_gaps : dict of str to int
        Texts that count as missing, and their numbers.
    """

    values: Array
    known: Array
    text_gaps: Mapping[str, int]


def read_labels(what: str, y: Any, n_rows: int, marker: Any) -> KnownLabels:
    """Validate labels; return them, and which rows have one.

    Texts that stand for missing labels, as ``"nan"`` and ``"NA"``, count as missing, unless the
    marker is None.

    Parameters
    ----------
    what : str
        Name of the argument, for errors.
    y : array-like
        The labels.
    n_rows : int
        Expected number of rows.
    marker : object
        Marker of rows without a label.

    Returns
    -------
    KnownLabels
        The labels.
    """
    if y is None:
        raise ValueError(
            f"Expected {what} to hold a label for every row, but it is None. Write NaN, None or "
            "unlabeled_marker for rows without one; without any label, use MultiViewEncoder. "
            "(requires y to be passed, but the target y is None)"
        )
    raw = check_target(keep_kinds(y), n_rows, what=what)
    known = is_known(raw)
    labels = raw[known]
    marked = _is_marked(labels, marker)
    if marked.any() and marker == -1 and set(labels.tolist()) == {-1, 1}:
        raise ValueError(
            f"Expected {what} to be clear about what -1 means, but it holds only -1 and 1, which "
            "may be two classes, or one class and no label. Set unlabeled_marker=None for two "
            "classes, or mark rows without a label by NaN."
        )
    gaps = _is_text_gap(labels) & ~marked if marker is not None else np.zeros_like(marked)
    known[known] = ~(marked | gaps)
    values = _check_kind(what, labels[~(marked | gaps)])
    return KnownLabels(values, known, Counter(str(text).strip() for text in labels[gaps]))


def check_all_known(y: Any, n_rows: int, marker: Any) -> Array:
    """Validate labels of rows to score; raise an error if one is missing."""
    found = read_labels("y", y, n_rows, marker)
    if not found.known.all():
        missing = np.flatnonzero(~found.known)
        raise ValueError(
            f"Expected y to hold the class of every row, but {len(missing)} of {n_rows} have none, "
            f"the first being row {missing[0]}. A row without a label cannot be scored: leave "
            "these rows out."
        )
    return found.values


def number_labels(labels: Array, classes: Array) -> IntArray:
    """Class numbers of labels, −1 for labels that are not among the sorted classes."""
    _check_same_kind([labels, classes] if len(labels) > 0 else [])
    places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    return np.where(classes[places] == labels, places, -1)


def _is_marked(labels: Array, marker: Any) -> Array:
    if marker is None or type(marker).__name__ in PANDAS_NA:
        return np.zeros(len(labels), dtype=bool)
    is_text = isinstance(marker, str)
    if labels.dtype.kind == "O":
        equal = [isinstance(label, str) == is_text and label == marker for label in labels]
        return np.array(equal, dtype=bool)
    same_kind = is_text == (labels.dtype.kind in "US")
    return np.asarray(labels == marker) if same_kind else np.zeros(len(labels), dtype=bool)


def _is_text_gap(labels: Array) -> Array:
    if labels.dtype.kind == "U":
        texts, places = np.unique(labels, return_inverse=True)
        return np.array([text.strip() in _TEXT_GAPS for text in texts], dtype=bool)[places]
    gaps = [isinstance(label, str) and label.strip() in _TEXT_GAPS for label in labels]
    return np.array(gaps, dtype=bool) if labels.dtype.kind == "O" else np.zeros(len(labels), bool)


def _check_kind(what: str, labels: Array) -> Array:
    """Return labels as an array of numbers or of text; raise an error if they are no classes."""
    from sklearn.utils.multiclass import type_of_target

    if labels.dtype.kind == "O":
        is_text = [isinstance(label, str) for label in labels]
        if any(is_text) and not all(is_text):
            number = labels[is_text.index(False)]
            raise ValueError(
                f"Expected {what} to hold labels of one kind, but it mixes text with {number!r} "
                f"({type(number).__name__}). Convert all to text, or write None for rows without "
                "a label."
            )
        labels = np.array(labels.tolist())
    if labels.dtype.kind not in "biufUS":
        raise ValueError(
            f"Expected {what} to hold numbers or text, but its dtype is {labels.dtype}. "
            "Convert the labels to text."
        )
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError(
            f"Expected {what} to hold classes, but it contains infinity. Write NaN for rows "
            "without a label."
        )
    if len(labels) > 0 and type_of_target(labels) == "continuous":
        raise ValueError(
            f"Unknown label type: continuous. Expected {what} to hold classes, but it holds "
            f"fractions such as {labels[labels != np.round(labels)][0].item()!r}. Regression is "
            "not offered: cut the values into classes, for example with numpy.digitize."
        )
    return labels


def _check_same_kind(every: list[Array]) -> None:
    if len({labels.dtype.kind in "US" for labels in every}) > 1:
        raise ValueError(
            "Expected y, unaligned_y and validation's y to use the same labels, but some are text "
            "and some are numbers. Convert all to one kind."
        )


def _find_classes(every: list[Array], text_gaps: Mapping[str, Mapping[str, int]]) -> Array:
    every = [labels for labels in every if len(labels) > 0]
    _check_same_kind(every)
    classes: Array = np.unique(np.concatenate(every)) if every else np.empty(0)
    if len(classes) < 2:
        raise ParameterError(
            "Expected labels of at least two classes, but "
            + (
                f"all are of one class, {classes[0].item()!r}."
                if len(classes)
                else "no row has a label."
            )
            + (" (Texts such as '' and 'nan' count as missing.)" if text_gaps else ""),
            " Label rows of another class, or train an encoder (MultiViewEncoder) without {y}.",
        )
    return classes
