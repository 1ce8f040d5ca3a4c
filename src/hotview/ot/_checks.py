"""What `sliced_cost` says when it cannot work with what it was given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["check_clouds", "check_feasible", "check_weights", "explain_not_finite"]

_DTYPES = (torch.float32, torch.float64)


def _name(i: int, n_rows: int) -> str:
    return f"Zs[{i}]" if i < n_rows else f"Gs[{i - n_rows}]"


def check_clouds(
    n_rows: int, n_columns: int | None, clouds: Sequence[Tensor], directions: Tensor
) -> None:
    """Refuse clouds and directions that cannot be compared."""
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
        _check_agreement(name, Z, directions)


def _check_agreement(name: str, Z: Tensor, directions: Tensor) -> None:
    for what, ours, theirs in (
        ("dimension", Z.shape[-1], directions.shape[-1]),
        ("leading dimensions", tuple(Z.shape[:-2]), tuple(directions.shape[:-2])),
        ("dtype", Z.dtype, directions.dtype),
        ("device", Z.device, directions.device),
    ):
        if ours != theirs:
            raise ValueError(
                f"{name} has {what} {ours}, but the directions have {what} {theirs}; "
                "all clouds and the directions must agree."
            )


def check_weights(weights: Sequence[Tensor | None] | None, clouds: Sequence[Tensor]) -> None:
    """Refuse weights that do not weigh the points of their cloud."""
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


def explain_not_finite(
    C: Tensor, n_rows: int, clouds: Sequence[Tensor], directions: Tensor
) -> None:
    """Raise if a cloud, the directions or a cost are NaN or infinite, and say which."""
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


_SLACK = 1e-9  # of the total mass


def check_feasible(mask: NDArray[np.bool_], a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    """Raise unless some plan with marginals `a`, `b` is zero where `mask` is True.

    By Hall's theorem a plan exists when no set of rows holds more mass than the columns open to it.
    """
    closed = mask @ b  # mass of the columns that each row must not use
    total = a.sum()
    worst = int(np.argmax(a + closed))
    if a[worst] + closed[worst] > total * (1 + _SLACK):
        raise ValueError(
            f"the mask leaves no plan: row {worst} must send out {a[worst]:.6g}, but the columns "
            f"open to it take only {max(0.0, total - closed[worst]):.6g} of {total:.6g}. "
            "Unmask an entry or change the marginals."
        )
    # Where no column is masked twice (the diagonal, say), two rows together reach every column,
    # so single rows are all that can fail. Everything else is a question for a linear program.
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
    # Send as much as possible; all of it must arrive.
    limits = coo_array(
        (np.concatenate([ones, ones]), (np.concatenate([i, len(a) + j]), np.tile(edge, 2))),
        shape=(len(a) + len(b), len(i)),
    )
    sent = linprog(-ones, A_ub=limits.tocsr(), b_ub=np.concatenate([a, b]))  # type: ignore[call-overload]  # its stubs know no sparse matrix
    return bool(-sent.fun >= a.sum() * (1 - _SLACK))
