"""Which views belong together, read off a plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ViewGroups", "groups_of_pairs", "groups_of_references"]

_Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ViewGroups:
    """Groups of views named by a plan, and how far to trust them.

    Attributes
    ----------
    labels : array of int, one per view
        Group of each view. In a pairwise plan groups are numbered as they first appear; in a
        reference plan a group's number is its reference's.
    tied : array of bool, one per view
        Views whose two strongest weights are equal to within the tolerance and lead to different
        groups: their label is a coin's toss.
    uniform : array of bool, one per view
        Views whose weights are all equal to within the tolerance: the plan says nothing of them.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot import sinkhorn
    >>> groups = sinkhorn(torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), reg=1.0).view_labels()
    >>> groups.labels.tolist(), groups.uniform.tolist()
    ([0, 1, 0], [False, False, True])
    >>> print(groups)
    2 groups: {0, 2}, {1}; the plan says nothing of {2}
    """

    labels: NDArray[np.int64]
    tied: NDArray[np.bool_]
    uniform: NDArray[np.bool_]

    @property
    def n_groups(self) -> int:
        """Number of groups that hold a view."""
        return len(np.unique(self.labels))

    def __str__(self) -> str:
        members = [np.flatnonzero(self.labels == k) for k in np.unique(self.labels)]
        text = f"{self.n_groups} group{'s' * (self.n_groups > 1)}: "
        text += ", ".join(_braces(group) for group in members)
        if self.uniform.any():
            text += f"; the plan says nothing of {_braces(np.flatnonzero(self.uniform))}"
        tied_only = self.tied & ~self.uniform
        if tied_only.any():
            text += f"; undecided: {_braces(np.flatnonzero(tied_only))}"
        return text


def _braces(views: NDArray[np.int64]) -> str:
    return "{" + ", ".join(str(s) for s in views) + "}"


def groups_of_references(W: _Matrix, tie_tol: float) -> ViewGroups:
    """Label each row of W by its largest entry."""
    top = W.max(axis=1, keepdims=True)
    near = top - W <= tie_tol * top
    return ViewGroups(W.argmax(axis=1), near.sum(axis=1) > 1, near.all(axis=1))


def groups_of_pairs(W: _Matrix, n_groups: int | None, tie_tol: float) -> ViewGroups:
    """Cut the graph of views whose edges are W (symmetric, nothing on the diagonal)."""
    S = len(W)
    if n_groups is not None and n_groups > S:
        raise ValueError(f"n_groups must be between 1 and the {S} views, got {n_groups}.")
    A = (W + W.T) / 2
    np.fill_diagonal(A, 0)
    top = A.max(axis=1, keepdims=True)
    near = (top - A <= tie_tol * top) | np.eye(S, dtype=bool)
    uniform = near.all(axis=1)
    if n_groups is None:
        n_groups = 1 if uniform.all() else _count_groups(A)
    labels = _average_linkage(A, n_groups)
    # The diagonal is near by definition, so it must not count as leading anywhere.
    elsewhere = near & ~np.eye(S, dtype=bool)
    first = labels[A.argmax(axis=1)]
    tied = (elsewhere & (labels != first[:, None])).any(axis=1)
    return ViewGroups(labels, tied, uniform)


def _count_groups(A: _Matrix) -> int:
    """As many groups as there are large eigenvalues: k blocks without edges between have k ones."""
    degree = A.sum(axis=1)
    alone = degree == 0  # a view without mass is a group of its own
    scale = 1 / np.sqrt(degree[~alone])
    values = np.sort(np.linalg.eigvalsh(scale[:, None] * A[np.ix_(~alone, ~alone)] * scale))[::-1]
    return int(np.argmax(values[:-1] - values[1:])) + 1 + int(alone.sum())


def _average_linkage(A: _Matrix, n_groups: int) -> NDArray[np.int64]:
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform

    if len(A) == 1:
        return np.zeros(1, dtype=np.int64)
    distance = A.max() - A
    np.fill_diagonal(distance, 0)
    # Not fcluster, which gives fewer groups than asked for where distances tie.
    found = cut_tree(linkage(squareform(distance), "average"), [n_groups]).ravel()
    _, first, inverse = np.unique(found, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
