"""Ridge regression of classes, on the columns of one view or of whichever views a row has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from scipy.special import entr, log_softmax
from torch import Tensor

from hotview._codec import require, require_array
from hotview._types import Array, IntArray
from hotview.semisupervised.knn import FLOOR
from hotview.semisupervised.propagation import normalize_by_class_mass, propagate

if TYPE_CHECKING:
    from hotview.data import Data
    from hotview.semisupervised.graph import ViewGraph
    from hotview.semisupervised.predictors import LabeledView, ViewInputs

__all__ = [
    "NodeScores",
    "RidgePredictor",
    "certainty",
    "fit_joint_ridge",
    "fit_ridge",
    "score_by_ridge",
    "score_view",
    "thin_rows",
]

_PENALTIES = 10.0 ** np.arange(-4, 2)  # relative to the mean squared length of a row
_SHARPNESS = np.exp(np.linspace(-1, 4, 26))
_MAX_LEVERAGE = 1 - 1e-9
_MIN_ROW_WEIGHT = 1e-3
_MAX_ROWS, _MAX_LEFT_OUT = 20_000, 2000  # to fit to, and to choose the penalty by
_CHUNK = 4096  # rows at a time
_MIN_MASS = 0.3  # of a class that has any


@dataclass(frozen=True)
class RidgePredictor:
    """Class scores that are linear in the standardized columns of some views.

    Parameters
    ----------
    weights : list of Tensor of float64, shape (n_columns, n_classes)
        Weights of every view's columns.
    intercept : Tensor of float64, shape (n_classes,)
        Intercepts of the classes.
    """

    name: ClassVar[str] = "ridge"
    prior_weights: ClassVar[tuple[float, float]] = (0.5, 0.4)
    needs_networks: ClassVar[bool] = False

    weights: list[Tensor]
    intercept: Tensor

    def __post_init__(self) -> None:
        require_array("intercept", self.intercept, (None,), "float64")
        for weights in self.weights:
            require_array("weights", weights, (None, len(self.intercept)), "float64")

    @classmethod
    def fit(cls, view: LabeledView) -> RidgePredictor:
        """The ridge regression of the view, which was fitted with its labels."""
        return view.nodes.ridge.to(view.graph.rows.device)

    def log_scores(self, rows: ViewInputs) -> Tensor:
        """Log-likelihoods of the classes, (n_rows, n_classes)."""
        return self.predict({0: rows.X})

    def check(self, n_columns: int, n_features: int, n_classes: int) -> None:
        """Raise an error unless it is of one view with so many columns and classes."""
        require(len(self.weights) == 1, "its ridge regression is of several views")
        require_array("weights", self.weights[0], (n_columns, n_classes), "float64")

    def condense(self, random: np.random.Generator) -> RidgePredictor:
        """The same predictor: it is small."""
        return self

    def predict(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Log-likelihoods of the classes, up to a constant of every row.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Standardized rows of some views, by number of the view; 0 in absent rows.

        Returns
        -------
        Tensor of float64, shape (n_rows, n_classes)
            Logarithms of posterior over prior probabilities, none of them below that of 0.01: a
            linear function has no bounds far from the rows that it was fitted to.
        """
        parts = [X.double() @ self.weights[s] for s, X in Xs.items()]
        scores = torch.stack(parts).sum(0) + self.intercept
        return (scores.softmax(1) + FLOOR).log()

    def predict_without(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Log-likelihoods of the classes by all views but one, for every one.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            As of `predict`, of all views.

        Returns
        -------
        Tensor of float64, shape (n_rows, n_views, n_classes)
            ``[:, s]`` is what `predict` returns without view s.
        """
        parts = torch.stack([Xs[s].double() @ B for s, B in enumerate(self.weights)], dim=1)
        scores = parts.sum(1, keepdim=True) - parts + self.intercept
        return (scores.softmax(2) + FLOOR).log()

    def to(self, device: torch.device | str) -> RidgePredictor:
        """The same predictor on another device."""
        return RidgePredictor([B.to(device) for B in self.weights], self.intercept.to(device))


def thin_rows(rows: IntArray, n_most: int = _MAX_ROWS) -> IntArray:
    """At most so many of the rows, evenly spaced: more would not change a ridge regression much.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.ridge import thin_rows
    >>> thin_rows(np.arange(10), 4)
    array([0, 3, 6, 9])
    """
    at = np.linspace(0, len(rows) - 1, min(len(rows), n_most)).astype(np.int64)
    return rows[at]


def fit_ridge(
    Xs: Sequence[Array], target: Array, prior: Array, row_weight: Array | None = None
) -> RidgePredictor:
    r"""Fit class probabilities by least squares, with equal weight of every view.

    .. math:: \min_B \sum_i w_i \|q_i - \tfrac1K - x_i B\|^2 + λ \|B\|^2

    The weights :math:`w_i` give every class a total weight of its prior probability. The penalty λ,
    and a factor that turns scores into logits, maximize the leave-one-out likelihood, which follows
    from the diagonal of the projection matrix. The logarithms of the prior are subtracted.

    Parameters
    ----------
    Xs : sequence of ndarray of shape (n_rows, n_columns)
        Standardized rows of every view; row i is the same individual in all of them, 0 in views
        that it lacks.
    target : ndarray of shape (n_rows, n_classes)
        Their class probabilities; one-hot where the class is known.
    prior : ndarray of shape (n_classes,)
        Prior probabilities of the classes.
    row_weight : ndarray of shape (n_rows,) or None, default=None
        Weights of the rows; None for equal ones.

    Returns
    -------
    RidgePredictor
        Its scores, plus the logarithms of the prior, are logits of class probabilities.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from hotview.semisupervised.ridge import fit_ridge
    >>> X, y = np.array([[-1.0], [-0.9], [0.9], [1.0]]), np.array([0, 0, 1, 1])
    >>> ridge = fit_ridge([X, -X], np.eye(2)[y], np.full(2, 0.5))
    >>> ridge.predict({0: torch.tensor(X)}).argmax(axis=1)  # of rows that have one view
    tensor([0, 0, 1, 1])
    """
    n, n_classes = target.shape
    # Divided by the root of their number, the columns of every view have a total weight of 1.
    X = np.hstack([X.astype(np.float64) / np.sqrt(X.shape[1]) for X in Xs])
    length = np.sqrt(max(float((X * X).sum()) / n, np.finfo(np.float64).tiny))
    X = np.hstack([X / length, np.ones((n, 1))])
    row_weight = np.ones(n) if row_weight is None else np.maximum(row_weight, _MIN_ROW_WEIGHT)
    mass = row_weight @ target
    w = np.sqrt(
        row_weight * (target @ np.divide(prior, mass, out=np.zeros(n_classes), where=mass > 0))
    )
    w *= np.sqrt(n / (w * w).sum())
    Y = (target - 1 / n_classes) * w[:, None]
    B = _fit_coefficients(X * w[:, None], Y, w, target * row_weight[:, None])
    parts = np.split(B[:-1] / length, np.cumsum([X.shape[1] for X in Xs])[:-1])
    weights = [part / np.sqrt(X.shape[1]) for part, X in zip(parts, Xs, strict=True)]
    return RidgePredictor(
        [torch.as_tensor(B) for B in weights], torch.as_tensor(B[-1] - np.log(prior))
    )


def _fit_coefficients(X: Array, Y: Array, w: Array, target: Array) -> Array:
    """Coefficients for the penalty and sharpness with the best leave-one-out likelihood."""
    n, wide = len(X), X.shape[1] > len(X)
    values, V = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    values = np.maximum(values, 0.0)
    U = V if wide else X @ V  # else columns of U carry the singular values
    UY = U.T @ Y
    some = thin_rows(np.arange(n), _MAX_LEFT_OUT)
    U_some, Y_some, w_some, target = U[some], Y[some], w[some, None], target[some]
    best, penalty, sharpness = np.inf, 0.0, 0.0
    for lam in _PENALTIES * n:
        shrink = values / (values + lam) if wide else 1 / (values + lam)
        leverage = np.minimum(((U_some * U_some) * shrink).sum(axis=1), _MAX_LEVERAGE)
        error = (Y_some - (U_some * shrink) @ UY) / (1 - leverage)[:, None]
        left_out = (Y_some - error) / w_some
        for t in _SHARPNESS:
            loss = -(target * log_softmax(t * left_out, axis=1)).sum(axis=1).mean()
            if loss < best:
                best, penalty, sharpness = loss, lam, t
    solved = UY / (values + penalty)[:, None]
    B: Array = X.T @ (U @ solved) if wide else V @ solved
    return sharpness * B


def fit_joint_ridge(
    graphs: Sequence[ViewGraph], data: Data, log_prior: Array
) -> RidgePredictor | None:
    """Ridge regression of all linked rows with a label, on whichever views they have.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    data : Data
        The labels.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities that labels are posteriors of.
    """
    links, target = data.links, data.target
    labeled = thin_rows(np.flatnonzero(target >= 0))
    if len(labeled) == 0 or not ((links[labeled] >= 0).sum(axis=1) > 1).any():
        return None
    Xs = [take_present(graph, links[labeled, s]) for s, graph in enumerate(graphs)]
    prior = np.exp(log_prior.mean(axis=0))
    prior /= prior.sum()
    joint = fit_ridge(Xs, np.eye(len(prior))[target[labeled]], prior)
    return joint.to(graphs[0].rows.device)


def take_present(graph: ViewGraph, rows: IntArray) -> Array:
    """Rows of a view by number, 0 for −1."""
    X = graph.rows.take(np.maximum(rows, 0)).cpu().numpy()
    X[rows < 0] = 0.0
    return X


@dataclass(frozen=True)
class NodeScores:
    """What the labels of one view say about the nodes of its graph.

    Parameters
    ----------
    propagated : ndarray of shape (n_nodes, n_classes)
        Class probabilities by label propagation, as if all classes had the same mass.
    ridge : RidgePredictor
        The ridge regression of the labeled rows.
    scores : ndarray of shape (n_nodes, 2, n_classes)
        Log-likelihoods of the classes by propagation and by the ridge regression.
    """

    propagated: Array
    ridge: RidgePredictor
    scores: Array

    def logits(self, weights: Array) -> Array:
        """Calibrated log-likelihoods of the classes."""
        found: Array = np.einsum("nmk,m->nk", self.scores, weights)
        return found


def score_view(
    graph: ViewGraph, codes: IntArray, log_prior: Array, rows: IntArray, q: Array
) -> NodeScores:
    """Scores of the nodes of a view by its labels, and by class probabilities of some nodes."""
    one_hot = np.eye(len(log_prior))
    labeled = thin_rows(np.flatnonzero(codes >= 0))
    of_nodes = codes[graph.nodes]
    known = np.flatnonzero(of_nodes >= 0)
    weight_of = certainty(q)
    seeds = np.zeros((len(of_nodes), len(log_prior)))
    seeds[rows] = weight_of[:, None] * q
    seeds[known] = one_hot[of_nodes[known]]
    F = propagate(graph.adjacency, seeds, device=graph.rows.device)
    mass = seeds.sum(axis=0)
    propagated = normalize_by_class_mass(F, np.where(mass > 0, np.maximum(mass, _MIN_MASS), 0.0))
    X = graph.rows.take(np.concatenate([labeled, graph.nodes[rows]])).cpu().numpy()
    target, weight = np.vstack([one_hot[codes[labeled]], q]), np.ones(len(X))
    weight[len(labeled) :] = weight_of
    ridge = fit_ridge([X], target, np.exp(log_prior), weight)
    scores = np.stack([np.log(propagated + FLOOR), score_by_ridge(ridge, graph)], axis=1)
    return NodeScores(propagated, ridge, scores)


def certainty(q: Array) -> Array:
    """How far class probabilities are from knowing nothing, from 0 to 1."""
    found: Array = 1 - entr(q).sum(axis=1) / np.log(q.shape[1])
    return found


def score_by_ridge(ridge: RidgePredictor, graph: ViewGraph) -> Array:
    """Log-likelihoods of the nodes of a graph by the ridge regression of its view."""
    ridge = ridge.to(graph.rows.device)
    parts = np.array_split(graph.nodes, -(-len(graph.nodes) // _CHUNK))
    scores = torch.cat([ridge.predict({0: graph.rows.take(part)}) for part in parts])
    return np.asarray(scores.cpu().numpy())
