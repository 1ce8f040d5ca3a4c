"""What a user could do with scikit-learn alone: the rows that every table of ours must carry."""

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

#: Inverse penalty C of the logistic regression on principal components. Blocks of unit variance
#: have small entries, which scikit-learn's 1 would hold too close to zero.
_COMPONENTS_C = 10.0

#: Views of so many times as many rows and columns as components are decomposed in part.
_WIDE = 5

#: Proportion of a row's score that comes from its neighbors in every step of label spreading.
_SPREADING = 0.95

#: Spreading forgets its start as 0.95ⁿ, so that it is always done long before so many steps.
_SPREADING_STEPS, _SPREADING_TOLERANCE = 2000, 1e-10

#: What a view that rules a class out still leaves to it, when the views' scores are multiplied.
_SCORE_FLOOR = 0.01

#: scikit-learn's 100 steps are too few for hundreds of columns, and it would warn.
_LOGISTIC_STEPS = 10_000


class _Baseline(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """What all baselines share: the gate, the classes, predictions and their score."""

    classes_: Array
    _columns: dict[str, int]

    def predict_proba(self, Xs: Views) -> Array:
        """Return the probability of every class, in the order of ``classes_``.

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
        views = _check_same(Xs, self._columns, aligned=True)
        return self._probabilities({name: views[name] for name in self._columns})

    def predict(self, Xs: Views) -> Array:
        """Return the most probable class of every row.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows of the views seen in `fit`.

        Returns
        -------
        ndarray of shape (n_rows,)
            Entries of ``classes_``.
        """
        best: Array = self.predict_proba(Xs).argmax(axis=1)
        return self.classes_[best]

    def score(self, Xs: Views, y: npt.ArrayLike) -> float:
        """Return the share of rows whose class is predicted right.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows of the views seen in `fit`.
        y : 1-D array-like
            Their true classes, which `fit` need not have seen.

        Returns
        -------
        float
            The accuracy, from 0 to 1.
        """
        predicted = self.predict(Xs)
        return float(accuracy_score(check_target(y, len(predicted)), predicted))

    def _fit(self, Xs: Views, y: npt.ArrayLike, more: Views | None, *, aligned: bool) -> Self:
        """Learn from labeled rows and, where there are more, from unlabeled ones."""
        linked = _finite(check_views(Xs, aligned=True))
        classes, codes = _encode(check_target(y, len(next(iter(linked.values())))))
        columns = {name: X.shape[1] for name, X in linked.items()}
        rest = {} if more is None else _check_same(more, columns, aligned=aligned)
        rows = {name: np.vstack([X, rest.get(name, X[:0])]) for name, X in linked.items()}
        self._learn(rows, codes)
        self.classes_, self._columns = classes, columns
        return self

    @abstractmethod
    def _learn(self, rows: dict[str, Array], codes: IntArray) -> None:
        """Learn from all training rows, of which the first have the classes in `codes`."""

    @abstractmethod
    def _probabilities(self, views: dict[str, Array]) -> Array:
        """Return the probability of every class for checked views."""


class _UnalignedBaseline(_Baseline):
    """A baseline that uses rows without correspondence."""

    def fit(self, Xs: Views, y: npt.ArrayLike, *, unaligned: Views | None = None) -> Self:
        """Learn from linked, labeled rows and from rows without correspondence or label.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows: row i is the same individual in every view.
        y : 1-D array-like
            Their classes: numbers or text, none missing.
        unaligned : dict, list or tuple of 2-D array-likes, default=None
            More rows of these views, or of some of them: any number per view.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self._fit(Xs, y, unaligned, aligned=False)


class _LogisticBaseline(_UnalignedBaseline):
    """Logistic regression of the linked rows on the concatenation of what is made of each view."""

    _inverse_penalty = 1.0

    @abstractmethod
    def _fit_block(self, X: Array) -> "_Block":
        """Learn what to make of a view from all its training rows."""

    def _learn(self, rows: dict[str, Array], codes: IntArray) -> None:
        self._blocks = {name: self._fit_block(X) for name, X in rows.items()}
        linked = {name: X[: len(codes)] for name, X in rows.items()}
        model = LogisticRegression(C=self._inverse_penalty, max_iter=_LOGISTIC_STEPS)
        self._model = model.fit(_concatenate(self._blocks, linked), codes)

    def _probabilities(self, views: dict[str, Array]) -> Array:
        proba: Array = self._model.predict_proba(_concatenate(self._blocks, views))
        return proba


class ConcatenatedLogisticRegression(_LogisticBaseline):
    """Logistic regression on the labeled rows, all views side by side.

    Every column is standardized on all training rows of its view, linked and unaligned; the
    regression (scikit-learn's, with its default penalty) sees the linked rows only.

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

    def _fit_block(self, X: Array) -> "_Block":
        return _Block(make_pipeline(StandardScaler()).fit(X), 1.0)


class PCALogisticRegression(_LogisticBaseline):
    """Logistic regression on the leading principal components of every view, side by side.

    Each view is standardized, scaled to unit total variance (so that a view of 6 columns counts
    as much as one of 240) and projected on its principal directions, all of them learned from
    all its training rows, linked and unaligned. The regression (C = 10) sees the linked rows only.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all of them where a view has fewer.

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
    >>> baseline = PCALogisticRegression()
    >>> baseline = baseline.fit(data.linked, data.target, unaligned=data.unaligned)
    >>> baseline.score(data.test, data.test_target) > 0.85
    True
    """

    _inverse_penalty = _COMPONENTS_C

    def __init__(self, n_components: int = 20) -> None:
        self.n_components = n_components

    def _fit_block(self, X: Array) -> "_Block":
        return _unit_block(X, self.n_components)


class PerViewLabelPropagation(_UnalignedBaseline):
    """Label propagation in every view on its own, the views' scores multiplied in the end.

    The probability of class k for a row x with parts x_s is::

        p(k | x) ∝ Π_s (score_sk(x_s) + 0.01)

    Each view is standardized and projected on its leading principal components, learned from all
    its training rows, linked and unaligned. There, scikit-learn's `LabelSpreading` (α = 0.95)
    passes the linked rows' labels on along the symmetrized graph of nearest neighbors, every
    class starting with the same total mass, so that many labels of one class do not drown
    another; a row's scores sum to 1. A new row takes the mean score of its nearest training rows.
    No alignment of the unlabeled rows is used, and no new row is in a graph.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all of them where a view has fewer.
    n_neighbors : int, default=10
        Neighbors of a row in the graph, and of a new row among the training rows; all of the
        others where a view has fewer rows.

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
    >>> baseline = PerViewLabelPropagation()
    >>> baseline = baseline.fit(data.linked, data.target, unaligned=data.unaligned)
    >>> baseline.score(data.test, data.test_target) > 0.9
    True
    """

    def __init__(self, n_components: int = 20, n_neighbors: int = 10) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def _learn(self, rows: dict[str, Array], codes: IntArray) -> None:
        self._projectors = {name: _projector(X, self.n_components) for name, X in rows.items()}
        self._labels = {
            name: _spread_labels(self._projectors[name].transform(X), codes, self.n_neighbors)
            for name, X in rows.items()
        }

    def _probabilities(self, views: dict[str, Array]) -> Array:
        scores = [self._labels[s].score(self._projectors[s].transform(X)) for s, X in views.items()]
        proba: Array = softmax(np.log(np.array(scores) + _SCORE_FLOOR).sum(axis=0), axis=1)
        return proba


class ConcatenatedLabelPropagation(_Baseline):
    """Label propagation on all views side by side, for which the unlabeled rows must be aligned.

    The principal components of all views, each view scaled to unit total variance as in
    `PCALogisticRegression`, give the distance between two rows. Labels are then passed on and
    read as in `PerViewLabelPropagation`, in one graph instead of one per view.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all of them where a view has fewer.
    n_neighbors : int, default=10
        Neighbors of a row in the graph, and of a new row among the training rows; all of the
        others where there are fewer rows.

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
    >>> baseline = ConcatenatedLabelPropagation()
    >>> baseline = baseline.fit(data.linked, data.target, paired=data.paired)
    >>> baseline.score(data.test, data.test_target) > 0.9
    True
    """

    def __init__(self, n_components: int = 20, n_neighbors: int = 10) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors

    def fit(self, Xs: Views, y: npt.ArrayLike, *, paired: Views | None = None) -> Self:
        """Learn from labeled and from unlabeled rows, both aligned.

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

    def _learn(self, rows: dict[str, Array], codes: IntArray) -> None:
        self._blocks = {name: _unit_block(X, self.n_components) for name, X in rows.items()}
        self._labels = _spread_labels(_concatenate(self._blocks, rows), codes, self.n_neighbors)

    def _probabilities(self, views: dict[str, Array]) -> Array:
        return self._labels.score(_concatenate(self._blocks, views))


@dataclass(frozen=True)
class _Block:
    """What is made of a view before it is put beside the others."""

    steps: Pipeline
    weight: float

    def transform(self, X: Array) -> Array:
        block: Array = self.weight * self.steps.transform(X)
        return block


@dataclass(frozen=True)
class _SpreadLabels:
    """Training rows with a score for every class, to be read by new rows."""

    neighbors: NearestNeighbors
    scores: Array

    def score(self, Z: Array) -> Array:
        """Return the mean score of the nearest training rows."""
        nearest = self.neighbors.kneighbors(Z, return_distance=False)
        scores: Array = self.scores[nearest].mean(axis=1)
        return scores


def _projector(X: Array, n_components: int) -> Pipeline:
    """Fit standardization and the leading principal components, as many as there are."""
    n_kept = min(check_count("n_components", n_components), *X.shape)
    # As exact as the full decomposition, and of wide views ten times faster.
    solver = "arpack" if 0 < _WIDE * n_kept < min(X.shape) else "full"
    pca = PCA(n_kept, svd_solver=solver, random_state=0)
    with np.errstate(invalid="ignore"):  # a constant view: PCA reports 0 / 0 explained variance
        return make_pipeline(StandardScaler(), pca).fit(X)


def _unit_block(X: Array, n_components: int) -> _Block:
    """Keep the leading components of a view scaled to unit total variance."""
    return _Block(_projector(X, n_components), 1.0 / np.sqrt(X.shape[1]))


def _concatenate(blocks: dict[str, _Block], views: dict[str, Array]) -> Array:
    return np.hstack([blocks[name].transform(X) for name, X in views.items()])


def _spread_labels(Z: Array, codes: IntArray, n_neighbors: int) -> _SpreadLabels:
    """Pass the labels of the first rows on along the graph of nearest neighbors."""
    n_nearest = min(check_count("n_neighbors", n_neighbors), len(Z) - 1)
    neighbors = NearestNeighbors(n_neighbors=n_nearest).fit(Z)
    A = neighbors.kneighbors_graph()  # no row is its own neighbor
    A = (A + A.T) / 2
    labels = np.concatenate([codes, np.full(len(Z) - len(codes), -1)])
    model = LabelSpreading(
        kernel=lambda *_: A,
        alpha=_SPREADING,
        max_iter=_SPREADING_STEPS,
        tol=_SPREADING_TOLERANCE,
    ).fit(Z, labels)
    return _SpreadLabels(neighbors, _balance(model.label_distributions_, codes))


def _balance(scores: Array, codes: IntArray) -> Array:
    """Score as if every class had started with the same total mass: spreading is linear."""
    mass = scores / np.bincount(codes)
    total = mass.sum(axis=1, keepdims=True)
    unknown = np.full_like(mass, 1.0 / mass.shape[1])  # for rows that no label reaches
    balanced: Array = np.divide(mass, total, out=unknown, where=total > 0)
    return balanced


def _encode(labels: Array) -> tuple[Array, IntArray]:
    """Return the classes and, for every label, the number of its class."""
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"Expected y to hold at least two classes, but all its {len(labels)} entries are "
            f"{classes.tolist()[0]!r}. Add labeled rows of another class."
        )
    return classes, codes.astype(np.int64, copy=False)


def _finite(views: dict[str, Array]) -> dict[str, Array]:
    """Take views as float64, refusing what has gaps."""
    for name, X in views.items():
        if not np.isfinite(X).all():
            raise ValueError(
                f"Expected view {name!r} to hold finite numbers, but some are missing or infinite. "
                "Fill them in, for instance with sklearn.impute.SimpleImputer."
            )
    return {name: X.astype(np.float64, copy=False) for name, X in views.items()}


def _check_same(views: Views, columns: dict[str, int], *, aligned: bool) -> dict[str, Array]:
    """Check views against those in fit: all of them if rows are aligned, else none but them."""
    arrays = _finite(check_views(views, aligned=aligned))
    if not arrays.keys() <= columns.keys() or (aligned and len(arrays) < len(columns)):
        raise ValueError(
            f"Expected {'all' if aligned else 'some'} of the labeled rows' views in fit, "
            f"{list(columns)}, but got {list(arrays)}. Call a view by one name everywhere."
        )
    for name, X in arrays.items():
        if X.shape[1] != columns[name]:
            raise ValueError(
                f"Expected view {name!r} to have {columns[name]} columns like the labeled rows "
                f"in fit, but it has {X.shape[1]}. Pass the same columns in the same order."
            )
    return arrays
