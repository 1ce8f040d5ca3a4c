"""Rows of several views: selection, consecutive numbers, and splits into folds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import (
    BaseCrossValidator,
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.utils import _safe_indexing

from hotview._types import Array, IntArray, RandomState, Views
from hotview._validation import EncodedView, ViewTable, check_count, check_tables
from hotview._validation.containers import container_of
from hotview._validation.tables import name_views
from hotview.estimators.groups import encode_groups, flatten_groups
from hotview.estimators.labels import read_labels
from hotview.ingest.frames import encode_views

__all__ = ["RowKFold", "leave_groups_out", "locate_rows", "take_rows"]


def take_rows(views: Views, rows: Any) -> Any:
    """Take some rows of every view, in the container of the view.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        Arrays, data frames, tensors, sparse matrices; None for an absent view.
    rows : 1-D array-like of int, or dict of str to such
        Row numbers, for all views the same; or by view, and then these views alone are taken.

    Returns
    -------
    dict or list
        Like `views`, or a dict if `rows` is one; each view in its own container.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.model_selection import take_rows
    >>> views = {"a": np.arange(8.0).reshape(4, 2), "b": None}
    >>> take_rows(views, [0, 3])
    {'a': array([[0., 1.], [6., 7.]]), 'b': None}
    """
    pairs = dict(name_views(views))
    if isinstance(rows, Mapping):
        return {name: _take(name, pairs[name], chosen) for name, chosen in rows.items()}
    taken = {name: _take(name, view, rows) for name, view in pairs.items()}
    return taken if isinstance(views, Mapping) else list(taken.values())


def _take(name: str, view: Any, rows: Any) -> Any:
    if view is None:
        return None
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers) > 0):
        raise TypeError(
            f"Expected rows to be a list of row numbers, but they are {numbers.dtype} of shape "
            f"{numbers.shape}. For a mask, pass numpy.flatnonzero(mask)."
        )
    if sparse.issparse(view):
        view = sparse.csr_array(view)  # type: ignore[call-overload]
    n = view.shape[0] if hasattr(view, "shape") else len(view)
    if len(numbers) > 0 and not -n <= numbers.min() <= numbers.max() < n:
        raise IndexError(
            f"Expected rows of view {name!r} below {n}, which it has, but they go from "
            f"{numbers.min()} to {numbers.max()}. Number rows from 0."
        )
    numbers = numbers.astype(np.int64)
    if isinstance(view, EncodedView):
        return view.take(numbers)
    if container_of(view) == "pyarrow":  # which scikit-learn 1.6 cannot index
        return view.take(numbers % n)
    return _safe_indexing(view, numbers)


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
        y : 1-D array-like, dict of str to 1-D array-like, or None, default=None
            Labels of the rows, some missing. A dict labels the unaligned rows of some views.
            Without labels, all rows are split.
        groups : 1-D array-like, dict of str to 1-D array-like, or None, default=None
            Groups of the rows, as one person seen several times; a dict where y is one. Rows of one
            group are never on both sides. NaN or None marks a row of its own.

        Yields
        ------
        train, test : ndarray of int64, or dict of str to ndarray of int64
            Row numbers; by view where y is a dict, with views that have no labels in `train` only.
        """
        by_view, marker = isinstance(y, Mapping), self.unlabeled_marker
        if by_view:
            tables = check_tables(*encode_views(X))
            people = flatten_groups(encode_groups(None, groups, {}, tables))
            if unknown := [name for name in y if name not in tables]:
                raise ValueError(
                    f"Expected labels of some of the views {list(tables)}, but there are "
                    f"labels of {unknown}. Pass these views too, or leave their labels out."
                )
        else:
            if y is None:
                if isinstance(X, Mapping | list | tuple):
                    X = next(iter(check_tables(*encode_views(X), aligned=True).values())).data
                y, marker = np.zeros(X.shape[0]), None
            y, tables = {"": y}, {"": ViewTable(np.empty((len(y), 0)))}
            people = flatten_groups(encode_groups(groups, None, tables, {}))
        sizes = {name: table.n_rows for name, table in tables.items()}
        starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        rows, strata = [], []
        for name, labels in y.items():
            what = f"y[{name!r}]" if by_view else "y"
            found = read_labels(what, labels, sizes[name], marker)
            rows.append(starts[name] + np.flatnonzero(found.known))
            strata.append([f"{x} in {name}" for x in found.values] if by_view else found.values)
        for test in self._deal(np.concatenate(rows), np.concatenate(strata), people):
            others = np.setdiff1d(np.arange(sum(sizes.values())), test)
            train = locate_rows(leave_groups_out(others, test, people), sizes)
            held = {name: part for name, part in locate_rows(test, sizes).items() if name in y}
            yield (train, held) if by_view else (train[""], held[""])

    def _deal(self, rows: IntArray, labels: Array, groups: IntArray | None) -> Iterator[IntArray]:
        """Yield the sorted test rows of every fold; `groups` are those of all rows."""
        n_splits = self.get_n_splits()
        own = None if groups is None else groups[rows]
        n = len(rows) if own is None else len(np.unique(own))
        if n < n_splits:
            what = "rows" if own is None else "groups of rows"
            raise ValueError(
                f"Expected at least {n_splits} {what} with a label, one for each fold, but there "
                f"are {n}. Label more rows, or lower n_splits."
            )
        most = np.unique(labels, return_counts=True)[1].max()
        is_even = most >= n_splits
        if own is None:
            kind = StratifiedKFold if is_even else KFold
        else:
            kind = StratifiedGroupKFold if is_even else GroupKFold
        seed: Any = self.random_state
        if self.shuffle:
            seed = int(np.random.default_rng(self.random_state).integers(2**31))
        dealer = kind(n_splits, shuffle=self.shuffle, random_state=seed)
        for _, test in dealer.split(rows, labels, own):
            yield np.sort(rows[test])


def leave_groups_out(train: IntArray, test: IntArray, groups: IntArray | None) -> IntArray:
    """Rows to train on without those of groups that are tested on; `groups` are of all rows."""
    return train if groups is None else train[~np.isin(groups[train], groups[test])]


def locate_rows(rows: IntArray, sizes: Mapping[str, int]) -> dict[str, IntArray]:
    """Numbers within each of several tables of sorted rows that are numbered consecutively."""
    starts = np.cumsum([0, *sizes.values()])[:-1]
    parts = np.split(rows, np.searchsorted(rows, starts[1:]))
    return {name: part - start for name, part, start in zip(sizes, parts, starts, strict=True)}
