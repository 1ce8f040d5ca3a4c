"""A transport plan over views."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hotview._validation import check_count
from hotview.ot.grouping import ViewGroups, groups_of_pairs, groups_of_references

__all__ = ["Plan"]


@dataclass(frozen=True, repr=False)
class Plan:
    r"""Solution of an entropic transport problem, :math:`\min_W ⟨W, C⟩ + β ⟨W, \log W⟩`.

    Made by :func:`sinkhorn`. Leading dimensions, where there are any, are separate problems.

    Attributes
    ----------
    W : Tensor of shape (..., S, K)
        The plan: how much of view s goes to view (or reference) k.
    C : Tensor of shape (..., S, K)
        The costs it was solved for.
    reg : float or Tensor
        The regularization β in use: one number, or one per problem where it is relative.
    f : Tensor of shape (..., S)
        Dual potential of the rows, float64: ``W = mass · exp((f + g − C) / reg)``.
    g : Tensor of shape (..., K)
        Dual potential of the columns.
    mask : Tensor of bool or None
        True where W was held at zero.
    symmetric : bool
        Whether the problem, and so the plan, is symmetric.
    n_iter : int
        Iterations made.
    marginal_error : Tensor
        Share of the mass by which the row or column sums of W are off, per problem.
    tol : float
        What `marginal_error` was to reach.

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
        """Whether the marginals are met to `tol`, in all problems."""
        return bool((self.marginal_error <= self.tol).all())

    @property
    def cost(self) -> Tensor:
        """Transport cost ⟨W, C⟩, per problem."""
        C = self.C if self.mask is None else self.C.masked_fill(self.mask, 0)
        return (self.W * C).sum((-2, -1))

    @property
    def entropy(self) -> Tensor:
        """Entropy −⟨W, log W⟩, per problem."""
        floor = torch.finfo(self.W.dtype).tiny  # keeps the logarithm and its slope finite
        return -(self.W * self.W.clamp_min(floor).log()).sum((-2, -1))

    @property
    def value(self) -> Tensor:
        """What was minimized: `cost` − `reg` · `entropy`, per problem."""
        reg = self.reg if isinstance(self.reg, float) else self.reg.to(self.W)
        return self.cost - reg * self.entropy

    @property
    def pairwise(self) -> bool:
        """Whether rows and columns are the same views, that is, whether the diagonal is masked."""
        if self.mask is None or self.W.shape[-1] != self.W.shape[-2]:
            return False
        return bool(self.mask.diagonal(dim1=-2, dim2=-1).all())

    def view_labels(self, n_groups: int | None = None, *, tie_tol: float = 0.05) -> ViewGroups:
        """Groups of views that the plan sends to each other, or to the same reference.

        A pairwise plan (one whose diagonal is masked) is a weighted graph of views, cut by average
        linkage; the number of groups, unless given, is where the eigenvalues of W, with rows
        summing to 1, fall most. Any other plan groups views by the reference that takes most of
        them.

        Parameters
        ----------
        n_groups : int or None, default=None
            Number of groups of a pairwise plan; None chooses it. For a reference plan the
            references are the groups, and it must be None.
        tie_tol : float, default=0.05
            Weights that differ by at most this share of the larger count as equal.

        Returns
        -------
        ViewGroups
            With ``labels``, and which views are ``tied`` or ``uniform``.

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
