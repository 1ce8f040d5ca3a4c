"""Transport plans over views, and the groups of views in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotview._validation import check_count

__all__ = ["Plan", "ViewGroups", "groups_of_pairs", "groups_of_references"]


@dataclass(frozen=True, repr=False)
class Plan:
    r"""Solution of an entropic transport problem, :math:`\min_W ⟨W, C⟩ + β ⟨W, \log W⟩`.

    Returned by :func:`sinkhorn`. Leading dimensions are independent problems.

    Attributes
    ----------
    W : Tensor of shape (..., S, K)
        The plan: mass transported from view s to view (or reference) k.
    C : Tensor of shape (..., S, K)
        The costs.
    reg : float or Tensor
        The regularization β in use: one number, or one per problem if it is relative.
    f : Tensor of shape (..., S)
        Dual potential of the rows, float64: ``W = mass · exp((f + g − C) / reg)``.
    g : Tensor of shape (..., K)
        Dual potential of the columns.
    mask : Tensor of bool or None
        True where W is constrained to zero.
    symmetric : bool
        Whether the problem, and so the plan, is symmetric.
    n_iter : int
        Number of iterations.
    marginal_error : Tensor
        Error of the row or column sums of W, as a fraction of the mass, per problem.
    tol : float
        Tolerance of `marginal_error`.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot import sinkhorn
    >>> plan = sinkhorn(torch.tensor([[0.0, 2.0], [2.0, 0.0]]), reg=0.5)
    >>> plan
    Plan(2 × 2, reg=0.5, cost=0.036, converged in 10 iterations)
    >>> round(plan.cost.item(), 3), round(plan.entropy.item(), 3)
    (0.036, 0.783)
    """

    W: Tensor
    C: Tensor
    reg: float | Tensor
    f: Tensor
    g: Tensor
    mask: Tensor | None
    symmetric: bool
    n_iter: int
    marginal_error: Tensor
    tol: float

    @property
    def converged(self) -> bool:
        """Whether `marginal_error` is at most `tol` in all problems."""
        return bool((self.marginal_error <= self.tol).all())

    @property
    def cost(self) -> Tensor:
        """Transport cost ⟨W, C⟩, per problem."""
        C = self.C if self.mask is None else self.C.masked_fill(self.mask, 0)
        return (self.W * C).sum((-2, -1))

    @property
    def entropy(self) -> Tensor:
        """Entropy −⟨W, log W⟩, per problem."""
        floor = torch.finfo(self.W.dtype).tiny  # keeps the logarithm and its gradient finite
        return -(self.W * self.W.clamp_min(floor).log()).sum((-2, -1))

    @property
    def value(self) -> Tensor:
        """Minimized objective `cost` − `reg` · `entropy`, per problem."""
        reg = self.reg if isinstance(self.reg, float) else self.reg.to(self.W)
        return self.cost - reg * self.entropy

    @property
    def pairwise(self) -> bool:
        """Whether rows and columns are the same views, that is, whether the diagonal is masked."""
        if self.mask is None or self.W.shape[-1] != self.W.shape[-2]:
            return False
        return bool(self.mask.diagonal(dim1=-2, dim2=-1).all())

    def view_labels(self, n_groups: int | None = None, *, tie_tol: float = 0.05) -> ViewGroups:
        """Group views by the mass that the plan transports between them, or to references.

        A pairwise plan (one whose diagonal is masked) is a weighted graph of views, clustered by
        average linkage; the default number of groups is at the largest gap between the eigenvalues
        of W, with rows normalized to sum to 1. Any other plan groups views by the reference that
        receives most of their mass.

        Parameters
        ----------
        n_groups : int or None, default=None
            Number of groups of a pairwise plan; None uses the eigenvalues. Must be None for a
            reference plan, whose groups are the references.
        tie_tol : float, default=0.05
            Weights are tied if they differ by at most this fraction of the larger one.

        Returns
        -------
        ViewGroups
            The ``labels``, and which views are ``tied`` or ``uniform``.

        Examples
        --------
        >>> import torch
        >>> from hotview.ot import sinkhorn
        >>> x = torch.tensor([0.0, 5.0, 0.1, 5.1])
        >>> eye = torch.eye(4, dtype=torch.bool)
        >>> plan = sinkhorn((x - x[:, None]).square(), reg=1.0, mask=eye)
        >>> plan.view_labels().labels.tolist()
        [0, 1, 0, 1]
        """
        if not 0 <= tie_tol < 1:
            raise ValueError(f"tie_tol must be at least 0 and less than 1, got {tie_tol!r}.")
        if n_groups is not None:
            n_groups = check_count("n_groups", n_groups)
        if self.W.ndim > 2:
            raise ValueError("view_labels takes one plan; index a batched W and solve it alone.")
        W = self.W.detach().double().cpu().numpy()
        if self.pairwise:
            return groups_of_pairs(W, n_groups, tie_tol)
        if n_groups is not None:
            raise ValueError(
                f"n_groups is for plans between views; this one has {W.shape[1]} references, "
                "which are its groups."
            )
        return groups_of_references(W, tie_tol)

    def __repr__(self) -> str:
        shape = " × ".join(str(n) for n in self.W.shape)
        numbers = [
            ", ".join(f"{x:.3g}" for x in t.detach().reshape(-1)[:3].tolist())
            + (", …" if t.numel() > 3 else "")
            for t in (torch.as_tensor(self.reg), self.cost)
        ]
        state = "converged" if self.converged else "NOT converged"
        return (
            f"Plan({shape}, reg={numbers[0]}, cost={numbers[1]}, {state} in {self.n_iter} "
            "iterations)"
        )


_Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ViewGroups:
    """Groups of views in a plan, and which of them are ambiguous.

    Attributes
    ----------
    labels : array of int, one per view
        Group of each view. In a pairwise plan groups are numbered in order of appearance; in a
        reference plan a group has the number of its reference.
    tied : array of bool, one per view
        Views whose two largest weights are equal to within the tolerance and belong to different
        groups, so that their label is arbitrary.
    uniform : array of bool, one per view
        Views whose weights are all equal to within the tolerance, so that the plan does not
        determine their group.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot import sinkhorn
    >>> groups = sinkhorn(torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), reg=1.0).view_labels()
    >>> groups.labels.tolist(), groups.uniform.tolist()
    ([0, 1, 0], [False, False, True])
    >>> print(groups)
    2 groups: {0, 2}, {1}; not determined by the plan: {2}
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
            text += f"; not determined by the plan: {_braces(np.flatnonzero(self.uniform))}"
        tied_only = self.tied & ~self.uniform
        if tied_only.any():
            text += f"; ambiguous: {_braces(np.flatnonzero(tied_only))}"
        return text


def _braces(views: NDArray[np.int64]) -> str:
    return "{" + ", ".join(str(s) for s in views) + "}"


def groups_of_references(W: _Matrix, tie_tol: float) -> ViewGroups:
    """Label each row of W by its largest entry."""
    top = W.max(axis=1, keepdims=True)
    near = top - W <= tie_tol * top
    return ViewGroups(W.argmax(axis=1), near.sum(axis=1) > 1, near.all(axis=1))


def groups_of_pairs(W: _Matrix, n_groups: int | None, tie_tol: float) -> ViewGroups:
    """Cluster the graph of views whose edge weights are W (symmetric, zero diagonal)."""
    S = len(W)
    if n_groups is not None and n_groups > S:
        raise ValueError(f"n_groups must be between 1 and the {S} views, got {n_groups}.")
    A = (W + W.T) / 2
    np.fill_diagonal(A, 0)
    top = A.max(axis=1, keepdims=True)
    near = (top - A <= tie_tol * top) | np.eye(S, dtype=bool)
    uniform = near.all(axis=1)
    if n_groups is None and uniform.all():
        n_groups = 1
    elif n_groups is None:
        # As many as there are large eigenvalues: k blocks without edges between them have k of 1.
        degree = A.sum(axis=1)
        alone = degree == 0  # a view without mass is its own group
        scale = 1 / np.sqrt(degree[~alone])
        normalized = scale[:, None] * A[np.ix_(~alone, ~alone)] * scale
        values = np.sort(np.linalg.eigvalsh(normalized))[::-1]
        n_groups = int(np.argmax(values[:-1] - values[1:])) + 1 + int(alone.sum())
    labels = _average_linkage(A, n_groups)
    # The diagonal counts as near above, but not as a tie.
    elsewhere = near & ~np.eye(S, dtype=bool)
    first = labels[A.argmax(axis=1)]
    tied = (elsewhere & (labels != first[:, None])).any(axis=1)
    return ViewGroups(labels, tied, uniform)


def _average_linkage(A: _Matrix, n_groups: int) -> NDArray[np.int64]:
    from scipy.cluster.hierarchy import cut_tree, linkage
    from scipy.spatial.distance import squareform

    if len(A) == 1:
        return np.zeros(1, dtype=np.int64)
    distance = A.max() - A
    np.fill_diagonal(distance, 0)
    # Not fcluster, which returns fewer groups than requested where distances tie.
    clusters = cut_tree(linkage(squareform(distance), "average"), [n_groups]).ravel()
    _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
