"""Predictors of new rows: nearest neighbors in every view, and a ridge regression on all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.knn import KNNPredictor
from hotview.semisupervised.pseudo_labels import ViewLabels

__all__ = ["RidgePredictor", "ViewPredictors", "fit_predictors", "fit_ridge"]

_PENALTIES = 10.0 ** np.arange(-4, 2)  # relative to the mean squared length of a row
_SHARPNESS = np.exp(np.linspace(-1, 4, 26))


@dataclass(frozen=True)
class RidgePredictor:
    """Class scores that are linear in the standardized columns of all views.

    Parameters
    ----------
    weights : list of Tensor of float64, shape (n_columns, n_classes)
        Weights of every view's columns.
    intercept : Tensor of float64, shape (n_classes,)
        Intercepts of the classes.
    """

    weights: list[Tensor]
    intercept: Tensor

    def predict_log_proba(self, Xs: Sequence[Tensor]) -> Tensor:
        """Log-probabilities, up to a constant of every row, of rows that have all views."""
        parts = [X.double() @ B for X, B in zip(Xs, self.weights, strict=True)]
        return torch.stack(parts).sum(0) + self.intercept

    def to(self, device: torch.device | str) -> RidgePredictor:
        """The same predictor on another device."""
        return RidgePredictor([B.to(device) for B in self.weights], self.intercept.to(device))


@dataclass(frozen=True)
class ViewPredictors:
    """A nearest-neighbor predictor of every view, and a joint one of all views.

    Parameters
    ----------
    knn : list of KNNPredictor
        The predictor of every view.
    ridge : RidgePredictor or None
        The joint predictor; None where linked rows do not have labels of all classes.
    """

    knn: list[KNNPredictor]
    ridge: RidgePredictor | None
    #: neighbors depend on features in float64; in float32, rounding would choose among them
    exact_features: ClassVar[bool] = True

    def predict_log_proba(self, Xs: Mapping[int, Tensor], features: Mapping[int, Tensor]) -> Tensor:
        """Log-probabilities by every view and, where all views are present, by all jointly.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Standardized rows of the views that are present, by number of the view.
        features : dict of int to Tensor of shape (n_rows, encoder_dim)
            Features of the same rows; without columns where graphs were not refined by features.

        Returns
        -------
        Tensor of float64, shape (n_rows, n_views, n_classes) or (n_rows, n_views + 1, n_classes)
            Up to a constant of every row and predictor; 0 for views that are absent.
        """
        by_view = {}
        for s, X in Xs.items():
            by_view[s] = self.knn[s].predict_log_proba(X, features[s])
        absent = torch.zeros_like(next(iter(by_view.values())))
        log_probs = [by_view.get(s, absent) for s in range(len(self.knn))]
        if self.ridge is not None and len(Xs) == len(self.knn):
            log_probs.append(self.ridge.predict_log_proba([Xs[s] for s in range(len(self.knn))]))
        return torch.stack(log_probs, dim=1)


def fit_predictors(
    graphs: Sequence[ViewGraph],
    probabilities: Sequence[Array],
    labels: ViewLabels,
    features: Sequence[tuple[Array, float]] = (),
) -> ViewPredictors:
    """Fit predictors of new rows: nearest neighbors in every view, and a ridge regression on all.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    probabilities : sequence of ndarray of shape (n_nodes, n_classes)
        Class probabilities of its nodes, from `propagate_labels`.
    labels : ViewLabels
        The labels, to which the ridge regression is fitted.
    features : sequence of (ndarray, float), default=()
        From `encode_nodes` for every view; none where neighbors are found by components alone.

    Returns
    -------
    ViewPredictors
        The predictors, on the device of the rows.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn.decomposition import PCA
    >>> from hotview.semisupervised.graph import build_graph
    >>> from hotview.semisupervised.predictors import fit_predictors
    >>> from hotview.semisupervised.pseudo_labels import ViewLabels, propagate_labels
    >>> random = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> Xs = [random.normal(size=(60, n)) + 3 * y[:, None] for n in (2, 3)]
    >>> graphs = [build_graph(X, PCA().fit(X), 5, random) for X in Xs]
    >>> codes = np.where(np.arange(60) < 6, y, -1)  # six labels
    >>> links = np.repeat(np.arange(60)[:, None], 2, axis=1)  # row i is one individual
    >>> labels = ViewLabels([codes, codes], links, np.ones(2))
    >>> model = fit_predictors(graphs, propagate_labels(graphs, labels, random), labels)
    >>> rows = {s: torch.as_tensor(X, dtype=torch.float32) for s, X in enumerate(Xs)}
    >>> none = {s: torch.empty(60, 0) for s in rows}  # no features of a network
    >>> log_probs = model.predict_log_proba(rows, none)  # by two views, and jointly
    >>> (log_probs.argmax(2).numpy() == y[:, None]).mean(axis=0) > 0.9
    array([ True,  True,  True])
    """
    knn = []
    for s, (graph, p) in enumerate(zip(graphs, probabilities, strict=True)):
        F, scale = features[s] if features else (np.empty((len(p), 0), np.float32), 1.0)
        as_float32 = partial(torch.as_tensor, dtype=torch.float32, device=graph.rows.device)
        points = as_float32(np.hstack([graph.points, F]))
        knn.append(KNNPredictor(graph.basis, scale, points, as_float32(p), graph.n_neighbors))
    target = labels.target
    labeled = np.flatnonzero(target >= 0)
    if len(np.unique(target[labeled])) < len(labels.class_weight):
        return ViewPredictors(knn, None)
    Xs = [
        graph.rows.take(rows).cpu().numpy()
        for graph, rows in zip(graphs, labels.aligned[labeled].T, strict=True)
    ]
    ridge = fit_ridge(Xs, target[labeled], labels.class_weight)
    return ViewPredictors(knn, ridge.to(graphs[0].rows.device))


def fit_ridge(Xs: Sequence[Array], target: IntArray, class_weight: Array) -> RidgePredictor:
    r"""Fit one-hot classes by least squares, with equal weight of every view.

    .. math:: \min_B \sum_i w_i \|y_i - \tfrac1K - x_i B\|^2 + λ \|B\|^2

    The penalty λ, and a factor that turns scores into logits, maximize the leave-one-out
    likelihood, which follows from the diagonal of the projection matrix.

    Parameters
    ----------
    Xs : sequence of ndarray of shape (n_rows, n_columns)
        Standardized rows of every view; row i is the same individual in all of them.
    target : ndarray of int64
        Their classes, each of which occurs.
    class_weight : ndarray of shape (n_classes,)
        Total weight of each class.

    Returns
    -------
    RidgePredictor
        The softmax of its scores are class probabilities.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from hotview.semisupervised.predictors import fit_ridge
    >>> X = np.array([[-1.0], [-0.9], [0.9], [1.0]])
    >>> ridge = fit_ridge([X, -X], np.array([0, 0, 1, 1]), np.ones(2))
    >>> ridge.predict_log_proba([torch.tensor(X), torch.tensor(-X)]).argmax(axis=1)
    tensor([0, 0, 1, 1])
    """
    some = class_weight[target] > 0  # rows of a class of weight 0 are left out
    Xs, target = [X[some] for X in Xs], target[some]
    n, n_classes = len(target), len(class_weight)
    # Divided by the root of their number, the columns of every view have a total weight of 1.
    X = np.hstack([X.astype(np.float64) / np.sqrt(X.shape[1]) for X in Xs])
    length = np.sqrt(max(float((X * X).sum()) / n, np.finfo(np.float64).tiny))
    X = np.hstack([X / length, np.ones((n, 1))])
    counts = np.bincount(target, minlength=n_classes)
    w = np.sqrt(class_weight[target] / counts[target])
    w *= np.sqrt(n / (w * w).sum())
    Y = np.eye(n_classes)[target] - 1 / n_classes
    B = _fit_coefficients(X * w[:, None], Y * w[:, None], w, target)
    parts = np.split(B[:-1] / length, np.cumsum([X.shape[1] for X in Xs])[:-1])
    weights = [part / np.sqrt(X.shape[1]) for part, X in zip(parts, Xs, strict=True)]
    return RidgePredictor([torch.as_tensor(B) for B in weights], torch.as_tensor(B[-1]))


def _fit_coefficients(X: Array, Y: Array, w: Array, target: IntArray) -> Array:
    """Coefficients for the penalty and sharpness with the best leave-one-out likelihood."""
    n, wide = len(X), X.shape[1] > len(X)
    values, V = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    values = np.maximum(values, 0.0)
    U = V if wide else X @ V  # else columns of U carry the singular values
    UY = U.T @ Y
    best, penalty, sharpness = np.inf, 0.0, 0.0
    for lam in _PENALTIES * n:
        shrink = values / (values + lam) if wide else 1 / (values + lam)
        leverage = np.minimum(((U * U) * shrink).sum(axis=1), 1 - 1e-9)
        left_out = (Y - (Y - (U * shrink) @ UY) / (1 - leverage)[:, None]) / w[:, None]
        for t in _SHARPNESS:
            loss = -log_softmax(t * left_out, axis=1)[np.arange(n), target].mean()
            if loss < best:
                best, penalty, sharpness = loss, lam, t
    solved = UY / (values + penalty)[:, None]
    B: Array = X.T @ (U @ solved) if wide else V @ solved
    return sharpness * B
