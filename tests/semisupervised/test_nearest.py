import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from hotview.semisupervised import nearest
from hotview.semisupervised.nearest import find_nearest


def make_cloud(n, d=5, seed=0, at=0.0):
    return at + np.random.default_rng(seed).normal(size=(n, d))


def find(points, Y, k):
    found = find_nearest(torch.as_tensor(points, dtype=torch.float32), torch.as_tensor(Y), k)
    return np.sort(found.numpy(), axis=1)


def sort_all(points, Y, k):
    """All squared distances in float64, sorted; of equal ones the first."""
    squares = np.square(np.float32(points).astype(np.float64) - Y[:, None]).sum(axis=2)
    return np.sort(squares.argsort(axis=1, kind="stable")[:, :k], axis=1)


# with one look, by blocks, by blocks of blocks, and where numbers are no multiples of blocks
@pytest.mark.parametrize(
    ("n", "k"), ((12, 1), (12, 11), (100, 7), (512, 7), (1001, 1), (3000, 1), (3000, 11))
)
def test_those_that_scikit_learn_finds(n, k):
    points, Y = make_cloud(n), make_cloud(40, seed=1)
    search = NearestNeighbors(n_neighbors=k, algorithm="kd_tree").fit(np.float32(points))
    expected = np.sort(search.kneighbors(Y, return_distance=False), axis=1)
    np.testing.assert_array_equal(find(points, Y, k), expected)


@pytest.mark.parametrize(
    ("at", "from_", "one"), ((1e2, 1e2, 1e6), (1e4, 1e4, 0.0), (0.0, 1e5, 1.0))
)
def test_far_from_the_origin_or_from_all_places(at, from_, one):
    points, Y = make_cloud(300, at=at), make_cloud(50, seed=1, at=from_)
    points[7] = one  # which changes nothing for the rest
    np.testing.assert_array_equal(find(points, Y, 7), sort_all(points, Y, 7))


def test_closer_to_each_other_than_float32_can_tell():
    steps = np.random.default_rng(0).permutation(2000)
    points = np.stack([1 + steps * 2.0**-23, np.zeros(2000)], axis=1)  # which float32 holds
    Y = np.array([[1 + 1000.3 * 2.0**-23, 50.0], [1.0, -3.0]])
    np.testing.assert_array_equal(find(points, Y, 10), sort_all(points, Y, 10))


@pytest.mark.parametrize("few_threads", (False, True))
def test_of_places_that_are_equally_near_the_first(monkeypatch, few_threads):
    if few_threads:
        monkeypatch.setattr(nearest, "_FEW_THREADS", 0)
    points = np.random.default_rng(0).integers(3, size=(1500, 6))  # many in one place
    Y = np.random.default_rng(1).integers(3, size=(30, 6)).astype(np.float64)
    np.testing.assert_array_equal(find(points, Y, 20), sort_all(points, Y, 20))
    np.testing.assert_array_equal(find(np.zeros((900, 6)), Y[:3], 4), [[0, 1, 2, 3]] * 3)


def test_no_more_than_there_are():
    found = find(make_cloud(5), make_cloud(3, seed=1), 9)
    np.testing.assert_array_equal(found, [[0, 1, 2, 3, 4]] * 3)
    assert find(make_cloud(50), make_cloud(0), 3).shape == (0, 3)


def test_many_rows_are_looked_at_in_parts(monkeypatch):
    points, Y = make_cloud(300), make_cloud(50, seed=1)
    expected = find(points, Y, 7)
    for room in (1, 3 * 320):  # never less than one row
        monkeypatch.setitem(nearest._N_SCORES, "cpu", room)
        np.testing.assert_array_equal(find(points, Y, 7), expected)


def test_rows_beyond_float32_get_places_that_are_there():
    found = find(make_cloud(100), np.array([[1e30] * 5, [np.inf] * 5]), 7)
    assert ((found >= 0) & (found < 100)).all()
    assert all(len(set(row)) == 7 for row in found.tolist())


@pytest.mark.parametrize(("setting", "keep"), (("high", 2**10), ("medium", 2**7)))
def test_coarse_products_change_nothing(monkeypatch, setting, keep):
    """Of as many bits as torch is told to keep; it is asked for what it was told."""
    points, Y = make_cloud(600), make_cloud(40, seed=1)
    expected, mm = find(points, Y, 7), torch.mm

    def coarse(A, B, *, out=None):
        mantissa, exponent = torch.frexp(A)
        rounded = torch.ldexp((mantissa * 2 * keep).round() / (2 * keep), exponent)
        return mm(rounded, B, out=out)

    monkeypatch.setattr(torch, "mm", coarse)
    torch.set_float32_matmul_precision(setting)
    try:
        found = find(points, Y, 7)
    finally:
        torch.set_float32_matmul_precision("highest")
    np.testing.assert_array_equal(found, expected)
