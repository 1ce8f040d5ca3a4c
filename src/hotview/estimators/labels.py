"""Labels with gaps, encoded as classes from 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import type_of_target

from hotview._messages import ParameterError
from hotview._types import Array, IntArray
from hotview._validation import ViewTable, check_aligned_tables, check_one_line, check_target
from hotview._validation.containers import PANDAS_NA, is_known, keep_kinds
from hotview.datasets.readers.tables import MISSING
from hotview.estimators.groups import RowGroups, deal_folds, pick_units, take_groups

__all__ = [
    "KnownLabels",
    "Labels",
    "check_all_known",
    "encode_labels",
    "hide",
    "hold_out",
    "number_labels",
    "read_labels",
    "replace_prior",
    "split_folds",
    "weigh_classes",
]

#: what numpy and pandas make of missing labels that are turned into text, and cells that mean
#: missing in files
_TEXT_GAPS = frozenset(map(str.strip, MISSING)) - {"none"} | {"NaT"}
_MIN_PRIOR = 1e-12  # of a class of weight 0
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Labels:
    """Encoded labels.

    Parameters
    ----------
    classes : ndarray
        The labels that occur, sorted.
    linked : ndarray of int64
        Class of every linked row, −1 where it has no label.
    unaligned : dict of str to ndarray of int64
        The same for the unaligned rows of some views.
    groups : RowGroups or None, default=None
        Groups of rows whose labels are held out together; None where every row is its own.
    text_gaps : dict of str to dict of str to int, default={}
        Texts in the place of missing labels, and their numbers, by argument of `fit`.
    """

    classes: Array
    linked: IntArray
    unaligned: dict[str, IntArray]
    groups: RowGroups | None = None
    text_gaps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def codes(self) -> IntArray:
        """Class of every row, linked ones first, then view by view; −1 without a label."""
        return np.concatenate([self.linked, *self.unaligned.values()])

    @property
    def group_numbers(self) -> IntArray | None:
        """Group of every row, in the order of `codes`, if rows have groups."""
        if self.groups is None:
            return None
        others = [self.groups.unaligned[name] for name in self.unaligned]
        return np.concatenate([self.groups.linked, *others])

    @property
    def linked_groups(self) -> IntArray | None:
        """Group of every linked row, if rows have groups."""
        return None if self.groups is None else self.groups.linked


def encode_labels(
    y: Any,
    n_linked: int,
    unaligned_y: Mapping[str, Any] | None,
    unaligned: Mapping[str, ViewTable],
    marker: Any,
) -> Labels:
    """Validate labels and encode them as class numbers.

    Parameters
    ----------
    y : array-like
        Labels of the linked rows.
    n_linked : int
        Number of linked rows.
    unaligned_y : dict of str to array-like, or None
        Labels of some views' unaligned rows.
    unaligned : dict of str to ViewTable
        The unaligned rows.
    marker : object
        Marker of rows without a label, beside NaN and None; None for no other marker.

    Returns
    -------
    Labels
        With at least two classes.
    """
    known: dict[str | None, KnownLabels] = {None: read_labels("y", y, n_linked, marker)}
    gaps = {"y": known[None].text_gaps}
    if not isinstance(unaligned_y, Mapping | None):
        raise TypeError(
            "Expected unaligned_y to be a dict of labels by view, but it is a "
            f"{type(unaligned_y).__name__}. Pass unaligned_y={{view: labels}}."
        )
    for name, labels in (unaligned_y or {}).items():
        if name not in unaligned:
            raise ValueError(
                f"Expected unaligned_y to label views that unaligned holds, {list(unaligned)}, but "
                f"it labels {name!r}. Pass that view's rows in unaligned."
            )
        check_aligned_tables({name: unaligned[name]}, labels)
        what = f"unaligned_y[{name!r}]"
        known[name] = read_labels(what, labels, unaligned[name].n_rows, marker)
        gaps[what] = known[name].text_gaps
    gaps = {what: texts for what, texts in gaps.items() if texts}
    classes = _find_classes([found.values for found in known.values()], gaps)
    check_one_line(classes.tolist(), lambda i: "a class")
    codes: dict[Any, IntArray] = {}
    for view, found in known.items():
        codes[view] = np.full(len(found.known), -1, dtype=np.int64)
        codes[view][found.known] = number_labels(found.values, classes)
    return Labels(classes, codes.pop(None), codes, text_gaps=gaps)


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


def hold_out(
    labels: Labels, share: float, random: np.random.Generator
) -> tuple[Labels, IntArray, IntArray]:
    """Hold out the labels of a share of the linked rows, stratified by class where possible.

    Parameters
    ----------
    labels : Labels
        All labels.
    share : float
        Share of the labeled linked rows.
    random : numpy Generator
        Source of the choice of rows.

    Returns
    -------
    labels : Labels
        Without those that are held out.
    rows : ndarray of int64
        The linked rows whose labels are held out.
    target : ndarray of int64
        Their classes.
    """
    from sklearn.model_selection import train_test_split

    units = pick_units(labels.linked, labels.linked_groups)
    n_held = round(share * len(units))
    if not 0 < n_held < len(units):
        what = "linked rows" if labels.groups is None else "groups of linked rows"
        raise ValueError(
            f"Expected validation_fraction to leave labels on both sides, but {share} of "
            f"{len(units)} {what} with a label are {n_held}. Change it, or label more rows."
        )
    counts = np.bincount(labels.linked[units])
    even = counts[counts > 0].min() > 1 and min(n_held, len(units) - n_held) >= (counts > 0).sum()
    _, drawn = train_test_split(
        units,
        test_size=n_held,
        random_state=int(random.integers(2**31)),
        stratify=labels.linked[units] if even else None,
    )
    held = take_groups(drawn, labels.linked, labels.linked_groups)
    return hide(labels, held), held, labels.linked[held]


def hide(labels: Labels, rows: IntArray) -> Labels:
    """Labels without those of some rows, by number in `Labels.codes`, and of the same groups."""
    codes = labels.codes
    codes[take_groups(rows, codes, labels.group_numbers)] = -1
    ends = np.cumsum([len(labels.linked), *map(len, labels.unaligned.values())])[:-1]
    linked, *others = np.split(codes, ends)
    return replace(
        labels, linked=linked, unaligned=dict(zip(labels.unaligned, others, strict=True))
    )


def split_folds(labels: Labels, n_folds: int, random: np.random.Generator) -> list[IntArray]:
    """Split labeled rows, by number in `Labels.codes`, into folds, as `deal_folds` does."""
    return deal_folds(labels.codes, labels.group_numbers, n_folds, random)


def replace_prior(log_prior: Array, class_prior: Any, class_weight: Any, classes: Array) -> Array:
    """Prior probabilities by which rows are predicted, in the place of those of the labels.

    Parameters
    ----------
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities of the labels, by view.
    class_prior : {None, "uniform"} or dict
        The parameter of the estimator; None keeps those of the labels.
    class_weight : {None, "balanced"} or dict
        The parameter of the estimator: weights that multiply the prior; ``"balanced"`` makes it
        uniform.
    classes : ndarray
        The classes, sorted.

    Returns
    -------
    ndarray of shape (n_views, n_classes)
        Logarithms of probabilities.
    """
    prior = np.exp(log_prior)
    is_uniform = isinstance(class_prior, str) and class_prior == "uniform"
    if is_uniform or (class_prior is None and class_weight == "balanced"):
        prior = np.ones_like(prior)
    elif class_prior is not None:
        prior = np.ones_like(prior) * _read_prior(class_prior, classes)
    if isinstance(class_weight, Mapping):
        prior = prior * [class_weight.get(label, 1.0) for label in classes.tolist()]
    replaced: Array = np.log(np.maximum(prior, _MIN_PRIOR) / prior.sum(axis=1, keepdims=True))
    return replaced


def _read_prior(class_prior: Any, classes: Array) -> Array:
    """Validate prior probabilities by class."""
    names = classes.tolist()
    fits = isinstance(class_prior, Mapping) and set(class_prior) == set(names)
    values = [class_prior[name] for name in names] if fits else []
    are_shares = all(isinstance(p, int | float | np.floating) and 0 < p <= 1 for p in values)
    if not fits or not are_shares or abs(sum(values) - 1) > _ROUNDING:
        raise ValueError(
            f"Expected class_prior to be None, 'uniform' or positive probabilities of the classes "
            f"{names} that add up to 1, but it is {class_prior!r}. Pass a dict of class to "
            "probability."
        )
    return np.array(values, dtype=np.float64)


def weigh_classes(class_weight: Any, labels: Labels) -> Array | None:
    """Weights of the classes by the labels to train on; None where none are given."""
    if class_weight is None:
        return None
    codes = np.concatenate([labels.linked, *labels.unaligned.values()])
    known = codes[codes >= 0]
    weights: Array = np.ones(len(labels.classes))
    present = np.unique(known)  # labels of other classes may all be held out
    weights[present] = compute_class_weight(
        class_weight, classes=labels.classes[present], y=labels.classes[known]
    )
    if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(
            "Expected class_weight to hold finite numbers of at least 0, not all 0, but the "
            f"weights of {labels.classes.tolist()} are {weights.tolist()}. Use 'balanced'."
        )
    return weights


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
