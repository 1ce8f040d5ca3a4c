"""Baselines: multi-view classifiers made of scikit-learn alone."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, IntArray, Views
from hotview._validation import check_count, check_target, check_views

#: Inverse penalty C of logistic regression on components: as blocks of unit variance have small
#: entries, scikit-learn's default of 1 is too strong a penalty.
_COMPONENTS_C = 10.0
#: Maximum number of iterations; scikit-learn's default of 100 is too small for wide views.
_LOGISTIC_ITER = 10_000
#: PCA uses a truncated solver if a view has this many times as many rows and columns as components.
_WIDE = 5
#: Label spreading: α; it converges as αⁿ, long before the maximum number of iterations.
_ALPHA, _MAX_ITER, _TOLERANCE = 0.95, 2000, 1e-10
#: Added to the scores of each view before they are multiplied, so that no view can veto a class.
_SCORE_FLOOR = 0.01


class _Baseline(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the baselines: input checks, classes, predictions and score."""

    classes_: Array
    _columns: dict[str, int]

    def predict_proba(self, Xs: Views) -> Array:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows of the views seen in `fit`.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Rows that sum to 1.
        """
        check_is_fitted(self, "classes_")
        views = _check_rows(Xs, self._columns, aligned=True)
        return self._probabilities({name: views[name] for name in self._columns})

    def predict(self, Xs: Views) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows of the views seen in `fit`.

        Returns
        -------
        ndarray of shape (n_rows,)
            Entries of ``classes_``.
        """
        best = self.predict_proba(Xs).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, Xs: Views, y: npt.ArrayLike) -> float:
        """Return the accuracy.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows of the views seen in `fit`.
        y : 1-D array-like
            Their true classes; classes that were not in `fit` count as errors.

        Returns
        -------
        float
            Proportion of correctly classified rows.
        """
        predicted = self.predict(Xs)
        return float(accuracy_score(check_target(y, len(predicted)), predicted))

    def _fit(self, Xs: Views, y: npt.ArrayLike, more: Views | None, *, aligned: bool) -> Self:
        """Check the labeled rows and the optional unlabeled rows, and fit on both."""
        linked = _check_rows(Xs, None, aligned=True)
        labels = check_target(y, len(next(iter(linked.values()))))
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"Expected y to hold at least two classes, but all its {len(labels)} entries are "
                f"{classes.tolist()[0]!r}. Add labeled rows of another class."
            )
        columns = {name: X.shape[1] for name, X in linked.items()}
        rest = {} if more is None else _check_rows(more, columns, aligned=aligned)
        rows = {name: np.vstack([X, rest.get(name, X[:0])]) for name, X in linked.items()}
        self._fit_rows(rows, codes.astype(np.int64, copy=False))
        self.classes_, self._columns = classes, columns
        return self

    @abstractmethod
    def _fit_rows(self, rows: dict[str, Array], codes: IntArray) -> None:
        """Fit on all training rows, of which the first have the class codes `codes`."""

    @abstractmethod
    def _probabilities(self, views: dict[str, Array]) -> Array:
        """Return the probability of each class for checked views."""


class _UnalignedBaseline(_Baseline):
    """Base of the baselines that use unlinked rows."""

    def fit(self, Xs: Views, y: npt.ArrayLike, *, unaligned: Views | None = None) -> Self:
        """Fit on linked, labeled rows and on unaligned, unlabeled rows.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows: row i is the same individual in every view.
        y : 1-D array-like
            Their classes: numbers or text, none missing.
        unaligned : dict, list or tuple of 2-D array-likes, default=None
            More rows of some or all of these views, any number per view.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self._fit(Xs, y, unaligned, aligned=False)


class ConcatenatedLogisticRegression(_UnalignedBaseline):
    """Logistic regression on the concatenated views of the labeled rows.

    Columns are standardized on all training rows of their view, linked and unaligned; the
    regression (with scikit-learn's default penalty) is fitted on the linked rows only.

    Attributes
    ----------
    classes_ : ndarray
        The classes among the linked rows, sorted.

    Examples
    --------
    >>> from hotview.datasets import load_handwritten, unalign
    >>> from hotview.evaluation import ConcatenatedLogisticRegression
    >>> digits = load_handwritten()
    >>> data = unalign(digits.views, digits.target, random_state=0)
    >>> baseline = ConcatenatedLogisticRegression()
    >>> baseline = baseline.fit(data.linked, data.target, unaligned=data.unaligned)
    >>> baseline.score(data.test, data.test_target) > 0.8
    True
    """

    def _fit_rows(self, rows: dict[str, Array], codes: IntArray) -> None:
        self._scalers = {name: StandardScaler().fit(X) for name, X in rows.items()}
        linked = self._concatenate({name: X[: len(codes)] for name, X in rows.items()})
        self._model = LogisticRegression(max_iter=_LOGISTIC_ITER).fit(linked, codes)

    def _concatenate(self, views: dict[str, Array]) -> Array:
        return np.hstack([self._scalers[name].transform(X) for name, X in views.items()])

    def _probabilities(self, views: dict[str, Array]) -> Array:
        return np.asarray(self._model.predict_proba(self._concatenate(views)))


class PCALogisticRegression(_UnalignedBaseline):
    """Logistic regression on the concatenated principal components of each view.

    Each view is standardized, scaled to unit total variance (so that a view of 6 columns has the
    weight of one of 240) and projected on its principal directions, all estimated from all its
    training rows, linked and unaligned. The regression (C = 10) is fitted on the linked rows only.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all if a view has fewer.

    Attributes
    ----------
    classes_ : ndarray
        The classes among the linked rows, sorted.

    Examples
    --------
    >>> from hotview.datasets import load_handwritten, unalign
    >>> from hotview.evaluation import PCALogisticRegression
    >>> digits = load_handwritten()
    >>> data = unalign(digits.views, digits.target, random_state=0)
    >>> baseline = PCALogisticRegression().fit(data.linked, data.target, unaligned=data.unaligned)
    >>> baseline.score(data.test, data.test_target) > 0.85
    True
    """

    def __init__(self, n_components: int = 20) -> None:
        self.n_components = n_components

    def _fit_rows(self, rows: dict[str, Array], codes: IntArray) -> None:
        self._projectors = _fit_projectors(rows, self.n_components)
        linked = {name: X[: len(codes)] for name, X in rows.items()}
        model = LogisticRegression(C=_COMPONENTS_C, max_iter=_LOGISTIC_ITER)
        self._model = model.fit(_concatenate_components(self._projectors, linked), codes)

    def _probabilities(self, views: dict[str, Array]) -> Array:
        components = _concatenate_components(self._projectors, views)
        return np.asarray(self._model.predict_proba(components))


class PerViewLabelPropagation(_UnalignedBaseline):
    """Label propagation in each view separately; the scores of the views are multiplied.

    The probability of class k for a row x with parts x_s is::

        p(k | x) ∝ Π_s (score_sk(x_s) + 0.01)

    Each view is standardized and projected on its leading principal components, estimated from all
    its training rows. scikit-learn's `LabelSpreading` (α = 0.95) propagates the labels along the
    symmetrized k-nearest-neighbor graph, normalized by class mass; scores of a row sum to 1. A new
    row gets the mean score of its nearest training rows; it is not in the graph.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all if a view has fewer.
    n_neighbors : int, default=10
        Neighbors of a row in the graph and of a new row; all if there are fewer training rows.

    Attributes
    ----------
    classes_ : ndarray
        The classes among the linked rows, sorted.

    Examples
    --------
    >>> from hotview.datasets import load_handwritten, unalign
    >>> from hotview.evaluation import PerViewLabelPropagation
    >>> digits = load_handwritten()
    >>> data = unalign(digits.views, digits.target, random_state=0)
    >>> baseline = PerViewLabelPropagation().fit(data.linked, data.target, unaligned=data.unaligned)
    >>> baseline.score(data.test, data.test_target) > 0.9
    True
    """

    def __init__(self, n_components: int = 20, n_neighbors: int = 10) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def _fit_rows(self, rows: dict[str, Array], codes: IntArray) -> None:
        self._projectors = _fit_projectors(rows, self.n_components)
        self._propagated = {
            name: _propagate_labels(self._projectors[name].transform(X), codes, self.n_neighbors)
            for name, X in rows.items()
        }

    def _probabilities(self, views: dict[str, Array]) -> Array:
        projected = {name: self._projectors[name].transform(X) for name, X in views.items()}
        scores = np.array([self._propagated[name].predict(Z) for name, Z in projected.items()])
        return np.asarray(softmax(np.log(scores + _SCORE_FLOOR).sum(axis=0), axis=1))


class ConcatenatedLabelPropagation(_Baseline):
    """Label propagation on the concatenated views; the unlabeled rows must be aligned.

    As in `PerViewLabelPropagation`, in one graph of the concatenated principal components, each
    view scaled to unit total variance as in `PCALogisticRegression`.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all if a view has fewer.
    n_neighbors : int, default=10
        Neighbors of a row in the graph and of a new row; all if there are fewer training rows.

    Attributes
    ----------
    classes_ : ndarray
        The classes among the linked rows, sorted.

    Examples
    --------
    >>> from hotview.datasets import load_handwritten, unalign
    >>> from hotview.evaluation import ConcatenatedLabelPropagation
    >>> digits = load_handwritten()
    >>> data = unalign(digits.views, digits.target, random_state=0)
    >>> baseline = ConcatenatedLabelPropagation().fit(data.linked, data.target, paired=data.paired)
    >>> baseline.score(data.test, data.test_target) > 0.9
    True
    """

    def __init__(self, n_components: int = 20, n_neighbors: int = 10) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def fit(self, Xs: Views, y: npt.ArrayLike, *, paired: Views | None = None) -> Self:
        """Fit on labeled and on unlabeled rows, both aligned.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows: row i is the same individual in every view.
        y : 1-D array-like
            Their classes: numbers or text, none missing.
        paired : dict, list or tuple of 2-D array-likes, default=None
            More aligned rows of all these views, without labels.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self._fit(Xs, y, paired, aligned=True)

    def _fit_rows(self, rows: dict[str, Array], codes: IntArray) -> None:
        self._projectors = _fit_projectors(rows, self.n_components)
        components = _concatenate_components(self._projectors, rows)
        self._propagated = _propagate_labels(components, codes, self.n_neighbors)

    def _probabilities(self, views: dict[str, Array]) -> Array:
        return self._propagated.predict(_concatenate_components(self._projectors, views))


def _fit_projectors(rows: dict[str, Array], n_components: int) -> dict[str, Pipeline]:
    """Fit standardization and PCA of each view, with all components if there are fewer."""
    projectors = {}
    for name, X in rows.items():
        n_kept = min(check_count("n_components", n_components), *X.shape)
        # As accurate as the full decomposition, and ten times faster for wide views.
        solver = "arpack" if 0 < _WIDE * n_kept < min(X.shape) else "full"
        pca = PCA(n_kept, svd_solver=solver, random_state=0)
        with np.errstate(invalid="ignore"):  # explained variance of a constant view is 0 / 0
            projectors[name] = make_pipeline(StandardScaler(), pca).fit(X)
    return projectors


def _concatenate_components(projectors: dict[str, Pipeline], views: dict[str, Array]) -> Array:
    """Return the principal components of all views, each scaled to unit total variance."""
    return np.hstack(
        [1.0 / np.sqrt(X.shape[1]) * projectors[name].transform(X) for name, X in views.items()]
    )


@dataclass(frozen=True)
class _PropagatedLabels:
    """Class scores of the training rows, and the index of their nearest neighbors."""

    neighbors: NearestNeighbors
    scores: Array

    def predict(self, Z: Array) -> Array:
        """Return the mean score of the nearest training rows of each new row."""
        nearest = self.neighbors.kneighbors(Z, return_distance=False)
        return np.asarray(self.scores[nearest].mean(axis=1))


def _propagate_labels(Z: Array, codes: IntArray, n_neighbors: int) -> _PropagatedLabels:
    """Propagate the labels of the first rows along the nearest-neighbor graph."""
    n_nearest = min(check_count("n_neighbors", n_neighbors), len(Z) - 1)
    neighbors = NearestNeighbors(n_neighbors=n_nearest).fit(Z)
    A = neighbors.kneighbors_graph()  # no row is its own neighbor
    A = (A + A.T) / 2
    labels = np.concatenate([codes, np.full(len(Z) - len(codes), -1)])
    model = LabelSpreading(kernel=lambda *_: A, alpha=_ALPHA, max_iter=_MAX_ITER, tol=_TOLERANCE)
    scores = model.fit(Z, labels).label_distributions_
    mass = scores / np.bincount(codes)  # each class starts with mass 1
    total = mass.sum(axis=1, keepdims=True)
    uniform = np.full_like(mass, 1.0 / mass.shape[1])  # for rows that no label reaches
    return _PropagatedLabels(neighbors, np.divide(mass, total, out=uniform, where=total > 0))


def _check_rows(views: Views, columns: dict[str, int] | None, *, aligned: bool) -> dict[str, Array]:
    """Check views against the `columns` in fit: all of them if rows are aligned, else a subset."""
    arrays = check_views(views, aligned=aligned)
    for name, X in arrays.items():
        if not np.isfinite(X).all():
            raise ValueError(
                f"Expected view {name!r} to hold finite numbers, but some are missing or infinite. "
                "Fill them in, for instance with sklearn.impute.SimpleImputer."
            )
    expected = {name: X.shape[1] for name, X in arrays.items()} if columns is None else columns
    if not arrays.keys() <= expected.keys() or (aligned and len(arrays) < len(expected)):
        raise ValueError(
            f"Expected {'all' if aligned else 'some'} of the labeled rows' views in fit, "
            f"{list(expected)}, but got {list(arrays)}. Call a view by one name everywhere."
        )
    for name, X in arrays.items():
        if X.shape[1] != expected[name]:
            raise ValueError(
                f"Expected view {name!r} to have {expected[name]} columns like the labeled rows "
                f"in fit, but it has {X.shape[1]}. Pass the same columns in the same order."
            )
    return {name: X.astype(np.float64, copy=False) for name, X in arrays.items()}
