import pytest
import torch

from hotview.ot import projection
from hotview.ot.projection import project, unproject


def clouds(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, 4, generator=generator, dtype=torch.float64) for _ in range(3)]


@pytest.fixture(params=(2**15, 5), ids=("together", "one by one"))
def _way(request, monkeypatch):
    monkeypatch.setattr(projection, "_LARGE", request.param)


@pytest.mark.usefixtures("_way")
def test_project_is_a_product_per_cloud():
    theta = clouds(6)[0]
    shift = clouds(1)[1]
    for P, Z in zip(project(theta, clouds(10), shift), clouds(10), strict=True):
        torch.testing.assert_close(P, theta @ (Z - shift).T)


@pytest.mark.usefixtures("_way")
def test_unproject_undoes_the_sort_and_the_product():
    theta = clouds(6)[0]
    P = project(theta, clouds(10), torch.zeros(1, 4))
    values, origin = P.sort(dim=-1)
    for (grad_P, grad_Z), p in zip(unproject(values, origin, theta), P, strict=True):
        torch.testing.assert_close(grad_P, p)
        torch.testing.assert_close(grad_Z, p.T @ theta)
