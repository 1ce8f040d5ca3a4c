import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from hotview.semisupervised import knn
from hotview.semisupervised.knn import KNNPredictor, PCABasis, find_nearest

# nearest points


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
@pytest.mark.parametrize("n", (12, 100, 512, 1001, 3000))
@pytest.mark.parametrize("k", (1, 7, 11))
def test_those_that_scikit_learn_finds(n, k):
    points, Y = make_cloud(n), make_cloud(40, seed=1)
    search = NearestNeighbors(n_neighbors=k, algorithm="kd_tree").fit(np.float32(points))
    expected = np.sort(search.kneighbors(Y, return_distance=False), axis=1)
    np.testing.assert_array_equal(find(points, Y, k), expected)


@pytest.mark.parametrize("at", (1e2, 1e4))
def test_far_from_the_origin(at):
    points, Y = make_cloud(300, at=at), make_cloud(50, seed=1, at=at)
    np.testing.assert_array_equal(find(points, Y, 7), sort_all(points, Y, 7))


def test_far_from_all_places():
    points, Y = make_cloud(300), make_cloud(50, seed=1, at=1e5)
    np.testing.assert_array_equal(find(points, Y, 7), sort_all(points, Y, 7))


def test_closer_to_each_other_than_float32_can_tell():
    steps = np.random.default_rng(0).permutation(2000)
    points = np.stack([1 + steps * 2.0**-23, np.zeros(2000)], axis=1)  # which float32 holds
    Y = np.array([[1 + 1000.3 * 2.0**-23, 50.0], [1.0, -3.0]])
    np.testing.assert_array_equal(find(points, Y, 10), sort_all(points, Y, 10))


@pytest.mark.parametrize("values", (2, 3))
def test_of_places_that_are_equally_near_the_first(values):
    points = np.random.default_rng(0).integers(values, size=(1500, 6))  # many in one place
    Y = np.random.default_rng(1).integers(values, size=(30, 6)).astype(np.float64)
    np.testing.assert_array_equal(find(points, Y, 20), sort_all(points, Y, 20))


def test_all_places_in_one():
    np.testing.assert_array_equal(find(np.zeros((900, 2)), make_cloud(3, 2), 4), [[0, 1, 2, 3]] * 3)


@pytest.mark.parametrize("k", (5, 9))
def test_no_more_than_there_are(k):
    found = find(make_cloud(5), make_cloud(3, seed=1), k)
    np.testing.assert_array_equal(found, [[0, 1, 2, 3, 4]] * 3)


def test_none_is_asked_about():
    assert find(make_cloud(50), make_cloud(0), 3).shape == (0, 3)


@pytest.mark.parametrize("room", (1, 3 * 320))
def test_many_rows_are_looked_at_in_parts(monkeypatch, room):
    points, Y = make_cloud(300), make_cloud(50, seed=1)
    expected = find(points, Y, 7)
    monkeypatch.setitem(knn._N_SCORES, "cpu", room)  # never less than one row
    np.testing.assert_array_equal(find(points, Y, 7), expected)


@pytest.mark.parametrize("values", (2, 1000))
def test_how_many_threads_there_are_changes_nothing(monkeypatch, values):
    points = np.random.default_rng(0).integers(values, size=(1500, 6))
    Y = np.random.default_rng(1).integers(values, size=(30, 6)).astype(np.float64)
    expected = find(points, Y, 7)
    monkeypatch.setattr(knn, "_FEW_THREADS", 0)
    np.testing.assert_array_equal(find(points, Y, 7), expected)
    np.testing.assert_array_equal(sort_all(points, Y, 7), expected)


@pytest.mark.parametrize("size", (1e30, np.inf))
def test_rows_beyond_float32_get_places_that_are_there(size):
    found = find(make_cloud(100), np.full((2, 5), size), 7)
    assert ((found >= 0) & (found < 100)).all()
    assert all(len(set(row)) == 7 for row in found.tolist())


@pytest.mark.parametrize("precision", ("tf32", "bf16"))
def test_coarse_products_change_nothing(monkeypatch, precision):
    points, Y = make_cloud(600), make_cloud(40, seed=1)
    expected = find(points, Y, 7)
    keep = {"tf32": 2**10, "bf16": 2**7}[precision]
    mm = torch.mm

    def coarse(A, B, *, out=None):
        mantissa, exponent = torch.frexp(A)
        rounded = torch.ldexp((mantissa * 2 * keep).round() / (2 * keep), exponent)
        return mm(rounded, B, out=out)

    monkeypatch.setattr(torch, "mm", coarse)
    monkeypatch.setattr(knn, "_roundoff", lambda device: knn._ROUNDOFF[precision])
    np.testing.assert_array_equal(find(points, Y, 7), expected)


@pytest.fixture
def restored_precision():
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    ("setting", "expected"), (("highest", 2.0**-24), ("high", 2.0**-11), ("medium", 2.0**-9))
)
def test_how_coarse_products_are_is_read_from_torch(setting, expected, restored_precision):
    torch.set_float32_matmul_precision(setting)
    assert knn._roundoff(torch.device("cpu")) == expected


def test_scores_are_out_by_less_than_is_said():
    points, Y = torch.as_tensor(make_cloud(500, 40)).float(), torch.as_tensor(make_cloud(60, 40, 1))
    scorer = knn.Scorer.from_points(points)
    rows, bound = scorer.prepare(Y)
    scores = rows @ scorer.matrix
    exact = (points.double() - Y.unsqueeze(1)).square().sum(2)
    error = scores[:, :500] - (exact - (Y - scorer.mean).square().sum(1, keepdim=True))
    spread = error.amax(1) - error.amin(1)
    assert (spread < bound).all()
    assert (spread > bound / 1000).all()  # and by not so much less that all would be doubted
    assert scores[:, 500:].isinf().all()


def test_where_the_origin_is_makes_no_place_doubtful():
    near, far = (torch.as_tensor(make_cloud(500, at=at)).float() for at in (0.0, 100.0))
    assert knn.Scorer.from_points(far).radius == pytest.approx(
        knn.Scorer.from_points(near).radius, rel=1e-3
    )


def test_one_place_far_from_all_others_changes_nothing_for_the_rest():
    random = np.random.default_rng(0)
    points = torch.from_numpy(random.normal(size=(3000, 8)).astype(np.float32))
    Y = torch.from_numpy(random.normal(size=(50, 8)))
    expected = find_nearest(points, Y, 7).sort(dim=1).values
    far = torch.cat([points, torch.full((1, 8), 1e6)])
    assert torch.equal(find_nearest(far, Y, 7).sort(dim=1).values, expected)


CPU = torch.device("cpu")


def make_columns(n=80, D=6, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, D)) * np.arange(1, D + 1)
    return X.astype(np.float32)


def make_knn_predictor(n=80, k=7, n_features=3, n_classes=4, scale=2.0, seed=0):
    """KNNPredictor by four components and some features, with random soft_labels."""
    random = np.random.default_rng(seed)
    X, F = make_columns(n), random.normal(size=(n, n_features)).astype(np.float32)
    basis = PCABasis.from_pca(PCA(4, svd_solver="full").fit(X), 4, CPU)
    points = np.hstack([basis.project(torch.from_numpy(X)).numpy(), F / scale])
    soft_labels = random.dirichlet(np.ones(n_classes), size=n)
    tensors = (torch.as_tensor(array, dtype=torch.float32) for array in (points, soft_labels))
    return KNNPredictor(basis, scale, *tensors, k), X, F


def predict(model, X, F):
    return model.predict_log_proba(torch.from_numpy(X), torch.from_numpy(F))


# components


@pytest.mark.parametrize("n", (1, 3, 6))
def test_components_are_those_of_scikit_learn_in_units_of_their_spread(n):
    X = make_columns()
    pca = PCA(6, svd_solver="full").fit(X)
    found = PCABasis.from_pca(pca, n, CPU).project(torch.from_numpy(X)).numpy()
    expected = pca.transform(X)[:, :n]
    expected = expected / np.sqrt(expected.var(axis=0, ddof=1).sum())
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.sqrt((found**2).sum(axis=1).mean()) == pytest.approx(1, abs=0.01)


def test_more_components_than_there_are_take_all():
    pca = PCA(6, svd_solver="full").fit(make_columns())
    assert PCABasis.from_pca(pca, 20, CPU).directions.shape == (6, 6)


def test_a_constant_view_is_in_one_place():
    X = np.full((5, 3), 2.0, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        pca = PCA(2).fit(X)
    found = PCABasis.from_pca(pca, 2, CPU).project(torch.from_numpy(X))
    np.testing.assert_array_equal(found.numpy(), np.zeros((5, 2)))


# predictions


def test_predictions_are_the_mean_soft_label_of_the_nearest():
    model, _, _ = make_knn_predictor()
    X = make_columns(30, seed=5)
    F = np.random.default_rng(6).normal(size=(30, 3)).astype(np.float32)
    Y = np.hstack([model.basis.project(torch.from_numpy(X)).numpy(), F / 2.0])
    near = NearestNeighbors(n_neighbors=7).fit(model.points.numpy()).kneighbors(Y)[1]
    expected = np.log(model.soft_labels.numpy()[near].mean(axis=1) + 0.01)
    found = predict(model, X, F)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_with_hard_labels_it_is_a_nearest_neighbors_classifier():
    model, X, F = make_knn_predictor()
    y = np.arange(80) % 4
    sure = KNNPredictor(model.basis, 2.0, model.points, torch.eye(4)[torch.from_numpy(y)], 5)
    other = KNeighborsClassifier(5).fit(model.points.numpy(), y)
    expected = other.predict_proba(model.points.numpy())
    np.testing.assert_allclose(np.exp(predict(sure, X, F).numpy()) - 0.01, expected, atol=1e-6)


def test_no_class_is_ruled_out():
    model, X, F = make_knn_predictor()
    sure = KNNPredictor(model.basis, 2.0, model.points, torch.eye(4)[torch.zeros(80, dtype=int)], 5)
    found = predict(sure, X, F).numpy()
    np.testing.assert_allclose(found[:, 0], np.log(1.01))
    np.testing.assert_allclose(found[:, 1:], np.log(0.01))


def test_fewer_points_than_neighbors_are_all_averaged():
    model, X, F = make_knn_predictor(n=5, k=10)
    expected = np.log(model.soft_labels.numpy().mean(axis=0) + 0.01)
    np.testing.assert_allclose(predict(model, X, F), np.tile(expected, (5, 1)), rtol=1e-5)


def test_features_are_divided_by_their_scale():
    model, X, F = make_knn_predictor(k=1)
    far = KNNPredictor(model.basis, 1e-3, model.points, model.soft_labels, 1)
    same = np.exp(predict(model, X, F).numpy()) - 0.01
    np.testing.assert_allclose(same, model.soft_labels.numpy(), atol=1e-6)  # each its own neighbor
    assert not np.allclose(
        np.exp(predict(far, X, F).numpy()) - 0.01, model.soft_labels.numpy(), atol=0.1
    )


def test_the_cached_scorer_is_not_pickled():
    model, X, F = make_knn_predictor()
    before = pickle.dumps(model)
    expected = predict(model, X, F)
    assert model._scorer is model._scorer
    assert len(pickle.dumps(model)) == len(before)
    torch.testing.assert_close(predict(pickle.loads(before), X, F), expected, rtol=0, atol=0)


def test_neither_the_order_of_points_nor_that_of_rows_matters():
    model, X, F = make_knn_predictor()
    order = np.random.default_rng(3).permutation(80)
    mixed = KNNPredictor(model.basis, 2.0, model.points[order], model.soft_labels[order], 7)
    np.testing.assert_allclose(predict(mixed, X, F), predict(model, X, F), rtol=1e-6)
    np.testing.assert_allclose(
        predict(model, X[order], F[order]), predict(model, X, F)[order], rtol=1e-6
    )


# rows that are points themselves


def without(model, i):
    """The predictor without one of its points."""
    others = torch.arange(len(model.points)) != i
    points, soft_labels = model.points[others], model.soft_labels[others]
    return replace(model, points=points, soft_labels=soft_labels)


@pytest.mark.parametrize("n", (80, 8, 7, 6, 2))  # more points than neighbors, and fewer
def test_a_row_is_no_neighbor_of_its_own(n):
    model, X, F = make_knn_predictor()
    model = replace(model, points=model.points[:n], soft_labels=model.soft_labels[:n])
    rows, features = torch.from_numpy(X[:n]), torch.from_numpy(F[:n])
    found = model.predict_log_proba(rows, features, torch.arange(n))
    for i in range(n):
        expected = without(model, i).predict_log_proba(rows[i : i + 1], features[i : i + 1])
        torch.testing.assert_close(found[i : i + 1], expected)


def test_rows_that_are_no_points_have_all_neighbors():
    model, X, F = make_knn_predictor()
    rows, features = torch.from_numpy(X), torch.from_numpy(F)
    own = torch.where(torch.arange(80) % 2 == 0, torch.arange(80), -1)
    found, plain = (model.predict_log_proba(rows, features, given) for given in (own, None))
    torch.testing.assert_close(found[1::2], plain[1::2])
    assert not torch.isclose(found[::2], plain[::2]).all(1).any()


def test_copies_of_a_row_are_its_neighbors():
    points = torch.zeros(9, 2)
    points[7:] = 5.0
    soft_labels = torch.eye(2)[torch.tensor([0, 1, 0, 1, 0, 1, 0, 1, 1])]
    basis = PCABasis(torch.zeros(2), torch.eye(2))
    model = KNNPredictor(basis, 1.0, points, soft_labels, 3)
    own = torch.arange(9)
    found = model.predict_log_proba(points, points[:, :0], own)
    for i in range(9):
        expected = without(model, i).predict_log_proba(points[i : i + 1], points[:1, :0])
        torch.testing.assert_close(found[i : i + 1], expected)
