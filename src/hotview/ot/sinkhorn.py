"""Entropic optimal transport between views: the plan W over a cost matrix C."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview.ot._checks import check_feasible
from hotview.ot.plan import Plan
from hotview.ot.sinkhorn_iterations import MASKED, plan_of, scale_to_marginals

__all__ = ["RESOLUTION", "sinkhorn"]

_GRADS = ("envelope", "unroll")
RESOLUTION = 1e-10  # smallest regularization, as a share of the costs, that float64 resolves
_SMALL = 2**16  # entries
_NO_MASS = 1e-300  # stands in for a marginal of 0, whose logarithm would be infinite


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

    Works in the log domain and in float64, so no finite `C` and no `reg` give NaN. A symmetric
    problem (C = Cᵀ, a = b, mask symmetric) is scaled symmetrically and its plan is symmetric.

    Parameters
    ----------
    C : Tensor of shape (..., S, K)
        Costs, finite where not masked. Leading dimensions are separate problems, solved together.
    a : Tensor of shape (..., S) or None, default=None
        Row marginals, non-negative; None means 1/S each.
    b : Tensor of shape (..., K) or None, default=None
        Column marginals, of the same sum as `a`; None means 1/K each.
    reg : float
        Regularization β, positive. Below 10⁻¹⁰ of the largest cost, where float64 cannot tell the
        difference, it is raised to that; ``plan.reg`` is what was used.
    relative : bool, default=False
        Take `reg` as a multiple of the mean absolute cost of the entries that are not masked (1
        where all of these are 0), so that the plan does not depend on the scale of `C`.
    max_iter : int, default=1000
        Most iterations to make. Up to 100, these are Sinkhorn's and nothing else. With more, what
        crawls is helped: costs that are steep against `reg` are reached over softer problems, and
        from the 30th iteration on every eleventh is a Newton step.
    tol : float, default=1e-6
        Stop when the marginals of W are off by at most this share of the mass, added over entries.
        Looked at after every tenth iteration of Sinkhorn and after every Newton step.
    mask : Tensor of bool or None, default=None
        True where W must be exactly zero (the diagonal, say), of the shape of `C` or of its last
        two dimensions. A mask that leaves no plan is an error.
    init : Plan or None, default=None
        A plan of the same shape to start from, as when costs have changed a little.
    grad : {"envelope", "unroll"}, default="envelope"
        ``"envelope"`` holds W fixed: ``plan.value`` then has its exact gradient at the solution, W,
        at no cost. ``"unroll"`` differentiates the iterations themselves, W included.

    Returns
    -------
    Plan
        With ``W``, ``converged``, ``n_iter``, ``marginal_error``, ``cost``, ``entropy``, ``value``.

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
    _check_options(C, reg, max_iter, tol, grad)
    # A small problem is sooner moved to the CPU and back than begun on a GPU.
    on_cpu = C.device.type == "cpu" or C.numel() <= _SMALL
    xp: Any = np if on_cpu and grad == "envelope" else torch
    mask = _check_mask(mask, C)
    beta = _regularization(C, reg, relative, mask)
    rows = _marginal(a, "a", C.shape[-2], C, xp)
    columns = _marginal(b, "b", C.shape[-1], C, xp)
    mass = 1.0 if a is None and b is None else _mass(rows, columns)
    with np.errstate(all="ignore"):  # what overflows is done again in logarithms
        L, scale = _log_kernel(xp, C, mask, beta)
        if mask is not None:
            _check_masks(L == MASKED, rows / mass, columns / mass)
        symmetric = _is_symmetric(L, rows, columns)
        phi, psi, n_iter = scale_to_marginals(
            xp,
            L,
            rows if a is None else _positive(xp, rows / mass),
            columns if b is None else _positive(xp, columns / mass),
            symmetric=symmetric,
            max_iter=max_iter,
            tol=tol,
            init=_warm_start(init, C, scale, xp),
        )
        W = plan_of(xp, L, phi, psi) * mass
    if a is not None or b is not None:  # what stood in for a marginal of 0
        W = xp.where((rows == 0) | (columns == 0).swapaxes(-1, -2), 0.0, W)
    error = _marginal_error(xp, W, rows, columns) / (1.0 if a is None else rows.sum((-2, -1)))
    return Plan(
        W=_tensor(W, C).to(C.dtype),
        C=C,
        reg=_used(beta, scale, C),
        f=_tensor((phi * scale)[..., 0], C),
        g=_tensor((psi * scale)[..., 0], C),
        mask=mask,
        symmetric=symmetric,
        n_iter=n_iter,
        marginal_error=torch.as_tensor(error).detach(),
        tol=tol,
    )


def _log_kernel(xp: Any, C: Tensor, mask: Tensor | None, beta: float | Tensor) -> tuple[Any, Any]:
    """``−C / scale``, masked, with the regularization that is used for it."""
    if mask is None:
        costs = _array(C, xp)
        scale = _resolvable(xp, costs, beta)
        return costs / -scale, scale
    blocked = _array(mask, xp)
    costs = xp.where(blocked, 0.0, _array(C, xp))
    scale = _resolvable(xp, costs, beta)
    return xp.where(blocked, MASKED, costs / -scale), scale


def _exact_dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _array(x: Tensor, xp: Any) -> Any:
    if xp is np:
        x = x.detach().cpu()
    if x.dtype != torch.bool:
        x = x.to(_exact_dtype(x.device))
    return x.numpy() if xp is np else x


def _tensor(x: Any, C: Tensor) -> Tensor:
    tensor: Tensor = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
    if C.device.type == "cpu":
        return tensor
    return tensor.to(dtype=_exact_dtype(C.device)).to(C.device)


def _positive(xp: Any, marginal: Any) -> Any:
    return marginal if marginal.min() > 0 else xp.where(marginal > 0, marginal, _NO_MASS)


def _marginal(given: Tensor | None, name: str, n: int, C: Tensor, xp: Any) -> Any:
    """Return a marginal as a column, (…, n, 1)."""
    if given is None:
        if xp is np:
            return np.full((n, 1), 1 / n)
        return torch.full((n, 1), 1 / n, dtype=_exact_dtype(C.device), device=C.device)
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


def _regularization(C: Tensor, reg: float, relative: bool, mask: Tensor | None) -> float | Tensor:
    if not relative:
        return float(reg)
    # In float64, and over the largest, for no sum to overflow.
    size = C.abs().to(_exact_dtype(C.device))
    n_open: int | Tensor = C.shape[-2] * C.shape[-1]
    if mask is not None:
        size = size.masked_fill(mask, 0)
        n_open = (~mask).sum((-2, -1), keepdim=True)
    largest = size.detach().amax((-2, -1), keepdim=True).clamp_min(torch.finfo(size.dtype).tiny)
    mean = (size / largest).sum((-2, -1), keepdim=True) / n_open * largest
    return reg * torch.where(mean > 0, mean, 1.0)


def _resolvable(xp: Any, costs: Any, beta: float | Tensor) -> Any:
    """Regularization that float64 can resolve; `beta` itself unless costs exceed it by 10¹⁰."""
    largest = abs(costs).max()
    if not largest < xp.inf:
        raise ValueError("C must be finite; use mask for entries that must not be used.")
    scale = beta if isinstance(beta, float) else _array(beta, xp)
    if largest * RESOLUTION <= (scale if isinstance(scale, float) else scale.min()):
        return scale
    sizes = xp.amax(abs(costs), (-2, -1))[..., None, None]
    return xp.where(sizes * RESOLUTION > scale, sizes * RESOLUTION, scale)


def _used(beta: float | Tensor, scale: Any, C: Tensor) -> float | Tensor:
    """The regularization in use, one per problem; with its gradient where it is relative."""
    if isinstance(scale, float):
        return scale
    used = _tensor(scale, C)
    if isinstance(beta, Tensor) and bool((beta.detach().to(used) == used).all()):
        used = beta
    return used[..., 0, 0]


def _is_symmetric(L: Any, rows: Any, columns: Any) -> bool:
    if L.shape[-1] != L.shape[-2] or rows.shape != columns.shape:
        return False
    return bool((L.swapaxes(-1, -2) == L).all()) and bool((rows == columns).all())


def _marginal_error(xp: Any, W: Any, rows: Any, columns: Any) -> Any:
    off_rows = abs(W.sum(-1) - rows[..., 0]).sum(-1)
    off_columns = abs(W.sum(-2) - columns[..., 0]).sum(-1)
    return xp.maximum(off_rows, off_columns)


def _warm_start(init: Plan | None, C: Tensor, scale: Any, xp: Any) -> tuple[Any, Any] | None:
    if init is None:
        return None
    if not isinstance(init, Plan) or init.W.shape != C.shape:
        came = tuple(init.W.shape) if isinstance(init, Plan) else type(init).__name__
        raise ValueError(f"init must be a Plan of shape {tuple(C.shape)}, got {came}.")
    f, g = (_array(x.detach().to(C.device), xp)[..., None] for x in (init.f, init.g))
    return f / scale, g / scale


def _check_options(C: Tensor, reg: float, max_iter: int, tol: float, grad: str) -> None:
    if not isinstance(C, Tensor) or not C.is_floating_point():
        raise TypeError(f"C must be a floating-point tensor, got {type(C).__name__}.")
    if C.ndim < 2 or 0 in C.shape:
        raise ValueError(f"C must be (…, S, K) with S, K ≥ 1, got shape {tuple(C.shape)}.")
    if not 0 < reg < math.inf:
        raise ValueError(f"reg must be a positive number, got {reg!r}.")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter!r}.")
    if not tol >= 0:
        raise ValueError(f"tol must not be negative, got {tol!r}.")
    if grad not in _GRADS:
        raise ValueError(f"grad must be one of {_GRADS}, got {grad!r}.")


def _check_mask(mask: Tensor | None, C: Tensor) -> Tensor | None:
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


def _mass(rows: Any, columns: Any) -> Any:
    """Total mass of each problem, (…, 1, 1), which both marginals must agree on."""
    mass, other = rows.sum(-2)[..., None], columns.sum(-2)[..., None]
    if not bool((mass > 0).all()) or not bool((abs(mass - other) <= 1e-6 * mass).all()):
        raise ValueError(
            "a and b must have the same positive sum, "
            f"got {mass.reshape(-1).tolist()} and {other.reshape(-1).tolist()}."
        )
    return mass


def _check_masks(blocked: Any, rows: Any, columns: Any) -> None:
    *batch, S, K = blocked.shape

    def problems(x: Any, *end: int) -> Any:
        x = torch.as_tensor(x).detach().cpu().numpy()
        return np.broadcast_to(x, (*batch, *end)).reshape(-1, *end)

    parts = problems(blocked, S, K), problems(rows[..., 0], S), problems(columns[..., 0], K)
    for problem in zip(*parts, strict=True):
        check_feasible(*problem)
