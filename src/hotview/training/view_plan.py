"""The plan over views of a fitted model, computed in a last pass over all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.losses import Coupling, Planner
from hotview.losses.sliced import ReferenceCoupling, SlicedCoupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import Plan, ViewGroups, draw_directions, sliced_cost
from hotview.training.batches import ShuffledIndices, TrainingRows

__all__ = ["ViewPlan", "average_plans", "match_columns", "plan_views"]

if TYPE_CHECKING:
    from hotview.training.permutation_null import PermutationNull

_ROWS, _ROUNDS = 4096, 16  # maximum number of rows of a view in a round, and of rounds
_BASES = 10  # orthogonal bases of directions in a round


@dataclass(frozen=True, repr=False)
class ViewPlan:
    """The plan over views of a fitted model, as arrays.

    Attributes
    ----------
    W : ndarray of shape (S, K)
        The plan: how much of view s goes to view (or reference) k.
    C : ndarray of shape (S, K)
        The costs it was solved for.
    reg : float
        The regularization β in use.
    f, g : ndarray of shape (S,) and (K,)
        Dual potentials of the rows and columns.
    mask : ndarray of bool or None
        True where W was held at zero.
    symmetric : bool
        Whether the problem, and so the plan, is symmetric.
    n_iter : int
        Number of iterations.
    marginal_error : float
        Fraction of the mass by which the row or column sums of W are off.
    tol : float
        Tolerance of `marginal_error`.
    null : PermutationNull or None
        Plans and costs of views that have nothing in common; None where it was not requested.
    std : ndarray of shape (S, K) or None
        Standard deviation of W over ensemble members, where W is their mean.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(200, n_views=4, random_state=0).views
    >>> plan = MultiViewEncoder(max_epochs=2, standardize=False, random_state=0).fit(views).plan_
    >>> plan.W.shape, plan.null.p_value
    ((4, 3), 0.05)
    """

    W: Array
    C: Array
    reg: float
    f: Array
    g: Array
    mask: Array | None
    symmetric: bool
    n_iter: int
    marginal_error: float
    tol: float
    null: PermutationNull | None = None
    std: Array | None = None

    @classmethod
    def of(cls, plan: Plan) -> ViewPlan:
        """Convert the tensors of a plan to arrays and numbers."""
        values = {x.name: getattr(plan, x.name) for x in fields(plan)}
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value.item() if value.ndim == 0 else value.detach().cpu().numpy()
        return cls(**values)

    def to_torch(self) -> Plan:
        """Return the plan as tensors."""
        values = {x.name: getattr(self, x.name) for x in fields(Plan)}
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = torch.from_numpy(value)
        error = torch.tensor(self.marginal_error, dtype=torch.float64)
        return Plan(**{**values, "marginal_error": error})

    @property
    def converged(self) -> bool:
        """Whether the marginals are met to `tol`."""
        return self.marginal_error <= self.tol

    @property
    def pairwise(self) -> bool:
        """Whether rows and columns are the same views."""
        return self.to_torch().pairwise

    @property
    def cost(self) -> float:
        """Transport cost ⟨W, C⟩."""
        return float(self.to_torch().cost)

    @property
    def entropy(self) -> float:
        """Entropy −⟨W, log W⟩."""
        return float(self.to_torch().entropy)

    @property
    def value(self) -> float:
        """Objective of the plan: `cost` − `reg` · `entropy`."""
        return float(self.to_torch().value)

    def view_labels(self, n_groups: int | None = None, *, tie_tol: float = 0.05) -> ViewGroups:
        """Return the groups of views, as :meth:`hotview.ot.Plan.view_labels`.

        Parameters
        ----------
        n_groups : int or None, default=None
            Number of groups of a pairwise plan; None chooses it. For a reference plan it must be
            None.
        tie_tol : float, default=0.05
            Weights that differ by at most this fraction of the larger count as equal.

        Returns
        -------
        ViewGroups
            With ``labels``, and which views are ``tied`` or ``uniform``.
        """
        return self.to_torch().view_labels(n_groups, tie_tol=tie_tol)

    def __repr__(self) -> str:
        return f"View{self.to_torch()!r}"


def plan_views(
    network: MultiViewNetwork,
    coupling: Coupling,
    data: TrainingRows,
    planner: Planner,
    *,
    reduction: str,
    batch_size: int,
    random: np.random.Generator,
    generator: torch.Generator,
) -> ViewPlan:
    """Compute the plan between the trained views, or from the views to the references.

    Costs that are summed over rows depend on their number, so that they are computed in batches
    of the size of training; means are computed on up to 4,096 rows at a time.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    coupling : Coupling
        The trained coupling, with the references if it has any.
    data : TrainingRows
        The rows.
    planner : Planner
        Solver of the plan.
    reduction : {"mean", "sum"}
        Reduction of the costs over rows.
    batch_size : int
        Rows of every view in a batch of training.
    random : numpy Generator
        Order of the rows.
    generator : torch.Generator
        Source of the directions.

    Returns
    -------
    ViewPlan
        The plan, without a null.
    """
    size = batch_size if reduction == "sum" else _ROWS
    n_rounds = min(_ROUNDS, math.ceil(max(len(view) for view in data.views) / size))
    references = coupling.clouds() if isinstance(coupling, ReferenceCoupling) else None
    orders = [ShuffledIndices(len(view), size, random) for view in data.views]
    costs = []
    with torch.no_grad():
        for _ in range(n_rounds):
            pairs = zip(data.views, orders, strict=True)
            Xs = [view.take_on_all_ranks(order.next_batch()) for view, order in pairs]
            Zs: Sequence[Tensor] = network.embed(network.encode(Xs))
            if isinstance(coupling, SlicedCoupling):
                Zs = coupling.constrain(Zs)
            d, like = Zs[0].shape[1], Zs[0]
            theta = draw_directions(
                _BASES * d, d, generator=generator, dtype=like.dtype, device=like.device
            )
            costs.append(sliced_cost(Zs, references, directions=theta, reduction=reduction))
        C = torch.stack(costs).mean(0).cpu()
        return ViewPlan.of(planner.solve(C, pairwise=references is None))


def average_plans(plans: Sequence[ViewPlan]) -> ViewPlan:
    """Return the mean plan of ensemble members, and its standard deviation.

    References have no order, so those of every member are first matched to the first one's. A mean
    of plans has the marginals of each.

    Parameters
    ----------
    plans : sequence of ViewPlan
        One per member.

    Returns
    -------
    ViewPlan
        W, C and the potentials are means; all else is the first's.
    """
    first = plans[0]
    if len(plans) == 1:
        return first
    orders = [match_columns(plan, first) for plan in plans]
    pairs = list(zip(plans, orders, strict=True))

    def mean(arrays: list[Array]) -> Any:
        return torch.from_numpy(np.stack(arrays)).mean(0).numpy()

    Ws = [plan.W[:, order] for plan, order in pairs]
    return replace(
        first,
        W=mean(Ws),
        C=mean([plan.C[:, order] for plan, order in pairs]),
        f=mean([plan.f for plan in plans]),
        g=mean([plan.g[order] for plan, order in pairs]),
        marginal_error=max(plan.marginal_error for plan in plans),
        n_iter=max(plan.n_iter for plan in plans),
        std=torch.from_numpy(np.stack(Ws)).std(0, correction=1).numpy(),
    )


def match_columns(plan: ViewPlan, first: ViewPlan) -> IntArray:
    """Return the order of a plan's columns in which they are most similar to another's."""
    if plan.pairwise:  # columns are views
        return np.arange(plan.W.shape[1])
    similarity = first.W.T.astype(np.float64) @ plan.W.astype(np.float64)
    order: IntArray = linear_sum_assignment(similarity, maximize=True)[1]
    return order
