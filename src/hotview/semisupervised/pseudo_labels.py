"""Soft labels of all rows of every view: propagated, calibrated, and transferred between views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.label_transfer import anchor_profiles, source_weights, transfer_scores
from hotview.semisupervised.propagation import normalize_by_class_mass, propagate
from hotview.semisupervised.ridge import RidgePredictor, fit_ridge
from hotview.semisupervised.super_learner import fit_weights

__all__ = [
    "NodeLabels",
    "NodeScores",
    "ViewLabels",
    "calibrate",
    "label_nodes",
    "make_soft_labels",
    "score_nodes",
]

_N_ANCHORS = 200  # linked rows by which labels are transferred
_FLOOR = 0.01  # added to every class probability: all neighbors of a row may be wrong
_PRIOR_WEIGHTS = (1.0, 0.5)  # of propagation and ridge
_SHRINKAGE = 0.5  # of the logarithms of weights toward these
_POOLED = (0.25, 0.75)  # weights of transport, and of propagation and ridge over linked rows


@dataclass(frozen=True)
class ViewLabels:
    """Labels of the rows of all views.

    Parameters
    ----------
    codes : list of ndarray of int64
        Class of every row of every view, −1 where it is unknown.
    links : ndarray of int64, shape (n_linked, n_views)
        The row in every view of each individual who may be in several, −1 where absent.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities of the classes, by view.
    """

    codes: list[IntArray]
    links: IntArray
    log_prior: Array

    @property
    def target(self) -> IntArray:
        """Class of every linked individual, −1 where it is unknown."""
        target = np.full(len(self.links), -1, dtype=np.int64)
        for codes, rows in zip(self.codes, self.links.T, strict=True):
            target = np.where(rows >= 0, codes[rows], target)
        return target

    @property
    def n_classes(self) -> list[int]:
        """Number of classes that the labels of every view have."""
        return [len(np.unique(codes[codes >= 0])) for codes in self.codes]

    @property
    def sources(self) -> list[int]:
        """Views with labels of most classes, where other views have fewer; else none."""
        counts = self.n_classes
        sources = [s for s, n in enumerate(counts) if n == max(counts) > 0]
        return sources if len(sources) < len(counts) else []

    def pairs(self, s: int, t: int) -> IntArray:
        """Rows of the same individuals in the views s and t."""
        linked = self.links[:, [s, t]]
        pairs: IntArray = linked[(linked >= 0).all(axis=1)]
        return pairs

    def left_out(self, given: ViewLabels) -> tuple[IntArray, IntArray]:
        """Rows with a label among the given ones, and not among these.

        Returns
        -------
        rows : ndarray of int64, shape (n_individuals, n_views)
            The row of every such individual in every view, −1 where absent.
        target : ndarray of int64
            Their classes.
        """
        target = given.target
        linked = np.flatnonzero((target >= 0) & (self.target < 0))
        rows, targets = [self.links[linked]], [target[linked]]
        for s, (before, after) in enumerate(zip(given.codes, self.codes, strict=True)):
            own = np.flatnonzero((before >= 0) & (after < 0))
            own = np.setdiff1d(own, self.links[:, s])
            rows.append(np.full((len(own), len(self.codes)), -1, dtype=np.int64))
            rows[-1][:, s] = own
            targets.append(before[own])
        return np.concatenate(rows), np.concatenate(targets)

    def node_order(self, s: int) -> IntArray:
        """Rows of view s in the order in which they become nodes of its graph.

        Anchors of label transfer come first, then labeled rows, then other linked ones.
        """
        linked = self.links[:, s]
        linked = linked[linked >= 0]
        labeled = linked[self.codes[s][linked] >= 0]
        own = np.setdiff1d(np.flatnonzero(self.codes[s] >= 0), labeled)
        return np.concatenate([linked[:_N_ANCHORS], labeled, own, linked])


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


@dataclass(frozen=True)
class NodeLabels:
    """Labels of the nodes of one view.

    Parameters
    ----------
    votes : ndarray of shape (n_nodes, n_classes)
        Class probabilities as if all classes had the same mass, which neighbors average.
    posterior : ndarray of shape (n_nodes, n_classes)
        Calibrated class probabilities, on which networks are trained.
    ridge : RidgePredictor or None
        The ridge regression of the view; None where it has no labels and received none.
    """

    votes: Array
    posterior: Array
    ridge: RidgePredictor | None


def score_nodes(graphs: Sequence[ViewGraph], labels: ViewLabels) -> list[NodeScores | None]:
    """Scores of the nodes of every view by its own labels; None for views without labels.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    labels : ViewLabels
        The labels.
    """
    found: list[NodeScores | None] = []
    for s, (graph, codes) in enumerate(zip(graphs, labels.codes, strict=True)):
        labeled = np.flatnonzero(codes >= 0)
        log_prior = labels.log_prior[s]
        if len(labeled) == 0:
            found.append(None)
            continue
        of_nodes = codes[graph.nodes]
        seeds = np.zeros((len(of_nodes), len(log_prior)))
        seeds[of_nodes >= 0, of_nodes[of_nodes >= 0]] = 1.0
        F = propagate(graph.adjacency, seeds, device=graph.rows.device)
        propagated = normalize_by_class_mass(F, seeds.sum(axis=0))
        X = graph.rows.take(labeled).cpu().numpy()
        ridge = fit_ridge([X], np.eye(len(log_prior))[codes[labeled]], np.exp(log_prior))
        scores = np.stack([np.log(propagated + _FLOOR), _on_nodes(ridge, graph)], axis=1)
        found.append(NodeScores(propagated, ridge, scores))
    return found


def calibrate(
    graphs: Sequence[ViewGraph],
    members: Sequence[tuple[ViewLabels, Sequence[NodeScores | None]]],
    codes: Sequence[IntArray],
) -> Array:
    """Weights of propagation and ridge in every view, by labels that were left out.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    members : sequence of (ViewLabels, list of NodeScores)
        Labels without those that an ensemble member leaves out, and scores by them.
    codes : sequence of ndarray of int64
        All labels of every view.

    Returns
    -------
    ndarray of shape (n_views, 2)
        The weights; prior weights in views where no label is left out.
    """
    weights = []
    for s, graph in enumerate(graphs):
        scores, target, given = [], [], codes[s][graph.nodes]
        for labels, found in members:
            left_out = np.flatnonzero((given >= 0) & (labels.codes[s][graph.nodes] < 0))
            of_view = found[s]
            if of_view is not None:
                scores.append(of_view.scores[left_out])
                target.append(given[left_out])
        w = np.array(_PRIOR_WEIGHTS)
        if sum(map(len, target)) > 0:
            log_prior = members[0][0].log_prior[s]
            w = fit_weights(
                np.concatenate(scores), np.concatenate(target), log_prior, w, _SHRINKAGE
            )
        weights.append(w)
    return np.array(weights)


def label_nodes(
    graphs: Sequence[ViewGraph],
    labels: ViewLabels,
    scores: Sequence[NodeScores | None],
    weights: Array,
    random: np.random.Generator,
) -> list[NodeLabels]:
    """Labels of the nodes of every view: calibrated, and transferred to views that have none.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    labels : ViewLabels
        The labels.
    scores : sequence of NodeScores or None
        From `score_nodes`.
    weights : ndarray of shape (n_views, 2)
        From `calibrate`.
    random : numpy Generator
        For label transfer.

    Returns
    -------
    list of NodeLabels
        Equal probabilities in views that neither have nor receive labels.
    """
    found: list[NodeLabels] = []
    for s, (graph, own) in enumerate(zip(graphs, scores, strict=True)):
        log_prior = labels.log_prior[s]
        equal = np.full((len(graph.nodes), len(log_prior)), 1 / len(log_prior))
        if own is None:
            found.append(NodeLabels(equal, softmax(log_prior)[None] + 0 * equal, None))
            continue
        codes = labels.codes[s][graph.nodes]
        logits = np.einsum("nmk,m->nk", own.scores, weights[s]) + log_prior
        posterior = softmax(logits, axis=1)
        posterior[codes >= 0] = np.eye(len(log_prior))[codes[codes >= 0]]
        found.append(NodeLabels(own.propagated, posterior, own.ridge))
    sources = labels.sources
    for t in sorted(set(range(len(graphs))) - set(sources)) if sources else ():
        linked = [s for s in sources if len(labels.pairs(s, t)) > 0]
        if linked:
            found[t] = _transfer(graphs, found, linked, t, labels, random)
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


def _transfer(
    graphs: Sequence[ViewGraph],
    found: Sequence[NodeLabels],
    sources: Sequence[int],
    t: int,
    labels: ViewLabels,
    random: np.random.Generator,
) -> NodeLabels:
    """Labels that view t receives from other views over linked rows."""
    graph, log_prior = graphs[t], labels.log_prior[t]
    nodes = [linked_nodes(graphs[s], graph, labels.pairs(s, t)) for s in sources]
    nodes = [random.permutation(pairs)[:_N_ANCHORS] for pairs in nodes]
    moved = _transport(graphs, found, sources, t, nodes, random)
    rows, q = _linked_labels(found, sources, nodes, log_prior)
    seeds = np.zeros((len(graph.nodes), len(log_prior)))
    seeds[rows] = q
    F = propagate(graph.adjacency, seeds, device=graph.rows.device)
    local = normalize_by_class_mass(F, np.maximum(seeds.sum(axis=0), 0.3))
    X = graph.rows.take(graph.nodes[rows]).cpu().numpy()
    ridge = fit_ridge([X], q, np.exp(log_prior))
    likelihood = np.stack(
        [np.log(moved + _FLOOR) - log_prior, np.log(local + _FLOOR), _on_nodes(ridge, graph)]
    )
    w = np.array([_POOLED[0], _POOLED[1] * 3.0, _POOLED[1]])
    logits = np.einsum("mnk,m->nk", likelihood, w)
    posterior = softmax(logits + log_prior, axis=1)
    votes = softmax(logits, axis=1)
    codes = labels.codes[t][graph.nodes]
    known = np.flatnonzero(codes >= 0)
    posterior[known] = votes[known] = np.eye(len(log_prior))[codes[known]]
    return NodeLabels(votes, posterior, ridge)


def _linked_labels(
    found: Sequence[NodeLabels], sources: Sequence[int], nodes: Sequence[IntArray], log_prior: Array
) -> tuple[IntArray, Array]:
    """Linked nodes of the target, and their class probabilities by all sources that have them."""
    rows = np.unique(np.concatenate([pairs[:, 1] for pairs in nodes]))
    logits = np.tile(log_prior, (len(rows), 1))
    number = np.zeros((len(rows), 1))
    for s, pairs in zip(sources, nodes, strict=True):
        at = np.searchsorted(rows, pairs[:, 1])
        logits[at] += np.log(found[s].posterior[pairs[:, 0]] + 1e-3) - log_prior
        number[at] += 1
    return rows, softmax((logits - log_prior) / np.sqrt(number) + log_prior, axis=1)


def _transport(
    graphs: Sequence[ViewGraph],
    found: Sequence[NodeLabels],
    sources: Sequence[int],
    t: int,
    nodes: Sequence[IntArray],
    random: np.random.Generator,
) -> Array:
    """Class probabilities by transport from all sources, weighted by their agreement."""
    target = graphs[t].adjacency
    links = list(zip(sources, nodes, strict=True))
    received = [
        transfer_scores(graphs[s].adjacency, found[s].posterior, target, pairs, random=random)
        for s, pairs in links
    ]
    weights = source_weights(
        [anchor_profiles(graphs[s].adjacency, pairs[:, 0]) for s, pairs in links],
        [anchor_profiles(target, pairs[:, 1]) for pairs in nodes],
        nodes,
        random=random,
    )
    mixed: Array = np.tensordot(weights, np.stack(received), axes=1)
    return mixed


def _on_nodes(ridge: RidgePredictor, graph: ViewGraph) -> Array:
    """Log-likelihoods of the nodes of a graph by the ridge regression of its view, normalized."""
    device = graph.rows.device
    ridge = ridge.to(device)
    parts = np.array_split(graph.nodes, -(-len(graph.nodes) // 4096))
    scores = torch.cat([ridge.predict({0: graph.rows.take(part)}) for part in parts])
    normalized: Array = log_softmax(scores.cpu().numpy(), axis=1)
    return normalized


def linked_nodes(first: ViewGraph, second: ViewGraph, rows: IntArray) -> IntArray:
    """Pairs of nodes of two views that are the same individual, by number among the nodes."""
    pairs = np.stack([first.node_numbers(rows[:, 0]), second.node_numbers(rows[:, 1])], axis=1)
    linked: IntArray = pairs[(pairs >= 0).all(axis=1)]
    return linked
