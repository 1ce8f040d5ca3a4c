"""Views as column groups of one table, for scikit-learn tools that take one X."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone, is_classifier
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from hotview._types import Array, IntArray
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.classifier import MultiViewClassifier

__all__ = ["StackedViews", "as_slice", "resolve_views"]


def _wrapped_has(method: str) -> Callable[[StackedViews], bool]:
    return lambda stacked: hasattr(stacked._template, method)


class StackedViews(TransformerMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a multi-view estimator to one table whose columns are those of all views.

    Column groups of X become views, so that scikit-learn's pipelines, searches, cross-validation
    and calibration, which split the rows of one X, can be used. A row with NaN in all columns of a
    view is absent from that view; with values in one view alone it is an unaligned row of it, and
    its label, if it has one, trains that view's predictor.

    Parameters
    ----------
    estimator : MultiViewClassifier, MultiViewEncoder or None, default=None
        What to fit; it is cloned, not changed. None stands for ``MultiViewClassifier()``.
    view_slices : dict or list, or None, default=None
        The columns of every view, by name or, in a list, in order: a slice, a list of column
        numbers, or, where X is a data frame, a list of column names. A column belongs to one view
        at most; columns of no view are not used. `fit` refuses None.

    Attributes
    ----------
    estimator_ : MultiViewClassifier or MultiViewEncoder
        The fitted estimator.
    view_columns_ : dict of str to ndarray of int64
        The numbers of the columns of every view.
    classes_ : ndarray
        The classes, where the estimator is a classifier.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The columns of X at `fit`; names only where X was a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from hotview import MultiViewClassifier, StackedViews
    >>> from hotview.datasets import make_views
    >>> data = make_views(200, n_views=2, n_groups=1, labeled=1.0, random_state=0)
    >>> X, y = np.hstack(list(data.linked.values())), data.linked_target
    >>> n = data.linked["view_0"].shape[1]
    >>> model = StackedViews(
    ...     MultiViewClassifier(max_epochs=20, random_state=0),
    ...     view_slices={"first": slice(0, n), "second": slice(n, None)},
    ... )
    >>> bool(cross_val_score(model, X, y, cv=2).mean() > 0.8)
    True
    """

    def __init__(self, estimator: Any = None, view_slices: Any = None) -> None:
        self.estimator = estimator
        self.view_slices = view_slices

    def fit(self, X: Any, y: Any = None, *, groups: npt.ArrayLike | None = None) -> StackedViews:
        """Fit the estimator to the views that are the column groups of X.

        Parameters
        ----------
        X : 2-D array-like or sparse matrix
            One row per individual, NaN throughout the columns of a view that it lacks.
        y : 1-D array-like or None, default=None
            Classes, with gaps as :class:`MultiViewClassifier` reads them; an encoder uses none.
        groups : 1-D array-like or None, default=None
            Groups of the rows, as :class:`MultiViewClassifier` takes them; an encoder uses none.

        Returns
        -------
        StackedViews
            The estimator itself.
        """
        estimator = self._template
        if not isinstance(estimator, MultiViewEstimator):
            raise TypeError(
                "Expected estimator to be a MultiViewClassifier or a MultiViewEncoder, but it is "
                f"{estimator!r}. Pass an instance, as in StackedViews(MultiViewClassifier(), ...)."
            )
        X = self._validate(X, reset=True, ensure_min_samples=2)
        names = getattr(self, "feature_names_in_", None)
        self.view_columns_ = resolve_views(self.view_slices, X.shape[1], names)
        self.estimator_ = clone(estimator)
        views = self._split(X)
        if is_classifier(estimator):
            y = None if y is None else column_or_1d(y, warn=True)
            self.estimator_.fit(views, y, groups=groups)
        else:
            self.estimator_.fit(views, paired=True)  # one row of X is one individual
        return self

    def transform(self, X: Any) -> Any:
        """Encode rows: the features of all views, side by side.

        Parameters
        ----------
        X : 2-D array-like or sparse matrix
            As at `fit`.

        Returns
        -------
        ndarray of shape (rows, features of all views)
            NaN in the features of views that a row lacks. `set_output` makes it a data frame.
        """
        encoded = self._call("transform", X)
        return np.hstack([np.asarray(encoded[name]) for name in self.view_columns_])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the features of all views, one view after the other.

        Parameters
        ----------
        input_features : 1-D array-like of str or None, default=None
            The columns of X, as at `fit`; there for scikit-learn, and only checked.

        Returns
        -------
        ndarray of str
            ``"first_0"``, ``"first_1"``, ….
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.asarray(self.estimator_.get_feature_names_out())

    @available_if(_wrapped_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """The most probable class of every row, from whichever views it has.

        Parameters
        ----------
        X : 2-D array-like or sparse matrix
            As at `fit`.

        Returns
        -------
        ndarray of shape (rows,)
            Classes.
        """
        return self._call("predict", X)

    @available_if(_wrapped_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, from whichever views a row has.

        Parameters
        ----------
        X : 2-D array-like or sparse matrix
            As at `fit`.

        Returns
        -------
        ndarray of shape (rows, classes)
            Columns are in the order of `classes_`.
        """
        return self._call("predict_proba", X)

    @available_if(_wrapped_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : 2-D array-like or sparse matrix
            As at `fit`.

        Returns
        -------
        ndarray of shape (rows, classes)
            Columns are in the order of `classes_`.
        """
        return self._call("predict_log_proba", X)

    @available_if(_wrapped_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
        """Share of rows whose class is predicted correctly.

        Parameters
        ----------
        X : 2-D array-like or sparse matrix
            As at `fit`.
        y : 1-D array-like
            The true classes.
        sample_weight : 1-D array-like or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            The accuracy.
        """
        return float(self._call("score", X, y, sample_weight))

    @property
    def classes_(self) -> Array:
        """The classes, where the estimator is a fitted classifier."""
        return np.asarray(self.estimator_.classes_)

    def __sklearn_tags__(self) -> Any:
        tags, wrapped = super().__sklearn_tags__(), get_tags(self._template)
        tags.estimator_type = wrapped.estimator_type
        tags.classifier_tags = wrapped.classifier_tags
        tags.target_tags = wrapped.target_tags
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # features are float32 whatever X is
        return tags

    @property
    def _template(self) -> Any:
        return MultiViewClassifier() if self.estimator is None else self.estimator

    def _validate(self, X: Any, **options: Any) -> Any:
        return validate_data(self, X, accept_sparse="csr", ensure_all_finite="allow-nan", **options)

    def _call(self, method: str, X: Any, *arguments: Any) -> Any:
        """Call a method of the fitted estimator with the views of X."""
        check_is_fitted(self)
        views = self._split(self._validate(X, reset=False))
        return getattr(self.estimator_, method)(views, *arguments)

    def _split(self, X: Any) -> dict[str, Any]:
        return {name: X[:, as_slice(columns)] for name, columns in self.view_columns_.items()}


def resolve_views(slices: Any, n: int, names: Array | None) -> dict[str, IntArray]:
    """Numbers of the columns of every view.

    Parameters
    ----------
    slices : dict or list
        For every view a slice, a list of column numbers or a list of column names.
    n : int
        Columns of the table.
    names : ndarray of str or None
        Their names, where they have any.

    Returns
    -------
    dict of str to ndarray of int64
        Views that share no column, each with one column at least.
    """
    if isinstance(slices, Mapping):
        pairs = list(slices.items())
    elif isinstance(slices, Sequence) and not isinstance(slices, str):
        pairs = [(f"view_{s}", columns) for s, columns in enumerate(slices)]
    else:
        raise ValueError(
            f"Expected view_slices to be a dict or list of the columns of every view, but it is "
            f"{slices!r}. Pass, for example, view_slices={{'a': slice(0, 3), 'b': slice(3, None)}}."
        )
    views = {name: _resolve(name, columns, n, names) for name, columns in pairs}
    numbers, counts = np.unique(np.concatenate([[], *views.values()]), return_counts=True)
    if (counts > 1).any():
        column = int(numbers[counts > 1][0])
        owners = [view for view, columns in views.items() if column in columns]
        raise ValueError(
            f"Expected every column to belong to one view, but column {column} is in "
            f"{owners[0]!r} and again in {owners[-1]!r}. Give it to one of them."
        )
    return views


def _resolve(view: str, columns: Any, n: int, names: Array | None) -> IntArray:
    is_slice = isinstance(columns, slice)
    ends = [columns.start, columns.stop] if is_slice else []
    listed = np.asarray([end for end in ends if end is not None] if is_slice else columns)
    known: dict[Any, int] = {}
    if listed.dtype.kind in "iu":
        # Python truncates a slice silently; here the table is not the one that was meant.
        known = {j: j for j in range(-n, n + is_slice)}
    elif listed.dtype.kind in "UOT" and names is not None and not is_slice:
        known = {name: j for j, name in enumerate(names)}
    unknown = [entry for entry in listed.ravel().tolist() if entry not in known]
    if listed.ndim != 1 or unknown:
        raise ValueError(
            f"Expected view_slices[{view!r}] to be a slice of column numbers, or a list of numbers "
            f"or names of columns, of X, which has n_features = {n} and "
            f"{'no names' if names is None else f'the names {names}'}, but it is {columns!r}"
            + (f", and X has no column {unknown[0]!r}" if unknown else "")
            + ". Count columns from 0, or list their names in brackets."
        )
    places = columns if is_slice else [known[entry] for entry in listed.tolist()]
    numbers = np.arange(n, dtype=np.int64)[places]
    if len(numbers) == 0:
        raise ValueError(
            f"Expected view {view!r} to have at least one column, but view_slices[{view!r}] = "
            f"{columns!r} picks none of X, which has n_features = {n}. Change it, or leave the "
            "view out."
        )
    return numbers


def as_slice(columns: IntArray) -> IntArray | slice:
    """Columns as a slice where they follow each other, so that taking them copies nothing."""
    start, stop = int(columns[0]), int(columns[-1]) + 1
    follow = np.array_equal(columns, np.arange(start, stop))
    return slice(start, stop) if follow else columns
