"""Rows of views: selection, folds, and an X of row numbers, which scikit-learn can split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, has_fit_parameter

from hotview._types import Array, IntArray, RandomState, Views
from hotview._validation import EncodedView, ViewTable, check_count, check_target
from hotview._validation.containers import container_of
from hotview._validation.tables import name_views
from hotview.data import labeled_data
from hotview.data.labels import encode_groups, read_labels
from hotview.estimators.diagnostics import was_interrupted

__all__ = ["RowKFold", "Rows", "read_rows", "take_rows"]

_LINKED = ""  # no view can have this name
_BUFFERS = ("data", "indices", "indptr")  # of dense and sparse arrays; rows on disk have none


def take_rows(views: Views, rows: Any) -> Any:
    """Take some rows of every view, in the container of the view.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        Arrays, data frames, tensors, sparse matrices; None for an absent view.
    rows : 1-D array-like of int
        Row numbers.

    Returns
    -------
    dict or list
        Like `views`; each view in its own container.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.model_selection import take_rows
    >>> views = {"a": np.arange(8.0).reshape(4, 2), "b": None}
    >>> take_rows(views, [0, 3])
    {'a': array([[0., 1.], [6., 7.]]), 'b': None}
    """
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers) > 0):
        raise TypeError(
            f"Expected rows to be a list of row numbers, but they are {numbers.dtype} of shape "
            f"{numbers.shape}. For a mask, pass numpy.flatnonzero(mask)."
        )
    numbers = numbers.astype(np.int64)
    taken = dict(name_views(views))
    for name, view in taken.items():
        if view is None:
            continue
        if sparse.issparse(view):
            view = sparse.csr_array(view)  # type: ignore[call-overload]
        n = _num_samples(view)
        if len(numbers) > 0 and not -n <= numbers.min() <= numbers.max() < n:
            raise IndexError(
                f"Expected rows of view {name!r} below {n}, which it has, but they go from "
                f"{numbers.min()} to {numbers.max()}. Number rows from 0."
            )
        if isinstance(view, EncodedView):
            taken[name] = view.take(numbers)
        elif container_of(view) == "pyarrow":  # which scikit-learn 1.6 cannot index
            taken[name] = view.take(numbers % n)
        else:
            taken[name] = _safe_indexing(view, numbers)
    return taken if isinstance(views, Mapping) else list(taken.values())


class RowKFold(BaseCrossValidator):  # type: ignore[misc]
    """Split labeled rows into stratified folds; other rows are in every training set.

    With groups, rows of one group are never on both sides.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=True
        Whether rows are shuffled before they are split.
    random_state : int, numpy Generator or None, default=None
        Seed of the shuffle.
    unlabeled_marker : object, default=-1
        Value in y that marks a row without a label, as of `MultiViewClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.model_selection import RowKFold
    >>> y = np.array(["a", "a", "b", "b", None, None], dtype=object)
    >>> for train, test in RowKFold(2, shuffle=False).split(None, y):
    ...     print(train, test)
    [1 3 4 5] [0 2]
    [0 2 4 5] [1 3]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: RandomState = None,
        unlabeled_marker: Any = -1,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabeled_marker = unlabeled_marker

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X : object, default=None
            Not used, like the others; they are there for scikit-learn.
        y : object, default=None
            Not used.
        groups : object, default=None
            Not used.

        Returns
        -------
        int
            The number.
        """
        return check_count("n_splits", self.n_splits, at_least=2)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield the rows to train on, and the rows to test on, of every fold.

        Parameters
        ----------
        X : views, 2-D array-like or None
            Rows to split: aligned views, or one table of all views. Only the number of rows is
            used, and only without y.
        y : 1-D array-like or None, default=None
            Labels of the rows, some missing. Without labels, all rows are split.
        groups : 1-D array-like or None, default=None
            Groups of the rows, as one person seen several times. Rows of one group are never on
            both sides. NaN or None marks a row of its own.

        Yields
        ------
        train, test : ndarray of int64
            Row numbers.
        """
        marker, n_splits = self.unlabeled_marker, self.get_n_splits()
        if y is None:
            views = name_views(X) if isinstance(X, Mapping | list | tuple) else [("", X)]
            y, marker = np.zeros(_num_samples(views[0][1])), None
        found = read_labels("y", y, len(y), marker)
        people = encode_groups(groups, {"": ViewTable(np.empty((len(y), 0)))}, None, {})
        rows, own = np.flatnonzero(found.known), None if people is None else people[0]
        dealt = None if own is None else own[rows]
        n = len(rows) if dealt is None else len(np.unique(dealt))
        if n < n_splits:
            what = "rows" if own is None else "groups of rows"
            raise ValueError(
                f"Expected at least {n_splits} {what} with a label, one for each fold, but there "
                f"are {n}. Label more rows, or lower n_splits."
            )
        is_even = np.unique(found.values, return_counts=True)[1].max() >= n_splits
        kinds = (KFold, StratifiedKFold) if own is None else (GroupKFold, StratifiedGroupKFold)
        seed: Any = self.random_state
        if self.shuffle:
            seed = int(np.random.default_rng(self.random_state).integers(2**31))
        dealer = kinds[int(is_even)](n_splits, shuffle=self.shuffle, random_state=seed)
        for _, part in dealer.split(rows, found.values, dealt):
            test = np.sort(rows[part])
            others = np.setdiff1d(np.arange(len(y)), test)
            yield _leave_groups_out(others, test, own), test


def _leave_groups_out(train: IntArray, test: IntArray, groups: IntArray | None) -> IntArray:
    """Rows to train on without those of groups that are tested on; `groups` are of all rows."""
    return train if groups is None else train[~np.isin(groups[train], groups[test])]


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
    views : dict of str to views
        The linked rows, by ``""``, and the unaligned rows of every view, as views of their own.
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
    views: dict[str, Views | None]
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
        return np.asarray(self.classes[self.codes.clip(min=0)])

    def parts(self) -> Iterator[tuple[str, IntArray, Any]]:
        """Views to fit to or predict from, with their rows: linked ones, then view by view.

        Yields
        ------
        name, rows, views : str, ndarray of int64, views
            ``""`` or the view, numbers within it, and these rows; not copied if they are all.
        """
        start = 0
        for name, n in self.sizes.items():
            numbers, start = self.numbers - start, start + n
            rows = numbers[(numbers >= 0) & (numbers < n)]
            views: Any = self.views[name]
            if len(rows) > 0:
                yield name, rows, views if len(rows) == n else take_rows(views, rows)

    def fit_estimator(self, estimator: Any) -> Any:
        """Fit an estimator to these rows; raise KeyboardInterrupt if Ctrl-C ended its training."""
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
        fitted = estimator.fit(Xs, y, **given)
        if was_interrupted(getattr(fitted, "fit_warnings_", ())):
            raise KeyboardInterrupt
        return fitted

    def folds(self, cv: Any, random_state: RandomState) -> list[tuple[IntArray, IntArray]]:
        """Rows to train and to test on; with groups, nobody is on both sides.

        Labeled linked rows are split; if there are none, labeled unaligned rows, stratified by view
        too. All others are in every training set.
        """
        if isinstance(cv, int | np.integer):
            cv = RowKFold(int(cv), random_state=random_state, unlabeled_marker=None)
        elif not hasattr(cv, "split"):
            raise TypeError(
                f"Expected cv to be a number of folds or a splitter, but it is {cv!r}. Pass cv=5, "
                "or one of scikit-learn's splitters, which sees the rows with a label."
            )
        elif random_state is not None:
            raise ValueError(
                f"Expected no random_state beside a splitter, but it is {random_state!r}. Give it "
                "to the splitter."
            )
        known = np.flatnonzero(self.codes >= 0)
        own = known[known < self.sizes[_LINKED]]  # linked rows come first
        dealt = own if len(own) > 0 else known
        always = np.setdiff1d(self.numbers, dealt)
        block = np.repeat(np.arange(len(self.sizes)), list(self.sizes.values()))
        strata = (self.codes + len(self.classes) * block)[dealt]
        groups = np.concatenate(list(self.groups.values())) if self.groups else None
        own_groups = None if groups is None else groups[dealt]
        folds = cv.split(dealt, strata, own_groups)
        pairs = [(np.union1d(dealt[a], always), np.sort(dealt[b])) for a, b in folds]
        return [(_leave_groups_out(train, test, groups), test) for train, test in pairs]


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
    marker = estimator.get_params(deep=False).get("unlabeled_marker", -1)
    more: dict[str, Any] = {"unaligned": unaligned, "unaligned_y": unaligned_y}
    more |= {"groups": groups, "unaligned_groups": unaligned_groups}
    data = labeled_data(Xs, y, **more, marker=marker, at_least=1)
    given: Any = unaligned
    if not isinstance(unaligned, Mapping):  # in the order of the linked views
        given = dict(zip(data.names, unaligned or (), strict=False))
    others = {name: rows for s, name in enumerate(data.names) if len(rows := data.unlinked(s)) > 0}
    views = {_LINKED: Xs} | {name: {name: given[name]} for name in others}
    sizes = {_LINKED: len(data.links)} | {name: len(rows) for name, rows in others.items()}
    labels: dict[str, Any] = {_LINKED: np.empty(0) if Xs is None else y} | dict(unaligned_y or {})
    tables = [table.data for rows in data.views.values() for table in rows.tables]
    buffers = [getattr(X, part, None) for X in tables for part in _BUFFERS]
    codes = [data.codes[data.names.index(name)][rows] for name, rows in others.items()]
    found = {}
    if data.groups is not None:
        found = {name: data.groups[data.names.index(name)][rows] for name, rows in others.items()}
        found = {_LINKED: np.asarray(data.groups_of(data.links))} | found
    return Rows(
        np.arange(sum(sizes.values())),
        views,
        {name: check_target(part, sizes[name]) for name, part in labels.items() if name in sizes},
        sizes,
        data.known.classes,
        np.concatenate([data.target, *codes]),
        sum(getattr(buffer, "nbytes", 0) for buffer in buffers),
        found,
    )
