import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from hotview.ot import sinkhorn, sliced_cost
from hotview.ot.sinkhorn import check_feasible


def bad_inputs():
    Z, theta = torch.randn(5, 3), torch.eye(3)
    nan = Z.clone()
    nan[3, 1] = math.nan
    inf = Z.clone()
    inf[0, 0] = math.inf
    two = [None, None]
    return {
        "no clouds": ([], None, theta, None, ValueError, "at least one cloud"),
        "no references": ([Z], [], theta, None, ValueError, "at least one cloud"),
        "numpy": ([np.zeros((5, 3))], None, theta, None, TypeError, r"Zs\[0\].*torch.as_tensor"),
        "empty": ([Z, Z[:0]], None, theta, None, ValueError, r"Zs\[1\].*\(0, 3\)"),
        "1-D": ([Z, Z[0]], None, theta, None, ValueError, r"Zs\[1\]"),
        "half": ([Z.half()], None, theta.half(), None, TypeError, "float32 or float64"),
        "dimension": ([Z, Z[:, :2]], None, theta, None, ValueError, r"Zs\[1\] has dimension 2"),
        "batch": (
            [Z.expand(2, 5, 3), Z.expand(3, 5, 3)],
            None,
            theta.expand(2, 3, 3),
            None,
            ValueError,
            "leading dimensions",
        ),
        "dtype": ([Z], [Z.double()], theta, None, ValueError, r"Gs\[0\] has dtype"),
        "device": ([Z.to("meta")], None, theta, None, ValueError, r"Zs\[0\] has device meta"),
        "NaN": ([Z, nan], None, theta, None, ValueError, r"Zs\[1\] holds NaN.*1 of 5.*row 3"),
        "NaN once": ([nan], [Z], theta, None, ValueError, r"Zs\[0\] holds NaN"),
        "NaN alone": ([nan], None, theta, None, ValueError, r"Zs\[0\] holds NaN"),
        "NaN unweighted": (
            [nan, Z],
            None,
            theta,
            [torch.tensor([1, 1, 1, 0, 1.0]), None],
            ValueError,
            "holds NaN",
        ),
        "infinity": ([Z], [inf], theta, None, ValueError, r"Gs\[0\] holds NaN or inf"),
        "direction": ([Z, Z], None, theta * math.nan, None, ValueError, "directions holds NaN"),
        "flat": ([Z], None, theta[0], None, ValueError, "draw_directions"),
        "overflow": ([1e30 * Z, Z], None, theta, None, OverflowError, "rescale"),
        "few weights": ([Z, Z], None, theta, [None], ValueError, "one entry .* 2 of them, got 1"),
        "weight shape": ([Z, Z], None, theta, [torch.ones(4), None], ValueError, r"\(5,\)"),
        "negative": ([Z, Z], None, theta, [-torch.ones(5), None], ValueError, "non-negative"),
        "zero": ([Z, Z], None, theta, [torch.zeros(5), None], ValueError, "not all zero"),
        "grad": ([Z], [Z], theta, [torch.ones(5, requires_grad=True), None], ValueError, "detach"),
        "fine": ([Z], [Z], theta, two, None, ""),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    (
        ({"p": 0.5}, "p must be at least 1"),
        ({"p": math.nan}, "p must be at least 1"),
        ({"reduction": "max"}, "'mean', 'sum'"),
    ),
)
def test_bad_options_say_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        sliced_cost([torch.randn(5, 3)] * 2, directions=torch.eye(3), **options)


@pytest.mark.parametrize("case", bad_inputs())
def test_bad_inputs_say_what_to_do(case):
    Zs, Gs, theta, weights, error, message = bad_inputs()[case]
    if error is None:
        sliced_cost(Zs, Gs, directions=theta, weights=weights)
        return
    with pytest.raises(error, match=message):
        sliced_cost(Zs, Gs, directions=theta, weights=weights)


def solvable(mask, a, b):
    """Ask a linear program in so many words: row sums, column sums, zero where masked."""
    S, K = mask.shape
    rows = np.kron(np.eye(S), np.ones(K))
    columns = np.kron(np.ones(S), np.eye(K))
    bounds = [(0, 0 if blocked else None) for blocked in mask.ravel()]
    result = linprog(
        np.zeros(S * K), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]), bounds=bounds
    )
    return result.status == 0


@settings(max_examples=40, deadline=None)
@given(S=st.integers(1, 5), K=st.integers(1, 5), seed=st.integers(0, 500))
def test_agrees_with_a_linear_program(S, K, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((S, K)) < 0.4
    a, b = (rng.integers(0, 5, n) + 1e-3 for n in (S, K))
    a, b = a / a.sum(), b / b.sum()
    W = np.where(mask, 0.0, rng.random((S, K)) ** 4)
    if W.any():  # marginals of a plan, whatever their rounding
        check_feasible(mask, W.sum(axis=1) / W.sum(), W.sum(axis=0) / W.sum())
    if solvable(mask, a, b):
        check_feasible(mask, a, b)
    else:
        with pytest.raises(ValueError, match="the mask leaves no plan"):
            check_feasible(mask, a, b)


def test_a_tolerance_of_0_is_allowed():
    plan = sinkhorn(torch.rand(4, 3), reg=1.0, tol=0.0, max_iter=30)
    torch.testing.assert_close(plan.W.sum(1), torch.full((4,), 0.25))
    with pytest.raises(ValueError, match="tol must not be negative"):
        sinkhorn(torch.rand(4, 3), reg=1.0, tol=-1e-9)
