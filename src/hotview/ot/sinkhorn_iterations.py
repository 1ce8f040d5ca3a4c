"""Sinkhorn's iterations, for small problems solved often.

The loop is written in operators and functions that numpy and torch share (`xp` is either module):
a 6 × 4 problem on the CPU takes 1 µs per numpy call and five times that in torch, while CUDA and
unrolled gradients need torch.

Everything is in units of the regularization: ``L = −C / reg``, ``phi = f / reg``, ``psi = g / reg``
and the plan is ``exp(L + (phi + psi))``. Iterations run in blocks. A block multiplies by factors
u, v around the current plan, two matrix products an iteration, and takes the logarithms of the
factors into phi and psi at its end. Where factors over- or underflow, the block is done again in
logarithms throughout. So nothing here overflows, whatever L.

Sharp plans make these iterations crawl. What is not done after some blocks gets Newton steps too:
the problems are small, so a step costs little, and near the solution each doubles the digits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK", "MASKED", "PLAIN", "Scaling", "plan_of", "scale_to_marginals"]

_Array = NDArray[np.float64]

# The log-kernel of a masked entry. Finite, since ∞ − ∞ is NaN; its exponential is exactly 0.
MASKED = -1e100
BLOCK = 10  # iterations between two looks at the marginals
_STEEP = 200.0  # a log-kernel spread over more than this is reached by annealing
PLAIN = 100  # who asks for no more iterations than this gets Sinkhorn's and no others
_PATIENCE = 30  # iterations before the first Newton step
_DAMPING = 1e-4  # added to the Hessian, times the error, to hold steps where it is nearly singular
_HALVINGS = 30  # of a Newton step that goes too far
_SOLVED = 1e-9  # marginal error below which no Newton step is judged
_ROUGH = 1e-2  # marginal error at which the annealing goes on to the next stage


class Scaling(NamedTuple):
    """Potentials (…, S, 1) and (…, K, 1), in units of the regularization."""

    phi: Any
    psi: Any
    n_iter: int = 0


class _Problem(NamedTuple):
    """Log-kernel (…, S, K) and marginals (…, S, 1), (…, K, 1)."""

    xp: Any
    L: Any
    a: Any
    b: Any
    symmetric: bool


def plan_of(xp: Any, L: Any, phi: Any, psi: Any) -> Any:
    """``exp(L + (phi + psi))``: exactly symmetric where L is and phi = psi."""
    return xp.exp(L + (phi + psi.swapaxes(-1, -2)))


def scale_to_marginals(
    xp: Any,
    L: Any,
    a: Any,
    b: Any,
    *,
    symmetric: bool,
    max_iter: int,
    tol: float,
    init: tuple[Any, Any] | None = None,
) -> Scaling:
    """Find phi, psi such that ``exp(L + phi + psi)`` has marginals `a` (…, S, 1), `b` (…, K, 1).

    With `symmetric` (L = Lᵀ, a = b) phi and psi are kept equal, so the plan is symmetric.
    """
    problem = _Problem(xp, L, a, b, symmetric)
    if init is not None:
        return _iterate(problem, Scaling(*init), max_iter, tol)
    top, low = L.max(), L.min()
    if low == MASKED:
        low = xp.where(L == MASKED, top, L).min()
    # Start from a plan whose largest entry is 1.
    state = Scaling(0 * a - top / 2, 0 * b - top / 2)
    sharpness = 1.0 if max_iter <= PLAIN else _first_sharpness((top - low).item())
    while sharpness < 1 and state.n_iter < max_iter // 2:
        soft = problem._replace(L=xp.where(L == MASKED, MASKED, L * sharpness))
        scaled = state._replace(phi=state.phi * sharpness, psi=state.psi * sharpness)
        done = _iterate(soft, scaled, max_iter // 2, _ROUGH)
        state = done._replace(phi=done.phi / sharpness, psi=done.psi / sharpness)
        sharpness *= 2
    return _iterate(problem, state, max_iter, tol)


def _first_sharpness(spread: float) -> float:
    """Power of two at which the kernel is smooth.

    From nothing, Sinkhorn needs as many iterations as the log-kernel is steep; doubling its
    sharpness from smooth to steep needs their logarithm.
    """
    sharpness = 1.0
    while spread * sharpness > _STEEP:
        sharpness /= 2
    return sharpness


def _iterate(problem: _Problem, state: Scaling, max_iter: int, tol: float) -> Scaling:
    phi, psi, n_iter, error = *state, float("inf")
    patience = n_iter + (_PATIENCE if max_iter > PLAIN else max_iter)
    while error > tol and n_iter < max_iter:
        if n_iter >= patience:
            phi, psi, error = _newton(problem, psi)
            n_iter += 1
        steps = min(BLOCK if n_iter >= patience else patience - n_iter, max_iter - n_iter)
        if error <= tol or steps <= 0:
            break
        block = _multiply(problem, phi, psi, steps, tol) or _add_logs(problem, phi, psi, steps)
        phi, psi, error, made = block
        n_iter += made
    return Scaling(phi, psi, n_iter)


def _multiply(
    problem: _Problem, phi: Any, psi: Any, steps: int, tol: float
) -> tuple[Any, Any, float, int] | None:
    """Iterate on factors of the plan; None where these over- or underflow."""
    xp, L, a, b, symmetric = problem
    K = plan_of(xp, L, phi, psi)
    sweep = _sweep_in_place if isinstance(K, np.ndarray) and K.ndim == 2 else _sweep
    u, v, error, made = sweep(K, a, b, steps, tol)
    if symmetric:
        u = v = xp.sqrt(u * v)
        error = abs(u * (K @ v) - a).sum(-2).max().item()
    log_u, log_v = xp.log(u), xp.log(v)
    if not (abs(log_u).max() < xp.inf and abs(log_v).max() < xp.inf):  # infinite, or NaN
        return None
    return phi + log_u, psi + log_v, error, made


def _sweep(K: Any, a: Any, b: Any, steps: int, tol: float) -> tuple[Any, Any, float, int]:
    """Iterate; the error is that of the columns before the last step, which only lowers it."""
    KT = K.swapaxes(-1, -2)
    v = b / b
    for made in range(1, steps + 1):
        u = a / (K @ v)
        column = KT @ u
        last, v = v, b / column
        if made % BLOCK == 0 or made == steps:
            error = abs(last * column - b).sum(-2).max().item()
            if error <= tol:
                break
    return u, v, error, made


def _sweep_in_place(
    K: _Array, a: _Array, b: _Array, steps: int, tol: float
) -> tuple[_Array, _Array, float, int]:
    """`_sweep` for one problem in numpy, where calls are all that costs: half as long."""
    K_times, KT_times, divide = K.dot, np.ascontiguousarray(K.T).dot, np.divide
    a, b = a[:, 0], b[:, 0]
    u, v, column = np.empty(len(a)), np.ones(len(b)), np.empty(len(b))
    for made in range(1, steps + 1):
        divide(a, K_times(v, u), u)
        KT_times(u, column)
        if made % BLOCK == 0 or made == steps:
            error = abs(v * column - b).sum()
            if error <= tol:
                break
        divide(b, column, v)
    return u[:, None], (b / column)[:, None], error, made


def _add_logs(problem: _Problem, phi: Any, psi: Any, steps: int) -> tuple[Any, Any, float, int]:
    """Iterate in logarithms, a block at most."""
    made = min(BLOCK, steps)
    for _ in range(made):
        phi = _balance_rows(problem, psi)
        psi = problem.xp.log(problem.b) - _logsumexp(
            problem.xp, problem.L.swapaxes(-1, -2) + phi.swapaxes(-1, -2)
        )
    return *_finish(problem, phi, psi), made


def _newton(problem: _Problem, psi: Any) -> tuple[Any, Any, float]:
    """One damped step of Newton's method on the dual, as a function of psi with phi following."""
    xp, L, a, b, _ = problem
    phi = _balance_rows(problem, psi)
    W = plan_of(xp, L, phi, psi)
    column = W.sum(-2)[..., None]
    slack = b - column
    error = abs(slack).sum(-2)[..., None]
    K = b.shape[-2]
    eye = xp.eye(K) if isinstance(b, np.ndarray) else xp.eye(K).to(b)
    # The Hessian is the Laplacian of a graph of columns. It does not see constants, which change
    # nothing; a multiple of the matrix of ones makes it invertible.
    hessian = (column + _DAMPING / K * error) * eye - W.swapaxes(-1, -2) @ (W / a) + 1 / K**2
    step = xp.linalg.solve(hessian, slack)
    dual = _dual(problem, phi, psi)
    share = xp.ones_like(error)
    for _ in range(_HALVINGS):
        new_psi = psi + share * step
        new_phi = _balance_rows(problem, new_psi)
        gain = _dual(problem, new_phi, new_psi) - dual
        short = gain < 1e-4 * share * (slack * step).sum(-2)[..., None]
        short &= error > _SOLVED  # of what is solved already, rounding decides the gain
        if not short.any():
            break
        share = xp.where(short, share / 2, share)
    return _finish(problem, new_phi, new_psi)


def _dual(problem: _Problem, phi: Any, psi: Any) -> Any:
    return (problem.a * phi).sum(-2)[..., None] + (problem.b * psi).sum(-2)[..., None]


def _balance_rows(problem: _Problem, psi: Any) -> Any:
    """Return the phi that makes row sums right."""
    xp, L, a, _, _ = problem
    return xp.log(a) - _logsumexp(xp, L + psi.swapaxes(-1, -2))


def _finish(problem: _Problem, phi: Any, psi: Any) -> tuple[Any, Any, float]:
    """Make symmetric what should be, and measure the worst error of both marginals."""
    xp, L, a, b, symmetric = problem
    if symmetric:
        phi = psi = (phi + psi) / 2
    W = plan_of(xp, L, phi, psi)
    rows = abs(W.sum(-1)[..., None] - a).sum(-2).max().item()
    columns = abs(W.sum(-2)[..., None] - b).sum(-2).max().item()
    return phi, psi, max(rows, columns)


def _logsumexp(xp: Any, x: Any) -> Any:
    """Over the last axis, kept."""
    top = xp.amax(x, -1)[..., None]
    return xp.log(xp.exp(x - top).sum(-1)[..., None]) + top
