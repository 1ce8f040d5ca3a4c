"""Sliced Wasserstein costs between many clouds, equations (6) and (7) of the paper.

Clouds of equal size and equal weights form a group, whose pairs are one matrix product. Pairs of
clouds from different groups are compared one by one on merged quantile grids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hotview._validation import check_choice
from hotview.ot._backend import EXACT_DTYPE
from hotview.ot.projection import draw_directions, project, sort_rows_, unproject
from hotview.ot.wasserstein1d import (
    QuantileGrid,
    cumulative_weights,
    equal_size_cost,
    equal_size_grad,
    quantile_cost,
    quantile_grad,
    uniform_grid,
    weighted_grid,
)

__all__ = ["random_sliced_cost", "sliced_cost"]


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
    _check_clouds(len(Zs), n_columns, clouds, directions)
    is_uniform = weights is None and len({Z.shape[-2] for Z in clouds}) == 1
    if directions.ndim > 2 and not is_uniform:  # merged quantile grids are per problem
        costs = []
        for r, theta in enumerate(directions):
            one: list[Any] = [
                None if tensors is None else [None if x is None else x[r] for x in tensors]
                for tensors in (Zs, Gs, weights)
            ]
            Z, G, w = one
            costs.append(sliced_cost(Z, G, directions=theta, weights=w, p=p, reduction=reduction))
        return torch.stack(costs)
    _check_weights(weights, clouds)
    if not p >= 1:
        raise ValueError(f"p must be at least 1, got {p!r}.")
    check_choice("reduction", reduction, ("mean", "sum"))
    # Copied for the backward pass, in case the caller changes them meanwhile.
    constants = tuple(None if w is None else w.clone() for w in weights or [None] * len(clouds))
    problem = PairProblem(len(Zs), n_columns, float(p), constants)
    C: Tensor = _SlicedCost.apply(problem, directions, *clouds)  # type: ignore[no-untyped-call]
    # A single cloud, or a point of weight 0, can be non-finite while C is finite.
    is_hidden = len(clouds) == 1 or weights is not None
    is_captured = C.is_cuda and torch.cuda.is_current_stream_capturing()  # must not synchronize
    if not is_captured and (is_hidden or not math.isfinite(C.detach().sum().item())):
        _check_finite(C, len(Zs), clouds, directions)
    return C if reduction == "mean" else C * _n_points(problem, clouds, C)


def random_sliced_cost(
    Zs: Sequence[Tensor],
    Gs: Sequence[Tensor] | None = None,
    *,
    n_bases: int,
    generator: torch.Generator,
    reduction: str = "mean",
) -> Tensor:
    """Matrix of sliced costs on the directions of some random orthogonal bases."""
    d, like = Zs[0].shape[1], Zs[0]
    theta = draw_directions(n_bases * d, d, generator=generator, dtype=like.dtype)
    return sliced_cost(Zs, Gs, directions=theta.to(like.device), reduction=reduction)


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


class PairProblem(NamedTuple):
    """The pairs of clouds to compare: rows with each other (`n_columns` None) or with references.

    Clouds are numbered with the rows first, then the references.
    """

    n_rows: int
    n_columns: int | None
    p: float
    weights: tuple[Tensor | None, ...]

    def column(self, j: int) -> int:
        """Column of C that belongs to cloud j."""
        return j if self.n_columns is None else j - self.n_rows


class SortedClouds(NamedTuple):
    """Clouds of equal size: `values` and `origin` are (…, clouds, directions, points)."""

    ids: list[int]
    values: Tensor
    origin: Tensor | None


def sort_clouds(
    problem: PairProblem, theta: Tensor, clouds: Sequence[Tensor], shift: Tensor, with_origin: bool
) -> list[SortedClouds]:
    """Project and sort each cloud once, minus `shift`, those of equal size together."""
    by_size: dict[tuple[int, int], list[int]] = {}
    for i, (Z, w) in enumerate(zip(clouds, problem.weights, strict=True)):
        key = (Z.shape[-2], -1 if w is None else i)  # a weighted cloud is its own group
        by_size.setdefault(key, []).append(i)
    groups = []
    for (_, weighted), ids in by_size.items():
        P = project(theta, [clouds[i] for i in ids], shift)
        groups.append(SortedClouds(ids, *sort_rows_(P, with_origin=with_origin or weighted >= 0)))
    return groups


def pair_costs(problem: PairProblem, groups: Sequence[SortedClouds]) -> Tensor:
    """Matrix of costs, rows against rows or rows against references."""
    if len(groups) == 1 and (block := _group_block(problem, groups[0])):
        return equal_size_cost(block.A, block.B, problem.p)  # the common case
    values = groups[0].values
    shape = (problem.n_rows, problem.n_columns or problem.n_rows)
    C = values.new_zeros(shape, dtype=EXACT_DTYPE[values.device.type])
    for group in groups:
        if block := _group_block(problem, group):
            C[_entries(block, C)] = equal_size_cost(block.A, block.B, problem.p)
    for i, j, X, Y, grid in _pairs_between_groups(problem, groups):
        cost = quantile_cost(X, Y, grid, problem.p)
        C[i, problem.column(j)] = cost
        if problem.n_columns is None:
            C[j, i] = cost
    return C


def pair_grads(
    problem: PairProblem, groups: Sequence[SortedClouds], grad_C: Tensor
) -> list[Tensor]:
    """Gradient in the sorted values of each group."""
    g = grad_C if problem.n_columns else grad_C + grad_C.mT  # C has each unordered pair twice
    grads = []
    for group in groups:
        block = _group_block(problem, group)
        if block is None:
            grads.append(torch.zeros_like(group.values))
            continue
        sides = len(block.rows), len(block.columns)
        weight = g if g.shape[-2:] == sides else g[_entries(block, g)]
        n = None if problem.n_columns is None else sides[0]
        grad = equal_size_grad(group.values.flatten(-2), n, weight, problem.p)
        grads.append(grad.view_as(group.values))
    between: dict[int, Tensor] = {}
    for i, j, X, Y, grid in _pairs_between_groups(problem, groups):
        parts = quantile_grad(X, Y, grid, problem.p, g[i, problem.column(j)])
        for cloud, part in zip((i, j), parts, strict=True):
            between[cloud] = between[cloud].add_(part) if cloud in between else part
    for group, grad in zip(groups, grads, strict=True):
        for row, i in enumerate(group.ids):
            if i in between:
                grad[row] += between[i].T
    return grads


class _Block(NamedTuple):
    """The entries of C within a group, and its clouds: rows of A against rows of B."""

    rows: list[int]
    columns: list[int]
    A: Tensor
    B: Tensor


def _group_block(problem: PairProblem, group: SortedClouds) -> _Block | None:
    ids, V = group.ids, group.values.flatten(-2)
    if problem.n_columns is None:
        return _Block(ids, ids, V, V) if len(ids) > 1 else None
    n = sum(i < problem.n_rows for i in ids)
    if n in (0, len(ids)):
        return None
    return _Block(ids[:n], [problem.column(j) for j in ids[n:]], V[..., :n, :], V[..., n:, :])


def _entries(block: _Block, C: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = (torch.tensor(x, device=C.device) for x in (block.rows, block.columns))
    return rows.unsqueeze(1), columns


def _pairs_between_groups(
    problem: PairProblem, groups: Sequence[SortedClouds]
) -> Iterator[tuple[int, int, Tensor, Tensor, QuantileGrid]]:
    """Pairs from different groups: cloud numbers, sorted points (points, directions) and grid."""
    if len(groups) == 1:
        return
    place = {i: (group, row) for group in groups for row, i in enumerate(group.ids)}
    points: dict[int, Tensor] = {}
    rows, references = range(problem.n_rows), range(problem.n_rows, len(place))
    for i, j in combinations(rows, 2) if problem.n_columns is None else product(rows, references):
        (a, row_a), (b, row_b) = place[i], place[j]
        if a is b:
            continue
        for cloud, group, row in ((i, a, row_a), (j, b, row_b)):
            if cloud not in points:
                points[cloud] = group.values[row].T.contiguous()
        if problem.weights[i] is None and problem.weights[j] is None:
            n, m, like = a.values.shape[-1], b.values.shape[-1], a.values
            grid = uniform_grid(n, m, like.dtype, like.device)
        else:
            levels = _levels(problem.weights[i], a, row_a), _levels(problem.weights[j], b, row_b)
            grid = weighted_grid(*levels, dtype=a.values.dtype)
        yield i, j, points[i], points[j], grid


def _levels(weight: Tensor | None, group: SortedClouds, row: int) -> Tensor:
    """Cumulative weights of a cloud's points in sorted order, (directions, points)."""
    values = group.values[row]
    if weight is None or group.origin is None:
        n, dtype = values.shape[-1], EXACT_DTYPE[values.device.type]
        levels = torch.arange(1, n + 1, device=values.device, dtype=dtype) / n
        return levels.expand(len(values), -1).contiguous()
    return cumulative_weights(weight, group.origin[row])


def _name(i: int, n_rows: int) -> str:
    return f"Zs[{i}]" if i < n_rows else f"Gs[{i - n_rows}]"


def _check_clouds(
    n_rows: int, n_columns: int | None, clouds: Sequence[Tensor], directions: Tensor
) -> None:
    """Raise if clouds and directions cannot be compared."""
    if n_rows == 0 or n_columns == 0:
        raise ValueError("Zs (and Gs, where given) must hold at least one cloud, got none.")
    if not isinstance(directions, Tensor) or directions.ndim < 2 or 0 in directions.shape:
        raise ValueError("directions must be a tensor of shape (…, M, d), see draw_directions.")
    for i, Z in enumerate(clouds):
        name = _name(i, n_rows)
        if not isinstance(Z, Tensor):
            raise TypeError(
                f"{name} must be a torch tensor, got {type(Z).__name__}; use torch.as_tensor."
            )
        if Z.ndim != directions.ndim or 0 in Z.shape:
            raise ValueError(
                f"{name} must be {'(…, ' if directions.ndim > 2 else '('}points, dimensions) with "
                f"at least one of each, got shape {tuple(Z.shape)}."
            )
        if Z.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{name} must be float32 or float64, got {Z.dtype}.")
        for attribute, own, expected in (
            ("dimension", Z.shape[-1], directions.shape[-1]),
            ("leading dimensions", tuple(Z.shape[:-2]), tuple(directions.shape[:-2])),
            ("dtype", Z.dtype, directions.dtype),
            ("device", Z.device, directions.device),
        ):
            if own != expected:
                raise ValueError(
                    f"{name} has {attribute} {own}, but the directions have {attribute} "
                    f"{expected}; all clouds and the directions must agree."
                )


def _check_weights(weights: Sequence[Tensor | None] | None, clouds: Sequence[Tensor]) -> None:
    """Raise if weights do not fit the points of their cloud."""
    if weights is None:
        return
    if len(weights) != len(clouds):
        raise ValueError(
            f"weights needs one entry (a tensor or None) per cloud, {len(clouds)} of them, "
            f"got {len(weights)}."
        )
    for i, (w, Z) in enumerate(zip(weights, clouds, strict=True)):
        if w is None:
            continue
        if not isinstance(w, Tensor) or w.shape != Z.shape[:-1] or w.device != Z.device:
            raise ValueError(
                f"weights[{i}] must be a tensor of shape {tuple(Z.shape[:-1])} on {Z.device}, one "
                "weight per point."
            )
        if w.requires_grad:
            raise ValueError(f"weights[{i}] requires grad, but weights are constants: detach it.")
        if not bool((w >= 0).all() & torch.isfinite(w).all() & (w.sum() > 0)):
            raise ValueError(
                f"weights[{i}] must be finite, non-negative and not all zero; "
                f"they run from {w.min().item()} to {w.max().item()}."
            )


def _check_finite(C: Tensor, n_rows: int, clouds: Sequence[Tensor], directions: Tensor) -> None:
    """Raise if a cloud, the directions or a cost is NaN or infinite; the message names it."""
    named = [(_name(i, n_rows), Z) for i, Z in enumerate(clouds)]
    for name, Z in [*named, ("directions", directions)]:
        bad = ~torch.isfinite(Z).all(dim=-1)
        if bool(bad.any()):
            raise ValueError(
                f"{name} holds NaN or infinite values in {int(bad.sum())} of {bad.numel()} rows, "
                f"first in row {int(bad.nonzero()[0, -1])}."
            )
    if not bool(torch.isfinite(C).all()):
        raise OverflowError(
            f"the cost exceeds what {directions.dtype} holds; rescale the clouds or use float64."
        )
