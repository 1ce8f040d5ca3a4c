import numpy as np
import pytest
import torch

from hotview._validation import ViewTable
from hotview.training import pca as pca_module
from hotview.training.columns import Columns
from hotview.training.pca import agree_on_signs, principal_components
from hotview.training.rows import ViewRows


def as_rows(X, mean=0.0, scale=1.0):
    D = X.shape[1]
    columns = Columns(np.full(D, mean), np.full(D, scale), None)
    return ViewRows([ViewTable(X)], columns, torch.device("cpu"))


def make_view(n=80, D=5, seed=0):
    rng = np.random.default_rng(seed)
    skewed = rng.exponential(size=(n, D)) * np.geomspace(4, 0.5, D)
    return (skewed @ np.linalg.qr(rng.normal(size=(D, D)))[0]).astype(np.float32)


def eigenvectors(X, n):
    values, V = np.linalg.eigh(np.cov(X.astype(float).T))
    return values[::-1][:n], V[:, ::-1][:, :n].T


def test_components_are_the_leading_eigenvectors_of_the_covariance():
    X = make_view()
    (pca,) = principal_components([as_rows(X)], 3, np.random.default_rng(0))
    values, V = eigenvectors(X, 3)
    np.testing.assert_allclose(pca.explained_variance_, values, rtol=1e-3)
    np.testing.assert_allclose(np.abs(np.sum(pca.components_ * V, axis=1)), 1, rtol=1e-3)
    np.testing.assert_allclose(pca.mean_, X.mean(0), rtol=1e-3)


def test_columns_are_standardized_first():
    X = make_view()
    (pca,) = principal_components([as_rows(X, 1.0, 2.0)], 2, np.random.default_rng(0))
    (raw,) = principal_components([as_rows(X)], 2, np.random.default_rng(0))
    np.testing.assert_allclose(pca.explained_variance_, raw.explained_variance_ / 4, rtol=1e-3)
    np.testing.assert_allclose(pca.mean_, (raw.mean_ - 1) / 2, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("shape", "n"), (((80, 5), 5), ((3, 5), 3), ((80, 1), 1)))
def test_there_are_no_more_than_rows_and_columns(shape, n):
    (pca,) = principal_components([as_rows(make_view(*shape))], 20, np.random.default_rng(0))
    assert pca.components_.shape == (n, shape[1])


def test_of_many_rows_a_sample_is_taken(monkeypatch):
    monkeypatch.setattr(pca_module, "_N_SAMPLE", 50)
    X = make_view(80)
    rows = np.sort(np.random.default_rng(3).choice(80, 50, replace=False))
    (pca,) = principal_components([as_rows(X)], 2, np.random.default_rng(3))
    np.testing.assert_allclose(pca.mean_, X[rows].mean(0), rtol=1e-4)
    (whole,) = principal_components([as_rows(X[:50])], 2, np.random.default_rng(3))
    np.testing.assert_allclose(whole.mean_, X[:50].mean(0), rtol=1e-4)


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


# signs


def skewed(n=300, seed=0):
    return np.random.default_rng(seed).exponential(size=(n, 1)) - 1


@pytest.mark.parametrize("seed", range(5))
def test_flipped_columns_are_flipped_back(seed):
    rng = np.random.default_rng(seed)
    flips = rng.choice([-1.0, 1.0], size=(5, 4))
    clouds = [rng.exponential(size=(200 + 10 * s, 4)) - 1 for s in range(5)]
    found = agree_on_signs([Y * flip for Y, flip in zip(clouds, flips, strict=True)])
    np.testing.assert_array_equal(found, flips)


def test_the_third_moment_decides_for_all():
    Y = skewed()
    for clouds in ([Y, Y], [-Y, -Y]):
        (first, second) = agree_on_signs(clouds)
        assert first[0] == second[0] == (1 if clouds[0] is Y else -1)


def test_clouds_may_differ_in_size_and_number_of_columns():
    Y = skewed()
    found = agree_on_signs([np.hstack([Y, -Y]), -Y[:100], np.hstack([Y[:50], Y[:50], Y[:50]])])
    assert [signs.tolist() for signs in found] == [[1, -1], [-1], [1, 1, 1]]


def test_symmetric_and_constant_columns_are_no_trouble():
    symmetric = np.linspace(-1, 1, 101)[:, None]
    found = agree_on_signs([symmetric, -symmetric, np.zeros((5, 1))])
    assert all(abs(signs[0]) == 1 for signs in found)


def test_a_sure_majority_outvotes_an_odd_one():
    Y = skewed(500)
    noise = np.random.default_rng(1).normal(size=(500, 1))
    found = agree_on_signs([Y, noise, -Y, Y])
    assert [found[s][0] for s in (0, 2, 3)] == [1, -1, 1]


def test_quantiles_are_numpys():
    for n in (1, 2, 7, 500):
        Y = np.random.default_rng(n).normal(size=(n, 3))
        expected = np.quantile(Y, pca_module._QUANTILES, axis=0)
        np.testing.assert_allclose(pca_module._quantiles(Y), expected, rtol=0, atol=1e-12)
