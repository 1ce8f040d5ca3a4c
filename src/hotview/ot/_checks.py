"""Checks of the arguments of `sliced_cost` and `sinkhorn`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotview._validation import Check, check_choice, check_count, check_positive, check_values

_DTYPES = (torch.float32, torch.float64)
_SLACK = 1e-9  # relative to the total mass
_check_mode = partial(check_choice, choices=("envelope", "unroll"))
_CHECKS: Mapping[str, Check] = {"reg": check_positive, "max_iter": check_count, "grad": _check_mode}


def _name(i: int, n_rows: int) -> str:
    return f"Zs[{i}]" if i < n_rows else f"Gs[{i - n_rows}]"


def check_clouds(
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
        if Z.dtype not in _DTYPES:
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


def check_weights(weights: Sequence[Tensor | None] | None, clouds: Sequence[Tensor]) -> None:
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


def check_finite(C: Tensor, n_rows: int, clouds: Sequence[Tensor], directions: Tensor) -> None:
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


def check_options(C: Tensor, reg: float, max_iter: int, tol: float, grad: str) -> None:
    """Raise if the costs or options of `sinkhorn` are invalid."""
    if not isinstance(C, Tensor) or not C.is_floating_point():
        raise TypeError(f"C must be a floating-point tensor, got {type(C).__name__}.")
    if C.ndim < 2 or 0 in C.shape:
        raise ValueError(f"C must be (…, S, K) with S, K ≥ 1, got shape {tuple(C.shape)}.")
    check_values({"reg": reg, "max_iter": max_iter, "grad": grad}, _CHECKS)
    if not tol >= 0:
        raise ValueError(f"tol must not be negative, got {tol!r}.")


def check_mask(mask: Tensor | None, C: Tensor) -> Tensor | None:
    """Return the mask on the device of the costs; raise if it does not fit them."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError("mask must be a tensor of bool, True where the plan must be zero.")
    if mask.shape not in (C.shape, C.shape[-2:]):
        raise ValueError(
            f"mask must have the shape of C, {tuple(C.shape)}, or of its last two dimensions; "
            f"got {tuple(mask.shape)}."
        )
    return mask.to(C.device)


def check_same_mass(rows: Any, columns: Any) -> Any:
    """Return the total mass of each problem, (…, 1, 1); raise if the marginals differ in it."""
    mass, other = rows.sum(-2)[..., None], columns.sum(-2)[..., None]
    if not bool((mass > 0).all()) or not bool((abs(mass - other) <= 1e-6 * mass).all()):
        raise ValueError(
            "a and b must have the same positive sum, "
            f"got {mass.reshape(-1).tolist()} and {other.reshape(-1).tolist()}."
        )
    return mass


def check_feasible(mask: Any, a: Any, b: Any) -> None:
    """Raise unless plans with marginals `a`, `b` exist that are zero where `mask` is True.

    By Hall's theorem a plan exists if no set of rows has more mass than the columns open to it.

    Parameters
    ----------
    mask : array or tensor of bool, shape (..., S, K)
        Entries that must be zero; leading dimensions are independent problems.
    a : array or tensor of shape (..., S)
        Row marginals.
    b : array or tensor of shape (..., K)
        Column marginals.
    """
    *batch, S, K = mask.shape
    arrays = [
        np.broadcast_to(torch.as_tensor(x).detach().cpu().numpy(), (*batch, *shape))
        for x, shape in ((mask, (S, K)), (a, (S,)), (b, (K,)))
    ]
    for index in np.ndindex(*batch):
        _check_one_feasible(*(x[index] for x in arrays))


def _check_one_feasible(
    mask: NDArray[np.bool_], a: NDArray[np.float64], b: NDArray[np.float64]
) -> None:
    closed = mask @ b  # mass of the columns that are closed to each row
    total = a.sum()
    worst = int(np.argmax(a + closed))
    if a[worst] + closed[worst] > total * (1 + _SLACK):
        raise ValueError(
            f"the mask leaves no plan: row {worst} must send out {a[worst]:.6g}, but the columns "
            f"open to it take only {max(0.0, total - closed[worst]):.6g} of {total:.6g}. "
            "Unmask an entry or change the marginals."
        )
    # Where no column is masked twice (the diagonal, say), two rows together reach every column,
    # so only single rows can violate the condition. Other masks need a linear program.
    if mask.sum(0).max() > 1 and not _has_plan(mask, a, b):
        raise ValueError(
            "the mask leaves no plan with these marginals: some rows together hold more mass than "
            "the columns open to them. Unmask an entry or change the marginals."
        )


def _has_plan(mask: NDArray[np.bool_], a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    i, j = np.nonzero(~mask)
    ones, edge = np.ones(len(i)), np.arange(len(i))
    # Maximize the transported mass; a plan exists if it is the total.
    limits = coo_array(
        (np.concatenate([ones, ones]), (np.concatenate([i, len(a) + j]), np.tile(edge, 2))),
        shape=(len(a) + len(b), len(i)),
    )
    flow = linprog(-ones, A_ub=limits.tocsr(), b_ub=np.concatenate([a, b]))  # type: ignore[call-overload]  # the stubs lack sparse matrices
    return bool(-flow.fun >= a.sum() * (1 - _SLACK))
