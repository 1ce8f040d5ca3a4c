"""Closest views, sharpness and agreement of plans over views, of one or several trainings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

__all__ = [
    "closest",
    "correlations",
    "match_columns",
    "most_alike",
    "row_entropy",
    "similarity",
    "stands_alone",
]

#: Similarities that differ by less are tied: files keep four decimals of a plan.
_TIE = 2e-3


def similarity(W: ArrayLike, *, pairwise: bool) -> NDArray[np.float64]:
    """Return the similarity of each pair of views: (W + Wᵀ) / 2 if pairwise, else W Wᵀ.

    W Wᵀ is invariant to permutations of the references, so that plans of different trainings can
    be compared. Both are scaled to 1 where all mass of a view goes to one other view (or all mass
    of two views to one reference).

    Parameters
    ----------
    W : array-like of shape (S, S) or (S, K)
        A plan from views to views or from views to references.
    pairwise : bool
        Whether the plan is from views to views.

    Returns
    -------
    array of shape (S, S)
        The similarities; NaN on the diagonal.

    Examples
    --------
    >>> from paper.plans import similarity
    >>> similarity([[0.5, 0.0], [0.5, 0.0]], pairwise=False)
    array([[nan,  1.],
           [ 1., nan]])
    """
    plan = np.asarray(W, dtype=float)
    S = len(plan)
    weights: NDArray[np.float64] = S * (plan + plan.T) / 2 if pairwise else S**2 * plan @ plan.T
    np.fill_diagonal(weights, np.nan)
    return weights


def closest(similarities: NDArray[np.float64], view: int) -> int | None:
    """Return the most similar view of a view.

    Parameters
    ----------
    similarities : array of shape (S, S)
        From `similarity`.
    view : int
        Index of the view.

    Returns
    -------
    int or None
        Index of the most similar view; None if two are equally similar.

    Examples
    --------
    >>> import numpy as np
    >>> from paper.plans import closest
    >>> S = np.array([[np.nan, 0.2, 0.8], [0.2, np.nan, 0.2], [0.8, 0.2, np.nan]])
    >>> closest(S, 0), closest(S, 1)
    (2, None)
    """
    return _only_largest(np.where(np.isnan(similarities[view]), -np.inf, similarities[view]))


def most_alike(similarities: NDArray[np.float64], group: Collection[int]) -> bool:
    """Return whether a group is the most similar of all groups of its size.

    Parameters
    ----------
    similarities : array of shape (S, S)
        From `similarity`.
    group : collection of int
        Indices of views.

    Returns
    -------
    bool
        Whether its mean similarity is larger than that of all other groups of its size.

    Examples
    --------
    >>> import numpy as np
    >>> from paper.plans import most_alike
    >>> S = np.array([[np.nan, 0.2, 0.8], [0.2, np.nan, 0.2], [0.8, 0.2, np.nan]])
    >>> most_alike(S, {0, 2}), most_alike(S, {0, 1})
    (True, False)
    """
    groups = list(combinations(range(len(similarities)), len(group)))
    means = [np.mean([similarities[pair] for pair in combinations(g, 2)]) for g in groups]
    return _only_largest(np.array(means)) == groups.index(tuple(sorted(group)))


def stands_alone(similarities: NDArray[np.float64], view: int) -> bool:
    """Return whether a view is the least similar to its most similar view.

    Parameters
    ----------
    similarities : array of shape (S, S)
        From `similarity`.
    view : int
        Index of the view.

    Returns
    -------
    bool
        Whether every other view has a closer neighbor.

    Examples
    --------
    >>> import numpy as np
    >>> from paper.plans import stands_alone
    >>> S = np.array([[np.nan, 0.2, 0.8], [0.2, np.nan, 0.3], [0.8, 0.3, np.nan]])
    >>> stands_alone(S, 1), stands_alone(S, 0)
    (True, False)
    """
    return _only_largest(-np.nanmax(similarities, axis=1)) == view


def row_entropy(W: ArrayLike, *, pairwise: bool) -> float:
    """Return the normalized entropy of a plan: the mean over rows of −Σ p log p / log n.

    Parameters
    ----------
    W : array-like of shape (S, S) or (S, K)
        A plan; p is one of its rows divided by its sum.
    pairwise : bool
        Whether the plan is from views to views; n is then S − 1 (no view goes to itself), else K.

    Returns
    -------
    float
        0 if each view goes to one place, 1 if the plan is uniform.

    Examples
    --------
    >>> from paper.plans import row_entropy
    >>> row_entropy([[0.5, 0.0], [0.25, 0.25]], pairwise=False)
    0.5
    """
    plan = np.asarray(W, dtype=float)
    n = plan.shape[1] - pairwise
    p = plan / plan.sum(1, keepdims=True)
    logs = np.log(np.where(p > 0, p, 1.0))
    return float(np.mean(-(p * logs).sum(1)) / np.log(n)) + 0.0 if n > 1 else 0.0


def correlations(plans: Sequence[ArrayLike], *, pairwise: bool) -> NDArray[np.float64]:
    """Return the correlation of each pair of plans over the similarities of views.

    Parameters
    ----------
    plans : sequence of array-like
        Plans of several trainings.
    pairwise : bool
        Whether the plans are from views to views.

    Returns
    -------
    array of shape (n, n)
        Correlations of the similarities, NaN on the diagonal. A plan whose similarities are all
        equal, to the precision of files, has correlation 0.

    Examples
    --------
    >>> from paper.plans import correlations
    >>> a, b = [[0.3, 0], [0.3, 0], [0, 0.3]], [[0, 0.3], [0, 0.3], [0.3, 0]]
    >>> correlations([a, b], pairwise=False).round(3)
    array([[nan,  1.],
           [ 1., nan]])
    """
    pairs = np.triu_indices(len(np.asarray(plans[0])), k=1)
    weights = np.array([similarity(W, pairwise=pairwise)[pairs] for W in plans])
    centered = weights - weights.mean(1, keepdims=True)
    spreads = centered.std(1, keepdims=True)
    unit = np.where(spreads > _TIE, centered / np.maximum(spreads, _TIE), 0.0)
    correlation: NDArray[np.float64] = unit @ unit.T / weights.shape[1]
    np.fill_diagonal(correlation, np.nan)
    return correlation


def match_columns(plans: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Permute the references of all plans consistently, so that plans can be averaged.

    The plan with the largest mean correlation is the template; the columns of each other plan are
    matched to it. Matching makes even averages of noise look sharper.

    Parameters
    ----------
    plans : sequence of array-like of shape (S, K)
        Plans from views to references, of several trainings.

    Returns
    -------
    array of shape (n, S, K)
        The plans with matched columns.

    Examples
    --------
    >>> from paper.plans import match_columns
    >>> a, b = [[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]
    >>> match_columns([a, b])[1]
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    stack = np.array(plans, dtype=float)
    if len(stack) < 2:
        return stack
    template = stack[np.nanmean(correlations(plans, pairwise=False), axis=1).argmax()]
    orders = [linear_sum_assignment(-template.T @ W)[1] for W in stack]
    return np.array([W[:, order] for W, order in zip(stack, orders, strict=True)])


def _only_largest(values: NDArray[np.float64]) -> int | None:
    first, second = np.argsort(values)[[-1, -2]]
    return int(first) if values[first] > values[second] + _TIE else None
