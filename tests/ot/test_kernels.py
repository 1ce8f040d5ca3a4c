"""On a GPU; or, where Triton is installed, anywhere with TRITON_INTERPRET=1."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="needs Triton, which comes with torch for CUDA")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)

from hotview.ot import kernels  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


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
