"""Soft labels of all rows of every view, by label propagation and transfer between views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.label_transfer import anchor_profiles, source_weights, transfer_scores
from hotview.semisupervised.propagation import normalize_by_class_mass, propagate

__all__ = ["ViewLabels", "make_soft_labels", "propagate_labels"]

_N_ANCHORS = 200  # linked rows by which labels are transferred


@dataclass(frozen=True)
class ViewLabels:
    """Labels of the rows of all views.

    Parameters
    ----------
    codes : list of ndarray of int64
        Class of every row of every view, −1 where it is unknown.
    aligned : ndarray of int64, shape (n_aligned, n_views)
        The row in every view of each individual who is in all of them.
    class_weight : ndarray of shape (n_classes,)
        Weight of each class.
    """

    codes: list[IntArray]
    aligned: IntArray
    class_weight: Array

    @property
    def target(self) -> IntArray:
        """Class of every aligned individual, −1 where it is unknown."""
        return self.codes[0][self.aligned[:, 0]]

    @property
    def sources(self) -> list[int]:
        """Views with labels of most classes, where other views have fewer; else none."""
        counts = [len(np.unique(codes[codes >= 0])) for codes in self.codes]
        sources = [s for s, n in enumerate(counts) if n == max(counts) > 0]
        return sources if len(sources) < len(counts) else []

    def node_order(self, s: int) -> IntArray:
        """Rows of view s in the order in which they become nodes of its graph.

        Anchors of label transfer come first, then labeled rows, then other aligned ones.
        """
        linked = self.aligned[:, s]
        labeled = linked[self.codes[s][linked] >= 0]
        own = np.setdiff1d(np.flatnonzero(self.codes[s] >= 0), labeled)
        return np.concatenate([linked[:_N_ANCHORS], labeled, own, linked])


def propagate_labels(
    graphs: Sequence[ViewGraph], labels: ViewLabels, random: np.random.Generator
) -> list[Array]:
    """Class probabilities of the nodes of every view.

    Views with labels of fewer classes receive them from the others over linked rows.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    labels : ViewLabels
        The labels.
    random : numpy Generator
        For label transfer.

    Returns
    -------
    list of ndarray of float64, shape (n_nodes, n_classes)
        Rows add up to 1.
    """
    codes = [codes[graph.nodes] for codes, graph in zip(labels.codes, graphs, strict=True)]
    probabilities = []
    for graph, c in zip(graphs, codes, strict=True):
        seeds = np.zeros((len(c), len(labels.class_weight)))
        seeds[c >= 0, c[c >= 0]] = 1.0
        F = propagate(graph.adjacency, seeds, device=graph.rows.device)
        probabilities.append(normalize_by_class_mass(F * labels.class_weight, seeds.sum(axis=0)))
    sources = labels.sources if len(labels.aligned) > 0 else []
    for t in set(range(len(graphs))) - set(sources) if sources else ():
        received = _transfer(graphs, probabilities, sources, t, labels.aligned, random)
        probabilities[t] = _mix_with_own(received, probabilities[t], codes[t])
    return probabilities


def make_soft_labels(graph: ViewGraph, probabilities: Array, codes: IntArray) -> Tensor:
    """Class probabilities of every row of a view: its label, or what propagation gives.

    Parameters
    ----------
    graph : ViewGraph
        The view's graph.
    probabilities : ndarray of shape (n_nodes, n_classes)
        Those of the nodes, from `propagate_labels`.
    codes : ndarray of int64
        Class of every row, −1 where it is unknown.

    Returns
    -------
    Tensor of float32, shape (n_rows, n_classes)
        On the view's device.
    """
    soft_labels = graph.extend(probabilities)
    labeled = np.flatnonzero(codes >= 0)
    one_hot = np.eye(probabilities.shape[1], dtype=np.float32)[codes[labeled]]
    soft_labels[labeled] = torch.from_numpy(one_hot).to(soft_labels.device)
    return soft_labels


def _transfer(
    graphs: Sequence[ViewGraph],
    probabilities: Sequence[Array],
    sources: Sequence[int],
    t: int,
    aligned: IntArray,
    random: np.random.Generator,
) -> Array:
    """Class probabilities that view t receives from the sources, weighted by their agreement."""
    pairs = [linked_nodes(graphs[s], graphs[t], aligned[:, [s, t]]) for s in sources]
    pairs = [random.permutation(nodes)[:_N_ANCHORS] for nodes in pairs]
    target = graphs[t].adjacency
    links = list(zip(sources, pairs, strict=True))
    received = [
        transfer_scores(graphs[s].adjacency, probabilities[s], target, nodes, random=random)
        for s, nodes in links
    ]
    weights = source_weights(
        [anchor_profiles(graphs[s].adjacency, nodes[:, 0]) for s, nodes in links],
        [anchor_profiles(target, nodes[:, 1]) for nodes in pairs],
        pairs,
        random=random,
    )
    mixed: Array = np.tensordot(weights, np.stack(received), axes=1)
    return mixed


def _mix_with_own(received: Array, own: Array, codes: IntArray) -> Array:
    """A view's own probabilities of the classes it has labels of, and received ones of others."""
    labeled = np.unique(codes[codes >= 0])
    if len(labeled) == 0:
        return received
    mixed = received.copy()
    mixed[:, labeled] = received[:, labeled].sum(axis=1, keepdims=True) * own[:, labeled]
    mixed[codes >= 0] = own[codes >= 0]
    total = mixed.sum(axis=1, keepdims=True)
    probabilities: Array = np.divide(mixed, total, out=received.copy(), where=total > 0)
    return probabilities


def linked_nodes(first: ViewGraph, second: ViewGraph, rows: IntArray) -> IntArray:
    """Pairs of nodes of two views that are the same individual, by number among the nodes."""
    numbers = []
    for graph, row in zip((first, second), rows.T, strict=True):
        number = np.full(graph.rows.n_rows, -1, dtype=np.int64)
        number[graph.nodes] = np.arange(len(graph.nodes))
        numbers.append(number[row])
    pairs = np.stack(numbers, axis=1)
    linked: IntArray = pairs[(pairs >= 0).all(axis=1)]
    return linked
