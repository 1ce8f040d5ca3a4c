import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from hotview.semisupervised.knn import Coordinates, KNNPredictor, PCABasis

CPU = torch.device("cpu")


def make_columns(n=80, D=6, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, D)) * np.arange(1, D + 1)
    return X.astype(np.float32)


def make_knn_predictor(n=80, k=7, n_features=3, n_classes=4, scale=2.0, seed=0):
    """KNNPredictor by four components and some features, with random soft_labels."""
    random = np.random.default_rng(seed)
    X, F = make_columns(n), random.normal(size=(n, n_features)).astype(np.float32)
    basis = make_basis(X)
    points = np.hstack([basis.project(torch.from_numpy(X)).numpy(), F / scale])
    soft_labels = random.dirichlet(np.ones(n_classes), size=n)
    points, soft_labels = (torch.as_tensor(x, dtype=torch.float32) for x in (points, soft_labels))
    coordinates = Coordinates.concatenate(basis, [scale], n_features)
    return KNNPredictor(coordinates, points, None, soft_labels, k, k), X, F


def make_basis(X, n=4):
    return PCABasis.from_pca(PCA(n, svd_solver="full").fit(X), n, CPU)


def project(model, X, F):
    return model.coordinates.project(torch.from_numpy(X), torch.from_numpy(F))


def predict(model, X, F):
    return model.predict_log_proba(project(model, X, F))


@pytest.mark.parametrize("n", (1, 3, 6))
def test_components_are_those_of_scikit_learn_in_units_of_their_spread(n):
    X = make_columns()
    pca = PCA(6, svd_solver="full").fit(X)
    found = PCABasis.from_pca(pca, n, CPU).project(torch.from_numpy(X)).numpy()
    expected = pca.transform(X)[:, :n]
    expected = expected / np.sqrt(expected.var(axis=0, ddof=1).sum())
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.sqrt((found**2).sum(axis=1).mean()) == pytest.approx(1, abs=0.01)


def test_a_constant_view_is_in_one_place():
    X = np.full((5, 3), 2.0, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        pca = PCA(2).fit(X)
    found = PCABasis.from_pca(pca, 2, CPU).project(torch.from_numpy(X))
    np.testing.assert_array_equal(found.numpy(), np.zeros((5, 2)))
    assert PCABasis.from_pca(pca, 20, CPU).directions.shape == (3, 2)  # no more than there are


def squares(Y):
    """Squared distances of all rows from each other."""
    Y = np.asarray(Y, dtype=np.float64)
    return np.square(Y[:, None] - Y).sum(axis=2)


def make_features(n=80, scales=(2.0, 0.1, 30.0), width=3):
    """Features of several members, of different sizes."""
    random = np.random.default_rng(1)
    return [scale * random.normal(size=(n, width)).astype(np.float32) for scale in scales]


@pytest.mark.parametrize("scales", ((), (2.0,), (2.0, 0.1, 30.0)))
def test_a_squared_distance_is_that_of_components_plus_the_mean_of_features_over_members(scales):
    X, Fs = 5 + make_columns(), make_features(scales=scales)
    basis = make_basis(X)
    F = torch.from_numpy(np.hstack([np.empty((80, 0), np.float32), *Fs]))
    Y = Coordinates.concatenate(basis, scales, 3).project(torch.from_numpy(X), F)
    assert Y.dtype == torch.float64
    assert Y.shape == (80, 4 + 3 * len(scales))
    expected = squares(basis.project(torch.from_numpy(X)))
    if scales:
        each = zip(Fs, scales, strict=True)
        expected = expected + np.mean([squares(f.astype(float) / c) for f, c in each], axis=0)
    np.testing.assert_allclose(squares(Y), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("n", "k"), ((80, 7), (5, 5)))
def test_predictions_are_the_mean_soft_label_of_the_nearest(n, k):
    model, _, _ = make_knn_predictor(n)
    X = make_columns(30, seed=5)
    F = np.random.default_rng(6).normal(size=(30, 3)).astype(np.float32)
    Y = np.hstack([make_basis(make_columns(n)).project(torch.from_numpy(X)).numpy(), F / 2.0])
    near = NearestNeighbors(n_neighbors=k).fit(model.points.numpy()).kneighbors(Y)[1]
    expected = np.log(model.soft_labels.numpy()[near].mean(axis=1) + 0.01)
    found = predict(model, X, F)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_nothing_that_predicting_leaves_behind_is_pickled():
    model, X, F = make_knn_predictor()
    before = pickle.dumps(model)
    expected = predict(model, X, F)
    assert len(pickle.dumps(model)) == len(before)
    torch.testing.assert_close(predict(pickle.loads(before), X, F), expected, rtol=0, atol=0)


def without(model, i):
    """The predictor without one of its points."""
    others = torch.arange(len(model.points)) != i
    points, soft_labels = model.points[others], model.soft_labels[others]
    return replace(model, points=points, soft_labels=soft_labels)


@pytest.mark.parametrize("n", (80, 8, 6))  # more points than neighbors, and fewer
def test_a_row_is_no_neighbor_of_its_own(n):
    model, X, F = make_knn_predictor()
    model = replace(model, points=model.points[:n], soft_labels=model.soft_labels[:n])
    Y = project(model, X[:n], F[:n])
    own = torch.arange(n)
    own[1::2] = -1  # rows that are no points have all neighbors
    found, all_points = model.predict_log_proba(Y, own), model.predict_log_proba(Y)
    for i in range(0, n, 2):
        expected = without(model, i).predict_log_proba(Y[i : i + 1])
        torch.testing.assert_close(found[i : i + 1], expected)
    if n > model.n_neighbors:
        torch.testing.assert_close(found[1::2], all_points[1::2])
    assert not torch.isclose(found[::2], all_points[::2]).all(1).any()


def test_copies_of_a_row_are_its_neighbors():
    points = torch.zeros(9, 2)
    points[7:] = 5.0
    soft_labels = torch.eye(2)[torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 1])]
    coordinates = Coordinates.concatenate(PCABasis(torch.zeros(2), torch.eye(2)), [], 0)
    model = KNNPredictor(coordinates, points, None, soft_labels, 3, 3)
    Y, own = points.double(), torch.arange(9)
    found = model.predict_log_proba(Y, own)
    for i in range(9):
        expected = without(model, i).predict_log_proba(Y[i : i + 1])
        torch.testing.assert_close(found[i : i + 1], expected)


def make_rows_predictor(n, d=5, k=7, n_classes=4, at=3.0, seed=0):
    """A predictor of rows by their columns themselves, around a place that is not 0."""
    random = np.random.default_rng(seed)
    basis = PCABasis(torch.zeros(d), torch.eye(d))
    points = at + torch.from_numpy(random.normal(size=(n, d)) * 0.9 ** np.arange(d)).float()
    soft_labels = torch.from_numpy(random.dirichlet(np.ones(n_classes), size=n)).float()
    coordinates = Coordinates.concatenate(basis, [], 0)
    return KNNPredictor(coordinates, points, None, soft_labels, k, k)


def condense(model, seed=0):
    return model.condense(np.random.default_rng(seed))


def project_columns(model, X):
    return model.coordinates.project(X, X[:, :0])


def fits_float16(tensor):
    return tensor.dtype == torch.float32 and torch.equal(tensor.half().float(), tensor)


@pytest.mark.parametrize(("n", "d"), ((80, 5), (10, 20)))
def test_few_points_of_few_dimensions_predict_as_before_but_for_rounding(n, d):
    model = make_rows_predictor(n, d)
    found = condense(model)
    assert (found.points.shape, found.n_neighbors) == ((n, d), 7)
    assert fits_float16(found.points)
    assert fits_float16(found.soft_labels)
    X = 3 + torch.from_numpy(np.random.default_rng(1).normal(size=(200, d))).float()
    before, after = (project_columns(one, X) for one in (model, found))
    distance = torch.cdist(before, model.points.double())
    moved = 2.0**-11 * float(found.points.norm(dim=1).max()) + 1e-5  # by rounding, at most
    assert (torch.cdist(after, found.points.double()) - distance).abs().max() <= moved
    expected, result = model.predict_log_proba(before), found.predict_log_proba(after)
    nearest = distance.sort(dim=1).values
    sure = nearest[:, 7] - nearest[:, 6] > 2 * moved  # of which seven are the nearest
    assert sure.double().mean() > 0.7
    np.testing.assert_allclose(result[sure].exp(), expected[sure].exp(), atol=2.0**-11)


def test_more_dimensions_are_the_principal_components_of_scikit_learn():
    model = make_rows_predictor(300, 30)
    found = condense(model)
    assert found.points.shape == (300, 20)
    expected = PCA(20, svd_solver="full").fit_transform(model.points.double().numpy())
    rounded = 2.0**-10 * np.abs(expected).max() ** 2 * 20
    np.testing.assert_allclose(squares(found.points), squares(expected), atol=rounded)
    # New rows are where the points are.
    np.testing.assert_allclose(
        project_columns(found, model.points), found.points, rtol=2.0**-11, atol=1e-4
    )
    model, X, F = make_knn_predictor()  # of components and features
    found = condense(model)
    np.testing.assert_allclose(project(found, X, F), found.points, rtol=2.0**-11, atol=1e-4)


def test_points_are_the_means_of_their_clusters_and_of_their_soft_labels():
    model = make_rows_predictor(1500)
    members = condense(replace(model, soft_labels=torch.eye(1500))).soft_labels.numpy()
    condensed, again = condense(model), condense(model)
    assert torch.equal(again.points, condensed.points)
    assert torch.equal(again.coordinates.columns, condensed.coordinates.columns)
    points, soft_labels = condensed.points.numpy(), condensed.soft_labels.numpy()
    assert 900 < len(points) <= 1000
    assert ((members > 0).sum(axis=0) == 1).all()  # every row is in one cluster
    share = (members > 0) / (members > 0).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(members, share, rtol=2.0**-11)
    rows = project_columns(condensed, model.points).numpy()
    np.testing.assert_allclose(points, share @ rows, rtol=2.0**-11, atol=1e-5)
    np.testing.assert_allclose(soft_labels, share @ model.soft_labels.numpy(), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(soft_labels.sum(axis=1), 1, atol=4 * 2.0**-12)
    assert fits_float16(condensed.points)
    assert fits_float16(condensed.soft_labels)


def test_clusters_are_as_good_as_those_of_scikit_learn():
    model = make_rows_predictor(2000, 4)
    found = condense(model)
    rows = project_columns(found, model.points)
    inertia = float(torch.cdist(rows, found.points.double()).amin(1).square().sum())
    other = KMeans(1000, init="random", n_init=1, max_iter=10, random_state=0).fit(rows.numpy())
    assert inertia < 1.1 * other.inertia_


@pytest.mark.parametrize(("n", "k", "expected"), ((1500, 12, 12), (3000, 9, 15), (1000, 30, 30)))
def test_rows_of_five_clusters_are_averaged_at_least(n, k, expected):
    found = condense(make_rows_predictor(n, d=2, k=k))
    assert len(found.points) > 950  # clusters that nobody is in are few
    assert (found.n_neighbors, found.n_nearest) == (expected, k)
    assert found.counts is None if n == 1000 else found.counts.sum() == n


def test_condensed_predictors_average_rows_as_if_they_were_at_their_centers():
    found = condense(make_rows_predictor(2500, k=6))
    random = np.random.default_rng(1)
    Y = torch.from_numpy(random.normal(size=(50, found.points.shape[1])))
    order = torch.cdist(Y, found.points.double()).argsort(dim=1)[:, : found.n_nearest]
    expected = []
    for nearest in order:
        rows = nearest.repeat_interleave(found.counts[nearest].long())[: found.n_neighbors]
        expected.append((found.soft_labels.double()[rows].mean(0) + 0.01).log())
    torch.testing.assert_close(found.predict_log_proba(Y), torch.stack(expected))


def test_copies_of_points_are_one_point():
    model = make_rows_predictor(60)
    points = model.points.repeat(30, 1)
    labels = make_rows_predictor(1800).soft_labels
    found = condense(replace(model, points=points, soft_labels=labels))
    order = torch.cdist(project_columns(found, model.points), found.points.double()).argmin(1)
    assert order.sort().values.tolist() == list(range(60)) == list(range(len(found.points)))
    expected = labels.view(-1, 60, 4).mean(0)
    torch.testing.assert_close(found.soft_labels[order], expected, rtol=0, atol=2.0**-11)
    Y = project_columns(found, model.points)
    assert found.predict_log_proba(Y).isfinite().all()
