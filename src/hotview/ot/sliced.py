"""Sliced Wasserstein costs between all pairs of many clouds: equations (6) and (7) of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hotview.ot.even import accumulator, even_cost, even_grad
from hotview.ot.quantile import (
    Grid,
    cumulative_weights,
    even_grid,
    merged_cost,
    merged_grad,
    weighted_grid,
)
from hotview.ot.sorting import sort_rows_

__all__ = ["sliced_cost"]

_SCALES = ("mean", "sum")
_BLOCK = 2**14  # points per block of a matrix product


def sliced_cost(
    Zs: Sequence[Tensor],
    Gs: Sequence[Tensor] | None = None,
    *,
    directions: Tensor,
    weights: Sequence[Tensor | None] | None = None,
    p: float = 2,
    scale: str = "mean",
) -> Tensor:
    r"""Matrix of sliced Wasserstein costs, :math:`C_{st} = \frac1M \sum_m W_p^p(θ_m Z_s, θ_m Z_t)`.

    Each entry is exact one-dimensional transport, averaged over the directions θ; there is no root
    in it, so its gradient is finite where clouds coincide. Every cloud is projected and sorted
    once, whatever the number of pairs. Differentiable once in `Zs`, `Gs` and `directions`.

    Parameters
    ----------
    Zs : sequence of Tensor
        S clouds, each (points, d), float32 or float64. Numbers of points may differ.
    Gs : sequence of Tensor or None, default=None
        K reference clouds; None compares the `Zs` with each other.
    directions : Tensor of shape (M, d)
        Unit vectors to project on, see :func:`draw_directions`.
    weights : sequence of (Tensor or None) or None, default=None
        One entry per cloud, those of `Zs` first, then those of `Gs`: weights of its points,
        non-negative, of any positive sum; None means equal. They are constants, not differentiated.
    p : float, default=2
        Exponent of the distance, at least 1.
    scale : {"mean", "sum"}, default="mean"
        ``"mean"`` gives every cloud mass 1. ``"sum"`` is the paper's, which adds over the points:
        the mean times the number of points (of the smaller cloud where the two differ).

    Returns
    -------
    Tensor of shape (S, S) or (S, K)
        The costs: symmetric with a zero diagonal where `Gs` is None.

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
    clouds = [*Zs, *(Gs or ())]
    n_columns = None if Gs is None else len(Gs)
    _check_clouds(len(Zs), n_columns, clouds, directions)
    _check_weights(weights, clouds)
    if not p >= 1:
        raise ValueError(f"p must be at least 1, got {p!r}.")
    if scale not in _SCALES:
        raise ValueError(f"scale must be one of {_SCALES}, got {scale!r}.")
    task = _Task(len(Zs), n_columns, float(p), tuple(weights or [None] * len(clouds)))
    C: Tensor = _SlicedCost.apply(task, directions, *clouds)  # type: ignore[no-untyped-call]
    if not bool(torch.isfinite(C).all()):
        _explain_not_finite(task, clouds, directions)
    return C if scale == "mean" else C * _points(task, clouds, C)


class _Task(NamedTuple):
    """What to compare: rows with themselves (`n_columns` None), or rows with references."""

    n_rows: int
    n_columns: int | None
    p: float
    weights: tuple[Tensor | None, ...]

    def name(self, i: int) -> str:
        return f"Zs[{i}]" if i < self.n_rows else f"Gs[{i - self.n_rows}]"

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs of clouds (i, j) whose cost is wanted; each unordered pair once."""
        first = None if self.n_columns is None else self.n_rows
        n = self.n_rows + (self.n_columns or 0)
        return (
            (i, j) for i in range(self.n_rows) for j in range(i + 1 if first is None else first, n)
        )

    def column(self, j: int) -> int:
        return j if self.n_columns is None else j - self.n_rows


class _Group(NamedTuple):
    """Clouds of equal size, sorted: `values` and `origin` are (clouds, directions, points)."""

    ids: list[int]
    values: Tensor
    origin: Tensor | None


class _SlicedCost(torch.autograd.Function):
    """Projection, sort and pair stage in one, because autograd would keep every pair."""

    @staticmethod
    def forward(ctx: Any, task: _Task, theta: Tensor, *clouds: Tensor) -> Tensor:
        groups = _sort_clouds(task, theta, clouds, with_origin=any(ctx.needs_input_grad))
        shape = (task.n_rows, task.n_columns or task.n_rows)
        C = theta.new_zeros(shape, dtype=accumulator(theta))
        for group in groups:
            if block := _even_block(task, group):
                C[block.rows, block.columns] = even_cost(block.A, block.B, task.p)
        for i, j, X, Y, grid in _uneven_pairs(task, groups):
            cost = merged_cost(X, Y, grid, task.p)
            C[i, task.column(j)] = cost
            if task.n_columns is None:
                C[j, i] = cost
        ctx.task, ctx.ids = task, [group.ids for group in groups]
        sorted_tensors = [x for group in groups for x in (group.values, group.origin)]
        ctx.save_for_backward(theta, *clouds, *sorted_tensors)
        return C.to(theta.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad_C,) = grads
        task, (theta, *saved) = ctx.task, ctx.saved_tensors
        n_clouds = len(saved) - 2 * len(ctx.ids)
        clouds, tensors = saved[:n_clouds], iter(saved[n_clouds:])
        groups = [_Group(ids, next(tensors), next(tensors)) for ids in ctx.ids]
        grad_theta = torch.zeros_like(theta) if ctx.needs_input_grad[1] else None
        grad_clouds: list[Tensor | None] = [None] * n_clouds
        for group, grad in zip(groups, _grad_sorted(task, groups, grad_C), strict=True):
            assert group.origin is not None  # kept whenever a gradient was asked for
            grad_P = torch.empty_like(grad[0])
            for i, origin, g in zip(group.ids, group.origin, grad, strict=True):
                grad_P.scatter_(-1, origin, g)  # undo the sort
                if ctx.needs_input_grad[2 + i]:
                    grad_clouds[i] = _unproject(grad_P, theta)
                if grad_theta is not None:
                    grad_theta += grad_P @ clouds[i]
        return None, grad_theta, *grad_clouds


def _sort_clouds(
    task: _Task, theta: Tensor, clouds: Sequence[Tensor], *, with_origin: bool
) -> list[_Group]:
    """Project and sort every cloud once, those of equal size together."""
    by_size: dict[tuple[int, int], list[int]] = {}
    for i, (Z, w) in enumerate(zip(clouds, task.weights, strict=True)):
        key = (len(Z), -1 if w is None else i)  # a weighted cloud is its own group
        by_size.setdefault(key, []).append(i)
    groups = []
    for (n, weighted), ids in by_size.items():
        P = theta.new_empty(len(ids), len(theta), n)
        for out, i in zip(P, ids, strict=True):
            torch.mm(theta, clouds[i].T, out=out)
        groups.append(_Group(ids, *sort_rows_(P, with_origin=with_origin or weighted >= 0)))
    return groups


class _Block(NamedTuple):
    """The part of C that a group fills: clouds of equal size, as rows of A against rows of B."""

    rows: Tensor
    columns: Tensor
    A: Tensor
    B: Tensor


def _even_block(task: _Task, group: _Group) -> _Block | None:
    V = group.values.flatten(1)
    ids = torch.tensor(group.ids, device=V.device)
    if task.n_columns is None:
        return _Block(ids.unsqueeze(1), ids, V, V) if len(V) > 1 else None
    n = sum(i < task.n_rows for i in group.ids)
    if n in (0, len(V)):
        return None
    return _Block(ids[:n].unsqueeze(1), ids[n:] - task.n_rows, V[:n], V[n:])


def _uneven_pairs(
    task: _Task, groups: Sequence[_Group]
) -> Iterator[tuple[int, int, Tensor, Tensor, Grid]]:
    """Wanted pairs of different groups: their sorted points (points, directions) and grid."""
    place = {i: (group, k) for group in groups for k, i in enumerate(group.ids)}
    points: dict[int, Tensor] = {}
    for i, j in task.pairs():
        (a, k), (b, m) = place[i], place[j]
        if a is b:
            continue
        for cloud, group, row in ((i, a, k), (j, b, m)):
            if cloud not in points:
                points[cloud] = group.values[row].T.contiguous()
        if task.weights[i] is None and task.weights[j] is None:
            n, like = a.values.shape[-1], b.values
            grid = even_grid(n, like.shape[-1], like.dtype, like.device)
        else:
            levels = _levels(task.weights[i], a, k), _levels(task.weights[j], b, m)
            grid = weighted_grid(*levels, dtype=a.values.dtype)
        yield i, j, points[i], points[j], grid


def _levels(weight: Tensor | None, group: _Group, row: int) -> Tensor:
    values = group.values[row]
    if weight is None or group.origin is None:
        n = values.shape[-1]
        even = torch.arange(1, n + 1, device=values.device, dtype=accumulator(values)) / n
        return even.expand(len(values), -1).contiguous()
    return cumulative_weights(weight, group.origin[row])


def _grad_sorted(task: _Task, groups: Sequence[_Group], grad_C: Tensor) -> list[Tensor]:
    """Gradient in the sorted values of every group."""
    g = grad_C if task.n_columns else grad_C + grad_C.T  # C holds each unordered pair twice
    grads = [_grad_even(task, group, g) for group in groups]
    uneven: dict[int, Tensor] = {}
    for i, j, X, Y, grid in _uneven_pairs(task, groups):
        for cloud, grad in zip((i, j), merged_grad(X, Y, grid, task.p), strict=True):
            grad *= g[i, task.column(j)]
            uneven[cloud] = uneven[cloud].add_(grad) if cloud in uneven else grad
    for group, grad in zip(groups, grads, strict=True):
        for row, i in enumerate(group.ids):
            if i in uneven:
                grad[row] += uneven[i].T
    return grads


def _grad_even(task: _Task, group: _Group, g: Tensor) -> Tensor:
    block = _even_block(task, group)
    if block is None:
        return torch.zeros_like(group.values)
    weight, A, B = g[block.rows, block.columns], block.A, block.B
    if B is A:
        grad = even_grad(A, A, weight.fill_diagonal_(0), task.p)
    else:
        grad = torch.cat([even_grad(A, B, weight, task.p), even_grad(B, A, weight.T, task.p)])
    return grad.view_as(group.values)


def _unproject(grad_P: Tensor, theta: Tensor) -> Tensor:
    """``grad_P.T @ theta``, by blocks and transposed: BLAS is slow on tall and thin matrices."""
    grad = theta.new_empty(grad_P.shape[1], theta.shape[1])
    for i in range(0, len(grad), _BLOCK):
        grad[i : i + _BLOCK] = (theta.T @ grad_P[:, i : i + _BLOCK]).T
    return grad


def _points(task: _Task, clouds: Sequence[Tensor], C: Tensor) -> Tensor:
    n = torch.tensor([len(Z) for Z in clouds], dtype=C.dtype, device=C.device)
    rows, columns = n[: task.n_rows], n if task.n_columns is None else n[task.n_rows :]
    return torch.minimum(rows.unsqueeze(1), columns)


def _check_clouds(
    n_rows: int, n_columns: int | None, clouds: Sequence[Tensor], directions: Tensor
) -> None:
    if n_rows == 0 or n_columns == 0:
        raise ValueError("Zs (and Gs, where given) must hold at least one cloud, got none.")
    if not isinstance(directions, Tensor) or directions.ndim != 2 or len(directions) == 0:
        raise ValueError("directions must be a tensor of shape (M, d), see draw_directions.")
    for i, Z in enumerate(clouds):
        name = f"Zs[{i}]" if i < n_rows else f"Gs[{i - n_rows}]"
        if not isinstance(Z, Tensor):
            raise TypeError(
                f"{name} must be a torch tensor, got {type(Z).__name__}; use torch.as_tensor."
            )
        if Z.ndim != 2 or 0 in Z.shape:
            raise ValueError(
                f"{name} must be (points, dimensions) with at least one of each, "
                f"got shape {tuple(Z.shape)}."
            )
        if Z.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{name} must be float32 or float64, got {Z.dtype}.")
        for what, ours, theirs in (
            ("dimension", Z.shape[1], directions.shape[1]),
            ("dtype", Z.dtype, directions.dtype),
            ("device", Z.device, directions.device),
        ):
            if ours != theirs:
                raise ValueError(
                    f"{name} has {what} {ours}, but the directions have {what} {theirs}; "
                    "all clouds and the directions must agree."
                )


def _check_weights(weights: Sequence[Tensor | None] | None, clouds: Sequence[Tensor]) -> None:
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
        if not isinstance(w, Tensor) or w.shape != Z.shape[:1] or w.device != Z.device:
            raise ValueError(
                f"weights[{i}] must be a tensor of shape ({len(Z)},) on {Z.device}, one weight "
                f"per point."
            )
        if w.requires_grad:
            raise ValueError(f"weights[{i}] requires grad, but weights are constants: detach it.")
        if not bool((w >= 0).all() & torch.isfinite(w).all() & (w.sum() > 0)):
            raise ValueError(
                f"weights[{i}] must be finite, non-negative and not all zero; "
                f"they run from {w.min().item()} to {w.max().item()}."
            )


def _explain_not_finite(task: _Task, clouds: Sequence[Tensor], directions: Tensor) -> None:
    named = [(task.name(i), Z) for i, Z in enumerate(clouds)]
    for name, Z in [*named, ("directions", directions)]:
        bad = ~torch.isfinite(Z).all(dim=1)
        if bool(bad.any()):
            raise ValueError(
                f"{name} holds NaN or infinite values in {int(bad.sum())} of {len(Z)} rows, "
                f"first in row {int(bad.nonzero()[0])}."
            )
    raise OverflowError(
        f"the cost exceeds what {directions.dtype} holds; rescale the clouds or use float64."
    )
