"""What labels say about the nodes of a view's graph: by propagation, and by a ridge regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import entr

from hotview._types import Array, IntArray
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.knn import FLOOR
from hotview.semisupervised.propagation import normalize_by_class_mass, propagate
from hotview.semisupervised.ridge import RidgePredictor, fit_ridge, thin_rows

__all__ = ["NodeScores", "certainty", "score_by_ridge", "score_view"]

_CHUNK = 4096  # rows at a time
_MIN_MASS = 0.3  # of a class that has any


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
