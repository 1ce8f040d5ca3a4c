"""Baselines: multi-view classifiers made of scikit-learn alone."""

from dataclasses import replace
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from hotview._types import Array, IntArray, Views
from hotview._validation import check_count
from hotview._validation.tables import check_aligned
from hotview.evaluation.baseline_base import ConcatenatedBaseline, UnalignedBaseline
from hotview.evaluation.baseline_rows import (
    BaselineRows,
    are_present,
    have_any,
    read_rows,
    stack_rows,
)

#: Inverse penalty C of logistic regression on components: as blocks of unit variance have small
#: entries, scikit-learn's default of 1 is too strong a penalty.
_COMPONENTS_C = 10.0
#: Maximum number of iterations; scikit-learn's default of 100 is too small for wide views.
_LOGISTIC_ITER = 10_000
#: Label spreading: α; it converges as αⁿ, long before the maximum number of iterations.
_ALPHA, _MAX_ITER, _TOLERANCE = 0.95, 2000, 1e-10
#: Added to the scores of each view before they are multiplied, so that no view can veto a class.
_SCORE_FLOOR = 0.01


class _Logistic(ConcatenatedBaseline):
    """Base of logistic regression on the outer join of all labeled rows."""

    def _fit_logistic(self, rows: BaselineRows, C: float) -> None:
        parts, codes = zip(*rows.labeled_parts(), strict=True)
        Z = np.vstack([self._concatenate(part) for part in parts])
        self._n_classes = len(rows.classes)
        self._model = LogisticRegression(C=C, max_iter=_LOGISTIC_ITER)
        self._model.fit(Z, np.concatenate(codes))

    def _probabilities(self, views: dict[str, Array]) -> Array:
        known = self._model.predict_proba(self._concatenate(views))
        P: Array = np.zeros((len(known), self._n_classes))
        P[:, self._model.classes_] = known
        return P


class ConcatenatedLogisticRegression(_Logistic, UnalignedBaseline):
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

    def _fit_views(self, rows: BaselineRows) -> None:
        self._fit_transformers(rows)
        self._fit_logistic(rows, C=1.0)


class PCALogisticRegression(_Logistic, UnalignedBaseline):
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

    def __init__(self, n_components: int = 20) -> None:
        self.n_components = n_components

    def _fit_views(self, rows: BaselineRows) -> None:
        self._fit_transformers(rows, self.n_components)
        self._fit_logistic(rows, C=_COMPONENTS_C)


class _LabelPropagation(ConcatenatedBaseline):
    """Base of label propagation: the parameters."""

    def __init__(self, n_components: int = 20, n_neighbors: int = 10) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors


class PerViewLabelPropagation(_LabelPropagation, UnalignedBaseline):
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

    def _fit_views(self, rows: BaselineRows) -> None:
        self._fit_transformers(rows, self.n_components)
        self._propagated = {}
        for name, transformer in self._transformers.items():
            X, codes = rows.of_view(name)
            Z, n_classes = transformer.transform(X), len(rows.classes)
            self._propagated[name] = _propagate_labels(Z, codes, n_classes, self.n_neighbors)

    def _probabilities(self, views: dict[str, Array]) -> Array:
        scores = []
        for name, X in views.items():
            known = self._propagated[name].predict(self._transformers[name].transform(X))
            score = np.log(known + _SCORE_FLOOR)
            scores.append(np.where(are_present(X)[:, None], score, 0.0))
        return np.asarray(softmax(np.array(scores).sum(axis=0), axis=1))


class ConcatenatedLabelPropagation(_LabelPropagation):
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

    def fit(self, Xs: Views, y: npt.ArrayLike, *, paired: Views | None = None) -> Self:
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
        rows = read_rows(Xs, y, paired)
        if more := rows.unaligned:
            if len(more) < len(rows.linked):
                raise ValueError(
                    f"Expected paired to hold all of the views {list(rows.linked)}, but got "
                    f"{list(more)}. Pass the rows of every view."
                )
            check_aligned(sizes := {name: X.shape[0] for name, X in more.items()})
            linked = {name: stack_rows([X, more[name]]) for name, X in rows.linked.items()}
            codes = np.concatenate([rows.codes, np.full(max(sizes.values()), -1)])
            rows = replace(rows, linked=linked, codes=codes, unaligned={}, unaligned_codes={})
        return self._fit_rows(rows)

    def _fit_views(self, rows: BaselineRows) -> None:
        self._fit_transformers(rows, self.n_components)
        Z, present = self._concatenate(rows.linked), have_any(rows.linked)
        self._propagated = _propagate_labels(
            Z[present], rows.codes[present], len(rows.classes), self.n_neighbors
        )

    def _probabilities(self, views: dict[str, Array]) -> Array:
        return np.asarray(self._propagated.predict(self._concatenate(views)))


def _propagate_labels(
    Z: Array, codes: IntArray, n_classes: int, n_neighbors: int
) -> KNeighborsRegressor:
    """Propagate the labels along the nearest-neighbor graph; rows without one have code −1.

    The result predicts the mean class scores of the nearest training rows.
    """
    n_nearest = min(check_count("n_neighbors", n_neighbors), len(Z) - 1)
    A = NearestNeighbors(n_neighbors=n_nearest).fit(Z).kneighbors_graph()  # without self-loops
    A = (A + A.T) / 2
    model = LabelSpreading(kernel=lambda *_: A, alpha=_ALPHA, max_iter=_MAX_ITER, tol=_TOLERANCE)
    scores = model.fit(Z, codes).label_distributions_
    mass = scores / np.bincount(codes[codes >= 0])[model.classes_]  # each class starts with mass 1
    total = mass.sum(axis=1, keepdims=True)
    uniform = np.full_like(mass, 1.0 / mass.shape[1])  # for rows that no label reaches
    share = np.zeros((len(Z), n_classes))
    share[:, model.classes_] = np.divide(mass, total, out=uniform, where=total > 0)
    return KNeighborsRegressor(n_neighbors=n_nearest).fit(Z, share)
