"""The plan that is reported: a last pass over all rows, with many directions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from hotview.losses import Coupling, Planner
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import Plan, draw_directions, sliced_cost
from hotview.training.batches import Stream, TrainingRows
from hotview.training.null import Null, draw_null

__all__ = ["ViewPlan", "plan_views"]

_ROWS, _ROUNDS = 4096, 16  # at most, of every view in a round
_BASES = 10  # orthogonal bases of directions in a round


@dataclass(frozen=True, repr=False)
class ViewPlan(Plan):
    """The plan over views that a fit found, with a null to read it against.

    Attributes
    ----------
    null : Null
        How plans and costs look when views have nothing in common.
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

    null: Null


def plan_views(
    network: MultiViewNetwork,
    coupling: Coupling,
    data: TrainingRows,
    planner: Planner,
    *,
    scale: str,
    batch_size: int,
    n_components: int,
    random: np.random.Generator,
    generator: torch.Generator,
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
    scale : {"mean", "sum"}
        Scale of the costs.
    batch_size : int
        Rows of every view in a batch of training.
    n_components : int
        Dimension of the common space.
    random : numpy Generator
        Order of the rows.
    generator : torch.Generator
        Source of the directions.

    Returns
    -------
    ViewPlan
        The plan and its null, on the CPU.
    """
    size = batch_size if scale == "sum" else _ROWS
    n_rounds = min(_ROUNDS, math.ceil(max(len(view) for view in data.views) / size))
    references = coupling.clouds() if isinstance(coupling, ReferenceCoupling) else None
    rows = _rounds(data, size, random)
    with torch.no_grad():
        costs = [_cost(network, next(rows), references, scale, generator) for _ in range(n_rounds)]
        plan = planner.solve(torch.stack(costs).mean(0).cpu(), pairwise=references is None)
    found = {field.name: getattr(plan, field.name) for field in fields(plan)}
    relative = replace(planner, relative=True)
    null = draw_null(data.views, n_components, relative, random, generator)
    return ViewPlan(**found, null=null)


def _rounds(data: TrainingRows, size: int, random: np.random.Generator) -> Iterator[list[Tensor]]:
    streams = [Stream(len(view), size, random) for view in data.views]
    while True:
        yield [view.take(s.next()) for view, s in zip(data.views, streams, strict=True)]


def _cost(
    network: MultiViewNetwork,
    Xs: list[Tensor],
    references: list[Tensor] | None,
    scale: str,
    generator: torch.Generator,
) -> Tensor:
    Zs = network.embed(network.encode(Xs))
    d, like = Zs[0].shape[1], Zs[0]
    theta = draw_directions(
        _BASES * d, d, generator=generator, dtype=like.dtype, device=like.device
    )
    return sliced_cost(Zs, references, directions=theta, scale=scale)
