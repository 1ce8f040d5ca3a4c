import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA

from hotview._validation import Table
from hotview.training.columns import scan_tables
from hotview.training.neighbors import nearest_neighbors
from hotview.training.rows import ViewRows


def make_rows(X, present=None):
    table = Table(X)
    scan = scan_tables("a", [table], standardize=True, impute=None)
    return ViewRows([table], scan.columns, torch.device("cpu"), present or scan.present)


def all_rows(rows):
    return rows.take(np.arange(len(rows))).numpy()


def brute_force(Y, k):
    distance = cdist(Y, Y)
    np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1)[:, :k]


@pytest.mark.parametrize(("n", "D", "k"), ((60, 3, 5), (30, 12, 4), (200, 1, 10)))
def test_with_all_components_they_are_the_nearest_of_all_rows(n, D, k):
    rows = make_rows(np.random.default_rng(0).normal(size=(n, D)) * np.arange(1, D + 1))
    X = all_rows(rows)
    found = nearest_neighbors(rows, PCA().fit(X), k)
    np.testing.assert_array_equal(found, brute_force(X, k))
    assert found.dtype == np.int64


def test_few_components_see_past_noise_in_many_columns():
    random = np.random.default_rng(0)
    signal = random.normal(size=(100, 2))
    X = np.concatenate([np.repeat(signal, 30, axis=1), random.normal(size=(100, 60))], axis=1)
    rows = make_rows(X)
    pca = PCA(2).fit(all_rows(rows))
    found = nearest_neighbors(rows, pca, 5)
    np.testing.assert_array_equal(found, brute_force(pca.transform(all_rows(rows)), 5))
    true = brute_force(signal, 5)
    shared = np.mean([len(set(a) & set(b)) for a, b in zip(found, true, strict=True)]) / 5
    noisy = brute_force(all_rows(rows), 5)
    hidden = np.mean([len(set(a) & set(b)) for a, b in zip(noisy, true, strict=True)]) / 5
    assert shared > hidden + 0.1


def test_a_row_is_not_its_own_neighbor_even_among_copies():
    rows = make_rows(np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 4, axis=0))
    found = nearest_neighbors(rows, PCA().fit(all_rows(rows)), 3)
    for i, near in enumerate(found):
        assert sorted([i, *near]) == list(range(i // 4 * 4, i // 4 * 4 + 4))


def test_fewer_rows_have_fewer_neighbors():
    rows = make_rows(np.random.default_rng(0).normal(size=(4, 2)))
    found = nearest_neighbors(rows, PCA().fit(all_rows(rows)), 10)
    assert found.shape == (4, 3)
    assert [sorted({i, *near}) for i, near in enumerate(found)] == [[0, 1, 2, 3]] * 4


def test_absent_rows_are_nobodys_neighbors():
    X = np.random.default_rng(0).normal(size=(20, 3))
    X[[0, 7]] = np.nan
    rows = make_rows(X)
    found = nearest_neighbors(rows, PCA().fit(all_rows(rows)), 4)
    np.testing.assert_array_equal(found, brute_force(all_rows(rows), 4))
    assert len(found) == 18
