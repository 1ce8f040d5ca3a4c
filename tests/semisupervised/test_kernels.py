"""On a GPU; or, where Triton is installed, anywhere with TRITON_INTERPRET=1."""

import os

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

pytest.importorskip("triton", reason="needs Triton, which comes with torch for CUDA")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1", allow_module_level=True)

from hotview.semisupervised import kernels  # noqa: E402
from hotview.semisupervised.knn import Coordinates, KNNPredictor  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"


def draw(*shape, seed=0):
    random = np.random.default_rng(seed)
    return torch.from_numpy(random.normal(size=shape)).to(DEVICE)


@pytest.mark.parametrize(
    ("n", "n_points", "n_dimensions", "n_classes", "k"),
    ((33, 200, 20, 10, 5), (8, 1000, 20, 2, 10), (1, 1024, 7, 64, 1), (17, 3, 1, 3, 3)),
)
def test_means_are_those_of_the_nearest_points(n, n_points, n_dimensions, n_classes, k):
    points, Y = draw(n_points, n_dimensions).float(), draw(n, n_dimensions, seed=1)
    labels = draw(n_points, n_classes, seed=2).softmax(1).float()
    search = NearestNeighbors(n_neighbors=k).fit(points.double().cpu().numpy())
    nearest = search.kneighbors(Y.cpu().numpy(), return_distance=False)
    expected = labels.double().cpu().numpy()[nearest].mean(axis=1)
    found = kernels.mean_of_nearest(points, torch.ones_like(points[:, 0]), labels, Y, k, k)
    np.testing.assert_allclose(found.cpu(), expected, rtol=1e-12)


def test_the_first_of_equal_points_are_taken():
    points = torch.zeros(40, 3, device=DEVICE)
    labels = torch.eye(40, device=DEVICE)
    found = kernels.mean_of_nearest(points, torch.ones_like(points[:, 0]), labels, draw(5, 3), 4, 4)
    assert torch.equal(found[:, :4], torch.full((5, 4), 0.25).double().to(DEVICE))
    assert not found[:, 4:].any()


def test_small_differences_of_large_distances_decide():
    points = torch.tensor([[1e4], [1e4 + 2**-9]], device=DEVICE)
    labels = torch.eye(2, device=DEVICE)
    Y = torch.tensor([[0.0], [3e4]], dtype=torch.float64, device=DEVICE)
    found = kernels.mean_of_nearest(points, torch.ones(2, device=DEVICE), labels, Y, 1, 1)
    assert found.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(("k", "n_nearest"), ((20, 10), (7, 10), (400, 3)))
def test_rows_at_a_point_are_averaged_until_there_are_enough(k, n_nearest):
    points, Y = draw(100, 4).float(), draw(30, 4, seed=1)
    labels = draw(100, 3, seed=2).softmax(1).float()
    counts = draw(100, seed=3).abs().mul(5).ceil().float()
    nearest = torch.cdist(Y, points.double()).argsort(dim=1)[:, :n_nearest].cpu()
    rows = nearest.flatten().repeat_interleave(counts.cpu()[nearest.flatten()].long())
    of_row = torch.arange(30).repeat_interleave(counts.cpu()[nearest].sum(1).long())
    expected = [labels.double().cpu()[rows[of_row == i][:k]].mean(0) for i in range(30)]
    found = kernels.mean_of_nearest(points, counts, labels, Y, k, n_nearest)
    torch.testing.assert_close(found.cpu(), torch.stack(expected), rtol=1e-12, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("n_points", (50, 1024, 1025))
def test_predictors_agree_on_all_devices(n_points):
    points, Y = draw(n_points, 6).float().cpu(), draw(100, 6, seed=1).cpu()
    labels = draw(n_points, 5, seed=2).softmax(1).float().cpu()
    map_ = Coordinates(torch.eye(6), torch.empty(0, 6), torch.zeros(6).double())
    knn = KNNPredictor.of_rows(map_, points, labels, 7)
    found = knn.to("cuda").predict_log_proba(Y.cuda()).cpu()
    torch.testing.assert_close(found, knn.predict_log_proba(Y), rtol=1e-12, atol=1e-12)
