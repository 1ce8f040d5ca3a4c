"""The plan over views of a fitted model, and plans between permuted views as its null."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import eigh
from torch import Tensor

from hotview._codec import require, require_array
from hotview._threads import one_thread
from hotview._types import Array, IntArray
from hotview.losses import Coupling, Planner
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import Plan, ViewGroups, draw_directions, sliced_cost
from hotview.ot.sliced import random_sliced_cost
from hotview.preprocessing.pca import align_signs
from hotview.preprocessing.rows import ViewRows
from hotview.training.batches import ShuffledIndices, TrainingRows, embed_rows

__all__ = [
    "PermutationNull",
    "ViewPlan",
    "draw_null",
    "match_columns",
    "plan_views",
    "solve_mean_plan",
]

_ROWS, _ROUNDS = 4096, 16  # maximum number of rows of a view in a round, and of rounds
_BASES = 10  # orthogonal bases of directions in a round
_PERMUTATIONS = 19  # the smallest p-value is 1 / (1 + this)
_NULL_ROWS, _NULL_COLUMNS, _NULL_BASES = 500, 128, 5  # maximum size of a view in the null
_ROUNDING = 1e-5  # of a relative cost
_MAX_ITER = 10_000  # of a plan over mean costs: a model file may have any number
_MATCHINGS = 20  # maximum number of rounds in which references are matched


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
        Standard deviation of the plans of ensemble members, where C is the mean of their costs.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(200, n_views=4, random_state=0).views
    >>> plan = MultiViewEncoder(max_epochs=2, preprocessing="none", random_state=0).fit(views).plan_
    >>> plan.W.shape, plan.null.p_value
    ((4, 2), 0.05)
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

    def __post_init__(self) -> None:
        shape = self.W.shape
        require_array("W", self.W, (None, None), low=0)
        require_array("C", self.C, shape)
        for name, potentials, n in (("f", self.f, shape[0]), ("g", self.g, shape[1])):
            require_array(name, potentials, (n,), low=-math.inf, high=math.inf)
        if self.mask is not None:
            require_array("mask", self.mask, shape, "bool")
        if self.std is not None:
            require_array("std", self.std, shape, low=0)

    @classmethod
    def of(cls, plan: Plan) -> ViewPlan:
        """Convert the tensors of a plan to arrays and numbers."""
        values = dict(vars(plan))
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value.item() if value.ndim == 0 else value.detach().cpu().numpy()
        return cls(**values)

    def to_torch(self) -> Plan:
        """Return the plan as tensors."""
        error = torch.tensor(self.marginal_error, dtype=torch.float64)
        values = {**vars(self), "marginal_error": error}
        del values["null"], values["std"]
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = torch.from_numpy(value)
        return Plan(**values)

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
    reduction: str,
    batch_size: int,
    random: np.random.Generator,
    generator: torch.Generator,
) -> ViewPlan:
    """Compute the plan between the trained views, or from the views to the references.

    Costs that are summed over rows depend on their number, so that they are computed in batches
    of the size of training; means are computed on up to 4,096 rows at a time. `random` orders the
    rows, and `generator` draws the directions. The plan is without a null.
    """
    size = batch_size if reduction == "sum" else _ROWS
    n_rounds = min(_ROUNDS, math.ceil(max(view.n_rows for view in data.views) / size))
    references = coupling.clouds()
    orders = [ShuffledIndices(view.n_rows, size, random) for view in data.views]
    costs = []
    with torch.no_grad():
        for _ in range(n_rounds):
            rows = [order.next_batch() for order in orders]
            Zs = coupling.constrain(embed_rows(network, data.views, rows))
            C = random_sliced_cost(
                Zs, references, n_bases=_BASES, generator=generator, reduction=reduction
            )
            costs.append(C)
        mean = torch.stack(costs).mean(0).cpu()
        return ViewPlan.of(planner.solve(mean, pairwise=references is None))


def solve_mean_plan(plans: Sequence[ViewPlan], planner: Planner) -> ViewPlan:
    """Return the plan over the mean costs of ensemble members, and the deviation of their plans.

    References have no order, so those of all members are matched first.

    Parameters
    ----------
    plans : sequence of ViewPlan
        One per member; the plan of a single member is returned as it is.
    planner : Planner
        Solver of the plan.

    Returns
    -------
    ViewPlan
        The solution for the mean costs, with the null of the first plan; ``std`` is the standard
        deviation of the members' own W.
    """
    first = plans[0]
    if len(plans) == 1:
        return first
    orders = match_columns(plans)
    C = _mean([plan.C.astype(np.float64) for plan in plans], orders).astype(first.C.dtype)
    W = np.stack([plan.W[:, order] for plan, order in zip(plans, orders, strict=True)])
    std = W.std(axis=0, ddof=1, dtype=np.float64).astype(W.dtype)
    bounded = replace(planner, max_iter=min(planner.max_iter, _MAX_ITER))
    solved = ViewPlan.of(bounded.solve(torch.from_numpy(C), pairwise=first.pairwise))
    return replace(solved, null=first.null, std=std)


def match_columns(plans: Sequence[ViewPlan]) -> list[IntArray]:
    """Return the order of every member's columns in which they correspond to the first's.

    Columns are compared by their costs: centered, because constants that are added to rows or
    columns of C do not change the plan, and of length 1. All members are matched to one of them
    and then to their mean, until it stays; of all members to begin with, the one with the longest
    mean is chosen, so that their order does not matter.

    Parameters
    ----------
    plans : sequence of ViewPlan
        One per member.

    Returns
    -------
    list of ndarray of shape (K,)
        ``plan.W[:, order]`` has the columns in the order of the first plan; those of pairwise
        plans are views, whose order is kept.
    """
    if plans[0].pairwise:
        return [np.arange(plan.C.shape[1]) for plan in plans]
    profiles = [_cost_profiles(plan.C) for plan in plans]
    matchings = [_match(profiles, start) for start in profiles]
    orders = max(matchings, key=lambda orders: float(np.square(_mean(profiles, orders)).sum()))
    to_first = np.argsort(orders[0])
    return [order[to_first] for order in orders]


def _cost_profiles(C: Array) -> Array:
    C = C.astype(np.float64)
    centered = C - C.mean(axis=0) - C.mean(axis=1, keepdims=True) + C.mean()
    length = np.sqrt(np.square(centered).sum(axis=0))
    profiles: Array = centered / np.where(length > 0, length, 1.0)
    return profiles


def _match(profiles: Sequence[Array], mean: Array) -> list[IntArray]:
    """Assign columns to those of the mean, and update the mean, until it stays."""
    from scipy.optimize import linear_sum_assignment

    orders: list[IntArray] = []
    for _ in range(_MATCHINGS):
        orders = [linear_sum_assignment(mean.T @ P, maximize=True)[1] for P in profiles]
        last, mean = mean, _mean(profiles, orders)
        if np.array_equal(mean, last):
            break
    return orders


def _mean(matrices: Sequence[Array], orders: Sequence[IntArray]) -> Array:
    """Mean of matrices whose columns are put in these orders."""
    mean: Array = np.mean([X[:, k] for X, k in zip(matrices, orders, strict=True)], axis=0)
    return mean


@dataclass(frozen=True)
class PermutationNull:
    """The plan over untrained views, and plans over permuted views for comparison.

    Trained encoders can match anything with anything, so that small costs and a clear plan after
    training are no evidence that views belong together. Here every view is only projected on its
    principal components, with aligned signs. A permutation first shuffles each column of each
    table independently: columns keep their values, but rows are no individuals any more and views
    share nothing. Where all views are equally similar, no plan stands out: the p-value says
    whether some views are closer than others, not whether all are close.

    Parameters
    ----------
    plan : ViewPlan
        Plan and costs between the views themselves.
    W : ndarray of shape (draws, S, S)
        Plans between permuted views.
    C : ndarray of shape (draws, S, S)
        Costs between permuted views.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(300, n_views=4, n_groups=2, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=1, preprocessing="none", random_state=0).fit(views)
    >>> encoder.plan_.null.p_value
    0.05
    """

    plan: ViewPlan
    W: Array
    C: Array

    def __post_init__(self) -> None:
        S = len(self.plan.W)
        require(self.plan.W.shape == (S, S), "its null is no plan between views")
        require_array("W", self.W, (None, S, S), low=0)
        require_array("C", self.C, (len(self.W), S, S))

    @property
    def relative_cost(self) -> float:
        """Transport cost ⟨W, C⟩ over that of a uniform plan.

        It is 1 where no two views are closer than any others, and 0 where every view has another
        that it equals.
        """
        return float(_relative_cost(self.plan.W, self.plan.C))

    @property
    def relative_costs(self) -> Array:
        """`relative_cost` of every permutation."""
        return _relative_cost(self.W, self.C)

    @property
    def p_value(self) -> float:
        """Fraction of permutations, the views themselves included, with as low a cost."""
        # With three views or fewer every plan costs the same, but for rounding.
        n_lower = int((self.relative_costs <= self.relative_cost + _ROUNDING).sum())
        return (1 + n_lower) / (1 + len(self.W))


def _relative_cost(W: Array, C: Array) -> Array:
    S = C.shape[-1]
    uniform = C.sum(axis=(-2, -1)) / (S * (S - 1))  # the diagonal is 0
    cost: Array = (W * C).sum(axis=(-2, -1)) / np.maximum(uniform, np.finfo(C.dtype).tiny)
    return cost


def draw_null(
    views: Sequence[ViewRows],
    n_components: int,
    planner: Planner,
    random: np.random.Generator,
    generator: torch.Generator,
) -> PermutationNull:
    """Compute plans between the principal components of views, and of 19 permutations of these.

    Of each view, a random sample of at most 500 rows and 128 columns is used. β of the planner is
    relative to the mean cost here. `random` draws the sample and the permutations, and `generator`
    the directions.
    """
    Xs: list[Array] = []
    for view in views:
        rows = random.permutation(view.n_rows)[:_NULL_ROWS]
        columns = np.sort(random.permutation(view.n_columns)[:_NULL_COLUMNS])
        X = view.take_on_all_ranks(rows).cpu().numpy()
        Xs.append(X[:, columns].astype(np.float64))
    theta = draw_directions(_NULL_BASES * n_components, n_components, generator=generator)

    def cost(tables: list[Array]) -> Tensor:
        Ys = [_components(X, n_components) for X in tables]
        signs = align_signs(Ys)
        Zs = [torch.from_numpy(Y * sign).float() for Y, sign in zip(Ys, signs, strict=True)]
        return sliced_cost(Zs, directions=theta)

    relative = replace(planner, relative=True)
    with one_thread():  # of hundreds of operations none is worth a second
        doubled = [np.ascontiguousarray(np.concatenate([X, X]).T) for X in Xs]
        costs = [
            cost([_shuffle_columns(XX, random) for XX in doubled]) for _ in range(_PERMUTATIONS)
        ]
        plans = relative.solve(torch.stack(costs), pairwise=True)
        plan = ViewPlan.of(relative.solve(cost(Xs), pairwise=True))
    return PermutationNull(plan, plans.W.numpy(), plans.C.numpy())


def _components(X: Array, n: int) -> Array:
    """Return leading principal components of total variance 1; zeros where there are none."""
    centered = X - X.mean(axis=0)
    D = X.shape[1]
    _, V = eigh(centered.T @ centered, subset_by_index=(max(0, D - n), D - 1))
    Y = centered @ V[:, ::-1]
    Y = np.pad(Y, ((0, 0), (0, n - Y.shape[1])))
    std = np.sqrt((Y**2).sum(axis=1).mean())
    return np.asarray(Y / std) if std > 0 else Y


def _shuffle_columns(doubled: Array, random: np.random.Generator) -> Array:
    """Rotate each column by a random number of rows, which are in random order already.

    Columns are the rows of `doubled`, each repeated once: then a rotation is a contiguous copy.
    """
    D, n = doubled.shape[0], doubled.shape[1] // 2
    pieces = sliding_window_view(doubled, n, axis=1)
    rotated: Array = pieces[np.arange(D), random.integers(n, size=D)].T
    return rotated
