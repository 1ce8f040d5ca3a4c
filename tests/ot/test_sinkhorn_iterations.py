import numpy as np
import pytest
import torch

from hotview.ot.sinkhorn_iterations import (
    MASKED,
    _add_logs,
    _multiply,
    _Problem,
    plan_of,
    scale_to_marginals,
)


def problem(xp, S=5, K=4, spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    L = spread * rng.random((S, K))
    a, b = np.full((S, 1), 1 / S), np.full((K, 1), 1 / K)
    return [x if xp is np else torch.tensor(x) for x in (L, a, b)]


@pytest.mark.parametrize("xp", (np, torch))
def test_factors_and_logarithms_take_the_same_steps(xp):
    L, a, b = problem(xp)
    start = xp.zeros_like(a), xp.zeros_like(b)
    p = _Problem(xp, L, a, b, symmetric=False)
    fast, slow = _multiply(p, *start, 7, 0.0), _add_logs(p, *start, 7)
    for x, y in zip(fast[:2], slow[:2], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    assert fast[3] == slow[3] == 7
    assert fast[2] >= slow[2]  # the fast way reports the error of one step before


def test_numpy_and_torch_agree():
    results = []
    for xp in (np, torch):
        L, a, b = problem(xp)
        s = scale_to_marginals(xp, L, a, b, symmetric=False, max_iter=500, tol=1e-10)
        results.append(np.asarray(plan_of(xp, L, s.phi, s.psi)))
    np.testing.assert_allclose(*results, atol=1e-12)


@pytest.mark.parametrize("spread", (1e3, 1e6, 1e9))
def test_a_steep_kernel_is_reached_by_annealing(spread):
    L, a, b = problem(np, spread=spread)
    with np.errstate(all="ignore"):
        s = scale_to_marginals(np, L, a, b, symmetric=False, max_iter=2000, tol=1e-6)
    W = plan_of(np, L, s.phi, s.psi)
    assert s.n_iter < 2000
    np.testing.assert_allclose(W.sum(1), 1 / 5, atol=1e-6)
    np.testing.assert_allclose(W.sum(0), 1 / 4, atol=1e-6)


def test_extreme_factors_are_refused_by_the_fast_way():
    L, a, b = problem(np, spread=1e6)
    with np.errstate(all="ignore"):
        assert (
            _multiply(_Problem(np, L, a, b, False), np.zeros_like(a), np.zeros_like(b), 1, 0.0)
            is None
        )


def test_a_masked_kernel_is_exactly_zero():
    assert np.exp(MASKED) == 0
    assert np.isfinite(MASKED + 1e18)


def test_never_more_iterations_than_asked():
    L, a, b = problem(np, spread=1e4)
    for max_iter in (1, 7, 20, 33):
        with np.errstate(all="ignore"):
            s = scale_to_marginals(np, L, a, b, symmetric=False, max_iter=max_iter, tol=0.0)
        assert s.n_iter == max_iter
