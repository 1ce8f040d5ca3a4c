import numpy as np
import pytest
import torch

from hotview.ot.sinkhorn_iterations import (
    MASKED,
    PLAIN,
    LogProblem,
    Potentials,
    _dual,
    _log_step,
    _measure,
    _meet_rows,
    _newton_step,
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


def test_the_slope_of_the_dual_is_what_columns_lack():
    """d/dψ of a·φ(ψ) + b·ψ, with φ such that rows sum to a, is b minus the column sums."""
    L, a, b = problem(np)
    p, psi = LogProblem(np, L, a, b, False), np.random.default_rng(1).normal(size=(4, 1))

    def dual(psi):
        return _dual(p, _meet_rows(np, L, psi, a), psi).item()

    column = plan_from_potentials(np, L, _meet_rows(np, L, psi, a), psi).sum(axis=0)
    steps = 1e-6 * np.eye(4)[:, :, None]
    slope = [(dual(psi + h) - dual(psi - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(slope, b.ravel() - column, atol=1e-8)


@pytest.mark.parametrize("spread", (3.0, 60.0))
def test_a_newton_step_never_lowers_the_dual_and_ends_quadratically(spread):
    L, a, b = problem(np, spread=spread)
    p, psi, errors, values = LogProblem(np, L, a, b, False), np.zeros_like(b), [], []
    for _ in range(40):
        phi, psi = _newton_step(p, psi)
        values.append(_dual(p, phi, psi).item())
        errors.append(_measure(p, phi, psi)[2])
    assert (np.diff(values) > -1e-9).all()
    assert errors[-1] < 1e-12


def test_up_to_a_limit_all_iterations_are_those_of_sinkhorn():
    """However sharp the plan is: as many as the paper makes are the paper's."""
    L, a, b = problem(np, spread=2000.0)
    p = LogProblem(np, L, a, b, False)
    found = find_potentials(p, PLAIN, 0.0)
    psi = np.zeros_like(b)
    for _ in range(PLAIN):
        phi, psi = _log_step(p, psi)
    W, plain = (plan_from_potentials(np, L, *x) for x in ((found.phi, found.psi), (phi, psi)))
    assert found.n_iter == PLAIN
    np.testing.assert_allclose(W, plain, rtol=1e-6, atol=1e-12)
    faster = find_potentials(p, PLAIN + 50, 0.0)
    assert _measure(p, faster.phi, faster.psi)[2] < 1e-3 * _measure(p, phi, psi)[2]


@pytest.mark.parametrize("max_iter", range(PLAIN + 1, PLAIN + 24))
def test_the_number_of_iterations_is_the_one_allowed_wherever_it_ends(max_iter):
    p = LogProblem(np, *problem(np, spread=50.0), False)
    found = iterate(p, Potentials(0 * p.a, 0 * p.b), max_iter, -1.0)
    assert found.n_iter == max_iter
    assert np.isfinite(found.phi).all()
