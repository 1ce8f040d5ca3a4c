import math
from importlib import import_module

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview.ot import sinkhorn
from hotview.ot.sinkhorn_iterations import (
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

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def costs(S=6, K=4, seed=0, dtype=torch.float64):
    return torch.rand(S, K, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def symmetric_costs(S=6, seed=0):
    C = costs(S, S, seed)
    return C + C.T


def eye(S):
    return torch.eye(S, dtype=torch.bool)


def marginals(n, seed):
    x = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1
    return x / x.sum()


@pytest.mark.parametrize("reg", (1.0, 0.1, 0.01))
@pytest.mark.parametrize("device", DEVICES)
def test_equals_pot(reg, device):
    C, a, b = costs(), marginals(6, 1), marginals(4, 2)
    expected = ot.bregman.sinkhorn_log(a, b, C, reg, stopThr=1e-12, numItermax=20_000)
    plan = sinkhorn(C.to(device), a.to(device), b.to(device), reg=reg, tol=1e-11, max_iter=20_000)
    assert plan.converged
    assert plan.W.device.type == device
    torch.testing.assert_close(plan.W.cpu(), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grad", ("envelope", "unroll"))
def test_everything_is_where_the_costs_are(device, grad):
    C = symmetric_costs().to(device).requires_grad_()
    options = {"reg": 0.2, "relative": True, "mask": eye(6), "grad": grad}
    plan = sinkhorn(C, **options)
    for tensor in (plan.W, plan.f, plan.g, plan.reg, plan.value):
        assert tensor.device == C.device
    plan.value.backward()
    assert C.grad.isfinite().all()
    again = sinkhorn(C, init=plan, **options)
    torch.testing.assert_close(again.W, plan.W, rtol=0, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_small_and_large_problems_go_different_ways_to_the_same_plan(device, monkeypatch):
    C = costs().to(device)
    small = sinkhorn(C, reg=0.1, tol=1e-10)
    module = import_module("hotview.ot.sinkhorn")  # hotview.ot.sinkhorn is the function
    monkeypatch.setattr(module, "_SMALL", 0)
    torch.testing.assert_close(small.W, sinkhorn(C, reg=0.1, tol=1e-10).W, rtol=0, atol=1e-9)


def test_tends_to_the_linear_program():
    C, a, b = costs(7, 5), marginals(7, 1), marginals(5, 2)
    best = ot.emd2(a.numpy(), b.numpy(), C.numpy())
    gaps = []
    for reg in (1e-2, 1e-3, 1e-4):
        plan = sinkhorn(C, a, b, reg=reg, tol=1e-9, max_iter=20_000)
        assert plan.converged
        gaps.append(plan.cost.item() - best)
    assert gaps[0] > gaps[1] > gaps[2] > -1e-9
    assert gaps[2] < 1e-4 * math.log(35)  # the entropy is worth at most reg · log(S K)


def test_two_by_two_closed_form():
    # W = [[x, ½ − x], [½ − x, x]] with x / (½ − x) = exp((C₀₁ − C₀₀) / reg).
    C = torch.tensor([[0.2, 0.7], [0.7, 0.2]], dtype=torch.float64)
    ratio = math.exp(0.5 / 0.3)
    x = ratio / (1 + ratio) / 2
    W = sinkhorn(C, reg=0.3, tol=1e-13).W
    expected = torch.tensor([[x, 0.5 - x], [0.5 - x, x]], dtype=torch.float64)
    torch.testing.assert_close(W, expected)


def test_independent_marginals_where_costs_say_nothing():
    a, b = marginals(6, 1), marginals(4, 2)
    plan = sinkhorn(torch.zeros(6, 4, dtype=torch.float64), a, b, reg=0.1)
    torch.testing.assert_close(plan.W, a.unsqueeze(1) * b)
    for relative in (False, True):
        W = sinkhorn(torch.zeros(4, 4), reg=0.1, relative=relative, mask=eye(4)).W
        torch.testing.assert_close(W, (~eye(4)).float() / 12)


def test_adding_to_rows_and_columns_changes_nothing():
    C = costs()
    shifted = C + marginals(6, 1).unsqueeze(1) + marginals(4, 2)
    torch.testing.assert_close(
        sinkhorn(C, reg=0.1, tol=1e-12).W, sinkhorn(shifted, reg=0.1, tol=1e-12).W
    )


def test_numbers_of_the_plan():
    C = costs().requires_grad_()
    plan = sinkhorn(C, reg=0.1, tol=1e-12)
    W = plan.W
    assert not W.requires_grad
    # It is the exponential of its potentials, and the gradient of its value.
    torch.testing.assert_close(W, torch.exp((plan.f.unsqueeze(1) + plan.g - plan.C) / plan.reg))
    torch.testing.assert_close(torch.autograd.grad(plan.value, C)[0], W)
    assert plan.cost.item() == pytest.approx((W * plan.C).sum().item())
    assert plan.entropy.item() == pytest.approx(-(W * W.log()).sum().item())
    assert plan.value.item() == pytest.approx((plan.cost - 0.1 * plan.entropy).item())
    # Duality: the value is ⟨f, a⟩ + ⟨g, b⟩ for a plan of mass 1.
    assert plan.value.item() == pytest.approx((plan.f.mean() + plan.g.mean()).item())


def test_relative_regularization_makes_the_scale_irrelevant():
    C = symmetric_costs()
    options = {"reg": 0.2, "relative": True, "tol": 1e-12}
    plan = sinkhorn(C, **options)
    torch.testing.assert_close(plan.W, sinkhorn(1000 * C, **options).W)
    torch.testing.assert_close(plan.W, sinkhorn(C, reg=0.2 * C.mean().item(), tol=1e-12).W)
    masked, loud = (sinkhorn(X, mask=eye(6), **options) for X in (C, C + 1e9 * torch.eye(6)))
    torch.testing.assert_close(masked.W, loud.W)
    assert masked.reg.item() == pytest.approx(0.2 * C[~eye(6)].mean().item())


@pytest.mark.parametrize(
    "C",
    (
        torch.full((3, 3), 1e38),
        torch.full((3, 3), 1e308, dtype=torch.float64),
        torch.full((30, 30), 1000.0, dtype=torch.float16),
        torch.full((3, 3), 1e-320, dtype=torch.float64),
    ),
    ids=("1e38", "1e308", "half", "1e-320"),
)
def test_relative_regularization_of_extreme_costs(C):
    for mask in (None, eye(len(C))):
        plan = sinkhorn(C, reg=0.1, relative=True, mask=mask)
        assert plan.converged
        assert plan.reg.isfinite()
        assert plan.W.sum().item() == pytest.approx(1, abs=1e-2)


def test_masked_entries_are_exactly_zero_even_where_the_cost_is_not_finite():
    C = symmetric_costs()
    C.fill_diagonal_(math.inf)
    plan = sinkhorn(C, reg=0.05, mask=eye(6))
    assert plan.converged
    assert torch.equal(plan.W.diagonal(), torch.zeros(6, dtype=torch.float64))
    assert math.isfinite(plan.value.item())


def test_mask_equals_a_prohibitive_cost():
    C = costs()
    mask = C > 0.7
    W = sinkhorn(C.masked_fill(mask, 50.0), reg=0.1, tol=1e-10, max_iter=5000).W
    masked = sinkhorn(C, reg=0.1, mask=mask, tol=1e-10, max_iter=5000).W
    torch.testing.assert_close(masked, W, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("S", "reg"), ((2, 0.02), (3, 1.0), (6, 0.02), (12, 1.0)))
def test_symmetric_problems_have_symmetric_plans(S, reg):
    plan = sinkhorn(symmetric_costs(S), reg=reg, mask=eye(S), tol=1e-9, max_iter=5000)
    assert plan.symmetric
    assert plan.converged
    assert torch.equal(plan.W, plan.W.T)
    if S <= 3:  # then weights are equal
        expected = (~eye(S)).double() / (S * (S - 1))
        torch.testing.assert_close(plan.W, expected, rtol=0, atol=1e-8)
    alone = sinkhorn(  # a marginal that differs in the last digits turns the symmetric way off
        symmetric_costs(S),
        torch.full((S,), 1 / S).double() * (1 + 1e-12),
        reg=reg,
        mask=eye(S),
        tol=1e-9,
        max_iter=5000,
    )
    torch.testing.assert_close(plan.W, alone.W, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("scale", "reg", "dtype", "S"),
    (
        *((0.0, 1e-3, torch.float32, 2), (0.0, 1e3, torch.float64, 6)),
        *((1e-6, 1e-3, torch.float64, 6), (1e-6, 1e3, torch.float32, 2)),
        *((1.0, 1e-3, torch.float32, 6), (1e6, 1e-3, torch.float32, 6)),
        *((1e6, 1.0, torch.float64, 2), (-1e6, 1e-3, torch.float64, 6)),
        *((1e15, 1e-3, torch.float64, 6), (1e15, 1.0, torch.float32, 2)),
        *((1e15, 1e-3, torch.float32, 6), (-1e6, 1.0, torch.float32, 2)),
    ),
)
def test_never_nan(scale, reg, dtype, S):
    for C, mask in (
        (costs(S, 4, dtype=dtype), None),
        (symmetric_costs(S).to(dtype), eye(S)),
        (symmetric_costs(S).to(dtype), None),
    ):
        plan = sinkhorn(C * scale, reg=reg, mask=mask, max_iter=5000)
        assert plan.converged, plan
        assert torch.isfinite(plan.W).all()
        assert (plan.W >= 0).all()
        assert plan.W.sum().item() == pytest.approx(1, abs=1e-5)
        assert torch.isfinite(plan.value)


@settings(max_examples=40, deadline=None)
@given(
    S=st.integers(1, 8),
    K=st.integers(1, 8),
    size=st.floats(-8, 8),
    reg=st.floats(-4, 3),
    seed=st.integers(0, 1000),
)
def test_marginals_are_met_or_the_plan_is_not_converged(S, K, size, reg, seed):
    a, b = marginals(S, seed), marginals(K, seed + 1)
    plan = sinkhorn(costs(S, K, seed) * 10**size, a, b, reg=10**reg)
    assert torch.isfinite(plan.W).all()
    error = max((plan.W.sum(1) - a).abs().sum().item(), (plan.W.sum(0) - b).abs().sum().item())
    assert plan.marginal_error.item() == pytest.approx(error, abs=1e-12)
    assert plan.converged == (error <= 1e-6)


def test_views_without_mass():
    a = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)
    b = torch.tensor([0.0, 1.0], dtype=torch.float64)
    plan = sinkhorn(costs(3, 2), a, b, reg=0.1)
    expected = torch.tensor([[0, 0.5], [0, 0], [0, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(plan.W, expected)
    assert torch.equal(plan.W == 0, expected == 0)
    assert math.isfinite(plan.value.item())
    assert torch.isfinite(plan.f).all()
    assert torch.isfinite(plan.g).all()
    again = sinkhorn(costs(3, 2) + 0.1, a, b, reg=0.1, init=plan)
    torch.testing.assert_close(again.W, expected)


def test_masses_other_than_one():
    a, b = 10 * marginals(6, 1), 10 * marginals(4, 2)
    plan = sinkhorn(costs(), a, b, reg=0.1, tol=1e-12)
    torch.testing.assert_close(plan.W.sum(1), a)
    torch.testing.assert_close(
        plan.W / 10, sinkhorn(costs(), a / 10, b / 10, reg=0.1).W, rtol=0, atol=1e-6
    )


def test_batches_are_separate_problems():
    C = torch.stack([costs(seed=s) * 10**s for s in range(4)]).reshape(2, 2, 6, 4)
    a = torch.stack([marginals(6, s) for s in range(4)]).reshape(2, 2, 6)
    plan = sinkhorn(C, a, reg=0.1, relative=True, tol=1e-10)
    assert plan.cost.shape == plan.marginal_error.shape == plan.reg.shape == (2, 2)
    for i in np.ndindex(2, 2):
        alone = sinkhorn(C[i], a[i], reg=0.1, relative=True, tol=1e-10)
        torch.testing.assert_close(plan.W[i], alone.W, rtol=0, atol=1e-9)
        torch.testing.assert_close(plan.value[i], alone.value)


def test_a_warm_start_ends_at_once():
    C = costs()
    cold = sinkhorn(C, reg=0.02, tol=1e-9, max_iter=5000)
    warm = sinkhorn(C + 1e-6, reg=0.02, tol=1e-9, init=cold)
    assert warm.n_iter == 10 < cold.n_iter
    torch.testing.assert_close(warm.W, cold.W, rtol=0, atol=1e-8)


@pytest.mark.parametrize("size", (1.0, 60.0))  # as steep as exp can be without logarithms
def test_twenty_iterations_are_twenty_iterations(size):
    C, a, b = size * costs(), marginals(6, 1), marginals(4, 2)
    u, v = torch.ones(6, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    K = torch.exp(-C / 0.1)
    for _ in range(20):
        u = a / (K @ v)
        v = b / (K.T @ u)
    plan = sinkhorn(C, a, b, reg=0.1, max_iter=20, tol=0.0)
    assert plan.n_iter == 20
    assert not plan.converged
    torch.testing.assert_close(plan.W, u.unsqueeze(1) * K * v)


@pytest.mark.parametrize(
    ("grad", "relative", "masked"),
    (
        *(("envelope", False, False), ("envelope", True, True)),
        *(("unroll", True, False), ("unroll", False, True), ("envelope", True, False)),
    ),
)
def test_gradient_of_the_value(grad, relative, masked):
    C = costs(4, 4 if masked else 3).requires_grad_()

    def value(C):
        if masked:
            C = (C + C.T) / 2
        options = {"reg": 0.3, "relative": relative, "tol": 1e-13, "grad": grad}
        return sinkhorn(C, mask=eye(4) if masked else None, **options).value

    assert torch.autograd.gradcheck(value, (C,))


def test_unrolled_gradient_of_the_plan_and_of_the_marginals():
    C, a = costs(4, 3).requires_grad_(), marginals(4, 1).requires_grad_()

    def W(C, a):
        options = {"reg": 0.3, "tol": 1e-13, "grad": "unroll"}
        return sinkhorn(C, a / a.sum(), **options).W

    assert torch.autograd.gradcheck(W, (C, a))


def test_inputs_are_left_alone():
    C, a, mask = symmetric_costs(), marginals(6, 0), eye(6)
    copies = [x.clone() for x in (C, a, mask)]
    sinkhorn(C, a, a, reg=0.1, mask=mask)
    assert all(torch.equal(x, y) for x, y in zip(copies, (C, a, mask), strict=True))


def bad_inputs():
    C = costs()
    bad = C.clone()
    bad[0, 0] = math.nan
    quarter = torch.full((4,), 0.25)
    row = torch.zeros(6, 4, dtype=torch.bool)
    row[2] = True
    return {
        "numpy": ((np.zeros((2, 2)),), {}, TypeError, "floating-point tensor"),
        "integers": ((torch.zeros(2, 2, dtype=torch.int64),), {}, TypeError, "floating-point"),
        "vector": ((C[0],), {}, ValueError, "shape"),
        "empty": ((C[:0],), {}, ValueError, "S, K ≥ 1"),
        "NaN": ((bad,), {}, ValueError, "C must be finite; use mask"),
        "infinity": ((C / 0,), {}, ValueError, "C must be finite"),
        "reg 0": ((C,), {"reg": 0.0}, ValueError, "reg to be a positive"),
        "reg NaN": ((C,), {"reg": math.nan}, ValueError, "reg to be a positive"),
        "max_iter": ((C,), {"max_iter": 0}, ValueError, "max_iter to be a whole"),
        "tol": ((C,), {"tol": -1.0}, ValueError, "tol must not be negative"),
        "grad": ((C,), {"grad": "implicit"}, ValueError, "'envelope', 'unroll'"),
        "a length": ((C, quarter), {}, ValueError, r"a must be a tensor of shape \(6,\)"),
        "a batch": ((C.expand(3, 6, 4), torch.ones(2, 6)), {}, ValueError, r"\(3, 6\).*\(2, 6\)"),
        "init type": ((C,), {"init": C}, ValueError, "init must be a Plan"),
        "negative": ((C, None, quarter - 0.5), {}, ValueError, "b must be finite and non-neg"),
        "sums": ((C, None, 2 * quarter), {}, ValueError, "same positive sum"),
        "a grad": ((C, torch.full((6,), 1 / 6).requires_grad_()), {}, ValueError, "unroll"),
        "mask type": ((C,), {"mask": torch.zeros(6, 4)}, TypeError, "tensor of bool"),
        "mask shape": ((C,), {"mask": eye(4)}, ValueError, r"mask must have the shape of C"),
        "full row": ((C,), {"mask": row}, ValueError, "row 2 must send out"),
        "one view": ((C[:1, :1],), {"mask": eye(1)}, ValueError, "leaves no plan"),
        "init shape": ((C,), {"init": sinkhorn(C[:2], reg=1.0)}, ValueError, "init must be a Plan"),
    }


@pytest.mark.parametrize("case", bad_inputs())
def test_bad_inputs_say_what_to_do(case):
    arguments, options, error, message = bad_inputs()[case]
    with pytest.raises(error, match=message):
        sinkhorn(*arguments, **{"reg": 0.1, **options})


def problem(spread=3.0):
    L = spread * np.random.default_rng(0).random((5, 4))
    return LogProblem(np, L, np.full((5, 1), 1 / 5), np.full((4, 1), 1 / 4), symmetric=False)


def test_scaling_and_log_domain_iterations_agree():
    p = problem()
    start = np.zeros_like(p.a), np.zeros_like(p.b)
    *fast, fast_error, made = _scaling_block(p, *start, 7, 0.0)
    slow = start
    for _ in range(7):
        slow = _log_step(p, slow[1])
    for x, y in zip(fast, slow, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    assert made == 7
    assert fast_error >= _measure(p, *slow)[2]  # that of one step before


def test_the_slope_of_the_dual_is_what_columns_lack():
    """d/dψ of a·φ(ψ) + b·ψ, with φ such that rows sum to a, is b minus the column sums."""
    p, psi = problem(), np.random.default_rng(1).normal(size=(4, 1))

    def dual(psi):
        return _dual(p, _meet_rows(np, p.L, psi, p.a), psi).item()

    column = plan_from_potentials(np, p.L, _meet_rows(np, p.L, psi, p.a), psi).sum(axis=0)
    steps = 1e-6 * np.eye(4)[:, :, None]
    slope = [(dual(psi + h) - dual(psi - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(slope, p.b.ravel() - column, atol=1e-8)


@pytest.mark.parametrize("spread", (3.0, 60.0))
def test_a_newton_step_never_lowers_the_dual_and_ends_quadratically(spread):
    p, errors, values = problem(spread), [], []
    psi = np.zeros_like(p.b)
    for _ in range(40):
        phi, psi = _newton_step(p, psi)
        values.append(_dual(p, phi, psi).item())
        errors.append(_measure(p, phi, psi)[2])
    assert (np.diff(values) > -1e-9).all()
    assert errors[-1] < 1e-12


def test_up_to_a_limit_all_iterations_are_those_of_sinkhorn():
    """However sharp the plan is: as many as the paper makes are the paper's."""
    p = problem(2000.0)
    found, faster = (iterate(p, initial_potentials(p, n), n, 0.0) for n in (PLAIN, PLAIN + 50))
    psi = np.zeros_like(p.b)
    for _ in range(PLAIN):
        phi, psi = _log_step(p, psi)
    W, plain = (plan_from_potentials(np, p.L, *x) for x in ((found.phi, found.psi), (phi, psi)))
    assert found.n_iter == PLAIN
    np.testing.assert_allclose(W, plain, rtol=1e-6, atol=1e-12)
    assert _measure(p, faster.phi, faster.psi)[2] < 1e-3 * _measure(p, phi, psi)[2]


def test_the_number_of_iterations_is_the_one_allowed_wherever_it_ends():
    p = problem(50.0)
    for max_iter in (1, 7, 20, 33, *range(PLAIN + 1, PLAIN + 24)):
        found = iterate(p, Potentials(0 * p.a, 0 * p.b), max_iter, -1.0)
        assert found.n_iter == max_iter
        assert np.isfinite(found.phi).all()
