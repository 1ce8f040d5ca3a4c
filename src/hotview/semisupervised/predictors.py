"""Predictors of new rows: neighbors and ridge regressions of every view, and of all jointly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hotview._codec import require, require_array
from hotview._types import Array, IntArray
from hotview.semisupervised.knn import FLOOR, Coordinates, KNNPredictor
from hotview.semisupervised.ridge import RidgePredictor, fit_ridge, thin_rows

if TYPE_CHECKING:
    from hotview.semisupervised.graph import ViewGraph
    from hotview.semisupervised.pseudo_labels import NodeLabels, ViewLabels

__all__ = ["ViewPredictors", "fit_predictors"]


@dataclass(frozen=True)
class ViewPredictors:
    """A nearest-neighbor predictor and a ridge regression of every view, and a joint one.

    Parameters
    ----------
    knn : list of KNNPredictor
        The nearest-neighbor predictor of every view.
    ridge : list of RidgePredictor
        The ridge regression of every view.
    joint : RidgePredictor or None
        That of whichever views a row has; None where no row with a label has two views.
    log_prior : Tensor of float64, shape (n_views, n_classes)
        Logarithms of the prior probabilities of the labels that networks were trained on.
    """

    knn: list[KNNPredictor]
    ridge: list[RidgePredictor]
    joint: RidgePredictor | None
    log_prior: Tensor

    def __post_init__(self) -> None:
        require_array("log_prior", self.log_prior, (len(self.knn), None), "float64")
        n_views, n_classes = self.log_prior.shape
        fits = len(self.ridge) == n_views and all(len(one.weights) == 1 for one in self.ridge)
        fits = fits and (self.joint is None or len(self.joint.weights) == n_views)
        ridges = [*self.ridge, *([] if self.joint is None else [self.joint])]
        fits = fits and all(len(one.intercept) == n_classes for one in ridges)
        fits = fits and all(knn.soft_labels.shape[1] == n_classes for knn in self.knn)
        require(fits, "its predictors do not fit its views or classes")

    def score_view(
        self, s: int, X: Tensor, features: Tensor, logits: Tensor, own: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-likelihoods of the classes by the predictors of one view, up to constants.

        Parameters
        ----------
        s : int
            Number of the view.
        X : Tensor of shape (n_rows, n_columns)
            Its standardized rows.
        features : Tensor of float64, shape (n_rows, n_features)
            Their features: in float32, rounding would choose among neighbors. They have no columns
            where neighbors are found by components alone.
        logits : Tensor of shape (..., n_rows, n_classes)
            Logits of the same rows by the heads of one network or more.
        own : Tensor of int64 or None, default=None
            Numbers of the points that are the rows themselves, −1 for others: a row is not a
            neighbor of its own.

        Returns
        -------
        neighbors, ridge : Tensor of float64, shape (n_rows, n_classes)
            By neighbors, and by the ridge regression.
        heads : Tensor of float64, shape (..., n_rows, n_classes)
            By every head.
        """
        knn = self.knn[s]
        neighbors = knn.predict_log_proba(knn.coordinates.project(X, features), own)
        heads = (logits.double() - self.log_prior[s]).softmax(-1).add_(FLOOR).log_()
        return neighbors, self.ridge[s].predict({0: X}), heads

    def condense(self, random: np.random.Generator) -> ViewPredictors:
        """The same predictors, with fewer points that are neighbors; see `KNNPredictor.condense`.

        Parameters
        ----------
        random : numpy Generator
            Source of the first centers of clusters.
        """
        return replace(self, knn=[knn.condense(random) for knn in self.knn])

    def to(self, device: torch.device | str) -> ViewPredictors:
        """The same predictors on another device."""
        knn, ridge = [one.to(device) for one in self.knn], [one.to(device) for one in self.ridge]
        joint = None if self.joint is None else self.joint.to(device)
        return ViewPredictors(knn, ridge, joint, self.log_prior.to(device))


def fit_predictors(
    graphs: Sequence[ViewGraph],
    nodes: Sequence[NodeLabels],
    labels: ViewLabels,
    features: Sequence[Sequence[tuple[Array, float]]] = (),
) -> ViewPredictors:
    """Fit predictors of new rows.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    nodes : sequence of NodeLabels
        Labels of its nodes, from `label_nodes`.
    labels : ViewLabels
        The labels, to which the joint ridge regression is fitted.
    features : sequence of sequences of (ndarray, float), default=()
        From `encode_nodes` for every view, of every ensemble member; none where neighbors are found
        by components alone.

    Returns
    -------
    ViewPredictors
        The predictors, on the device of the rows.
    """
    knn, ridge = [], []
    for s, (graph, of_nodes) in enumerate(zip(graphs, nodes, strict=True)):
        knn.append(_fit_knn(graph, of_nodes.votes, [of_member[s] for of_member in features]))
        ridge.append(of_nodes.ridge.to(graph.rows.device))
    log_prior = torch.as_tensor(labels.log_prior, device=graphs[0].rows.device)
    return ViewPredictors(knn, ridge, fit_joint(graphs, labels), log_prior)


def _fit_knn(
    graph: ViewGraph, soft_labels: Array, features: Sequence[tuple[Array, float]]
) -> KNNPredictor:
    """The nearest-neighbor predictor by the nodes of a graph and their features by all members."""
    width = features[0][0].shape[1] if features else 0
    coordinates = Coordinates.concatenate(graph.basis, [scale for _, scale in features], width)
    weight = np.sqrt(max(len(features), 1))
    points = np.hstack([graph.points, *(F / weight for F, _ in features)])
    as_float32 = partial(torch.as_tensor, dtype=torch.float32, device=graph.rows.device)
    return KNNPredictor.of_rows(
        coordinates, as_float32(points), as_float32(soft_labels), graph.n_neighbors
    )


def fit_joint(graphs: Sequence[ViewGraph], labels: ViewLabels) -> RidgePredictor | None:
    """Ridge regression of all linked rows with a label, on whichever views they have."""
    links, target = labels.links, labels.target
    labeled = thin_rows(np.flatnonzero(target >= 0))
    if len(labeled) == 0 or not ((links[labeled] >= 0).sum(axis=1) > 1).any():
        return None
    Xs = [take_present(graph, links[labeled, s]) for s, graph in enumerate(graphs)]
    log_prior = labels.log_prior.mean(axis=0)
    prior = np.exp(log_prior) / np.exp(log_prior).sum()
    joint = fit_ridge(Xs, np.eye(len(prior))[target[labeled]], prior)
    return joint.to(graphs[0].rows.device)


def take_present(graph: ViewGraph, rows: IntArray) -> Array:
    """Rows of a view by number, 0 for −1."""
    X = graph.rows.take(np.maximum(rows, 0)).cpu().numpy()
    X[rows < 0] = 0.0
    return X
