"""Predictors of new rows: neighbors and ridge regressions of every view, and of all jointly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.knn import FLOOR, KNNPredictor
from hotview.semisupervised.pseudo_labels import NodeLabels, ViewLabels
from hotview.semisupervised.ridge import RidgePredictor, fit_ridge, thin_rows

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

    def score(
        self,
        Xs: Mapping[int, Tensor],
        features: Mapping[int, Tensor],
        heads: Mapping[int, Tensor],
        own: Mapping[int, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Log-likelihoods of the classes by all predictors, up to constants.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Standardized rows of the views that are present, by number of the view.
        features : dict of int to Tensor of shape (n_rows, encoder_dim)
            Features of the same rows in float64: in float32, rounding would choose among neighbors.
            They have no columns where neighbors are found by components alone.
        heads : dict of int to Tensor of shape (n_rows, n_classes)
            Logits of the same rows by the heads of a network.
        own : dict of int to Tensor of int64, or None, default=None
            Numbers of the points that are the rows themselves, −1 for others: a row is not a
            neighbor of its own.

        Returns
        -------
        scores : Tensor of float64, shape (n_rows, n_views, 3, n_classes)
            By neighbors, ridge regression and head of every view; 0 for views that are absent.
        joint : Tensor of float64, shape (n_rows, n_classes), or None
            By the joint ridge regression, if there is one.
        """
        by_view = {}
        for s, X in Xs.items():
            knn = self.knn[s].predict_log_proba(X, features[s], None if own is None else own[s])
            head = (heads[s].double() - self.log_prior[s]).softmax(1) + FLOOR
            by_view[s] = torch.stack([knn, self.ridge[s].predict({0: X}), head.log()], dim=1)
        absent = torch.zeros_like(next(iter(by_view.values())))
        scores = torch.stack([by_view.get(s, absent) for s in range(len(self.knn))], dim=1)
        return scores, None if self.joint is None else self.joint.predict(Xs)


def fit_predictors(
    graphs: Sequence[ViewGraph],
    nodes: Sequence[NodeLabels],
    labels: ViewLabels,
    features: Sequence[tuple[Array, float]] = (),
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
    features : sequence of (ndarray, float), default=()
        From `encode_nodes` for every view; none where neighbors are found by components alone.

    Returns
    -------
    ViewPredictors
        The predictors, on the device of the rows.
    """
    knn, ridge = [], []
    for s, (graph, of_nodes) in enumerate(zip(graphs, nodes, strict=True)):
        empty = np.empty((len(of_nodes.votes), 0), np.float32)
        F, scale = features[s] if features else (empty, 1.0)
        as_float32 = partial(torch.as_tensor, dtype=torch.float32, device=graph.rows.device)
        points, votes = as_float32(np.hstack([graph.points, F])), as_float32(of_nodes.votes)
        knn.append(KNNPredictor(graph.basis, scale, points, votes, graph.n_neighbors))
        ridge.append(of_nodes.ridge.to(graph.rows.device))
    log_prior = torch.as_tensor(labels.log_prior, device=graphs[0].rows.device)
    return ViewPredictors(knn, ridge, fit_joint(graphs, labels), log_prior)


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
