"""The arguments of `fit`, with consecutive numbers for the rows of all tables."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import has_fit_parameter

from hotview._types import Array, IntArray, RandomState, View, Views
from hotview._validation import (
    ViewTable,
    check_aligned_tables,
    check_known_tables,
    check_tables,
    check_target,
)
from hotview._validation.tables import name_views
from hotview.estimators.groups import encode_groups, flatten_groups
from hotview.estimators.labels import encode_labels
from hotview.ingest.frames import columns_of, encode_views, encoded_shapes
from hotview.model_selection.row_splits import Numbering, RowKFold, leave_groups_out, take_rows

__all__ = ["Problem", "read_problem"]

_LINKED = ""  # no view can have this name
_INTERRUPTED = "Training was interrupted"  # beginning of an estimator's warning at Ctrl-C


@dataclass(frozen=True)
class Problem:
    """All arguments of `fit`, with rows numbered consecutively: linked ones, then view by view.

    Parameters
    ----------
    Xs : views
        The linked rows.
    y : ndarray
        Their labels.
    unaligned, unaligned_y : dict
        Unaligned rows, and labels of some views; possibly empty.
    numbering : Numbering
        Numbers of all these rows.
    target : ndarray
        The class of every row; any class where it is unknown.
    dealt : ndarray of int64
        The rows that are split into folds; all others are in every training set.
    strata : ndarray of int64
        Their classes, and views where they are unaligned, for stratified folds.
    n_bytes : int
        Size of the views in memory.
    groups : ndarray of int64 or None, default=None
        Group of every row; rows of one group are never on both sides of a split.
    """

    Xs: Views
    y: Array
    unaligned: dict[str, View]
    unaligned_y: dict[str, Array]
    numbering: Numbering
    target: Array
    dealt: IntArray
    strata: IntArray
    n_bytes: int
    groups: IntArray | None = None

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Fit an estimator to some rows."""
        places = self.numbering.locate(rows)
        linked = places.pop(_LINKED)
        Xs = self.Xs if len(linked) == len(self.y) else take_rows(self.Xs, linked)
        kept = {name: found for name, found in places.items() if len(found) > 0}
        labels = {name: y[kept[name]] for name, y in self.unaligned_y.items() if name in kept}
        more: dict[str, Any] = {"unaligned": self._take(kept), "unaligned_y": labels}
        if self.groups is not None and has_fit_parameter(estimator, "groups"):
            own = {name: self.groups[self.numbering.starts[name] :][n] for name, n in kept.items()}
            more |= {"groups": self.groups[linked], "unaligned_groups": own}
        with _whole_training():
            # Estimators that take no unaligned rows can be fitted to a problem without any.
            given = {name: part for name, part in more.items() if len(part) > 0}
            return estimator.fit(Xs, self.y[linked], **given)

    def _take(self, kept: Mapping[str, IntArray]) -> dict[str, View]:
        """Unaligned rows; views that are kept whole are not copied."""
        views = {name: self.unaligned[name] for name in kept}
        some = {name: rows for name, rows in kept.items() if len(rows) < self.numbering.sizes[name]}
        return views | take_rows(views, some) if some else views

    def parts(self, rows: IntArray) -> Iterator[tuple[int, Any]]:
        """Sorted rows as views to predict from, and how many: linked ones, then view by view."""
        for name, found in self.numbering.locate(rows).items():
            if len(found) > 0:
                source = self.Xs if name == _LINKED else {name: self.unaligned[name]}
                yield len(found), take_rows(source, found)

    def folds(self, cv: Any, random_state: RandomState) -> list[tuple[IntArray, IntArray]]:
        """Rows to train and to test on; with groups, nobody is on both sides."""
        always = np.setdiff1d(self.numbering.rows, self.dealt)
        groups = None if self.groups is None else self.groups[self.dealt]
        folds = _check_cv(cv, random_state).split(self.dealt, self.strata, groups)
        pairs = [(np.union1d(self.dealt[a], always), np.sort(self.dealt[b])) for a, b in folds]
        return [(leave_groups_out(train, test, self.groups), test) for train, test in pairs]


@contextmanager
def _whole_training() -> Iterator[None]:
    """Raise KeyboardInterrupt where an estimator warns of Ctrl-C: its result is incomplete."""
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=_INTERRUPTED)
        try:
            yield
        except UserWarning as warning:
            if str(warning).startswith(_INTERRUPTED):
                raise KeyboardInterrupt from warning
            raise


def read_problem(
    estimator: Any,
    Xs: Views,
    y: npt.ArrayLike,
    unaligned: Views | None,
    unaligned_y: Mapping[str, npt.ArrayLike] | None,
    groups: npt.ArrayLike | None = None,
    unaligned_groups: Mapping[str, npt.ArrayLike] | None = None,
) -> Problem:
    """Validate the arguments of `fit`, and number their rows.

    Parameters
    ----------
    estimator : object
        A classifier of views; its `unlabeled_marker`, if it has one, marks missing labels.
    Xs, y, unaligned, unaligned_y, groups, unaligned_groups : object
        Arguments of its `fit`.

    Returns
    -------
    Problem
        Labeled linked rows are split into folds; if there are none, labeled unaligned rows.
    """
    encoded, others = encode_views(Xs, unaligned)
    linked = check_tables(encoded, aligned=True)
    check_aligned_tables(linked, y)
    tables, named = {}, {}
    if unaligned is not None:
        shapes = encoded_shapes({name: columns_of(table) for name, table in linked.items()})
        tables = check_known_tables(others, list(linked), shapes)
        named = dict(name_views(unaligned))
    sizes = {_LINKED: next(iter(linked.values())).n_rows}
    sizes |= {name: table.n_rows for name, table in tables.items()}
    marker = estimator.get_params(deep=False).get("unlabeled_marker", -1)
    labels = encode_labels(y, sizes[_LINKED], unaligned_y, tables, marker)
    codes = {_LINKED: labels.linked} | labels.unaligned
    every = np.concatenate([codes.get(name, np.full(n, -1)) for name, n in sizes.items()])
    block = np.repeat(np.arange(len(sizes)), list(sizes.values()))
    own = np.flatnonzero(labels.linked >= 0)  # linked rows come first
    dealt = own if len(own) > 0 else np.flatnonzero(every >= 0)
    return Problem(
        Xs,
        check_target(y, sizes[_LINKED]),
        {name: named[name] for name in tables},
        {name: check_target(part, sizes[name]) for name, part in (unaligned_y or {}).items()},
        Numbering(sizes),
        labels.classes[every.clip(min=0)],
        dealt,
        (every + len(labels.classes) * block)[dealt],
        sum(_n_bytes(table) for table in (*linked.values(), *tables.values())),
        flatten_groups(encode_groups(groups, unaligned_groups, linked, tables)),
    )


def _n_bytes(table: ViewTable) -> int:
    data = table.data
    parts = (data.data, data.indices, data.indptr) if hasattr(data, "indptr") else (data,)
    return sum(getattr(part, "nbytes", 0) for part in parts)  # memory-mapped files have none


def _check_cv(cv: Any, random_state: RandomState) -> Any:
    if isinstance(cv, int | np.integer):
        return RowKFold(int(cv), random_state=random_state, unlabeled_marker=None)
    if not hasattr(cv, "split"):
        raise TypeError(
            f"Expected cv to be a number of folds or a splitter, but it is {cv!r}. Pass cv=5, or "
            "one of scikit-learn's splitters, which sees the rows with a label."
        )
    if random_state is not None:
        raise ValueError(
            f"Expected no random_state beside a splitter, but it is {random_state!r}. Give it to "
            "the splitter."
        )
    return cv
