"""Sliced Wasserstein costs between many clouds, equations (6) and (7) of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hotview.ot._backend import is_capturing
from hotview.ot._checks import check_clouds, check_finite, check_weights
from hotview.ot.pairwise import PairProblem, SortedClouds, pair_costs, pair_grads, sort_clouds
from hotview.ot.projection import unproject

__all__ = ["sliced_cost"]

_REDUCTIONS = ("mean", "sum")


def sliced_cost(
    Zs: Sequence[Tensor],
    Gs: Sequence[Tensor] | None = None,
    *,
    directions: Tensor,
    weights: Sequence[Tensor | None] | None = None,
    p: float = 2,
    reduction: str = "mean",
) -> Tensor:
    r"""Matrix of sliced Wasserstein costs, :math:`C_{st} = \frac1M \sum_m W_p^p(θ_m Z_s, θ_m Z_t)`.

    Each entry is exact one-dimensional transport, averaged over the directions θ. It has no root,
    so its gradient is finite where clouds coincide. Every cloud is projected and sorted
    once, whatever the number of pairs. Differentiable once in `Zs`, `Gs` and `directions`, by
    ``backward`` (not by ``torch.func``). On the CPU, float32 clouds of 32,768 points or more are
    sorted to within one unit in the last place.

    Parameters
    ----------
    Zs : sequence of Tensor
        S clouds, each (points, d), float32 or float64. Numbers of points may differ. Leading
        dimensions, the same in all arguments, are independent problems.
    Gs : sequence of Tensor or None, default=None
        K reference clouds; None compares the `Zs` with each other.
    directions : Tensor of shape (..., M, d)
        Unit vectors to project on, see :func:`draw_directions`.
    weights : sequence of (Tensor or None) or None, default=None
        Weights of the points of each cloud, `Zs` first, then `Gs`: non-negative, of any positive
        sum; None means equal weights. They are constants in the gradient.
    p : float, default=2
        Exponent of the distance, at least 1.
    reduction : {"mean", "sum"}, default="mean"
        ``"mean"`` gives every cloud mass 1. ``"sum"``, as in the paper, sums over points: the mean
        times the number of points (of the smaller cloud where the two differ).

    Returns
    -------
    Tensor of shape (..., S, S) or (..., S, K)
        The costs, symmetric with a zero diagonal where `Gs` is None.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot import draw_directions, sliced_cost
    >>> generator = torch.Generator().manual_seed(0)
    >>> Z = torch.randn(200, 2, generator=generator)
    >>> theta = draw_directions(2, 2, generator=generator)

    Moving a cloud by v costs ‖v‖² / d when the directions form a basis:

    >>> C = sliced_cost([Z, Z + torch.tensor([3.0, 4.0])], directions=theta)
    >>> [round(x, 3) for x in C.flatten().tolist()]
    [0.0, 12.5, 12.5, 0.0]

    Sizes may differ:

    >>> sliced_cost([Z, Z[:50]], [Z[50:]], directions=theta).shape
    torch.Size([2, 1])
    """
    clouds = [*Zs, *(() if Gs is None else Gs)]
    n_columns = None if Gs is None else len(Gs)
    check_clouds(len(Zs), n_columns, clouds, directions)
    is_uniform = weights is None and len({Z.shape[-2] for Z in clouds}) == 1
    if directions.ndim > 2 and not is_uniform:  # merged quantile grids are per problem
        costs = []
        for r, theta in enumerate(directions):
            Z, G, w = (_at(tensors, r) for tensors in (Zs, Gs, weights))
            costs.append(sliced_cost(Z, G, directions=theta, weights=w, p=p, reduction=reduction))
        return torch.stack(costs)
    check_weights(weights, clouds)
    if not p >= 1:
        raise ValueError(f"p must be at least 1, got {p!r}.")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {_REDUCTIONS}, got {reduction!r}.")
    # Copied for the backward pass, in case the caller changes them meanwhile.
    given = [None] * len(clouds) if weights is None else weights
    constants = [None if w is None else w.clone() for w in given]
    problem = PairProblem(len(Zs), n_columns, float(p), tuple(constants))
    C: Tensor = _SlicedCost.apply(problem, directions, *clouds)  # type: ignore[no-untyped-call]
    # A single cloud, or a point of weight 0, can be non-finite while C is finite.
    is_hidden = len(clouds) == 1 or weights is not None
    if not is_capturing(C) and (is_hidden or not math.isfinite(C.detach().sum().item())):
        check_finite(C, len(Zs), clouds, directions)
    return C if reduction == "mean" else C * _n_points(problem, clouds, C)


def _at(tensors: Sequence[Tensor | None] | None, r: int) -> Any:
    """The r-th problem of tensors with a leading dimension of problems."""
    return None if tensors is None else [None if x is None else x[r] for x in tensors]


class _SlicedCost(torch.autograd.Function):
    """Projection, sort and comparison in one function; autograd would store every pair."""

    @staticmethod
    def forward(ctx: Any, problem: PairProblem, theta: Tensor, *clouds: Tensor) -> Tensor:
        shift = clouds[0].mean(-2, keepdim=True)
        groups = sort_clouds(problem, theta, clouds, shift, with_origin=any(ctx.needs_input_grad))
        ctx.problem, ctx.ids = problem, [group.ids for group in groups]
        ctx.save_for_backward(theta, shift, *clouds, *(x for group in groups for x in group[1:]))
        return pair_costs(problem, groups).to(theta.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        theta, shift, *saved = ctx.saved_tensors
        n_clouds = len(saved) - 2 * len(ctx.ids)
        clouds, tensors = saved[:n_clouds], iter(saved[n_clouds:])
        groups = [SortedClouds(ids, next(tensors), next(tensors)) for ids in ctx.ids]
        grad_theta = torch.zeros_like(theta) if ctx.needs_input_grad[1] else None
        grad_clouds: list[Tensor | None] = [None] * n_clouds
        for group, grad in zip(groups, pair_grads(ctx.problem, groups, *grads), strict=True):
            assert group.origin is not None  # stored whenever a gradient is needed
            back = unproject(grad, group.origin, theta)
            for i, (grad_P, grad_Z) in zip(group.ids, back, strict=True):
                if ctx.needs_input_grad[2 + i]:
                    grad_clouds[i] = grad_Z
                if grad_theta is not None:
                    grad_theta += grad_P @ (clouds[i] - shift)
        return None, grad_theta, *grad_clouds


def _n_points(problem: PairProblem, clouds: Sequence[Tensor], C: Tensor) -> int | Tensor:
    """Number of points of each pair of clouds, of the smaller one where they differ."""
    sizes = [Z.shape[-2] for Z in clouds]
    if len(set(sizes)) == 1:  # no tensor, because a transfer would synchronize with the device
        return sizes[0]
    n = torch.tensor(sizes, dtype=C.dtype, device=C.device)
    rows, columns = n[: problem.n_rows], n if problem.n_columns is None else n[problem.n_rows :]
    return torch.minimum(rows.unsqueeze(1), columns)
