import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from hotview.ot import wasserstein1d
from hotview.ot.wasserstein1d import (
    cumulative_weights,
    equal_size_cost,
    equal_size_grad,
    quantile_cost,
    quantile_grad,
    uniform_grid,
    weighted_grid,
)

DTYPES = (torch.float32, torch.float64)


def rows(n, length, dtype=torch.float64, seed=0):
    return torch.randn(n, length, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def direct(A, B, p):
    return (A.double().unsqueeze(1) - B.double()).abs().pow(p).mean(-1)


@pytest.mark.parametrize(
    ("p", "dtype", "few", "block"),
    (
        *((1, DTYPES[0], 2**17, 2**19), (1, DTYPES[1], 0, 2**19), (1.5, DTYPES[1], 0, 100)),
        *((2, DTYPES[0], 2**17, 2**19), (2, DTYPES[1], 0, 2**19), (2, DTYPES[0], 0, 100)),
        *((3, DTYPES[1], 2**17, 2**19), (3, DTYPES[0], 0, 100)),
    ),
)
def test_equals_the_direct_difference(p, dtype, few, block, monkeypatch):
    monkeypatch.setattr(wasserstein1d, "_FEW", few)
    monkeypatch.setattr(wasserstein1d, "_BLOCK", block)
    A, B = rows(5, 301, dtype), rows(3, 301, dtype, seed=1)
    torch.testing.assert_close(equal_size_cost(A, B, p), direct(A, B, p), rtol=1e-6, atol=0)
    torch.testing.assert_close(equal_size_cost(A, A, p), direct(A, A, p), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gap", (1e-2, 1e-4, 1e-6, 1e-9, 0.0))
def test_the_matrix_product_keeps_its_digits_where_clouds_nearly_coincide(gap, dtype):
    # Two pairs of near twins, far from each other and far from zero: the hard case.
    far = 100 + rows(2, 50_000, dtype)
    A = torch.cat([far, far + gap * rows(2, 50_000, dtype, seed=1)])
    expected = direct(A, A, 2)
    torch.testing.assert_close(equal_size_cost(A, A, 2), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(equal_size_cost(A, A.clone(), 2), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("p", (1.5, 2, 3))
def test_gradient_is_that_of_autograd(p):
    V = rows(7, 50).requires_grad_()
    weight = rows(4, 3, seed=2)
    (expected,) = torch.autograd.grad((weight * direct(V[:4], V[4:], p)).sum(), V)
    torch.testing.assert_close(equal_size_grad(V.detach(), 4, weight, p), expected)


@pytest.mark.parametrize("p", (1.5, 2, 3))
def test_gradient_of_rows_with_themselves_counts_every_ordered_pair(p):
    V = rows(4, 50).requires_grad_()
    weight = rows(4, 4, seed=2)
    off = ~torch.eye(4, dtype=torch.bool)  # where a power's slope is no number to autograd
    gaps = (V[:, None] - V)[off].abs().pow(p).mean(-1)
    (expected,) = torch.autograd.grad((weight[off] * gaps).sum(), V)
    torch.testing.assert_close(equal_size_grad(V.detach(), None, weight + weight.T, p), expected)


CPU = torch.device("cpu")


def columns(n, m=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, m, generator=generator, dtype=torch.float64).sort(0).values


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 60), m=st.integers(1, 60))
def test_even_grid_spends_every_point_exactly(n, m):
    grid = uniform_grid(n, m, torch.float64, CPU)
    spent_left = torch.zeros(n, dtype=torch.float64).index_add_(0, grid.left, grid.mass)
    spent_right = torch.zeros(m, dtype=torch.float64).index_add_(0, grid.right, grid.mass)
    torch.testing.assert_close(spent_left, torch.full_like(spent_left, 1 / n))
    torch.testing.assert_close(spent_right, torch.full_like(spent_right, 1 / m))
    moved = grid.mass > 0
    assert (grid.left[moved].diff() >= 0).all()  # monotone, so optimal in one dimension
    assert (grid.right[moved].diff() >= 0).all()


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), m=st.integers(1, 40), seed=st.integers(0, 99))
def test_cost_is_scipys_distance(n, m, seed):
    X, Y = columns(n, seed=seed), columns(m, seed=seed + 100)
    expected = np.mean([wasserstein_distance(x, y) for x, y in zip(X.T, Y.T, strict=True)])
    cost = quantile_cost(X, Y, uniform_grid(n, m, torch.float64, CPU), 1)
    assert cost.item() == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 30), m=st.integers(1, 30), seed=st.integers(0, 99))
def test_weighted_cost_is_scipys_distance(n, m, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, 1)), rng.normal(size=(m, 1))
    # Some points weigh nothing, some a lot.
    a, b = (rng.exponential(size=k) * (rng.random(k) < 0.8) for k in (n, m))
    a[0] = b[-1] = 1.0
    order_x, order_y = (torch.tensor(np.argsort(x, axis=0)) for x in (X, Y))
    grid = weighted_grid(
        cumulative_weights(torch.tensor(a), order_x.T),
        cumulative_weights(torch.tensor(b), order_y.T),
        torch.float64,
    )
    cost = quantile_cost(torch.tensor(X).sort(0).values, torch.tensor(Y).sort(0).values, grid, 1)
    assert cost.item() == pytest.approx(wasserstein_distance(X[:, 0], Y[:, 0], a, b), abs=1e-12)


@pytest.mark.parametrize("p", (1.5, 2, 3))
@pytest.mark.parametrize("weighted", (False, True))
def test_gradient_is_that_of_autograd_quantile(p, weighted):
    X, Y = columns(7).requires_grad_(), columns(5, seed=1).requires_grad_()
    if weighted:
        levels = [
            cumulative_weights(torch.rand(k, dtype=torch.float64), torch.arange(k).expand(2, -1))
            for k in (7, 5)
        ]
        grid = weighted_grid(*levels, dtype=torch.float64)
    else:
        grid = uniform_grid(7, 5, torch.float64, CPU)
    pick = [x[i] if i.ndim == 1 else x.gather(0, i) for x, i in ((X, grid.left), (Y, grid.right))]
    mass = grid.mass if weighted else grid.mass.unsqueeze(1)
    loss = (mass * (pick[0] - pick[1]).abs().pow(p)).sum() / 2
    assert quantile_cost(X.detach(), Y.detach(), grid, p).item() == pytest.approx(loss.item())
    weight = torch.tensor(1.7, dtype=torch.float64)
    for ours, theirs in zip(
        quantile_grad(X.detach(), Y.detach(), grid, p, weight),
        torch.autograd.grad(weight * loss, (X, Y)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
