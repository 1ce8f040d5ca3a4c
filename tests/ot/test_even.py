import pytest
import torch

from hotview.ot import even
from hotview.ot.even import even_cost, even_grad

DTYPES = (torch.float32, torch.float64)


def rows(n, length, dtype=torch.float64, seed=0):
    return torch.randn(n, length, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def direct(A, B, p):
    return (A.double().unsqueeze(1) - B.double()).abs().pow(p).mean(-1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", (1, 1.5, 2, 3))
@pytest.mark.parametrize(("few", "block"), ((2**17, 2**19), (0, 2**19), (0, 100)))
def test_equals_the_direct_difference(p, dtype, few, block, monkeypatch):
    monkeypatch.setattr(even, "_FEW", few)
    monkeypatch.setattr(even, "_BLOCK", block)
    A, B = rows(5, 301, dtype), rows(3, 301, dtype, seed=1)
    torch.testing.assert_close(even_cost(A, B, p), direct(A, B, p), rtol=1e-6, atol=0)
    torch.testing.assert_close(even_cost(A, A, p), direct(A, A, p), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gap", (1e-2, 1e-4, 1e-6, 1e-9, 0.0))
def test_the_matrix_product_keeps_its_digits_where_clouds_nearly_coincide(gap, dtype):
    # Two pairs of near twins, far from each other and far from zero: the hard case.
    far = 100 + rows(2, 50_000, dtype)
    A = torch.cat([far, far + gap * rows(2, 50_000, dtype, seed=1)])
    expected = direct(A, A, 2)
    torch.testing.assert_close(even_cost(A, A, 2), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(even_cost(A, A.clone(), 2), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("length", (1000, 50_000))
def test_symmetric_with_a_zero_diagonal(length):
    A = rows(6, length, torch.float32)
    C = even_cost(A, A, 2)
    assert torch.equal(C, C.T)
    assert torch.equal(C.diagonal(), torch.zeros(6, dtype=torch.float64))


@pytest.mark.parametrize("p", (1.5, 2, 3))
def test_gradient_is_that_of_autograd(p):
    V = rows(7, 50).requires_grad_()
    weight = rows(4, 3, seed=2)
    (expected,) = torch.autograd.grad((weight * direct(V[:4], V[4:], p)).sum(), V)
    torch.testing.assert_close(even_grad(V.detach(), 4, weight, p), expected)


@pytest.mark.parametrize("p", (1.5, 2, 3))
def test_gradient_of_rows_with_themselves_counts_every_ordered_pair(p):
    V = rows(4, 50).requires_grad_()
    weight = rows(4, 4, seed=2)
    off = ~torch.eye(4, dtype=torch.bool)  # where a power's slope is no number to autograd
    gaps = (V[:, None] - V)[off].abs().pow(p).mean(-1)
    (expected,) = torch.autograd.grad((weight[off] * gaps).sum(), V)
    torch.testing.assert_close(even_grad(V.detach(), None, weight + weight.T, p), expected)
