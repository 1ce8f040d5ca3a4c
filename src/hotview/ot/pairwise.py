"""The pair stage: costs between sorted clouds, and their gradients.

Clouds of equal size and equal weights form a group, whose pairs are one matrix product. Pairs of
different groups are compared one by one on merged quantile grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hotview.ot.projection import project
from hotview.ot.sorting import sort_rows_
from hotview.ot.wasserstein1d import (
    Grid,
    accumulator,
    cumulative_weights,
    even_cost,
    even_grad,
    even_grid,
    merged_cost,
    merged_grad,
    weighted_grid,
)

__all__ = ["CloudGroup", "PairProblem", "pair_costs", "pair_grads", "sort_clouds"]


class PairProblem(NamedTuple):
    """What to compare: rows with themselves (`n_columns` None), or rows with references.

    Clouds are numbered with the rows first, then the references.
    """

    n_rows: int
    n_columns: int | None
    p: float
    weights: tuple[Tensor | None, ...]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Pairs of clouds (i, j) whose cost is wanted; each unordered pair once."""
        n = self.n_rows + (self.n_columns or 0)
        for i in range(self.n_rows):
            for j in range(i + 1 if self.n_columns is None else self.n_rows, n):
                yield i, j

    def column(self, j: int) -> int:
        """Column of C that belongs to cloud j."""
        return j if self.n_columns is None else j - self.n_rows


class CloudGroup(NamedTuple):
    """Clouds of equal size, sorted: `values` and `origin` are (…, clouds, directions, points)."""

    ids: list[int]
    values: Tensor
    origin: Tensor | None


def sort_clouds(
    task: PairProblem, theta: Tensor, clouds: Sequence[Tensor], shift: Tensor, *, with_origin: bool
) -> list[CloudGroup]:
    """Move every cloud by `shift`, project and sort it once, those of equal size together."""
    by_size: dict[tuple[int, int], list[int]] = {}
    for i, (Z, w) in enumerate(zip(clouds, task.weights, strict=True)):
        key = (Z.shape[-2], -1 if w is None else i)  # a weighted cloud is its own group
        by_size.setdefault(key, []).append(i)
    groups = []
    for (_, weighted), ids in by_size.items():
        P = project(theta, [clouds[i] for i in ids], shift)
        groups.append(CloudGroup(ids, *sort_rows_(P, with_origin=with_origin or weighted >= 0)))
    return groups


def pair_costs(task: PairProblem, groups: Sequence[CloudGroup]) -> Tensor:
    """Matrix of costs, rows against rows or rows against references."""
    if len(groups) == 1 and (block := _even_block(task, groups[0])):
        return even_cost(block.A, block.B, task.p)  # the common case, without the bookkeeping
    values = groups[0].values
    shape = (task.n_rows, task.n_columns or task.n_rows)
    C = values.new_zeros(shape, dtype=accumulator(values))
    for group in groups:
        if block := _even_block(task, group):
            C[_cells(block, C)] = even_cost(block.A, block.B, task.p)
    for i, j, X, Y, grid in _uneven_pairs(task, groups):
        cost = merged_cost(X, Y, grid, task.p)
        C[i, task.column(j)] = cost
        if task.n_columns is None:
            C[j, i] = cost
    return C


def pair_grads(task: PairProblem, groups: Sequence[CloudGroup], grad_C: Tensor) -> list[Tensor]:
    """Gradient in the sorted values of every group."""
    g = grad_C if task.n_columns else grad_C + grad_C.mT  # C holds each unordered pair twice
    grads = [_even_grad(task, group, g) for group in groups]
    uneven: dict[int, Tensor] = {}
    for i, j, X, Y, grid in _uneven_pairs(task, groups):
        parts = merged_grad(X, Y, grid, task.p, g[i, task.column(j)])
        for cloud, grad in zip((i, j), parts, strict=True):
            uneven[cloud] = uneven[cloud].add_(grad) if cloud in uneven else grad
    for group, grad in zip(groups, grads, strict=True):
        for row, i in enumerate(group.ids):
            if i in uneven:
                grad[row] += uneven[i].T
    return grads


class _Block(NamedTuple):
    """The part of C that a group fills: clouds of equal size, as rows of A against rows of B."""

    rows: list[int]
    columns: list[int]
    A: Tensor
    B: Tensor


def _even_block(task: PairProblem, group: CloudGroup) -> _Block | None:
    ids, V = group.ids, group.values.flatten(-2)
    if task.n_columns is None:
        return _Block(ids, ids, V, V) if len(ids) > 1 else None
    n = sum(i < task.n_rows for i in ids)
    if n in (0, len(ids)):
        return None
    return _Block(ids[:n], [task.column(j) for j in ids[n:]], V[..., :n, :], V[..., n:, :])


def _cells(block: _Block, C: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = (torch.tensor(x, device=C.device) for x in (block.rows, block.columns))
    return rows.unsqueeze(1), columns


def _even_grad(task: PairProblem, group: CloudGroup, g: Tensor) -> Tensor:
    block = _even_block(task, group)
    if block is None:
        return torch.zeros_like(group.values)
    sides = len(block.rows), len(block.columns)
    weight = g if g.shape[-2:] == sides else g[_cells(block, g)]
    # Of rows with themselves the diagonal, a cloud to itself, adds nothing.
    n = None if task.n_columns is None else sides[0]
    return even_grad(group.values.flatten(-2), n, weight, task.p).view_as(group.values)


def _uneven_pairs(
    task: PairProblem, groups: Sequence[CloudGroup]
) -> Iterator[tuple[int, int, Tensor, Tensor, Grid]]:
    """Wanted pairs of different groups: their sorted points (points, directions) and grid."""
    if len(groups) == 1:
        return
    place = {i: (group, row) for group in groups for row, i in enumerate(group.ids)}
    points: dict[int, Tensor] = {}
    for i, j in task.pairs():
        (a, row_a), (b, row_b) = place[i], place[j]
        if a is b:
            continue
        for cloud, group, row in ((i, a, row_a), (j, b, row_b)):
            if cloud not in points:
                points[cloud] = group.values[row].T.contiguous()
        if task.weights[i] is None and task.weights[j] is None:
            n, m, like = a.values.shape[-1], b.values.shape[-1], a.values
            grid = even_grid(n, m, like.dtype, like.device)
        else:
            levels = _levels(task.weights[i], a, row_a), _levels(task.weights[j], b, row_b)
            grid = weighted_grid(*levels, dtype=a.values.dtype)
        yield i, j, points[i], points[j], grid


def _levels(weight: Tensor | None, group: CloudGroup, row: int) -> Tensor:
    values = group.values[row]
    if weight is None or group.origin is None:
        n = values.shape[-1]
        even = torch.arange(1, n + 1, device=values.device, dtype=accumulator(values)) / n
        return even.expand(len(values), -1).contiguous()
    return cumulative_weights(weight, group.origin[row])
