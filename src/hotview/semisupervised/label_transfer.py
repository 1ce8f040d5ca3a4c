"""Label transfer from one view to another by optimal transport over a few linked rows.

Linked rows are anchors: the proximity of a row to each of them has the same meaning in both views,
whatever the columns. In these coordinates the rows of the source view are transported onto those of
the target view, including rows of classes that no linked row has; propagation on the target's own
graph then corrects the blur of the transport.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse
from scipy.special import softmax

from hotview._types import Array, IntArray
from hotview.ot import draw_directions, sliced_cost
from hotview.semisupervised.class_prior import share_evidence
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.knn import FLOOR
from hotview.semisupervised.propagation import normalize_by_class_mass, propagate
from hotview.semisupervised.ridge import (
    NodeScores,
    RidgePredictor,
    certainty,
    fit_ridge,
    score_by_ridge,
    score_view,
)

__all__ = [
    "N_ANCHORS",
    "anchor_profiles",
    "linked_nodes",
    "profile_agreement",
    "source_weights",
    "transfer_labels",
    "transfer_scores",
]

N_ANCHORS = 200  # linked rows by which labels are transferred
_TRANSPORT = (0.25, 0.9)  # smallest and largest weight of transport beside linked rows
_FULL_TRUST = 0.3  # agreement from which transport is trusted in full
_HALF_LINKS = 20  # up to so many linked rows; with three times as many, it is trusted by half
_BY_LINKS = (3.0, 0.5)  # weights of propagation and ridge from linked rows
_N_DISTILLED = 1000  # nodes to which the ridge regression of a view without labels is fitted

_PROFILE_DAMPING, _REFINE_DAMPING = 0.99, 0.9
_FLOOR = 0.01  # proximity, relative to the mean, below which rows count as equally far
_LINKED_WEIGHT = 10.0  # of a linked row, in rows
_HALF_TRUST = 20  # number of linked rows that are trusted by one half
_BLUR = 0.04  # entropic regularization, relative to the mean cost
_RELAXATION = 0.8  # exponent of marginal scalings; 1 would impose the marginals exactly
_SHARPNESS = 3.0  # power of the scores, because soft ones are biased toward equal classes
_ROUNDS, _SCALINGS = 5, 50  # a scaling reduces the error by the factor _RELAXATION at least
_MIN_MASS, _MIN_SCORE = 0.3, 1e-6  # of a class, in all linked rows and in one row
_N_SAMPLE, _N_DIRECTIONS = 2000, 64  # rows transported at once, directions of sliced costs
_MIN_SCALE, _TINY = 1e-6, float(np.finfo(np.float64).tiny)  # smallest divisors


def anchor_profiles(S: sparse.csr_array, anchors: IntArray) -> Array:
    r"""Proximity of every row of a view to each anchor, comparable between views.

    .. math:: P_{ij} = \log (I - α S)^{-1}_{i a_j}, \qquad α = 0.99

    with rows centered and columns then standardized. Anchors have the weight of ten more rows:
    they are the same individuals in all views, while the mix of the other rows may differ.

    Parameters
    ----------
    S : csr_array, shape (n_rows, n_rows)
        The view's graph, from `normalized_adjacency`.
    anchors : ndarray of int, shape (n_anchors,)
        Row numbers of the linked individuals.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_anchors)
        P.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import normalized_adjacency
    >>> from hotview.semisupervised.label_transfer import anchor_profiles
    >>> S = normalized_adjacency(np.array([[1], [0], [3], [2]]))
    >>> anchor_profiles(S, np.array([0, 2]))[:, 0].round(1)
    array([ 1.,  1., -1., -1.])
    """
    n = S.shape[0]
    proximity = propagate(S, _at_rows(n, anchors, np.eye(len(anchors))), damping=_PROFILE_DAMPING)
    P: Array = np.log(np.maximum(proximity, 0.0) + _FLOOR / (1 - _PROFILE_DAMPING) / n)
    P -= P.sum(axis=1, keepdims=True) / max(len(anchors), 1)
    weight = 1 + _LINKED_WEIGHT * np.isin(np.arange(n), anchors)
    P -= np.average(P, axis=0, weights=weight)
    scale = np.sqrt(np.average(P * P, axis=0, weights=weight))
    return P / np.where(scale > _MIN_SCALE, scale, 1.0)


def transfer_scores(
    source: sparse.csr_array,
    scores: Array,
    target: sparse.csr_array,
    linked: IntArray,
    *,
    random: np.random.Generator,
) -> Array:
    r"""Class scores of the target view's rows, from those of the source view's.

    .. math:: \min_W ⟨W, C⟩ + β ⟨W, \log W⟩ + 4 β \, \mathrm{KL}(W^T 1 ‖ b), \qquad F = n_B W F_A

    C are squared distances of anchor profiles and b is the uniform marginal over the source's rows,
    which is relaxed. Then two steps alternate: class frequencies are scaled toward their expected
    values, half those of the source and half those of F; and rows are smoothed toward their
    neighbors and F, or, where profiles of linked rows disagree between the views, toward plain
    propagation of the linked rows' scores.

    Parameters
    ----------
    source : csr_array, shape (n_source, n_source)
        The source's graph, from `normalized_adjacency`.
    scores : ndarray of shape (n_source, n_classes)
        F_A; rows add up to 1.
    target : csr_array, shape (n_target, n_target)
        The target's graph.
    linked : ndarray of int, shape (n_linked, 2)
        Rows of the same individuals in source and target; without any, all rows score alike.
    random : numpy Generator
        Source of the rows that are transported, where a view has more than 2000.

    Returns
    -------
    ndarray of float64, shape (n_target, n_classes)
        Rows add up to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import normalized_adjacency
    >>> from hotview.semisupervised.label_transfer import transfer_scores
    >>> S = normalized_adjacency(np.array([[1], [0], [3], [2]]))
    >>> scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7]])
    >>> linked, random = np.array([[0, 2], [2, 0]]), np.random.default_rng(0)
    >>> transfer_scores(S, scores, S, linked, random=random).argmax(axis=1)
    array([1, 1, 0, 0])
    """
    sharp = _normalize(np.asarray(scores, dtype=np.float64), _SHARPNESS)
    rows, linked_scores = linked[:, 1], sharp[linked[:, 0]]
    P, Q = anchor_profiles(source, linked[:, 0]), anchor_profiles(target, rows)
    moved = _transport(P, sharp, Q, random)
    n, n_classes = sharp.shape
    expected = (np.bincount(sharp.argmax(axis=1), minlength=n_classes) + 1) / (n + n_classes)
    local = propagate(target, _at_rows(len(moved), rows, linked_scores))
    local = normalize_by_class_mass(local, np.maximum(linked_scores.sum(axis=0), _MIN_MASS))
    trust, trust_in_links = (
        profile_agreement(P, Q, linked),
        len(linked) / (len(linked) + _HALF_TRUST),
    )
    # The uniform distribution is mixed in, so that neither rules out a class on its own.
    prior = (moved + 1 / n_classes) ** trust * (local + 1 / n_classes) ** (1 - trust)
    frequencies = (expected + moved.mean(axis=0)) / 2
    return _refine(target, moved, prior**trust_in_links, frequencies, rows, linked_scores)


def source_weights(
    sources: Sequence[Array],
    targets: Sequence[Array],
    linked: Sequence[IntArray],
    *,
    random: np.random.Generator,
) -> Array:
    r"""Weights of several source views of one target view.

    .. math:: w_t ∝ \frac{n_t}{n_t + 20} \, r_t^2 \, \exp(-C_t / \bar C)

    C_t is the sliced Wasserstein cost between the anchor profiles of source and target, r_t the
    correlation of the profiles of their n_t linked rows (0 if negative).

    Parameters
    ----------
    sources, targets : sequences of ndarray of shape (rows, n_linked)
        Profiles of each source, and the target's to the same anchors, from `anchor_profiles`.
    linked : sequence of ndarray of int, shape (n_linked, 2)
        Rows of the same individuals in each source and in the target.
    random : numpy Generator
        Directions of the sliced costs.

    Returns
    -------
    ndarray of float64, shape (n_sources,)
        Weights that add up to 1; equal ones if no source agrees with the target at all.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.label_transfer import source_weights
    >>> random = np.random.default_rng(0)
    >>> P, noise = random.normal(size=(2, 50, 8))
    >>> pairs = np.stack([np.arange(8), np.arange(8)], axis=1)
    >>> source_weights([P, 2 * noise], [P, P], [pairs, pairs], random=random).round(1)
    array([1., 0.])
    """
    cost = np.array([_sliced_cost(P, Q, random) for P, Q in zip(sources, targets, strict=True)])
    agreement = np.array(list(map(profile_agreement, sources, targets, linked)))
    n = np.array([len(pairs) for pairs in linked])
    weight = n / (n + _HALF_TRUST) * agreement * np.exp(-cost / max(cost.mean(), _TINY))
    return _normalize(weight[None]).ravel()


def _transport(P: Array, scores: Array, Q: Array, random: np.random.Generator) -> Array:
    """Scores of the rows with profiles Q: barycentric projection of those with profiles P."""
    some = _sample(len(P), random)
    P, scores = P[some], scores[some]
    mean_cost = (P * P).sum(1).mean() + (Q * Q).sum(1).mean() - 2 * P.mean(0) @ Q.mean(0)
    blur = max(_BLUR * mean_cost, _TINY)
    # The column scalings are found on a sample; every row is then transported with them.
    factors = _relax(_kernel(Q[_sample(len(Q), random)], P, blur), np.full(len(P), 1 / len(P)))
    pieces = np.array_split(Q, -(-len(Q) // _N_SAMPLE))
    return np.concatenate([_normalize(_kernel(q, P, blur) * factors) @ scores for q in pieces])


def _kernel(Q: Array, P: Array, blur: float) -> Array:
    C = (Q * Q).sum(axis=1)[:, None] + (P * P).sum(axis=1) - 2 * Q @ P.T
    return np.asarray(np.exp((C.min(axis=1, keepdims=True) - C) / blur))


def _relax(kernel: Array, marginal: Array) -> Array:
    """Column scalings that move the column sums toward `marginal`, with equal row sums."""
    factors = np.ones(len(marginal))
    for _ in range(_SCALINGS):
        weight = 1 / np.maximum(kernel @ factors, _TINY) / len(kernel)
        factors = (marginal / np.maximum(weight @ kernel, _TINY)) ** _RELAXATION
    return factors


def _refine(
    S: sparse.csr_array,
    scores: Array,
    prior: Array,
    frequencies: Array,
    rows: IntArray,
    linked_scores: Array,
) -> Array:
    """Alternate balancing of the classes and propagation on the target's graph."""
    extra = _at_rows(len(scores), rows, _LINKED_WEIGHT * linked_scores)
    mass = propagate(S, 1 + extra.sum(axis=1, keepdims=True), damping=_REFINE_DAMPING)
    for _ in range(_ROUNDS):
        scores = _balance(scores, frequencies)
        scores = np.maximum(propagate(S, scores + extra, damping=_REFINE_DAMPING), 0.0) / mass
        scores = _normalize(scores * prior, _SHARPNESS)
        scores[rows] = linked_scores
    return _balance(scores, frequencies)


def _balance(scores: Array, frequencies: Array) -> Array:
    return _normalize((scores + _MIN_SCORE) * _relax(scores + _MIN_SCORE, frequencies))


def profile_agreement(P: Array, Q: Array, linked: IntArray) -> float:
    """Shared variance of the linked rows' profiles, without a row's proximity to itself."""
    if len(linked) < 3:  # the correlation of two points is always ±1
        return 1.0
    other = ~np.eye(len(linked), dtype=bool)
    x, y = P[linked[:, 0]][other], Q[linked[:, 1]][other]
    r = ((x - x.mean()) * (y - y.mean())).mean() / max(x.std() * y.std(), _TINY)
    return max(0.0, float(r)) ** 2


def _sliced_cost(P: Array, Q: Array, random: np.random.Generator) -> float:
    if not P.shape[1]:
        return 0.0
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    theta = draw_directions(_N_DIRECTIONS, P.shape[1], generator=generator, dtype=torch.float64)
    return float(sliced_cost([torch.tensor(Q)], [torch.tensor(P)], directions=theta))


def _normalize(scores: Array, power: float = 1.0) -> Array:
    return normalize_by_class_mass(scores**power, np.ones(scores.shape[1]))


def _at_rows(n: int, rows: IntArray, values: Array) -> Array:
    F = np.zeros((n, values.shape[1]))
    F[rows] = values
    return F


def _sample(n: int, random: np.random.Generator) -> IntArray:
    return np.sort(random.choice(n, _N_SAMPLE, replace=False)) if n > _N_SAMPLE else np.arange(n)


def transfer_labels(
    graphs: Sequence[ViewGraph],
    linked: IntArray,
    logits: Sequence[Array | None],
    log_priors: Array,
    t: int,
    codes: IntArray,
    rows: IntArray,
    q: Array,
    random: np.random.Generator,
) -> NodeScores:
    """Scores of the nodes of a view without labels: by transport, and by linked rows alone.

    Transport counts the more, the better the profiles of linked rows agree between the views, and
    the fewer they are. The ridge regression is fitted to what both say about all nodes.
    """
    graph, log_prior = graphs[t], log_priors[t]
    if len(rows) == 0:
        equal = np.full((len(graph.nodes), len(log_prior)), 1 / len(log_prior))
        none = np.zeros((graph.basis.directions.shape[0], len(log_prior)))
        ridge = RidgePredictor([torch.as_tensor(none)], torch.as_tensor(none[0]))
        return NodeScores(equal, ridge, np.zeros((len(equal), 2, len(log_prior))))
    local = score_view(graph, codes, log_prior, rows, q)
    moved, trust = _receive_labels(graphs, linked, logits, log_priors, t, random)
    trust *= min(1.0, 2 * _HALF_LINKS / (_HALF_LINKS + len(rows)))
    w = _TRANSPORT[0] + (_TRANSPORT[1] - _TRANSPORT[0]) * trust
    by_links = local.logits(np.array(_BY_LINKS))
    pooled = w * (np.log(moved + FLOOR) - log_prior) + (1 - w) * by_links
    posterior = softmax(pooled + log_prior, axis=1)
    some = np.sort(random.permutation(len(graph.nodes))[:_N_DISTILLED])
    X = graph.rows.take(graph.nodes[some]).cpu().numpy()
    ridge = fit_ridge([X], posterior[some], np.exp(log_prior), certainty(posterior[some]))
    votes = softmax(pooled, axis=1)
    scores = np.stack([np.log(votes + FLOOR), score_by_ridge(ridge, graph)], axis=1)
    return NodeScores(votes, ridge, scores)


def _receive_labels(
    graphs: Sequence[ViewGraph],
    linked: IntArray,
    logits: Sequence[Array | None],
    log_prior: Array,
    t: int,
    random: np.random.Generator,
) -> tuple[Array, float]:
    """Class probabilities of the nodes of view t by transport from all views with labels.

    Also how far it can be trusted: the agreement of the profiles of linked rows, less where linked
    rows have another mix of classes than the view that their labels come from.
    """
    target, links = graphs[t].adjacency, []
    for s, of_view in enumerate(logits):
        if of_view is not None:
            pairs = linked_nodes(graphs[s], graphs[t], linked[:, [s, t]])
            if len(pairs) > 0:
                posterior = softmax(of_view + log_prior[s], axis=1)
                links.append((s, posterior, random.permutation(pairs)[:N_ANCHORS]))
    received = [
        transfer_scores(graphs[s].adjacency, posterior, target, pairs, random=random)
        for s, posterior, pairs in links
    ]
    P = [anchor_profiles(graphs[s].adjacency, pairs[:, 0]) for s, _, pairs in links]
    Q = [anchor_profiles(target, pairs[:, 1]) for _, _, pairs in links]
    nodes = [pairs for _, _, pairs in links]
    weights = source_weights(P, Q, nodes, random=random)
    mixed: Array = np.tensordot(weights, np.stack(received), axes=1)
    trust = []
    for i, (_, posterior, pairs) in enumerate(links):
        agreement = min(1.0, profile_agreement(P[i], Q[i], pairs) / _FULL_TRUST)
        shift = share_evidence(posterior[pairs[:, 0]].sum(axis=0), posterior.mean(axis=0))
        trust.append(agreement * (1 - shift))
    return mixed, float(weights @ trust)


def linked_nodes(first: ViewGraph, second: ViewGraph, rows: IntArray) -> IntArray:
    """Pairs of nodes of two views that are the same individual, by number among the nodes."""
    pairs = np.stack([first.node_numbers(rows[:, 0]), second.node_numbers(rows[:, 1])], axis=1)
    linked: IntArray = pairs[(pairs >= 0).all(axis=1)]
    return linked
