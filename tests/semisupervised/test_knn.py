import pickle

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from hotview.semisupervised.knn import Basis, KNNPredictor, choose_voters, root_mean_square

CPU = torch.device("cpu")


def make_rows(n=80, D=6, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, D)) * np.arange(1, D + 1)
    return X.astype(np.float32)


def make_knn_predictor(n=80, k=7, n_features=3, n_classes=4, unit=2.0, seed=0):
    """KNNPredictor by four components and some features, with random shares."""
    random = np.random.default_rng(seed)
    X, F = make_rows(n), random.normal(size=(n, n_features)).astype(np.float32)
    basis = Basis.of(PCA(4, svd_solver="full").fit(X), 4, CPU)
    places = np.hstack([basis.place(torch.from_numpy(X)).numpy(), F / unit])
    shares = random.dirichlet(np.ones(n_classes), size=n)
    tensors = (torch.as_tensor(array, dtype=torch.float32) for array in (places, shares))
    return KNNPredictor(basis, unit, *tensors, k), X, F


def ask(voters, X, F):
    return voters.log_shares(torch.from_numpy(X), torch.from_numpy(F))


# components


@pytest.mark.parametrize("n", (1, 3, 6))
def test_components_are_those_of_scikit_learn_in_units_of_their_spread(n):
    X = make_rows()
    pca = PCA(6, svd_solver="full").fit(X)
    found = Basis.of(pca, n, CPU).place(torch.from_numpy(X)).numpy()
    expected = pca.transform(X)[:, :n]
    expected = expected / np.sqrt(expected.var(axis=0, ddof=1).sum())
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert root_mean_square(found) == pytest.approx(1, abs=0.01)


def test_more_components_than_there_are_take_all():
    pca = PCA(6, svd_solver="full").fit(make_rows())
    assert Basis.of(pca, 20, CPU).directions.shape == (6, 6)


def test_a_constant_view_is_in_one_place():
    X = np.full((5, 3), 2.0, dtype=np.float32)
    with np.errstate(invalid="ignore"):
        pca = PCA(2).fit(X)
    found = Basis.of(pca, 2, CPU).place(torch.from_numpy(X))
    np.testing.assert_array_equal(found.numpy(), np.zeros((5, 2)))


# votes


def test_votes_are_the_mean_share_of_those_nearest():
    voters, _, _ = make_knn_predictor()
    X = make_rows(30, seed=5)
    F = np.random.default_rng(6).normal(size=(30, 3)).astype(np.float32)
    Y = np.hstack([voters.basis.place(torch.from_numpy(X)).numpy(), F / 2.0])
    near = NearestNeighbors(n_neighbors=7).fit(voters.places.numpy()).kneighbors(Y)[1]
    expected = np.log(voters.shares.numpy()[near].mean(axis=1) + 0.01)
    found = ask(voters, X, F)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_with_certain_shares_they_are_a_nearest_neighbors_classifier():
    voters, X, F = make_knn_predictor()
    y = np.arange(80) % 4
    sure = KNNPredictor(voters.basis, 2.0, voters.places, torch.eye(4)[torch.from_numpy(y)], 5)
    other = KNeighborsClassifier(5).fit(voters.places.numpy(), y)
    expected = other.predict_proba(voters.places.numpy())
    np.testing.assert_allclose(np.exp(ask(sure, X, F).numpy()) - 0.01, expected, atol=1e-6)


def test_no_class_is_ruled_out():
    voters, X, F = make_knn_predictor()
    sure = KNNPredictor(
        voters.basis, 2.0, voters.places, torch.eye(4)[torch.zeros(80, dtype=int)], 5
    )
    found = ask(sure, X, F).numpy()
    np.testing.assert_allclose(found[:, 0], np.log(1.01))
    np.testing.assert_allclose(found[:, 1:], np.log(0.01))


def test_fewer_voters_than_neighbors_all_vote():
    voters, X, F = make_knn_predictor(n=5, k=10)
    expected = np.log(voters.shares.numpy().mean(axis=0) + 0.01)
    np.testing.assert_allclose(ask(voters, X, F), np.tile(expected, (5, 1)), rtol=1e-5)


def test_features_count_by_their_unit():
    voters, X, F = make_knn_predictor(k=1)
    far = KNNPredictor(voters.basis, 1e-3, voters.places, voters.shares, 1)
    same = np.exp(ask(voters, X, F).numpy()) - 0.01
    np.testing.assert_allclose(same, voters.shares.numpy(), atol=1e-6)  # each its own neighbor
    assert not np.allclose(np.exp(ask(far, X, F).numpy()) - 0.01, voters.shares.numpy(), atol=0.1)


def test_what_is_kept_for_the_next_row_is_not_pickled():
    voters, X, F = make_knn_predictor()
    before = pickle.dumps(voters)
    expected = ask(voters, X, F)
    assert voters._scorer is voters._scorer
    assert len(pickle.dumps(voters)) == len(before)
    torch.testing.assert_close(ask(pickle.loads(before), X, F), expected, rtol=0, atol=0)


def test_neither_the_order_of_voters_nor_that_of_rows_matters():
    voters, X, F = make_knn_predictor()
    order = np.random.default_rng(3).permutation(80)
    mixed = KNNPredictor(voters.basis, 2.0, voters.places[order], voters.shares[order], 7)
    np.testing.assert_allclose(ask(mixed, X, F), ask(voters, X, F), rtol=1e-6)
    np.testing.assert_allclose(ask(voters, X[order], F[order]), ask(voters, X, F)[order], rtol=1e-6)


# who votes


def test_all_vote_where_they_may():
    random = np.random.default_rng(0)
    assert choose_voters(6, np.array([5, 1]), 6, random).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("most", (1, 4, 8, 19))
def test_some_vote_before_others(most):
    first = np.array([17, 3, 11, 3, 8])  # one of them twice
    found = choose_voters(20, first, most, np.random.default_rng(0))
    assert len(set(found.tolist())) == most
    assert found.tolist() == sorted(found.tolist())
    assert len(set(found.tolist()) & set(first.tolist())) == min(most, 4)


def test_the_generator_decides_who_else_votes():
    def choose(seed):
        return choose_voters(1000, np.array([7]), 20, np.random.default_rng(seed)).tolist()

    assert choose(0) == choose(0)
    assert choose(0) != choose(1)


def test_who_else_votes_is_a_fair_draw():
    counts = np.zeros(12)
    for seed in range(600):
        counts[choose_voters(12, np.array([0, 1]), 7, np.random.default_rng(seed))] += 1
    np.testing.assert_array_equal(counts[:2], 600)
    np.testing.assert_allclose(counts[2:] / 600, 0.5, atol=0.08)


def test_root_mean_square():
    Y = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0], [0.0, -4.0]])
    assert root_mean_square(Y) == pytest.approx(np.sqrt(12.5))
    assert root_mean_square(Y + 100) == pytest.approx(np.sqrt(12.5))
    assert root_mean_square(np.ones((4, 2))) == 1.0


@pytest.mark.parametrize("value", (0.1, 1e-20, 1e10))
def test_rounding_is_no_distance(value):
    assert root_mean_square(np.full((70, 3), value, dtype=np.float32)) == 1.0
    apart = np.array([[value], [1.1 * value]])
    assert root_mean_square(apart) == pytest.approx(0.05 * value)
