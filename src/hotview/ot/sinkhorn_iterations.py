"""Sinkhorn and Newton iterations, for small problems that are solved often.

The code uses operators and functions that numpy and torch share (`xp` is either module): for a
6 × 4 problem on the CPU a numpy call takes 1 µs and a torch call five times that, while CUDA and
unrolled gradients need torch.

All quantities are in units of the regularization: ``L = −C / reg``, ``phi = f / reg``, ``psi = g /
reg``, and the plan is ``exp(L + (phi + psi))``. Iterations run in blocks. A block iterates on
factors u, v of the current plan, two matrix products per iteration, and adds their logarithms to
phi and psi at its end. Where factors over- or underflow, the block is repeated in the log domain.
So nothing overflows, whatever L.

Sharp plans converge slowly. After some blocks, Newton steps are added: the problems are small, so
a step is cheap, and near the solution each step doubles the number of correct digits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]

# Log-kernel of a masked entry. Finite, because ∞ − ∞ is NaN; its exponential is exactly 0.
MASKED = -1e100
BLOCK = 10  # iterations between two checks of the marginals
_STEEP = 200.0  # annealing starts if the log-kernel varies by more than this
PLAIN = 100  # up to this max_iter, all iterations are Sinkhorn's
_PATIENCE = 30  # iterations before the first Newton step
_DAMPING = 1e-4  # times the error, added to the Hessian, which may be nearly singular
_HALVINGS = 30  # of a Newton step that is too long
_SOLVED = 1e-9  # marginal error below which the length of a Newton step is not checked
_ROUGH = 1e-2  # marginal error at which annealing goes on to the next stage


class Potentials(NamedTuple):
    """Potentials (…, S, 1) and (…, K, 1), in units of the regularization."""

    phi: Any
    psi: Any
    n_iter: int = 0


class LogProblem(NamedTuple):
    """Log-kernel (…, S, K) and marginals (…, S, 1), (…, K, 1)."""

    xp: Any
    L: Any
    a: Any
    b: Any
    symmetric: bool


def plan_from_potentials(xp: Any, L: Any, phi: Any, psi: Any) -> Any:
    """``exp(L + (phi + psi))``: exactly symmetric where L is and phi = psi."""
    return xp.exp(L + (phi + psi.swapaxes(-1, -2)))


def initial_potentials(problem: LogProblem, max_iter: int) -> Potentials:
    """Potentials to start from: of a plan whose largest entry is 1, or of annealed problems.

    The number of Sinkhorn iterations grows with the range of the log-kernel; with a sharpness that
    doubles from a smooth problem to this one, it grows with the logarithm.
    """
    xp, L, a, b, _ = problem
    top, low = L.max(), L.min()
    if low == MASKED:
        low = xp.where(L == MASKED, top, L).min()
    state = Potentials(0 * a - top / 2, 0 * b - top / 2)
    sharpness = 1.0
    while max_iter > PLAIN and (top - low).item() * sharpness > _STEEP:
        sharpness /= 2
    while sharpness < 1 and state.n_iter < max_iter // 2:
        smooth = problem._replace(L=xp.where(L == MASKED, MASKED, L * sharpness))
        scaled = state._replace(phi=state.phi * sharpness, psi=state.psi * sharpness)
        solved = iterate(smooth, scaled, max_iter // 2, _ROUGH)
        state = solved._replace(phi=solved.phi / sharpness, psi=solved.psi / sharpness)
        sharpness *= 2
    return state


def iterate(problem: LogProblem, state: Potentials, max_iter: int, tol: float) -> Potentials:
    """Iterate until ``exp(L + phi + psi)`` has marginals `a` and `b` to within `tol`.

    With `symmetric` (L = Lᵀ, a = b) phi and psi are kept equal, so the plan is symmetric.
    """
    phi, psi, n_iter, error = *state, float("inf")
    patience = n_iter + (_PATIENCE if max_iter > PLAIN else max_iter)
    while error > tol and n_iter < max_iter:
        if n_iter >= patience:
            phi, psi, error = _measure(problem, *_newton_step(problem, psi))
            n_iter += 1
        steps = min(BLOCK if n_iter >= patience else patience - n_iter, max_iter - n_iter)
        if error <= tol or steps <= 0:
            break
        if block := _scaling_block(problem, phi, psi, steps, tol):
            phi, psi, error, made = block
        else:
            made = min(BLOCK, steps)
            for _ in range(made):
                phi, psi = _log_step(problem, psi)
            phi, psi, error = _measure(problem, phi, psi)
        n_iter += made
    return Potentials(phi, psi, n_iter)


def _scaling_block(
    problem: LogProblem, phi: Any, psi: Any, steps: int, tol: float
) -> tuple[Any, Any, float, int] | None:
    """Iterate on factors of the plan; None where these over- or underflow."""
    xp, L, a, b, symmetric = problem
    K = plan_from_potentials(xp, L, phi, psi)
    scale = _scale_in_place if isinstance(K, np.ndarray) and K.ndim == 2 else _scale
    u, v, error, made = scale(K, a, b, steps, tol)
    if symmetric:
        u = v = xp.sqrt(u * v)
        error = abs(u * (K @ v) - a).sum(-2).max().item()
    log_u, log_v = xp.log(u), xp.log(v)
    if not (abs(log_u).max() < xp.inf and abs(log_v).max() < xp.inf):  # infinite, or NaN
        return None
    return phi + log_u, psi + log_v, error, made


def _scale(K: Any, a: Any, b: Any, steps: int, tol: float) -> tuple[Any, Any, float, int]:
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


def _scale_in_place(
    K: _Array, a: _Array, b: _Array, steps: int, tol: float
) -> tuple[_Array, _Array, float, int]:
    """`_scale` for one problem in numpy, in half the time: calls dominate."""
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


def _log_step(problem: LogProblem, psi: Any) -> tuple[Any, Any]:
    """One Sinkhorn iteration in the log domain."""
    xp, L, a, b, _ = problem
    phi = _meet_rows(xp, L, psi, a)
    return phi, _meet_rows(xp, L.swapaxes(-1, -2), phi, b)


def _newton_step(problem: LogProblem, psi: Any) -> tuple[Any, Any]:
    """One damped Newton step on the dual, a function of psi with phi eliminated."""
    xp, L, a, b, _ = problem
    phi = _meet_rows(xp, L, psi, a)
    W = plan_from_potentials(xp, L, phi, psi)
    column = W.sum(-2)[..., None]
    slack = b - column
    error = abs(slack).sum(-2)[..., None]
    K = b.shape[-2]
    eye = xp.eye(K) if isinstance(b, np.ndarray) else xp.eye(K).to(b)
    # The Hessian is the Laplacian of a graph of columns. Constants are in its null space and change
    # nothing; a multiple of the matrix of ones makes it invertible.
    hessian = (column + _DAMPING / K * error) * eye - W.swapaxes(-1, -2) @ (W / a) + 1 / K**2
    step = xp.linalg.solve(hessian, slack)
    dual = _dual(problem, phi, psi)
    share = xp.ones_like(error)
    for _ in range(_HALVINGS):
        new_psi = psi + share * step
        new_phi = _meet_rows(xp, L, new_psi, a)
        gain = _dual(problem, new_phi, new_psi) - dual
        too_long = gain < 1e-4 * share * (slack * step).sum(-2)[..., None]
        too_long &= error > _SOLVED  # at a solution, rounding dominates the gain
        if not too_long.any():
            break
        share = xp.where(too_long, share / 2, share)
    return new_phi, new_psi


def _dual(problem: LogProblem, phi: Any, psi: Any) -> Any:
    return (problem.a * phi).sum(-2)[..., None] + (problem.b * psi).sum(-2)[..., None]


def _meet_rows(xp: Any, L: Any, psi: Any, a: Any) -> Any:
    """Return the phi with which the rows sum to `a`: ``log a − logsumexp(L + psi)``."""
    x = L + psi.swapaxes(-1, -2)
    top = xp.amax(x, -1)[..., None]
    return xp.log(a) - (xp.log(xp.exp(x - top).sum(-1)[..., None]) + top)


def _measure(problem: LogProblem, phi: Any, psi: Any) -> tuple[Any, Any, float]:
    """Symmetrize the potentials of a symmetric problem, and return the larger marginal error."""
    xp, L, a, b, symmetric = problem
    if symmetric:
        phi = psi = (phi + psi) / 2
    W = plan_from_potentials(xp, L, phi, psi)
    rows = abs(W.sum(-1)[..., None] - a).sum(-2).max().item()
    columns = abs(W.sum(-2)[..., None] - b).sum(-2).max().item()
    return phi, psi, max(rows, columns)
