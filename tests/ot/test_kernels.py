"""On a GPU; or, where Triton is installed, anywhere with TRITON_INTERPRET=1."""

import os

import pytest
import torch

from hotview.ot import sinkhorn

pytest.importorskip("triton", reason="needs Triton, which comes with torch for CUDA")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)

from hotview.ot import kernels  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@pytest.mark.parametrize("shape", ((5, 400), (2, 3, 33), (1, 1), (4, 512), (2, 1000)))
def test_short_rows_are_sorted_as_torch_sorts_them_stably(shape):
    P = draw(*shape).mul_(4).round_().div_(4)  # with ties, and zeros of both signs
    values, origin = kernels.sort_short_rows(P)
    assert torch.equal(values, P.sort(dim=-1).values)
    assert torch.equal(P.gather(-1, origin), values)
    assert torch.equal(
        origin.sort(dim=-1).values, torch.arange(shape[-1]).to(P.device).expand(shape)
    )


def test_infinities_stay_in_their_row_and_order():
    P = torch.tensor([[3.0, float("inf"), -float("inf"), -1.0, 0.0]]).to(DEVICE)
    values, origin = kernels.sort_short_rows(P)
    assert origin.tolist() == [[2, 3, 4, 0, 1]]
    assert torch.equal(values, P.sort(dim=-1).values)


@pytest.mark.parametrize(
    ("a", "b", "n", "batch"),
    ((6, 3, 1200, ()), (6, 6, 5000, (2,)), (20, 17, 300, ()), (1, 1, 1, ()), (40, 40, 70, ())),
)
def test_square_sums_are_those_of_float64(a, b, n, batch):
    V = draw(*batch, a + b, n)
    A, B = V[..., :a, :], V[..., a:, :]
    x, y = A.double().unsqueeze(-2), B.double().unsqueeze(-3)
    found = kernels.square_sums(A, B)
    torch.testing.assert_close(found, (x - y).square().sum(-1), rtol=1e-6, atol=0)
    alone = kernels.square_sums(A, A).triu(1)
    expected = (x - A.double().unsqueeze(-3)).square().sum(-1).triu(1)
    torch.testing.assert_close(alone, expected, rtol=1e-6, atol=0)


def test_square_sums_keep_their_digits_where_rows_nearly_coincide():
    far = 100 + draw(2, 9000)
    A = torch.cat([far, far + 1e-3 * draw(2, 9000, seed=1)])
    expected = (A.double().unsqueeze(1) - A.double()).square().sum(-1).triu(1)
    torch.testing.assert_close(kernels.square_sums(A, A).triu(1), expected, rtol=1e-6, atol=0)


def test_what_is_scattered_comes_back():
    P = draw(3, 2, 1500)
    values, origin = P.sort(dim=-1)
    assert torch.equal(kernels.scatter_rows(values, origin), P)


@pytest.mark.parametrize("batch", ((), (3,)))
@pytest.mark.parametrize("relative", (True, False))
@pytest.mark.parametrize("max_iter", (7, 20, 100))
@pytest.mark.parametrize(
    ("S", "K", "pairwise"), ((6, 3, False), (1, 1, False), (5, 5, True), (2, 2, True))
)
def test_plans_are_those_of_sinkhorn(S, K, pairwise, max_iter, relative, batch):
    C = draw(*batch, S, K).abs()
    mask = None
    if pairwise:
        C, mask = (C + C.mT).tril(-1), torch.eye(S, dtype=torch.bool)
        C = C + C.mT
    expected = sinkhorn(C.cpu(), reg=0.1, relative=relative, max_iter=max_iter, mask=mask)
    found = kernels.sinkhorn(
        C,
        reg=0.1,
        relative=relative,
        max_iter=max_iter,
        tol=1e-6,
        resolution=1e-10,
        pairwise=pairwise,
    )
    torch.testing.assert_close(found.W.cpu(), expected.W, atol=1e-6, rtol=1e-5)
    reg = torch.as_tensor(expected.reg, dtype=torch.float64).expand(found.reg.shape)
    torch.testing.assert_close(found.reg.cpu(), reg)
    W = found.W.double()
    rows, columns = ((W.sum(k) - 1 / W.sum(k).shape[-1]).abs().sum(-1) for k in (-1, -2))
    error = torch.maximum(rows, columns)
    torch.testing.assert_close(found.marginal_error, error, atol=1e-6, rtol=1e-4)
