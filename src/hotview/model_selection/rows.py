"""Views as an X of row numbers, which scikit-learn's searches can split."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import check_scoring
from sklearn.utils.validation import has_fit_parameter

from hotview._types import Array, IntArray, RandomState, View, Views
from hotview._validation import ViewTable, check_target
from hotview._validation.tables import name_views
from hotview.estimators.diagnostics import INTERRUPTED
from hotview.estimators.groups import encode_groups
from hotview.estimators.inputs import check_tables_of_views
from hotview.estimators.labels import encode_labels
from hotview.estimators.stacked_views import StackedViews
from hotview.model_selection.row_splits import RowKFold, leave_groups_out, locate_rows, take_rows
from hotview.training.threads import one_thread

__all__ = ["OnRows", "Rows", "read_rows", "scoring_on_rows"]

_LINKED = ""  # no view can have this name


@dataclass(frozen=True, eq=False)
class Rows:
    """Some of the rows that `fit` was given: an X that scikit-learn indexes like a data frame.

    Rows are numbered consecutively: linked ones, then unaligned ones view by view. All fits of a
    search get the same X, so that joblib sends it once: to processes in a shared file, and to
    other machines by its size.

    Parameters
    ----------
    numbers : ndarray of int64
        These rows' numbers, sorted; all other parameters are about all rows.
    Xs : views or None
        The linked rows, if any.
    unaligned : dict
        Unaligned rows; possibly empty.
    labels : dict of str to ndarray
        Labels of the linked rows, by ``""``, and of some views' unaligned rows.
    sizes : dict of str to int
        Number of linked rows, by ``""``, and of unaligned rows of every view.
    classes : ndarray
        All classes.
    codes : ndarray of int64
        Number of the class of every row, −1 where it is unknown.
    n_bytes : int
        Size of the views in memory.
    groups : dict of str to ndarray of int64
        Groups of the linked rows, by ``""``, and of unaligned rows; empty where none are given.
    """

    numbers: IntArray
    Xs: Views | None
    unaligned: dict[str, View]
    labels: dict[str, Array]
    sizes: dict[str, int]
    classes: Array
    codes: IntArray
    n_bytes: int
    groups: dict[str, IntArray]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of row numbers."""
        return self.numbers.shape

    @property
    def iloc(self) -> Rows:
        """The rows themselves: scikit-learn calls `take` on what has `iloc`."""
        return self

    def take(self, which: IntArray, axis: int = 0) -> Rows:
        """Take some of these rows."""
        return replace(self, numbers=self.numbers.take(which, axis))

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        return np  # for scikit-learn's array_api_dispatch

    def __sizeof__(self) -> int:
        # dask sends small objects along with every task.
        return object.__sizeof__(self) + self.numbers.nbytes + self.n_bytes

    @property
    def target(self) -> Array:
        """The class of every row; any class where it is unknown."""
        target: Array = self.classes[self.codes.clip(min=0)]
        return target

    def parts(self) -> Iterator[tuple[str, IntArray, Any]]:
        """Views to fit to or predict from, with their rows: linked ones, then view by view.

        Yields
        ------
        name, rows, views : str, ndarray of int64, views
            ``""`` or the view, numbers within it, and these rows; not copied if they are all.
        """
        for name, rows in locate_rows(self.numbers, self.sizes).items():
            views: Any = self.Xs if name == _LINKED else {name: self.unaligned[name]}
            if len(rows) > 0:
                yield name, rows, views if len(rows) == self.sizes[name] else take_rows(views, rows)

    def fit_estimator(self, estimator: Any) -> Any:
        """Fit an estimator to these rows."""
        views, labels, groups = {}, {}, {}
        takes_groups = has_fit_parameter(estimator, "groups")
        for name, rows, part in self.parts():
            views[name] = part
            if name in self.labels:
                labels[name] = self.labels[name][rows]
            if takes_groups and name in self.groups:
                groups[name] = self.groups[name][rows]
        Xs, y, own = (given.pop(_LINKED, None) for given in (views, labels, groups))
        unaligned = {name: part[name] for name, part in views.items()}
        more: dict[str, Any] = {"unaligned": unaligned, "unaligned_y": labels}
        more |= {"groups": own, "unaligned_groups": groups}
        # Estimators that take no unaligned rows can be fitted to a problem without any.
        given = {name: part for name, part in more.items() if part is not None and len(part) > 0}
        with _whole_training():
            return estimator.fit(Xs, y, **given)

    def folds(self, cv: Any, random_state: RandomState) -> list[tuple[IntArray, IntArray]]:
        """Rows to train and to test on; with groups, nobody is on both sides.

        Labeled linked rows are split; if there are none, labeled unaligned rows, stratified by view
        too. All others are in every training set.
        """
        known = np.flatnonzero(self.codes >= 0)
        own = known[known < self.sizes[_LINKED]]  # linked rows come first
        dealt = own if len(own) > 0 else known
        always = np.setdiff1d(self.numbers, dealt)
        block = np.repeat(np.arange(len(self.sizes)), list(self.sizes.values()))
        strata = (self.codes + len(self.classes) * block)[dealt]
        groups = np.concatenate(list(self.groups.values())) if self.groups else None
        own_groups = None if groups is None else groups[dealt]
        folds = _check_cv(cv, random_state).split(dealt, strata, own_groups)
        pairs = [(np.union1d(dealt[a], always), np.sort(dealt[b])) for a, b in folds]
        return [(leave_groups_out(train, test, groups), test) for train, test in pairs]


@contextmanager
def _whole_training() -> Iterator[None]:
    """Raise KeyboardInterrupt where an estimator warns of Ctrl-C: its result is incomplete."""
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=INTERRUPTED)
        try:
            yield
        except UserWarning as warning:
            if str(warning).startswith(INTERRUPTED):
                raise KeyboardInterrupt from warning
            raise


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


def read_rows(
    estimator: Any,
    Xs: Views | None,
    y: npt.ArrayLike | None,
    unaligned: Views | None = None,
    unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    groups: npt.ArrayLike | None = None,
    unaligned_groups: Mapping[str, npt.ArrayLike] | None = None,
) -> Rows:
    """Validate the arguments of `fit`, and number their rows.

    Parameters
    ----------
    estimator : object
        A classifier of views; its `unlabeled_marker`, if it has one, marks missing labels.
    Xs, y, unaligned, unaligned_y, groups, unaligned_groups : object
        Arguments of its `fit`.

    Returns
    -------
    Rows
        All rows.
    """
    tables = check_tables_of_views(Xs, y, unaligned, at_least=1)
    named = {} if unaligned is None else dict(name_views(unaligned))
    sizes = {_LINKED: tables.n_linked}
    sizes |= {name: table.n_rows for name, table in tables.unaligned.items()}
    y = np.empty(0) if y is None and Xs is None else y
    marker = estimator.get_params(deep=False).get("unlabeled_marker", -1)
    encoded_y = encode_labels(y, sizes[_LINKED], unaligned_y, tables.unaligned, marker)
    codes = {_LINKED: encoded_y.linked} | encoded_y.unaligned
    labels: dict[str, Any] = {_LINKED: y} | dict(unaligned_y or {})
    found = encode_groups(groups, unaligned_groups, tables.linked, tables.unaligned)
    return Rows(
        np.arange(sum(sizes.values())),
        Xs,
        {name: named[name] for name in tables.unaligned},
        {name: check_target(part, sizes[name]) for name, part in labels.items()},
        sizes,
        encoded_y.classes,
        np.concatenate([codes.get(name, np.full(n, -1)) for name, n in sizes.items()]),
        sum(_n_bytes(table) for own in tables.by_view.values() for table in own),
        {} if found is None else {_LINKED: found.linked} | found.unaligned,
    )


def _n_bytes(table: ViewTable) -> int:
    data = table.data
    parts = (data.data, data.indices, data.indptr) if hasattr(data, "indptr") else (data,)
    return sum(getattr(part, "nbytes", 0) for part in parts)  # memory-mapped files have none


class OnRows(StackedViews):
    """Wrapper of an estimator of views whose X is row numbers, instead of one table of all views.

    It uses one thread, so that rounding does not depend on the number of threads, which differs
    between one process and several that share the cores.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def set_params(self, **parameters: Any) -> OnRows:
        """Set parameters of the wrapped estimator, so that a grid needs no prefix."""
        self.estimator.set_params(**parameters)
        return self

    @one_thread()
    def fit(self, rows: Rows, y: Any = None) -> OnRows:  # type: ignore[override]
        """Fit the estimator to rows, with their own labels."""
        self.estimator_ = rows.fit_estimator(self.estimator)
        return self

    @one_thread()
    def _call(self, method: str, rows: Rows) -> Array:
        predict = getattr(self.estimator_, method)
        return np.concatenate([predict(views) for _, _, views in rows.parts()])

    @one_thread()
    def average(self, score: Callable[[Any, Any], float], rows: Rows, y: Array) -> float:
        """Mean of a score over linked rows and views, each with the weight of its rows."""
        total, start = 0.0, 0
        for _, own, views in rows.parts():
            total += len(own) * float(score(views, y[start : start + len(own)]))
            start += len(own)
        return total / start

    def score(self, rows: Rows, y: Array) -> float:
        """The estimator's own score."""
        return self.average(self.estimator_.score, rows, y)


def scoring_on_rows(estimator: Any, scoring: Any) -> Any:
    """Validate scoring, and adapt it to `OnRows` for scikit-learn; a dict for several metrics."""
    check_scoring(estimator, scoring)
    if isinstance(scoring, Mapping):
        return {name: scoring_on_rows(estimator, score) for name, score in scoring.items()}
    return partial(_score_views, scoring) if callable(scoring) else scoring


def _score_views(
    scoring: Callable[[Any, Any, Any], float], model: OnRows, rows: Rows, y: Array
) -> float:
    """Score by a user's function, called with the estimator and the views of the rows."""
    return model.average(partial(scoring, model.estimator_), rows, y)
