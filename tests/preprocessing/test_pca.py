import numpy as np
import pytest
import torch
from scipy.special import entr

from hotview.preprocessing import pca as pca_module
from hotview.preprocessing.pca import align_signs, effective_rank, principal_components, total_std
from tests.training.small_training import as_rows


def make_view(n=80, D=5, seed=0):
    rng = np.random.default_rng(seed)
    skewed = rng.exponential(size=(n, D)) * np.geomspace(4, 0.5, D)
    return (skewed @ np.linalg.qr(rng.normal(size=(D, D)))[0]).astype(np.float32)


def test_components_are_the_leading_eigenvectors_of_the_covariance():
    X = make_view()
    (pca,) = principal_components([as_rows(X)], 3, np.random.default_rng(0))
    values, V = np.linalg.eigh(np.cov(X.astype(float).T))
    np.testing.assert_allclose(pca.explained_variance_, values[:1:-1], rtol=1e-3)
    cosines = np.sum(pca.components_ * V[:, :1:-1].T, axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1, rtol=1e-3)
    np.testing.assert_allclose(pca.mean_, X.mean(0), rtol=1e-3)
    (scaled,) = principal_components([as_rows(X, 1.0, 2.0)], 3, np.random.default_rng(0))
    np.testing.assert_allclose(scaled.explained_variance_, values[:1:-1] / 4, rtol=1e-3)
    np.testing.assert_allclose(scaled.mean_, (pca.mean_ - 1) / 2, rtol=1e-3, atol=1e-5)
    for few in (X, X[:3], X[:, :1]):  # there are no more than rows and columns
        (found,) = principal_components([as_rows(few)], 20, np.random.default_rng(0))
        assert found.components_.shape == (min(few.shape), few.shape[1])


def test_of_many_rows_a_sample_is_taken(monkeypatch):
    monkeypatch.setattr(pca_module, "_N_SAMPLE", 50)
    X = make_view(80)
    rows = np.sort(np.random.default_rng(3).choice(80, 50, replace=False))
    (pca,) = principal_components([as_rows(X)], 2, np.random.default_rng(3))
    np.testing.assert_allclose(pca.mean_, X[rows].mean(0), rtol=1e-4)


def test_views_of_one_shape_get_the_same_signs():
    """Rotated and mirrored copies of one skewed cloud have equal scores, whatever LAPACK says."""
    latent = np.random.default_rng(0).exponential(size=(400, 3)) * [3.0, 2.0, 1.0]
    views = []
    for seed in range(6):
        Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
        views.append((latent @ Q).astype(np.float32))
    found = principal_components([as_rows(X) for X in views], 3, np.random.default_rng(0))
    scores = [pca.transform(X) for pca, X in zip(found, views, strict=True)]
    for Y in scores:
        np.testing.assert_allclose(Y, scores[0], atol=1e-2)
        assert (Y**3).mean(0).min() > 0


def skewed(n=300, seed=0):
    return np.random.default_rng(seed).exponential(size=(n, 1)) - 1


@pytest.mark.parametrize("seed", range(2))
def test_flipped_columns_are_flipped_back(seed):
    rng = np.random.default_rng(seed)
    flips = rng.choice([-1.0, 1.0], size=(5, 4))
    clouds = [rng.exponential(size=(200 + 10 * s, 4)) - 1 for s in range(5)]
    found = align_signs([Y * flip for Y, flip in zip(clouds, flips, strict=True)])
    np.testing.assert_array_equal(found, flips)


def test_clouds_may_differ_in_size_and_number_of_columns():
    Y, symmetric = skewed(), np.linspace(-1, 1, 101)[:, None]
    found = align_signs([np.hstack([Y, -Y]), -Y[:100], np.hstack([Y[:50], Y[:50], Y[:50]])])
    assert [signs.tolist() for signs in found] == [[1, -1], [-1], [1, 1, 1]]
    (first, second) = align_signs([-Y, -Y])  # the third moment decides for all
    assert first[0] == second[0] == -1
    found = align_signs([symmetric, -symmetric, np.zeros((5, 1))])
    assert all(abs(signs[0]) == 1 for signs in found)


def test_a_sure_majority_outvotes_an_odd_one():
    Y = skewed(500)
    noise = np.random.default_rng(1).normal(size=(500, 1))
    found = align_signs([Y, noise, -Y, Y])
    assert [found[s][0] for s in (0, 2, 3)] == [1, -1, 1]


def cloud(variances, n=4000, seed=0):
    """Points whose covariance is diagonal with exactly these entries."""
    generator = torch.Generator().manual_seed(seed)
    Z = torch.randn(n, len(variances), generator=generator, dtype=torch.float64)
    Q = torch.linalg.qr(Z - Z.mean(0)).Q * n**0.5
    return (Q - Q.mean(0)) * torch.tensor(variances, dtype=torch.float64).sqrt()


@pytest.mark.parametrize("variances", ([2.0] * 5, [9.0, 4.0, 1.0], [1.0, 1e-6], [1.0, 1.0, 0.0]))
def test_it_is_the_exponential_of_the_entropy_of_the_variances(variances):
    shares = np.array(variances) / sum(variances)
    expected = np.exp(entr(shares).sum())
    assert effective_rank(cloud(variances)) == pytest.approx(expected)


def test_moving_turning_and_scaling_change_nothing():
    Z = cloud([4.0, 1.0, 0.5])
    Q = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    expected = effective_rank(Z)
    for other in (Z + 100, Z @ Q, 1e-8 * Z, 1e8 * Z):
        assert effective_rank(other) == pytest.approx(expected)
    near = cloud([1.0, 1.0]) * 0.01 + 10  # a small cloud far away is not a point
    assert effective_rank(near.float().requires_grad_()) == pytest.approx(2, rel=1e-3)


def test_the_total_std_is_the_root_of_the_total_variance():
    assert total_std(cloud([9.0, 16.0]) + 50) == pytest.approx(5)
    assert total_std(torch.ones(4, 2)) == 0
    assert total_std(torch.tensor([[1.0], [-1.0]])) == 1


@pytest.mark.parametrize("value", (0.0, 0.1, 1e6))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_a_point_has_rank_0_whatever_rounding_leaves(value, dtype):
    for Z in (torch.full((50, 3), value, dtype=dtype), torch.full((1, 3), value, dtype=dtype)):
        assert effective_rank(Z) == 0
    Z = torch.full((1000, 4), 0.3, dtype=torch.float64)
    Z[::2] += 1e-12  # less than float32 would keep
    assert effective_rank(Z) == 0
