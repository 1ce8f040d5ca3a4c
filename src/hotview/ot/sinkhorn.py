"""Entropic optimal transport by Sinkhorn's algorithm: the plan W over a cost matrix C."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotview._validation import Check, check_choice, check_count, check_positive, check_values
from hotview.ot._backend import EXACT_DTYPE
from hotview.ot.plan import Plan
from hotview.ot.sinkhorn_iterations import (
    MASKED,
    LogProblem,
    Potentials,
    initial_potentials,
    iterate,
    plan_from_potentials,
)

__all__ = ["check_feasible", "sinkhorn"]

_check_mode = partial(check_choice, choices=("envelope", "unroll"))
_CHECKS: Mapping[str, Check] = {"reg": check_positive, "max_iter": check_count, "grad": _check_mode}
_SLACK = 1e-9  # relative to the total mass
_RESOLUTION = 1e-10  # smallest regularization, relative to the costs, that float64 resolves
_SMALL = 2**16  # entries
_NO_MASS = 1e-300  # replaces a marginal of 0, whose logarithm would be infinite


def sinkhorn(
    C: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    reg: float,
    relative: bool = False,
    max_iter: int = 1000,
    tol: float = 1e-6,
    mask: Tensor | None = None,
    init: Plan | None = None,
    grad: str = "envelope",
) -> Plan:
    r"""Entropic transport plan, :math:`\min_W ⟨W, C⟩ + β ⟨W, \log W⟩` with marginals `a` and `b`.

    Computed in the log domain and in float64, so that no finite `C` and no `reg` give NaN. A
    symmetric problem (C = Cᵀ, a = b, mask symmetric) has a symmetric plan.

    Parameters
    ----------
    C : Tensor of shape (..., S, K)
        Costs, finite where not masked. Leading dimensions are independent problems.
    a : Tensor of shape (..., S) or None, default=None
        Row marginals, non-negative; None means 1/S each.
    b : Tensor of shape (..., K) or None, default=None
        Column marginals, of the same sum as `a`; None means 1/K each.
    reg : float
        Regularization β, positive. Below 10⁻¹⁰ of the largest cost, which float64 cannot resolve,
        it is raised to that; ``plan.reg`` is the value in use.
    relative : bool, default=False
        Whether `reg` is a multiple of the mean absolute cost of the entries that are not masked (1
        where all of these are 0), so that the plan does not depend on the scale of `C`.
    max_iter : int, default=1000
        Maximum number of iterations. Up to 100, all of them are Sinkhorn's. With more, problems
        that converge slowly are accelerated: costs that are large relative to `reg` are annealed,
        and from the 30th iteration on every eleventh is a Newton step.
    tol : float, default=1e-6
        Stop when the marginal errors of W sum to at most this fraction of the mass. Checked after
        every tenth Sinkhorn iteration and after every Newton step.
    mask : Tensor of bool or None, default=None
        True where W must be exactly zero (the diagonal, say), of the shape of `C` or of its last
        two dimensions. A mask that leaves no plan raises an error.
    init : Plan or None, default=None
        Plan of the same shape for a warm start, as when costs have changed a little.
    grad : {"envelope", "unroll"}, default="envelope"
        ``"envelope"`` makes W a constant: ``plan.value`` then has its exact gradient at the
        solution, W, at no cost. ``"unroll"`` differentiates through the iterations, W included.

    Returns
    -------
    Plan
        The plan, with ``W``, ``converged``, ``n_iter``, ``marginal_error``, ``cost``, ``entropy``
        and ``value``.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot import sinkhorn
    >>> C = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> plan = sinkhorn(C, reg=0.1)
    >>> plan.converged, [round(w, 3) for w in plan.W.flatten().tolist()]
    (True, [0.5, 0.0, 0.0, 0.5])
    >>> sinkhorn(C, reg=0.1, mask=torch.eye(2, dtype=torch.bool)).W
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """
    if not isinstance(C, Tensor) or not C.is_floating_point():
        raise TypeError(f"C must be a floating-point tensor, got {type(C).__name__}.")
    if C.ndim < 2 or 0 in C.shape:
        raise ValueError(f"C must be (…, S, K) with S, K ≥ 1, got shape {tuple(C.shape)}.")
    check_values({"reg": reg, "max_iter": max_iter, "grad": grad}, _CHECKS)
    if not tol >= 0:
        raise ValueError(f"tol must not be negative, got {tol!r}.")
    # A small problem is faster on the CPU, transfers included, than on a GPU.
    on_cpu = C.device.type == "cpu" or C.numel() <= _SMALL
    xp: Any = np if on_cpu and grad == "envelope" else torch
    mask = _check_mask(mask, C)
    beta = reg * _mean_cost(C, mask) if relative else float(reg)
    rows = _marginal(a, "a", C.shape[-2], C, xp)
    columns = _marginal(b, "b", C.shape[-1], C, xp)
    mass = 1.0 if a is None and b is None else _check_same_mass(rows, columns)
    with np.errstate(all="ignore"):  # iterations that overflow are repeated in the log domain
        L, scale = _log_kernel(xp, C, mask, beta)
        if mask is not None:
            check_feasible(L == MASKED, (rows / mass)[..., 0], (columns / mass)[..., 0])
        symmetric = (
            L.shape[-1] == L.shape[-2]
            and rows.shape == columns.shape
            and bool((L.swapaxes(-1, -2) == L).all())
            and bool((rows == columns).all())
        )
        log_problem = LogProblem(
            xp,
            L,
            rows if a is None else _positive(xp, rows / mass),
            columns if b is None else _positive(xp, columns / mass),
            symmetric,
        )
        if init is None:
            start = initial_potentials(log_problem, max_iter)
        else:
            start = _warm_start(init, C, scale, xp)
        phi, psi, n_iter = iterate(log_problem, start, max_iter, tol)
        W = plan_from_potentials(xp, L, phi, psi) * mass
    if a is not None or b is not None:  # undo _positive
        W = xp.where((rows == 0) | (columns == 0).swapaxes(-1, -2), 0.0, W)
    row_error = abs(W.sum(-1) - rows[..., 0]).sum(-1)
    column_error = abs(W.sum(-2) - columns[..., 0]).sum(-1)
    error = xp.maximum(row_error, column_error) / (1.0 if a is None else rows.sum((-2, -1)))
    return Plan(
        W=_tensor(W, C).to(C.dtype),
        C=C,
        reg=_used_reg(beta, scale, C),
        f=_tensor((phi * scale)[..., 0], C),
        g=_tensor((psi * scale)[..., 0], C),
        mask=mask,
        symmetric=symmetric,
        n_iter=n_iter,
        marginal_error=torch.as_tensor(error).detach(),
        tol=tol,
    )


def _array(x: Tensor, xp: Any) -> Any:
    if xp is np:
        x = x.detach().cpu()
    if x.dtype != torch.bool:
        x = x.to(EXACT_DTYPE[x.device.type])
    return x.numpy() if xp is np else x


def _tensor(x: Any, C: Tensor) -> Tensor:
    tensor: Tensor = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
    if C.device.type == "cpu":
        return tensor
    return tensor.to(dtype=EXACT_DTYPE[C.device.type]).to(C.device)


def _positive(xp: Any, marginal: Any) -> Any:
    return marginal if marginal.min() > 0 else xp.where(marginal > 0, marginal, _NO_MASS)


def _marginal(given: Tensor | None, name: str, n: int, C: Tensor, xp: Any) -> Any:
    """Return a marginal as a column, (…, n, 1)."""
    if given is None:
        if xp is np:
            return np.full((n, 1), 1 / n)
        return torch.full((n, 1), 1 / n, dtype=EXACT_DTYPE[C.device.type], device=C.device)
    batch = tuple(C.shape[:-2])
    if not isinstance(given, Tensor) or given.shape not in ((n,), (*batch, n)):
        raise ValueError(
            f"{name} must be a tensor of shape {(n,)}"
            + (f" or {(*batch, n)}" if batch else "")
            + f", to go with C of shape {tuple(C.shape)}; got "
            + (f"{tuple(given.shape)}." if isinstance(given, Tensor) else f"{given!r}.")
        )
    if given.requires_grad and xp is np:
        raise ValueError(f"{name} requires grad; marginals have one only with grad='unroll'.")
    marginal = _array(given, xp)[..., None]
    if not bool(((marginal >= 0) & xp.isfinite(marginal)).all()):
        raise ValueError(f"{name} must be finite and non-negative.")
    return marginal


def _mean_cost(C: Tensor, mask: Tensor | None) -> Tensor:
    """Mean absolute cost of the entries that are not masked, (…, 1, 1); 1 where all are 0."""
    # In float64, and divided by the largest, so that no sum overflows.
    size = C.abs().to(EXACT_DTYPE[C.device.type])
    n_open: int | Tensor = C.shape[-2] * C.shape[-1]
    if mask is not None:
        size = size.masked_fill(mask, 0)
        n_open = (~mask).sum((-2, -1), keepdim=True)
    largest = size.detach().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(size.dtype).tiny)
    mean = (size / largest).sum((-2, -1), keepdim=True) / n_open * largest
    return torch.where(mean > 0, mean, 1.0)


def _log_kernel(xp: Any, C: Tensor, mask: Tensor | None, beta: float | Tensor) -> tuple[Any, Any]:
    """``−C / scale``, masked, and the scale: `beta` unless costs exceed it by 10¹⁰."""
    costs, closed = _array(C, xp), None if mask is None else _array(mask, xp)
    if closed is not None:
        costs = xp.where(closed, 0.0, costs)
    largest = abs(costs).max()
    if not largest < xp.inf:
        raise ValueError("C must be finite; use mask for entries that must not be used.")
    scale = beta if isinstance(beta, float) else _array(beta, xp)
    if largest * _RESOLUTION > (scale if isinstance(scale, float) else scale.min()):
        floor = xp.amax(abs(costs), (-2, -1))[..., None, None] * _RESOLUTION
        scale = xp.where(floor > scale, floor, scale)
    L = costs / -scale
    return L if closed is None else xp.where(closed, MASKED, L), scale


def _used_reg(beta: float | Tensor, scale: Any, C: Tensor) -> float | Tensor:
    """The regularization in use, one per problem; with its gradient where it is relative."""
    if isinstance(scale, float):
        return scale
    used = _tensor(scale, C)
    if isinstance(beta, Tensor) and bool((beta.detach().to(used) == used).all()):
        used = beta
    return used[..., 0, 0]


def _warm_start(init: Plan, C: Tensor, scale: Any, xp: Any) -> Potentials:
    if not isinstance(init, Plan) or init.W.shape != C.shape:
        came = tuple(init.W.shape) if isinstance(init, Plan) else type(init).__name__
        raise ValueError(f"init must be a Plan of shape {tuple(C.shape)}, got {came}.")
    f, g = (_array(x.detach().to(C.device), xp)[..., None] for x in (init.f, init.g))
    return Potentials(f / scale, g / scale)


def _check_mask(mask: Tensor | None, C: Tensor) -> Tensor | None:
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


def _check_same_mass(rows: Any, columns: Any) -> Any:
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
