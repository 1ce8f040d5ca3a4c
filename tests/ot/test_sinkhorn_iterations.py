import numpy as np
import pytest
import torch

from hotview.ot.sinkhorn_iterations import (
    MASKED,
    LogProblem,
    _log_step,
    _measure,
    _scaling_block,
    initial_potentials,
    iterate,
    plan_from_potentials,
)


def problem(xp, S=5, K=4, spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    L = spread * rng.random((S, K))
    a, b = np.full((S, 1), 1 / S), np.full((K, 1), 1 / K)
    return [x if xp is np else torch.tensor(x) for x in (L, a, b)]


def find_potentials(problem, max_iter, tol):
    return iterate(problem, initial_potentials(problem, max_iter), max_iter, tol)


@pytest.mark.parametrize("xp", (np, torch))
def test_scaling_and_log_domain_iterations_agree(xp):
    L, a, b = problem(xp)
    start = xp.zeros_like(a), xp.zeros_like(b)
    p = LogProblem(xp, L, a, b, symmetric=False)
    *fast, fast_error, made = _scaling_block(p, *start, 7, 0.0)
    slow = start
    for _ in range(7):
        slow = _log_step(p, slow[1])
    for x, y in zip(fast, slow, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    assert made == 7
    assert fast_error >= _measure(p, *slow)[2]  # the fast way reports the error of one step before


def test_numpy_and_torch_agree():
    results = []
    for xp in (np, torch):
        L, a, b = problem(xp)
        s = find_potentials(LogProblem(xp, L, a, b, False), 500, 1e-10)
        results.append(np.asarray(plan_from_potentials(xp, L, s.phi, s.psi)))
    np.testing.assert_allclose(*results, atol=1e-12)


@pytest.mark.parametrize("spread", (1e3, 1e6, 1e9))
def test_a_steep_kernel_is_reached_by_annealing(spread):
    L, a, b = problem(np, spread=spread)
    with np.errstate(all="ignore"):
        s = find_potentials(LogProblem(np, L, a, b, False), 2000, 1e-6)
    W = plan_from_potentials(np, L, s.phi, s.psi)
    assert s.n_iter < 2000
    np.testing.assert_allclose(W.sum(1), 1 / 5, atol=1e-6)
    np.testing.assert_allclose(W.sum(0), 1 / 4, atol=1e-6)


def test_scaling_returns_none_where_factors_overflow():
    L, a, b = problem(np, spread=1e6)
    start = np.zeros_like(a), np.zeros_like(b)
    with np.errstate(all="ignore"):
        assert _scaling_block(LogProblem(np, L, a, b, False), *start, 1, 0.0) is None


def test_a_masked_kernel_is_exactly_zero():
    assert np.exp(MASKED) == 0
    assert np.isfinite(MASKED + 1e18)


def test_max_iter_limits_the_iterations():
    L, a, b = problem(np, spread=1e4)
    for max_iter in (1, 7, 20, 33):
        with np.errstate(all="ignore"):
            s = find_potentials(LogProblem(np, L, a, b, False), max_iter, 0.0)
        assert s.n_iter == max_iter
