"""Soft labels of all rows of every view: propagated, calibrated, and transferred between views.

Folds of the labels are propagated one by one, and calibrated across folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.data import Data
from hotview.semisupervised.class_prior import class_priors, shift_prior
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.label_transfer import N_ANCHORS, transfer_labels
from hotview.semisupervised.ridge import NodeScores, RidgePredictor, score_view
from hotview.semisupervised.super_learner import fit_weights

__all__ = [
    "NodeLabels",
    "PseudoLabels",
    "calibrate",
    "doubt_priors",
    "label_fold",
    "label_nodes",
    "make_soft_labels",
    "node_order",
    "propagate_labels",
    "score_nodes",
    "shift_priors",
]

_PRIOR_WEIGHTS = (1.0, 0.5)  # of propagation and ridge
_SHRINKAGE = 0.5  # of the logarithms of weights toward these
_DOUBT = 0.5  # power of the prior in a view without labels, whose classes may have another mix


@dataclass(frozen=True)
class NodeLabels:
    """Labels of the nodes of one view.

    Parameters
    ----------
    votes : ndarray of shape (n_nodes, n_classes)
        Class probabilities as if all classes had the same mass, which neighbors average.
    posterior : ndarray of shape (n_nodes, n_classes)
        Calibrated class probabilities, on which networks are trained.
    ridge : RidgePredictor
        The ridge regression of the view.
    taught : bool
        Whether other views taught this one over linked rows.
    """

    votes: Array
    posterior: Array
    ridge: RidgePredictor
    taught: bool


@dataclass(frozen=True)
class PseudoLabels:
    """Labels of the nodes of every fold, and what folds have in common.

    Parameters
    ----------
    nodes : list of list of NodeLabels
        By fold, labels of the nodes of every view.
    weights : ndarray of shape (n_views, 2)
        Weights of propagation and ridge, from `calibrate`.
    given : ndarray of shape (n_views, n_classes)
        Logarithms of the shares of the classes among the labels.
    shifted : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities, from `shift_priors`.
    log_prior : ndarray of shape (n_views, n_classes)
        Those that labels are posteriors of, from `doubt_priors`.
    """

    nodes: list[list[NodeLabels]]
    weights: Array
    given: Array
    shifted: Array
    log_prior: Array


def propagate_labels(
    graphs: Sequence[ViewGraph],
    data: Data,
    folds: Sequence[Data],
    randoms: Sequence[np.random.Generator],
) -> PseudoLabels:
    """Propagate the labels of every fold, after all folds together have told how far to trust.

    Every fold is scored; labels that folds leave out weigh propagation against ridge and shift the
    priors of views without labels; only then are the scores of a fold turned into labels.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    data : Data
        All labels.
    folds : sequence of Data
        Those without the labels that each fold leaves out.
    randoms : sequence of numpy Generator
        For label transfer in every fold.

    Returns
    -------
    PseudoLabels
        Labels of all nodes, by fold.
    """
    given = np.log(class_priors(data.codes, len(data.known.classes)))
    scores = [score_nodes(graphs, fold.codes, given) for fold in folds]
    weights = calibrate(graphs, data, folds, scores, given)
    shifted = shift_priors(graphs, data, scores, weights, given)
    log_prior = doubt_priors(shifted, data)
    nodes = [
        label_fold(graphs, data, fold, log_prior, weights, random, found)
        for fold, found, random in zip(folds, scores, randoms, strict=True)
    ]
    return PseudoLabels(nodes, weights, given, shifted, log_prior)


def label_fold(
    graphs: Sequence[ViewGraph],
    data: Data,
    fold: Data,
    log_prior: Array,
    weights: Array,
    random: np.random.Generator,
    scores: Sequence[NodeScores | None] | None = None,
) -> list[NodeLabels]:
    """Label the nodes of every view by the labels of a fold; rows that it leaves out teach no view.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    data : Data
        All labels.
    fold : Data
        Those of the fold.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities that labels are posteriors of.
    weights : ndarray of shape (n_views, 2)
        From `calibrate`.
    random : numpy Generator
        For label transfer.
    scores : sequence of NodeScores or None, default=None
        From `score_nodes`, if they are known already.
    """
    left_out = (data.target >= 0) & (fold.target < 0)
    left_out[fold.silent] = True
    scores = score_nodes(graphs, fold.codes, log_prior) if scores is None else scores
    return label_nodes(graphs, fold, log_prior, scores, weights, left_out, random)


def node_order(data: Data, s: int) -> IntArray:
    """Rows of view s in the order in which they become nodes of its graph.

    Anchors of label transfer come first, then labeled rows, then other linked ones.

    Parameters
    ----------
    data : Data
        All labels.
    s : int
        The view.
    """
    linked, codes = data.links[:, s], data.codes[s]
    linked = linked[linked >= 0]
    labeled = linked[codes[linked] >= 0]
    own = np.setdiff1d(np.flatnonzero(codes >= 0), labeled)
    return np.concatenate([linked[:N_ANCHORS], labeled, own, linked])


def score_nodes(
    graphs: Sequence[ViewGraph], codes: Sequence[IntArray], log_prior: Array
) -> list[NodeScores | None]:
    """Scores of the nodes of every view by its own labels; None for views without labels.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    codes : sequence of ndarray of int64
        Class of every row of every view, −1 where it is unknown.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities of the classes, by view.
    """
    none, q = np.empty(0, np.int64), np.empty((0, log_prior.shape[1]))
    return [
        score_view(graph, own, prior, none, q) if (own >= 0).any() else None
        for graph, own, prior in zip(graphs, codes, log_prior, strict=True)
    ]


def calibrate(
    graphs: Sequence[ViewGraph],
    data: Data,
    folds: Sequence[Data],
    scores: Sequence[Sequence[NodeScores | None]],
    log_prior: Array,
) -> Array:
    """Weights of propagation and ridge in every view, by labels that were left out.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    data : Data
        All labels.
    folds : sequence of Data
        Labels without those that each fold leaves out.
    scores : sequence of list of NodeScores
        From `score_nodes`, by fold.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities of the classes.

    Returns
    -------
    ndarray of shape (n_views, 2)
        The weights; prior weights in views where no label is left out.
    """
    weights = []
    for s, graph in enumerate(graphs):
        found, target, given = [], [], data.codes[s][graph.nodes]
        for fold, of_fold in zip(folds, scores, strict=True):
            left_out = np.flatnonzero((given >= 0) & (fold.codes[s][graph.nodes] < 0))
            if (own := of_fold[s]) is not None:
                found.append(own.scores[left_out])
                target.append(given[left_out])
        w = np.array(_PRIOR_WEIGHTS)
        if sum(map(len, target)) > 0:
            known = np.concatenate(found), np.concatenate(target)
            w = fit_weights(*known, log_prior[s], w, _SHRINKAGE)
        weights.append(w)
    return np.array(weights)


def shift_priors(
    graphs: Sequence[ViewGraph],
    data: Data,
    scores: Sequence[Sequence[NodeScores | None]],
    weights: Array,
    log_prior: Array,
) -> Array:
    """Prior probabilities of the classes in views without labels, by linked rows.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    data : Data
        All labels.
    scores : sequence of list of NodeScores
        From `score_nodes`, by fold.
    weights : ndarray of shape (n_views, 2)
        From `calibrate`.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the shares of the labels.

    Returns
    -------
    ndarray of shape (n_views, n_classes)
        Logarithms of the probabilities; those of the labels in views with labels.
    """
    log_prior = log_prior.copy()
    posteriors = []
    for s, of_view in enumerate(zip(*scores, strict=True)):
        logits = [found.logits(weights[s]) for found in of_view if found is not None]
        mean = np.mean(logits, axis=0) if logits else None
        posteriors.append(None if mean is None else softmax(mean + log_prior[s], axis=1))
    for t in np.flatnonzero(np.array(data.labels_per_view) == 0):
        links = data.links[data.links[:, t] >= 0]
        shifts = []
        for s, posterior in enumerate(posteriors):
            node = graphs[s].node_numbers(links[:, s])
            if posterior is not None and (node >= 0).any():
                of_linked, of_all = posterior[node[node >= 0]], posterior.mean(axis=0)
                shifts.append(np.log(shift_prior(of_linked, of_all, np.exp(log_prior[t]))))
        if shifts:
            log_prior[t] = log_softmax(np.mean(shifts, axis=0))
    return log_prior


def doubt_priors(log_prior: Array, data: Data) -> Array:
    """Prior probabilities of views without labels, moved toward equal ones.

    Nothing is known about the classes of their rows that are not linked.
    """
    doubted, unlabeled = log_prior.copy(), np.array(data.labels_per_view) == 0
    doubted[unlabeled] = log_softmax(_DOUBT * log_prior[unlabeled], axis=1)
    return doubted


def label_nodes(
    graphs: Sequence[ViewGraph],
    fold: Data,
    log_prior: Array,
    scores: Sequence[NodeScores | None],
    weights: Array,
    left_out: Array,
    random: np.random.Generator,
) -> list[NodeLabels]:
    """Labels of the nodes of every view: calibrated, and taught by other views over linked rows.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    fold : Data
        The labels.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities that labels are posteriors of.
    scores : sequence of NodeScores or None
        From `score_nodes`.
    weights : ndarray of shape (n_views, 2)
        From `calibrate`.
    left_out : ndarray of bool, shape (n_linked,)
        Linked rows that do not carry what one view knows to others, as other rows without a label
        do: the scores of these rows must not know more than those of new rows.
    random : numpy Generator
        For label transfer.

    Returns
    -------
    list of NodeLabels
        Equal probabilities in views that neither have nor receive labels.
    """
    pairs = zip(scores, weights, strict=True)
    logits = [None if own is None else own.logits(w) for own, w in pairs]
    links = np.where(left_out[:, None], -1, fold.links)
    teaching = links[fold.target < 0]
    found = []
    for t, (graph, own) in enumerate(zip(graphs, scores, strict=True)):
        codes, prior = fold.codes[t], log_prior[t]
        rows, total = _linked_likelihoods(graphs, teaching, logits, t, len(prior))
        q = softmax(total + prior, axis=1)
        if own is None:
            taught = transfer_labels(graphs, links, logits, log_prior, t, codes, rows, q, random)
        elif len(rows) > 0:
            taught = score_view(graph, codes, prior, rows, q)
        else:
            taught = own
        posterior = softmax(taught.logits(weights[t]) + prior, axis=1)
        known = np.flatnonzero(codes[graph.nodes] >= 0)
        posterior[known] = np.eye(len(prior))[codes[graph.nodes][known]]
        found.append(NodeLabels(taught.propagated, posterior, taught.ridge, len(rows) > 0))
    return found


def make_soft_labels(graph: ViewGraph, posterior: Array, codes: IntArray) -> Tensor:
    """Class probabilities of every row of a view: its label, or those of the nearest nodes.

    Parameters
    ----------
    graph : ViewGraph
        The view's graph.
    posterior : ndarray of shape (n_nodes, n_classes)
        Those of the nodes, from `label_nodes`.
    codes : ndarray of int64
        Class of every row, −1 where it is unknown.

    Returns
    -------
    Tensor of float32, shape (n_rows, n_classes)
        On the view's device.
    """
    soft_labels = graph.extend(posterior)
    labeled = np.flatnonzero(codes >= 0)
    one_hot = np.eye(posterior.shape[1], dtype=np.float32)[codes[labeled]]
    soft_labels[labeled] = torch.from_numpy(one_hot).to(soft_labels.device)
    return soft_labels


def _linked_likelihoods(
    graphs: Sequence[ViewGraph],
    links: IntArray,
    logits: Sequence[Array | None],
    t: int,
    n_classes: int,
) -> tuple[IntArray, Array]:
    """Linked nodes of view t, and log-likelihoods of their classes by other views."""
    total, number = np.zeros((len(links), n_classes)), np.zeros((len(links), 1))
    for s, of_view in enumerate(logits):
        if of_view is not None and s != t:
            node = graphs[s].node_numbers(links[:, s])
            total[node >= 0] += of_view[node[node >= 0]]
            number[node >= 0] += 1
    node = graphs[t].node_numbers(links[:, t])
    told = (node >= 0) & (number[:, 0] > 0)
    return node[told], total[told] / np.sqrt(number[told])
