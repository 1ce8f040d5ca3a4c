"""The plan that is reported: a last pass over all rows, beside what noise would have given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from hotview.losses import Coupling, Planner
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import Plan, draw_directions, sliced_cost
from hotview.training.batches import Stream, TrainingRows

__all__ = ["NullPlans", "ViewPlan", "plan_views"]

_ROWS, _ROUNDS = 4096, 16  # at most, of every view in a round
_BASES = 10  # orthogonal bases of directions in a round
_NULLS = 39  # noise drawn; the smallest p-value is 1 / (1 + this)


@dataclass(frozen=True)
class NullPlans:
    """Plans and costs of views that have nothing in common.

    In every draw each column of each table is shuffled on its own: columns keep their values, but
    a row is no individual any more. The tables then pass through the trained encoders.

    Parameters
    ----------
    W : Tensor of shape (draws, S, K)
        The plans.
    C : Tensor of shape (draws, S, K)
        Their costs.

    Examples
    --------
    >>> import torch
    >>> from hotview.training.planning import NullPlans
    >>> NullPlans(torch.full((3, 2, 2), 0.25), torch.ones(3, 2, 2)).contrast
    tensor([0., 0., 0.])
    """

    W: Tensor
    C: Tensor

    @property
    def contrast(self) -> Tensor:
        """Contrast of every plan, see :attr:`ViewPlan.contrast`."""
        return _contrast(self.W)


@dataclass(frozen=True, repr=False)
class ViewPlan(Plan):
    """The plan over views that a fit found, with a null to read it against.

    Attributes
    ----------
    null : NullPlans
        Plans and costs of views that have nothing in common.
    W, C, reg, f, g, mask, symmetric, n_iter, marginal_error, tol : object
        As of :class:`hotview.ot.Plan`.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(200, n_views=4, random_state=0).views
    >>> plan = MultiViewEncoder(max_epochs=5, standardize=False, random_state=0).fit(views).plan_
    >>> bool(plan.contrast > plan.null.contrast.max()), plan.p_value
    (True, 0.025)
    """

    null: NullPlans

    @property
    def contrast(self) -> float:
        """How far W is from a plan that treats all alike: its relative entropy, in nats."""
        return float(_contrast(self.W))

    @property
    def p_value(self) -> float:
        """Share of the null's plans, this one counted, with at least the contrast of this one."""
        n_higher = int((self.null.contrast >= self.contrast).sum())
        return (1 + n_higher) / (1 + len(self.null.W))


def plan_views(
    network: MultiViewNetwork,
    coupling: Coupling,
    data: TrainingRows,
    planner: Planner,
    *,
    scale: str,
    batch_size: int,
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
    pairwise = references is None
    rows = _rounds(data, size, random)
    with torch.no_grad():
        costs, nulls = [], []
        for _ in range(n_rounds):
            costs.append(_cost(network, next(rows), references, scale, generator))
        Xs = next(rows)
        for _ in range(_NULLS):
            shuffled = [_shuffle_columns(X, random) for X in Xs]
            nulls.append(_cost(network, shuffled, references, scale, generator))
        plan = planner.solve(torch.stack(costs).mean(0).cpu(), pairwise=pairwise)
        null = planner.solve(torch.stack(nulls).cpu(), pairwise=pairwise)
    found = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return ViewPlan(**found, null=NullPlans(null.W, null.C))


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


def _shuffle_columns(X: Tensor, random: np.random.Generator) -> Tensor:
    """Move each column on by its own random number of rows, which are in random order already."""
    n, D = X.shape
    shifts = torch.from_numpy(random.integers(n, size=D)).to(X.device)
    where = (torch.arange(n, device=X.device).unsqueeze(1) + shifts) % n
    return X.gather(0, where)


def _contrast(W: Tensor) -> Tensor:
    """Relative entropy of a plan of mass 1 to the uniform plan on the same entries."""
    # A pairwise plan has no mass on its diagonal, and never any.
    S, K = W.shape[-2:]
    zero = S == K and bool((W.diagonal(dim1=-2, dim2=-1) == 0).all())
    n_entries = S * K - (S if zero else 0)
    entropy = -torch.xlogy(W.double(), W.double()).sum((-2, -1))
    return math.log(n_entries) - entropy
