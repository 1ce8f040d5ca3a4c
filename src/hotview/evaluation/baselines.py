"""Baselines: multi-view classifiers made of scikit-learn alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, IntArray, Views
from hotview._validation import check_count
from hotview.evaluation.baseline_rows import BaselineRows, ViewTransformer, read_blocks, read_rows

__all__ = [
    "ConcatenatedLabelPropagation",
    "ConcatenatedLogisticRegression",
    "PCALogisticRegression",
    "PerViewLabelPropagation",
]

#: Maximum number of iterations; scikit-learn's default of 100 is too small for wide views.
_LOGISTIC_ITER = 10_000
#: Label spreading: α; it converges as αⁿ, long before the maximum number of iterations.
_ALPHA, _MAX_ITER, _TOLERANCE = 0.95, 2000, 1e-10
#: Added to the scores of each view before they are multiplied, so that no view can veto a class.
_SCORE_FLOOR = 0.01


class Baseline(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the baselines.

    A baseline is fitted in the views that have labels of at least two classes. Linked rows without
    a label then get the class that it predicts for them, with which it is fitted in the other
    views. A row that has neither kind of view gets the shares of the classes.
    """

    n_components: int | None = None
    classes_: Array

    def fit(
        self,
        Xs: Views | None,
        y: npt.ArrayLike | None,
        *,
        unaligned: Views | None = None,
        unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Self:
        """Fit on linked and on unaligned rows, some of them labeled.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes, or None
            Aligned rows: row i is the same individual in every view. NaN throughout a view marks
            an absent row, NaN a missing cell. None if nobody is linked.
        y : 1-D array-like, or None
            Their classes: numbers or text; NaN or None marks a row without a label.
        unaligned : dict, list or tuple of 2-D array-likes, default=None
            More rows of some or all of these views, any number per view.
        unaligned_y : dict of str to 1-D array-like, default=None
            Classes of some views' unaligned rows, with gaps as in `y`.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self._fit_rows(read_rows(Xs, y, unaligned, unaligned_y))

    def predict_proba(self, Xs: Views) -> Array:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows of views seen in `fit`. Views, rows and cells may be missing: None or
            left out, NaN throughout, NaN.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Rows that sum to 1.
        """
        check_is_fitted(self, "classes_")
        return np.vstack([self._predict_rows(rows) for rows in read_blocks(Xs, self._columns)])

    def predict(self, Xs: Views) -> Array:
        """Return the most probable class of each row.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `predict_proba`.

        Returns
        -------
        ndarray of shape (n_rows,)
            Entries of ``classes_``.
        """
        best = self.predict_proba(Xs).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _fit_rows(self, rows: BaselineRows) -> Self:
        """Fit in the views that have labels, and carry these to the other views."""
        self._labeled_views = rows.labeled_views()
        self._columns, self._shares, self._of_others = rows.columns, rows.shares, None
        self.classes_ = rows.classes
        if not self._labeled_views:
            return self
        source = rows.select(self._labeled_views)
        if (n := self.n_components) is not None:
            check_count("n_components", n)
        self._transformers = {s: ViewTransformer(X, n) for s, X in source.views.items()}
        self._fit_views(source)
        # Linked rows without a label get the classes that are predicted for them in other views.
        others = [name for name in rows.views if name not in self._labeled_views]
        carried = (rows.codes < 0) & source.present & rows.select(others).present
        codes = rows.codes.copy()
        if carried.any():
            codes[carried] = self._probabilities(source.take(carried)).argmax(axis=1)
        rest = replace(rows, codes=codes).select(others)
        if rest.labeled_views():
            self._of_others = clone(self)._fit_rows(rest)
        return self

    def _predict_rows(self, rows: BaselineRows) -> Array:
        """Return probabilities from labeled views, else from other views, else class shares."""
        P = np.tile(self._shares, (len(rows.codes), 1))
        if self._of_others is not None:
            P = self._of_others._predict_rows(rows)
        known = rows.select(self._labeled_views)
        if (present := known.present).any():
            P[present] = self._probabilities(known.take(present))
        return P

    def _concatenate(self, rows: BaselineRows) -> Array:
        """Return the transformed views next to each other; zeros for absent views."""
        blocks = []
        for name, transformer in self._transformers.items():
            Z = np.zeros((len(rows.codes), transformer.width))
            if name in rows.views:
                own = transformer.transform(rows.views[name])
                Z[rows.individuals[name]] = transformer.scale * own
            blocks.append(Z)
        return np.hstack(blocks)

    @abstractmethod
    def _fit_views(self, rows: BaselineRows) -> None:
        """Fit on views that all have labels, and that have transformers."""

    @abstractmethod
    def _probabilities(self, rows: BaselineRows) -> Array:
        """Return the probability of each class for individuals that have one of the views."""


class ConcatenatedLogisticRegression(Baseline):
    """Logistic regression on the concatenated views of the labeled rows.

    Columns are standardized on all training rows of their view, linked and unaligned; the
    regression (with scikit-learn's default penalty) is fitted on all rows with a label. Missing
    views and cells get the mean of the column.

    Attributes
    ----------
    classes_ : ndarray
        The classes that occur, sorted.

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

    _C = 1.0  # inverse penalty

    def _fit_views(self, rows: BaselineRows) -> None:
        labeled = rows.take(rows.codes >= 0)
        model = LogisticRegression(C=self._C, max_iter=_LOGISTIC_ITER)
        self._model = model.fit(self._concatenate(labeled), labeled.codes)

    def _probabilities(self, rows: BaselineRows) -> Array:
        P: Array = np.zeros((len(rows.codes), len(self._shares)))
        P[:, self._model.classes_] = self._model.predict_proba(self._concatenate(rows))
        return P


class PCALogisticRegression(ConcatenatedLogisticRegression):
    """Logistic regression on the concatenated principal components of each view.

    Each view is standardized, scaled to unit total variance (so that a view of 6 columns has the
    weight of one of 240) and projected on its principal directions, all estimated from all its
    training rows, linked and unaligned. The regression (C = 10) is fitted on all rows with a label.
    Missing views and cells get the mean of the column.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all if a view has fewer.

    Attributes
    ----------
    classes_ : ndarray
        The classes that occur, sorted.

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

    # Blocks of unit variance have small entries: scikit-learn's C of 1 is too strong a penalty.
    _C = 10.0

    def __init__(self, n_components: int = 20) -> None:
        self.n_components = n_components


class PerViewLabelPropagation(Baseline):
    """Label propagation in each view separately; the scores of the views are multiplied.

    The probability of class k for a row x with parts x_s is::

        p(k | x) ∝ Π_s (score_sk(x_s) + 0.01)

    Each view is standardized and projected on its leading principal components, estimated from all
    its training rows. scikit-learn's `LabelSpreading` (α = 0.95) propagates the labels along the
    symmetrized k-nearest-neighbor graph, normalized by class mass; scores of a row sum to 1. A new
    row gets the mean score of its nearest training rows; it is not in the graph. A view without
    labels, and a view that a row lacks, contribute nothing.

    Parameters
    ----------
    n_components : int, default=20
        Principal components of each view; all if a view has fewer.
    n_neighbors : int, default=10
        Neighbors of a row in the graph and of a new row; all if there are fewer training rows.

    Attributes
    ----------
    classes_ : ndarray
        The classes that occur, sorted.

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

    def _fit_views(self, rows: BaselineRows) -> None:
        self._propagated = {
            name: self._propagate(self._transformers[name].transform(X), rows.labels(name))
            for name, X in rows.views.items()
        }

    def _probabilities(self, rows: BaselineRows) -> Array:
        scores = np.zeros((len(rows.codes), len(self._shares)))
        for name, X in rows.views.items():
            known = self._propagated[name].predict(self._transformers[name].transform(X))
            scores[rows.individuals[name]] += np.log(known + _SCORE_FLOOR)
        return np.asarray(softmax(scores, axis=1))

    def _propagate(self, Z: Array, codes: IntArray) -> KNeighborsRegressor:
        """Propagate the labels along the nearest-neighbor graph; rows without one have code −1.

        The result predicts the mean class scores of the nearest training rows.
        """
        n_nearest = min(check_count("n_neighbors", self.n_neighbors), len(Z) - 1)
        A = NearestNeighbors(n_neighbors=n_nearest).fit(Z).kneighbors_graph()  # without self-loops
        A = (A + A.T) / 2
        settings = {"alpha": _ALPHA, "max_iter": _MAX_ITER, "tol": _TOLERANCE}
        model = LabelSpreading(kernel=lambda *_: A, **settings)
        scores = model.fit(Z, codes).label_distributions_
        # Each class starts with mass 1.
        mass = scores / np.bincount(codes[codes >= 0])[model.classes_]
        total = mass.sum(axis=1, keepdims=True)
        uniform = np.full_like(mass, 1.0 / mass.shape[1])  # for rows that no label reaches
        share = np.zeros((len(Z), len(self._shares)))
        share[:, model.classes_] = np.divide(mass, total, out=uniform, where=total > 0)
        return KNeighborsRegressor(n_neighbors=n_nearest).fit(Z, share)


class ConcatenatedLabelPropagation(PerViewLabelPropagation):
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
        The classes that occur, sorted.

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

    def fit(  # type: ignore[override]
        self, Xs: Views, y: npt.ArrayLike, *, paired: Views | None = None
    ) -> Self:
        """Fit on labeled and on unlabeled rows, both aligned.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Aligned rows: row i is the same individual in every view; NaN marks what is missing.
        y : 1-D array-like
            Their classes: numbers or text; NaN or None marks a row without a label.
        paired : dict, list or tuple of 2-D array-likes, default=None
            More aligned rows of all these views, without labels.

        Returns
        -------
        self
            The fitted classifier.
        """
        return self._fit_rows(read_rows(Xs, y, paired, paired=True))

    def _fit_views(self, rows: BaselineRows) -> None:
        rows = rows.take(rows.present)
        self._nearest = self._propagate(self._concatenate(rows), rows.codes)

    def _probabilities(self, rows: BaselineRows) -> Array:
        return np.asarray(self._nearest.predict(self._concatenate(rows)))
