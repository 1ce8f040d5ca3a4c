"""Costs between pairs of sorted clouds, and their gradients.

Clouds of equal size and equal weights form a group, whose pairs are one matrix product. Pairs of
clouds from different groups are compared one by one on merged quantile grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import torch
from torch import Tensor

from hotview.ot._backend import exact_dtype
from hotview.ot.projection import project, sort_rows_
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

__all__ = ["PairProblem", "SortedClouds", "pair_costs", "pair_grads", "sort_clouds"]


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
    C = values.new_zeros(shape, dtype=exact_dtype(values.device))
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
        n = values.shape[-1]
        levels = torch.arange(1, n + 1, device=values.device, dtype=exact_dtype(values.device)) / n
        return levels.expand(len(values), -1).contiguous()
    return cumulative_weights(weight, group.origin[row])
