import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import StandardScaler

from hotview.preprocessing import column_scaler
from hotview.preprocessing.column_scaler import ColumnScaler, looks_like_counts, root_shares
from hotview.preprocessing.pca import component_weights, fit_components, looks_like_components

CPU = torch.device("cpu")


def make_counts(n=60, d=300, seed=0):
    random = np.random.default_rng(seed)
    rates = random.gamma(0.3, size=(3, d))
    return random.poisson(rates[np.arange(n) % 3]).astype(np.float64)


def make_correlated(n=300, d=40, seed=0):
    random = np.random.default_rng(seed)
    factors = random.normal(size=(n, 12)) * np.linspace(4, 1, 12)
    return factors @ random.normal(size=(12, d)) + random.normal(size=(n, d))


def test_counts_become_roots_of_shares_of_their_row():
    X = make_counts()
    X[3], X[4, 0], X[5] = 0, np.nan, np.nan
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(X / np.nansum(X, axis=1, keepdims=True))
    expected[3], stored = 0, sparse.csr_array(X)
    roots = root_shares(X)
    assert roots.dtype == np.float32
    np.testing.assert_allclose(roots, expected, rtol=1e-5)
    np.testing.assert_allclose(root_shares(stored).toarray(), roots, rtol=1e-6)
    np.testing.assert_array_equal(stored.toarray(), X)  # which is not changed
    twice = sparse.csr_array(([1.0, 1.0, 2.0, 0.0], [0, 0, 1, 1], [0, 3, 4]), shape=(2, 2))
    np.testing.assert_allclose(root_shares(twice).toarray(), [[0.5**0.5, 0.5**0.5], [0, 0]])
    assert twice.nnz == 4


@pytest.mark.parametrize("kind", ("counts", "standardize"))
def test_what_is_missing_from_sparse_rows_is_filled_as_in_dense_ones(kind):
    X = make_counts()
    X[2, 5], X[3, [1, 7]], X[9] = np.nan, np.nan, np.nan
    roots = root_shares(X).astype(np.float64) if kind == "counts" else X
    mean, scale = np.nanmean(roots, axis=0), np.nanstd(roots, axis=0) + 0.1
    scaler = ColumnScaler(mean, scale, mean, kind)
    known = np.delete(X, 9, axis=0)  # absent rows do not determine components
    scaler = fit_components(scaler, sparse.csr_array(known), CPU)
    of_dense = fit_components(ColumnScaler(mean, scale, mean, kind), known, CPU)
    found, expected = scaler.transform(sparse.csr_array(X)), scaler.transform(X)
    assert np.flatnonzero(found.isnan().any(1)).tolist() == [9]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    gram = expected.nan_to_num() @ expected.nan_to_num().T
    other = of_dense.transform(X).nan_to_num()
    np.testing.assert_allclose(other @ other.T, gram, atol=0.02 * float(gram.abs().max()))


def test_sparse_columns_far_from_0_keep_their_digits():
    random = np.random.default_rng(0)
    X = make_counts()
    X[:, 0] = 1e8 + random.normal(size=len(X))
    scaler = ColumnScaler(X.mean(axis=0), X.std(axis=0) + 1e-3, None)
    scaler = fit_components(scaler, sparse.csr_array(X), CPU)
    np.testing.assert_allclose(
        scaler.transform(sparse.csr_array(X)), scaler.transform(X), atol=1e-4
    )


@pytest.mark.parametrize("kind", (np.asarray, sparse.csr_array))
@pytest.mark.parametrize(
    ("X", "expected"),
    (
        (np.eye(8), True),
        (np.diag([1.0, np.nan, 1, 1, 1, 1, 1, 1]), True),
        (np.vstack([np.eye(8), np.full((3, 8), np.nan)]), True),  # absent rows
        (-np.eye(8), False),
        (np.eye(8) / 2, False),
        (np.ones((8, 8)), False),  # no zeros
        (np.zeros((8, 8)), False),  # nothing else
        (np.hstack([np.eye(8), np.full((8, 1), 40.0)]), False),  # ages beside categories
    ),
)
def test_counts_are_whole_numbers_most_of_them_0(kind, X, expected):
    assert looks_like_counts(kind(X)) is expected


def test_weights_follow_the_unit_of_components_and_are_small_at_the_noise_floor():
    variance = np.concatenate([[50.0, 20.0, 9.0], np.ones(20) + np.linspace(0.02, 0, 20)])
    weights = component_weights(variance)
    np.testing.assert_allclose((weights**2 * variance).mean(), 1)
    np.testing.assert_allclose(component_weights(variance * 9), weights / 3)
    standard = weights * np.sqrt(variance)  # standardized columns have 1
    assert standard[3:].max() < 0.25 * standard[2]
    np.testing.assert_allclose(component_weights(np.array([4.0, 4.0, 0.0])), [0.5, 0.5, 1.0])
    np.testing.assert_array_equal(component_weights(np.zeros(3)), 1.0)
    steep = 0.7 ** np.arange(20.0)  # no floor: all of it is signal
    weights = component_weights(steep)
    np.testing.assert_allclose(weights * steep**0.25, weights[0])


def test_principal_components_are_recognized_and_ordinary_columns_are_none():
    random, X = np.random.default_rng(0), make_correlated()
    scores = PCA(12).fit_transform(X)
    for table in (scores, TruncatedSVD(10).fit_transform(X + 2), scores[:200, :10]):
        assert looks_like_components(table)
    for table in (
        X,
        X * np.sort(random.gamma(1.0, size=40))[::-1],
        random.normal(size=(300, 20)),
        scores[:, ::-1],  # of rising variance
        np.abs(scores),
        scores[:, :5],  # too few to tell
        random.normal(size=(300, 10)) * np.geomspace(1000, 0.1, 10),  # units of measurement
    ):
        assert not looks_like_components(table)


def test_distances_between_reduced_rows_are_those_between_standardized_rows():
    X = make_correlated(200, 300)
    scaler = ColumnScaler(X.mean(axis=0), X.std(axis=0), None)
    Y = fit_components(scaler, X, CPU).transform(X).numpy()
    expected = PCA(64).fit_transform(StandardScaler().fit_transform(X))
    ratio = np.linalg.norm(Y[:100] - Y[100:], axis=1) / np.linalg.norm(
        expected[:100] - expected[100:], axis=1
    )
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=0.01)
    assert Y.dtype == np.float32
    assert Y.var(axis=0).mean() == pytest.approx(1, rel=1e-3)


def test_what_is_done_is_said_in_words():
    words = ColumnScaler(np.zeros(3), np.ones(3), None, "counts").description
    assert words == "square roots of the shares of counts in their row"
    marks = {"impute": "mean+indicator", "indicators": np.array([4, 7])}
    marks["components"] = np.ones((1002, 5), dtype=np.float32)
    scaler = ColumnScaler(np.zeros(1002), np.ones(1002), np.zeros(1000), **marks)
    assert scaler.description == (
        "standardized; missing cells replaced by the mean and marked in 2 more columns; 1,002 "
        "columns reduced to 5 components"
    )


def test_a_missing_cell_that_is_stored_in_parts_is_marked_once():
    cells = ([np.nan, 1.0, 2.0, 3.0], [0, 0, 1, 1], [0, 2, 3, 4])
    parts, eye = sparse.csr_array(cells, shape=(3, 2)), np.eye(3, dtype=np.float32)
    marks = {"impute": "mean+indicator", "indicators": np.array([0])}
    scaler = ColumnScaler(np.zeros(3), np.ones(3), np.array([5.0, 6.0]), components=eye, **marks)
    for table in (parts, parts.toarray()):
        np.testing.assert_array_equal(scaler.transform(table), [[5, 0, 1], [0, 2, 0], [0, 3, 0]])
    assert parts.nnz == 4


def test_a_row_is_reduced_alone_as_among_others(monkeypatch):
    X = make_correlated(50, 300)
    scaler = fit_components(ColumnScaler(X.mean(axis=0), X.std(axis=0), None), X, CPU)
    whole = scaler.transform(X)
    alone = torch.cat([scaler.transform(row[None]) for row in X])
    torch.testing.assert_close(alone, whole, rtol=0, atol=1e-6)
    monkeypatch.setattr(column_scaler, "_N_ENTRIES", 900)  # three rows at a time
    torch.testing.assert_close(scaler.transform(X), whole, rtol=0, atol=1e-6)
    assert scaler.transform(X[:0]).shape == (0, 50)
