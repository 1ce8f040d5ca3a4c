import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview.ot import projection
from hotview.ot._backend import kernels_for
from hotview.ot.projection import project, sort_rows_, unproject


def clouds(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 4, generator=generator, dtype=torch.float64) for _ in range(3)]


@pytest.fixture(params=(2**15, 5), ids=("together", "one by one"))
def _way(request, monkeypatch):
    monkeypatch.setattr(projection, "_LARGE", request.param)


@pytest.mark.usefixtures("_way")
def test_unproject_undoes_the_sort_and_the_product():
    theta, shift = clouds(6)[0], clouds(1)[1]
    P = project(theta, clouds(10), shift)
    for p, Z in zip(P, clouds(10), strict=True):
        torch.testing.assert_close(p, theta @ (Z - shift).T)
    values, origin = P.sort(dim=-1)
    for (grad_P, grad_Z), p in zip(unproject(values, origin, theta), P, strict=True):
        torch.testing.assert_close(grad_P, p)
        torch.testing.assert_close(grad_Z, p.T @ theta)


DTYPES = (torch.float32, torch.float64)
LENGTHS = (1, 2, 511, 513, 3000, 2**15, 70_000)  # both sides of every switch of method


def awkward(rows, n, dtype, seed=0):
    """Values of all magnitudes and signs, with ties and zeros of both signs."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, n, generator=generator, dtype=torch.float64)
    x = x * 10.0 ** torch.randint(-30, 30, (rows, n), generator=generator)
    x[:, ::7] = x[:, :1].clone()
    x[:, ::11] = 0.0
    x[:, ::13] = -0.0
    return x.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_the_sort_agrees_with_torch(n, dtype):
    P = awkward(3, n, dtype)
    values, index = sort_rows_(P.clone())
    expected = torch.sort(P, dim=-1).values
    # Long float32 rows are in order to the last bit but one.
    is_coarse = n >= 2**15 and dtype == torch.float32
    torch.testing.assert_close(values, expected, rtol=2.4e-7 if is_coarse else 0, atol=0)
    assert torch.equal(values, P.gather(-1, index))
    assert torch.equal(index.sort(dim=-1).values, torch.arange(n).expand(3, -1))
    alone = sort_rows_(P.clone(), with_origin=False)
    assert alone.origin is None
    assert torch.equal(alone.values, expected)


@pytest.mark.parametrize("n", (100, 3000, 2**15))
def test_threads_do_not_change_the_sort(n, monkeypatch):
    P = awkward(40, n, torch.float32)
    monkeypatch.setattr(projection, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    alone = sort_rows_(P.clone())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    together = sort_rows_(P.clone())
    assert torch.equal(alone.values, together.values)
    assert torch.equal(alone.origin, together.origin)


def test_long_rows_without_the_radix_sort_of_torch(monkeypatch):
    P = awkward(2, 2**15, torch.float32)
    monkeypatch.setattr(projection, "_HAS_LONG_RADIX", False)
    assert torch.equal(sort_rows_(P.clone()).values, torch.sort(P, dim=-1).values)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20), st.integers(1, 60))
def test_any_floats_are_sorted(numbers, repeats):
    P = torch.tensor(numbers, dtype=torch.float32).repeat(repeats).unsqueeze(0)
    assert torch.equal(sort_rows_(P.clone()).values, torch.sort(P, dim=-1).values)


def test_long_rows_in_float64_are_sorted_to_the_last_bit():
    """Float32 rows of this length are not: neighbors in the last bit may stay in any order."""
    row = 1 + torch.finfo(torch.float64).eps * torch.arange(40_000, dtype=torch.float64)
    P = row[torch.randperm(40_000)][None]
    values, origin = sort_rows_(P.clone())
    assert torch.equal(values[0], row)
    assert torch.equal(P[0][origin[0]], row)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_has_kernels_for_float32_alone():
    pytest.importorskip("triton")
    assert kernels_for(torch.zeros(3, device="cuda")) is not None
    assert kernels_for(torch.zeros(3, device="cuda", dtype=torch.float64)) is None
