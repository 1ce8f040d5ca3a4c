"""Class scores that one view, the teacher, passes on to another over a few linked rows.

Linked rows are anchors: how near a row is to each of them means the same in both views, whatever
the columns. In these coordinates the teacher's rows are transported onto the pupil's, also those
of classes that no linked row has; the pupil's own graph then mends what the transport blurs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy import sparse

from hotview._types import Array, IntArray
from hotview.ot import draw_directions, sliced_cost
from hotview.semisupervised.propagation import normalize_by_class_mass, spread

__all__ = ["anchor_profiles", "source_weights", "transfer_scores"]

_FAR, _NEAR = 0.99, 0.9  # damping of the profiles, across the graph, and of the refinement
_FLOOR = 0.01  # nearness, as a share of the mean, below which rows are equally far
_LINKED, _CREDIT = 10.0, 20  # rows that a linked one adds; linked ones that are half believed
_BLUR = 0.04  # of the transport, as a share of the mean cost
_HOLD = 0.8  # of the expected shares of rows and classes; 1 would impose them
_SHARPNESS = 3.0  # power that scores are raised to: soft ones are biased to equal shares
_ROUNDS, _SCALINGS = 5, 50  # every scaling leaves at most the share _HOLD of the error
_MIN_MASS, _MIN_SHARE = 0.3, 1e-6  # of a class, in all linked rows and in one row
_N_SAMPLE, _N_DIRECTIONS = 2000, 64  # rows that are transported at once, and sliced costs
_STILL, _TINY = 1e-6, float(np.finfo(np.float64).tiny)  # least to divide profiles, numbers by


def anchor_profiles(S: sparse.csr_array, anchors: IntArray) -> Array:
    r"""How near every row of a view is to each anchor, in units that other views share.

    .. math:: P_{ij} = \log (I - α S)^{-1}_{i a_j}, \qquad α = 0.99

    with rows centered and columns then standardized, anchors counting as ten rows more: they are
    the same individuals in all views, while the mix of the other rows may differ.

    Parameters
    ----------
    S : csr_array, shape (n_rows, n_rows)
        The view's graph, from `make_graph`.
    anchors : ndarray of int, shape (n_anchors,)
        Row numbers of the linked individuals.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_anchors)
        P.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import make_graph
    >>> from hotview.semisupervised.label_transfer import anchor_profiles
    >>> S = make_graph(np.array([[1], [0], [3], [2]]))
    >>> anchor_profiles(S, np.array([0, 2]))[:, 0].round(1)
    array([ 1.,  1., -1., -1.])
    """
    n = S.shape[0]
    near = spread(S, _at_rows(n, anchors, np.eye(len(anchors))), damping=_FAR)
    P: Array = np.log(np.maximum(near, 0.0) + _FLOOR / (1 - _FAR) / n)
    P -= P.sum(axis=1, keepdims=True) / max(len(anchors), 1)
    weight = 1 + _LINKED * np.isin(np.arange(n), anchors)
    P -= np.average(P, axis=0, weights=weight)
    scale = np.sqrt(np.average(P * P, axis=0, weights=weight))
    return P / np.where(scale > _STILL, scale, 1.0)


def transfer_scores(
    teacher: sparse.csr_array,
    scores: Array,
    pupil: sparse.csr_array,
    linked: IntArray,
    *,
    random: np.random.Generator,
) -> Array:
    r"""Class scores of the pupil's rows, from those of the teacher's.

    .. math:: \min_W ⟨W, C⟩ + β ⟨W, \log W⟩ + 4 β \, \mathrm{KL}(W^T 1 ‖ b), \qquad F = n_B W F_A

    C are squared distances of anchor profiles and b equal shares of the teacher's rows, which hold
    loosely. Then, by turns, classes are drawn toward their expected shares, half the teacher's and
    half those of F, and rows toward their neighbors and F; or, as far as profiles of linked rows
    disagree between the views, toward plain propagation of the linked rows' scores.

    Parameters
    ----------
    teacher : csr_array, shape (n_teacher, n_teacher)
        The teacher's graph, from `make_graph`.
    scores : ndarray of shape (n_teacher, n_classes)
        F_A; rows add up to 1.
    pupil : csr_array, shape (n_pupil, n_pupil)
        The pupil's graph.
    linked : ndarray of int, shape (n_linked, 2)
        The teacher's and the pupil's rows of the same individuals; with none, all rows score alike.
    random : numpy Generator
        Which rows are transported, where a view has more than 2000.

    Returns
    -------
    ndarray of float64, shape (n_pupil, n_classes)
        Rows add up to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.propagation import make_graph
    >>> from hotview.semisupervised.label_transfer import transfer_scores
    >>> S = make_graph(np.array([[1], [0], [3], [2]]))
    >>> scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7]])
    >>> linked, random = np.array([[0, 2], [2, 0]]), np.random.default_rng(0)
    >>> transfer_scores(S, scores, S, linked, random=random).argmax(axis=1)
    array([1, 1, 0, 0])
    """
    sharp = _normalize(np.asarray(scores, dtype=np.float64), _SHARPNESS)
    rows, known = linked[:, 1], sharp[linked[:, 0]]
    P, Q = anchor_profiles(teacher, linked[:, 0]), anchor_profiles(pupil, rows)
    moved = _transport(P, sharp, Q, random)
    n, n_classes = sharp.shape
    expected = (np.bincount(sharp.argmax(axis=1), minlength=n_classes) + 1) / (n + n_classes)
    local = spread(pupil, _at_rows(len(moved), rows, known))
    local = normalize_by_class_mass(local, np.maximum(known.sum(axis=0), _MIN_MASS))
    trust, credit = _agreement(P, Q, linked), len(linked) / (len(linked) + _CREDIT)
    # Equal shares are mixed in, for neither to rule out a class on its own.
    words = (moved + 1 / n_classes) ** trust * (local + 1 / n_classes) ** (1 - trust)
    shares = (expected + moved.mean(axis=0)) / 2
    return _refine(pupil, moved, words**credit, shares, rows, known)


def source_weights(
    teachers: Sequence[Array],
    pupils: Sequence[Array],
    linked: Sequence[IntArray],
    *,
    random: np.random.Generator,
) -> Array:
    r"""How much each teacher of one pupil is worth listening to.

    .. math:: w_t ∝ \frac{n_t}{n_t + 20} \, r_t^2 \, \exp(-C_t / \bar C)

    C_t is the sliced Wasserstein cost between the anchor profiles of teacher and pupil, r_t the
    correlation of the profiles of their n_t linked rows (0 if negative).

    Parameters
    ----------
    teachers, pupils : sequences of ndarray of shape (rows, n_linked)
        Profiles of each teacher, and the pupil's to the same anchors, from `anchor_profiles`.
    linked : sequence of ndarray of int, shape (n_linked, 2)
        Rows of the same individuals, the teacher's and the pupil's.
    random : numpy Generator
        Directions of the sliced costs.

    Returns
    -------
    ndarray of float64, shape (n_teachers,)
        Weights that add up to 1; equal ones if no teacher agrees with the pupil at all.

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
    cost = np.array([_sliced(P, Q, random) for P, Q in zip(teachers, pupils, strict=True)])
    agreed = np.array([_agreement(*three) for three in zip(teachers, pupils, linked, strict=True)])
    n = np.array([len(pairs) for pairs in linked])
    worth = n / (n + _CREDIT) * agreed * np.exp(-cost / max(cost.mean(), _TINY))
    return _normalize(worth[None]).ravel()


def _transport(P: Array, scores: Array, Q: Array, random: np.random.Generator) -> Array:
    some = _sample(len(P), random)
    P, scores = P[some], scores[some]
    mean_cost = (P * P).sum(1).mean() + (Q * Q).sum(1).mean() - 2 * P.mean(0) @ Q.mean(0)
    blur = max(_BLUR * mean_cost, _TINY)
    # A sample finds the factors of the columns, with which each row is transported on its own.
    factors = _relax(_kernel(Q[_sample(len(Q), random)], P, blur), np.full(len(P), 1 / len(P)))
    pieces = np.array_split(Q, -(-len(Q) // _N_SAMPLE))
    return np.concatenate([_normalize(_kernel(q, P, blur) * factors) @ scores for q in pieces])


def _kernel(Q: Array, P: Array, blur: float) -> Array:
    C = (Q * Q).sum(axis=1)[:, None] + (P * P).sum(axis=1) - 2 * Q @ P.T
    return np.asarray(np.exp((C.min(axis=1, keepdims=True) - C) / blur))


def _relax(kernel: Array, shares: Array) -> Array:
    """Factors of the columns that draw their sums toward `shares`, while row sums are equal."""
    factors = np.ones(len(shares))
    for _ in range(_SCALINGS):
        weight = 1 / np.maximum(kernel @ factors, _TINY) / len(kernel)
        factors = (shares / np.maximum(weight @ kernel, _TINY)) ** _HOLD
    return factors


def _refine(
    S: sparse.csr_array, scores: Array, words: Array, shares: Array, rows: IntArray, known: Array
) -> Array:
    extra = _at_rows(len(scores), rows, _LINKED * known)
    reach = spread(S, 1 + extra.sum(axis=1, keepdims=True), damping=_NEAR)
    for _ in range(_ROUNDS):
        scores = _balance(scores, shares)
        scores = np.maximum(spread(S, scores + extra, damping=_NEAR), 0.0) / reach
        scores = _normalize(scores * words, _SHARPNESS)
        scores[rows] = known
    return _balance(scores, shares)


def _balance(scores: Array, shares: Array) -> Array:
    return _normalize((scores + _MIN_SHARE) * _relax(scores + _MIN_SHARE, shares))


def _agreement(P: Array, Q: Array, linked: IntArray) -> float:
    """Variance that the linked rows' profiles share; a row's nearness to itself is left out."""
    if len(linked) < 3:  # two points are always on a line
        return 1.0
    other = ~np.eye(len(linked), dtype=bool)
    x, y = P[linked[:, 0]][other], Q[linked[:, 1]][other]
    r = ((x - x.mean()) * (y - y.mean())).mean() / max(x.std() * y.std(), _TINY)
    return max(0.0, float(r)) ** 2


def _sliced(P: Array, Q: Array, random: np.random.Generator) -> float:
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
