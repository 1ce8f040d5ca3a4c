"""The plan that is reported: a last pass over all rows, with many directions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from hotview._types import IntArray
from hotview.losses import Coupling, Planner
from hotview.losses.sliced import ReferenceCoupling, SlicedCoupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import Plan, draw_directions, sliced_cost
from hotview.training.batches import Stream, TrainingRows
from hotview.training.permutation_null import Null, draw_null

__all__ = ["ViewPlan", "average_plans", "match_columns", "plan_views"]

_ROWS, _ROUNDS = 4096, 16  # at most, of every view in a round
_BASES = 10  # orthogonal bases of directions in a round


@dataclass(frozen=True, repr=False)
class ViewPlan(Plan):
    """The plan over views that a fit found, with a null to read it against.

    Attributes
    ----------
    null : Null or None
        How plans and costs look when views have nothing in common; None where nobody asked.
    spread : Tensor or None
        Standard deviation of W over replicas, where W is their mean.
    W, C, reg, f, g, mask, symmetric, n_iter, marginal_error, tol : object
        As of :class:`hotview.ot.Plan`.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(200, n_views=4, random_state=0).views
    >>> plan = MultiViewEncoder(max_epochs=2, standardize=False, random_state=0).fit(views).plan_
    >>> plan.null.p_value
    0.05
    """

    null: Null | None
    spread: Tensor | None = None


def plan_views(
    network: MultiViewNetwork,
    coupling: Coupling,
    data: TrainingRows,
    planner: Planner,
    *,
    reduction: str,
    batch_size: int,
    n_components: int,
    random: np.random.Generator,
    generator: torch.Generator,
    null: bool = True,
) -> ViewPlan:
    """Plan over the sliced costs between the views, or from the views to the references.

    Costs that are added over rows depend on their number, so they are found in batches of the
    size of training; means are found on as many rows as there are, up to 4,096 at a time.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    coupling : Coupling
        The trained coupling, whose references the views are compared with if it has any.
    data : TrainingRows
        The rows.
    planner : Planner
        How a plan is found from costs.
    reduction : {"mean", "sum"}
        Scale of the costs.
    batch_size : int
        Rows of every view in a batch of training.
    n_components : int
        Dimension of the common space.
    random : numpy Generator
        Order of the rows.
    generator : torch.Generator
        Source of the directions.
    null : bool, default=True
        Whether to draw the null.

    Returns
    -------
    ViewPlan
        The plan and its null, on the CPU.
    """
    size = batch_size if reduction == "sum" else _ROWS
    n_rounds = min(_ROUNDS, math.ceil(max(len(view) for view in data.views) / size))
    references = coupling.clouds() if isinstance(coupling, ReferenceCoupling) else None
    rows = _rounds(data, size, random)
    with torch.no_grad():
        latents = (_latents(network, coupling, next(rows)) for _ in range(n_rounds))
        costs = [_cost(Zs, references, reduction, generator) for Zs in latents]
        plan = planner.solve(torch.stack(costs).mean(0).cpu(), pairwise=references is None)
    found = {field.name: getattr(plan, field.name) for field in fields(plan)}
    if not null:
        return ViewPlan(**found, null=None)
    relative = replace(planner, relative=True)
    drawn = draw_null(data.views, n_components, relative, random, generator)
    return ViewPlan(**found, null=drawn)


def average_plans(plans: Sequence[ViewPlan]) -> ViewPlan:
    """Mean plan of replicas, and how far they are apart.

    References have no order, so those of every replica are first brought into the order in which
    its plan is most like the first one's. A mean of plans has the marginals of each.

    Parameters
    ----------
    plans : sequence of ViewPlan
        One per replica.

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
    Ws = torch.stack([plan.W[:, order] for plan, order in pairs])
    C = torch.stack([plan.C[:, order] for plan, order in pairs]).mean(0)
    f = torch.stack([plan.f for plan in plans]).mean(0)
    g = torch.stack([plan.g[order] for plan, order in pairs]).mean(0)
    error = torch.stack([plan.marginal_error for plan in plans]).amax(0)
    n_iter = max(plan.n_iter for plan in plans)
    spread = Ws.std(0, correction=1)
    return replace(
        first, W=Ws.mean(0), C=C, f=f, g=g, marginal_error=error, n_iter=n_iter, spread=spread
    )


def match_columns(plan: ViewPlan, first: ViewPlan) -> IntArray:
    """Columns of a plan in the order in which they are most like those of another."""
    if plan.pairwise:  # columns are views
        return np.arange(plan.W.shape[1])
    alike = (first.W.T.double() @ plan.W.double()).numpy()
    order: IntArray = linear_sum_assignment(alike, maximize=True)[1]
    return order


def _rounds(data: TrainingRows, size: int, random: np.random.Generator) -> Iterator[list[Tensor]]:
    streams = [Stream(len(view), size, random) for view in data.views]
    while True:
        yield [view.take_together(s.next()) for view, s in zip(data.views, streams, strict=True)]


def _latents(network: MultiViewNetwork, coupling: Coupling, Xs: list[Tensor]) -> Sequence[Tensor]:
    Zs = network.embed(network.encode(Xs))
    return coupling.constrain(Zs) if isinstance(coupling, SlicedCoupling) else Zs


def _cost(
    Zs: Sequence[Tensor],
    references: list[Tensor] | None,
    reduction: str,
    generator: torch.Generator,
) -> Tensor:
    d, like = Zs[0].shape[1], Zs[0]
    theta = draw_directions(
        _BASES * d, d, generator=generator, dtype=like.dtype, device=like.device
    )
    return sliced_cost(Zs, references, directions=theta, reduction=reduction)
