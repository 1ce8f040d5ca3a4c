"""Groups of views in their similarities."""

from __future__ import annotations

import numpy as np

from hotview._types import Array, IntArray

__all__ = ["group_views", "stable_groups"]

_MIN_STABILITY = 0.9  # share of half-samples in which groups hold
_MIN_GAP = 0.1  # below, unequal noise in views of one group looks like groups
_MIN_VIEWS = 4  # with fewer, pairs say all


def group_views(similarity: Array) -> tuple[IntArray | None, float]:
    """Groups of views at the largest gap between similarities.

    Views are in one group if they are more similar than a threshold. Only thresholds count at which
    this holds for all pairs of a group; the one in the largest gap is chosen.

    Parameters
    ----------
    similarity : ndarray of shape (S, S)
        Similarities of all pairs.

    Returns
    -------
    groups : ndarray of int64, shape (S,), or None
        Groups, numbered in order of appearance: at least two, and less than S. None if there are
        none.
    gap : float
        The gap: the smallest similarity within a group less the largest between groups.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity.view_groups import group_views
    >>> group_views(np.array([[1, 0.2, 0.8], [0.2, 1, 0.3], [0.8, 0.3, 1]]))
    (array([0, 1, 0]), 0.5)
    """
    S = len(similarity)
    first, second = np.triu_indices(S, 1)
    values = similarity[first, second]
    if np.isnan(values).any():
        return None, 0.0
    labels, best, largest = np.arange(S), None, 0.0
    order = np.argsort(-values, kind="stable")
    for k, pair in enumerate(order[:-1]):
        a, b = labels[first[pair]], labels[second[pair]]
        labels = np.where(labels == max(a, b), min(a, b), labels)
        sizes = np.bincount(labels)
        gap = float(values[pair] - values[order[k + 1]])
        if gap > largest and (sizes * (sizes - 1)).sum() == 2 * (k + 1):  # all pairs are in
            best, largest = labels, gap
    return (None if best is None else np.unique(best, return_inverse=True)[1]), largest


def stable_groups(
    similarity: Array, halves: Array, *, min_found: float
) -> tuple[IntArray | None, float]:
    """Groups that hold, and the share of half-samples in which they hold.

    Parameters
    ----------
    similarity : ndarray of shape (S, S)
        Similarities of all pairs.
    halves : ndarray of shape (n_halves, S, S)
        Similarities in random halves of the rows.
    min_found : float
        Share of half-samples in which the largest gap must be that between the same groups.

    Returns
    -------
    groups : ndarray of int64, shape (S,), or None
        None unless the gap is at least 0.1 and, in 90 % of the half-samples, every pair within a
        group is more similar than every pair between groups; None with fewer than four views.
    stability : float
        The share of half-samples in which they are; 0 if the similarities have no groups.
    """
    groups, gap = group_views(similarity) if len(similarity) >= _MIN_VIEWS else (None, 0.0)
    if groups is None:
        return None, 0.0
    same = groups[:, None] == groups
    within = same & ~np.eye(len(groups), dtype=bool)
    stability = float(np.mean(halves[:, within].min(axis=1) > halves[:, ~same].max(axis=1)))
    if gap < _MIN_GAP or stability < _MIN_STABILITY:
        return None, stability
    found = [labels for half in halves if (labels := group_views(half)[0]) is not None]
    n_same = sum(np.array_equal(labels, groups) for labels in found)
    return (groups if n_same >= min_found * len(halves) else None), stability
