import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from hotview.ot.feasible import check_feasible


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


@settings(max_examples=60, deadline=None)
@given(S=st.integers(1, 5), K=st.integers(1, 5), seed=st.integers(0, 500))
def test_agrees_with_a_linear_program(S, K, seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((S, K)) < 0.4
    a, b = (rng.integers(0, 5, n) + 1e-3 for n in (S, K))
    a, b = a / a.sum(), b / b.sum()
    if solvable(mask, a, b):
        check_feasible(mask, a, b)
    else:
        with pytest.raises(ValueError, match="the mask leaves no plan"):
            check_feasible(mask, a, b)


def test_names_the_row_that_cannot_send():
    a = np.array([0.6, 0.2, 0.2])
    with pytest.raises(ValueError, match=r"row 0 must send out 0.6.*take only 0.4"):
        check_feasible(np.eye(3, dtype=bool), a, a)


def test_two_views_have_exactly_one_plan():
    check_feasible(np.eye(2, dtype=bool), np.full(2, 0.5), np.full(2, 0.5))
