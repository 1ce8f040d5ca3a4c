"""What transport plans say about views: who is close to whom, how sharply, how reliably."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

__all__ = [
    "closest",
    "correlations",
    "match_columns",
    "most_alike",
    "place_views",
    "row_entropy",
    "similarity",
    "stands_alone",
]

#: Similarities that differ by less are tied: files keep four decimals of a plan.
_TIE = 2e-3
#: Between groups on a circle, in views.
_GAP = 0.6


def similarity(W: ArrayLike, *, pairwise: bool) -> NDArray[np.float64]:
    """Say how alike a plan holds every two views: (W + Wᵀ) / 2 pairwise, else W Wᵀ.

    W Wᵀ does not change when the references are numbered otherwise, so that plans of different
    trainings can be compared. Either is scaled to be 1 where a view is wholly given to one other
    view (or two views to one reference).

    Parameters
    ----------
    W : array-like of shape (S, S) or (S, K)
        A plan, of views to views or of views to references.
    pairwise : bool
        Whether it is of views to views.

    Returns
    -------
    array of shape (S, S)
        The similarities; NaN on the diagonal.

    Examples
    --------
    >>> from hotview.report.plans import similarity
    >>> similarity([[0.5, 0.0], [0.5, 0.0]], pairwise=False)
    array([[nan,  1.],
           [ 1., nan]])
    """
    plan = np.asarray(W, dtype=float)
    S = len(plan)
    found: NDArray[np.float64] = S * (plan + plan.T) / 2 if pairwise else S**2 * plan @ plan.T
    found[np.diag_indices(S)] = np.nan
    return found


def closest(similarities: NDArray[np.float64], view: int) -> int | None:
    """Find the view that another one is most alike.

    Parameters
    ----------
    similarities : array of shape (S, S)
        From `similarity`.
    view : int
        Whose neighbor to find.

    Returns
    -------
    int or None
        The neighbor; None if two are equally close.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.report.plans import closest
    >>> S = np.array([[np.nan, 0.2, 0.8], [0.2, np.nan, 0.2], [0.8, 0.2, np.nan]])
    >>> closest(S, 0), closest(S, 1)
    (2, None)
    """
    return _only_largest(np.where(np.isnan(similarities[view]), -np.inf, similarities[view]))


def most_alike(similarities: NDArray[np.float64], group: Collection[int]) -> bool:
    """Say whether no other group of as many views is as alike among itself.

    Parameters
    ----------
    similarities : array of shape (S, S)
        From `similarity`.
    group : collection of int
        Views.

    Returns
    -------
    bool
        Whether the group's mean similarity is the largest of all groups' of its size.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.report.plans import most_alike
    >>> S = np.array([[np.nan, 0.2, 0.8], [0.2, np.nan, 0.2], [0.8, 0.2, np.nan]])
    >>> most_alike(S, {0, 2}), most_alike(S, {0, 1})
    (True, False)
    """
    groups = list(combinations(range(len(similarities)), len(group)))
    means = [np.mean([similarities[pair] for pair in combinations(g, 2)]) for g in groups]
    return _only_largest(np.array(means)) == groups.index(tuple(sorted(group)))


def stands_alone(similarities: NDArray[np.float64], view: int) -> bool:
    """Say whether every other view has a closer neighbor than this one has.

    Parameters
    ----------
    similarities : array of shape (S, S)
        From `similarity`.
    view : int
        The view.

    Returns
    -------
    bool
        Whether its nearest neighbor is the farthest.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.report.plans import stands_alone
    >>> S = np.array([[np.nan, 0.2, 0.8], [0.2, np.nan, 0.3], [0.8, 0.3, np.nan]])
    >>> stands_alone(S, 1), stands_alone(S, 0)
    (True, False)
    """
    return _only_largest(-np.nanmax(similarities, axis=1)) == view


def row_entropy(W: ArrayLike, *, pairwise: bool) -> float:
    """Measure how dense a plan is: the mean over rows of −Σ p log p / log n.

    Parameters
    ----------
    W : array-like of shape (S, S) or (S, K)
        A plan; p is a row of it, divided by its sum.
    pairwise : bool
        Whether it is of views to views; n is then S − 1, as no view goes to itself, else K.

    Returns
    -------
    float
        0 where every view goes to one place, 1 where it goes to all alike.

    Examples
    --------
    >>> from hotview.report.plans import row_entropy
    >>> row_entropy([[0.5, 0.0], [0.25, 0.25]], pairwise=False)
    0.5
    """
    plan = np.asarray(W, dtype=float)
    n = plan.shape[1] - pairwise
    p = plan / plan.sum(1, keepdims=True)
    logs = np.log(np.where(p > 0, p, 1.0))
    return float(np.mean(-(p * logs).sum(1)) / np.log(n)) + 0.0 if n > 1 else 0.0


def correlations(plans: Sequence[ArrayLike], *, pairwise: bool) -> NDArray[np.float64]:
    """Correlate what every two plans say about the pairs of views.

    Parameters
    ----------
    plans : sequence of array-like
        Plans of several trainings.
    pairwise : bool
        Whether they are of views to views.

    Returns
    -------
    array of shape (n, n)
        Correlations of the similarities. A plan that holds all pairs equally alike, to the digits
        that files keep, says nothing and correlates with nothing (0). NaN on the diagonal.

    Examples
    --------
    >>> from hotview.report.plans import correlations
    >>> a, b = [[0.3, 0], [0.3, 0], [0, 0.3]], [[0, 0.3], [0, 0.3], [0.3, 0]]
    >>> correlations([a, b], pairwise=False).round(3)
    array([[nan,  1.],
           [ 1., nan]])
    """
    pairs = np.triu_indices(len(np.asarray(plans[0])), k=1)
    said = np.array([similarity(W, pairwise=pairwise)[pairs] for W in plans])
    centered = said - said.mean(1, keepdims=True)
    spreads = centered.std(1, keepdims=True)
    unit = np.where(spreads > _TIE, centered / np.maximum(spreads, _TIE), 0.0)
    found: NDArray[np.float64] = unit @ unit.T / said.shape[1]
    found[np.diag_indices(len(found))] = np.nan
    return found


def match_columns(plans: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Number the references of all plans alike, so that plans can be averaged.

    The plan that correlates best with the others stays as it is; the columns of every other one
    are put in the order that resembles it most. Even noise looks sharper after this.

    Parameters
    ----------
    plans : sequence of array-like of shape (S, K)
        Plans of views to references, of several trainings.

    Returns
    -------
    array of shape (n, S, K)
        The plans with their columns in order.

    Examples
    --------
    >>> from hotview.report.plans import match_columns
    >>> a, b = [[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]
    >>> match_columns([a, b])[1]
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    stack = np.array(plans, dtype=float)
    if len(stack) < 2:
        return stack
    model = stack[np.nanmean(correlations(plans, pairwise=False), axis=1).argmax()]
    orders = [linear_sum_assignment(-model.T @ W)[1] for W in stack]
    return np.array([W[:, order] for W, order in zip(stack, orders, strict=True)])


def place_views(groups: Sequence[int]) -> NDArray[np.float64]:
    """Places on a circle, group beside group, with gaps between.

    Parameters
    ----------
    groups : sequence of int
        The group of every view.

    Returns
    -------
    array of shape (views, 2)
        Places at distance 1 from the middle.

    Examples
    --------
    >>> from hotview.report.plans import place_views
    >>> place_views([0, 1]).round(3) + 0.0
    array([[ 0., -1.], [ 0.,  1.]])
    """
    order = sorted(range(len(groups)), key=lambda s: (groups[s], s))
    steps = [1 + _GAP * (groups[a] != groups[b]) for a, b in pairwise(order)]
    around = sum(steps) + 1 + _GAP * (len(set(groups)) > 1)
    angles = np.r_[0.0, np.cumsum(steps)] / around * 2 * math.pi
    places = np.empty((len(groups), 2))
    places[order] = np.c_[np.sin(angles), -np.cos(angles)]
    return places


def _only_largest(values: NDArray[np.float64]) -> int | None:
    first, second = np.argsort(values)[[-1, -2]]
    return int(first) if values[first] > values[second] + _TIE else None
