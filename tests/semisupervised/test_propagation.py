import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from hotview.semisupervised import propagation
from hotview.semisupervised.propagation import make_graph, normalize_by_class_mass, spread


def find_neighbors(X, k=5):
    return NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)


def make_rows(n=60, seed=0):
    """Rows of three classes around three places."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return 4.0 * np.eye(3)[y] + random.normal(size=(n, 3)), y


def make_seeds(n, n_columns=3, seed=1):
    return np.random.default_rng(seed).random((n, n_columns))


# the graph


def test_the_graph_is_what_its_formula_says():
    near = find_neighbors(make_rows()[0])
    A = np.zeros((60, 60))
    for i, others in enumerate(near):
        for j in others:
            A[i, j] += 0.5
            A[j, i] += 0.5
    d = A.sum(axis=1)
    np.testing.assert_allclose(make_graph(near).toarray(), A / np.sqrt(np.outer(d, d)))


def test_the_graph_is_symmetric_with_eigenvalues_up_to_1():
    S = make_graph(find_neighbors(make_rows()[0]))
    assert isinstance(S, sparse.csr_array)
    np.testing.assert_allclose(S.toarray(), S.toarray().T)
    values = np.linalg.eigvalsh(S.toarray())
    assert values[0] > -1
    assert values[-1] == pytest.approx(1.0)


def test_a_row_without_neighbors_is_alone():
    S = make_graph(np.empty((1, 0), dtype=np.int64))
    assert S.toarray().tolist() == [[0.0]]
    assert spread(S, np.array([[2.0, 0.0]])).tolist() == [[2.0, 0.0]]


# spreading


@pytest.mark.parametrize("damping", (0.0, 0.5, 0.95, 0.99))
def test_what_spreads_solves_the_equation(damping):
    S, Y = make_graph(find_neighbors(make_rows()[0])), make_seeds(60)
    expected = np.linalg.solve(np.eye(60) - damping * S.toarray(), Y)
    found = spread(S, Y, damping=damping)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_spreads_is_the_sum_of_all_steps():
    S, Y = make_graph(find_neighbors(make_rows()[0])), make_seeds(60)
    total, step = np.zeros_like(Y), Y
    for _ in range(100):
        total, step = total + step, 0.5 * (S @ step)
    np.testing.assert_allclose(spread(S, Y, damping=0.5), total, rtol=1e-5)


def test_scikit_learn_spreads_alike():
    X, y = make_rows()
    known = np.where(np.arange(60) < 6, y, -1)

    def kernel(one, other):
        near = find_neighbors(one)
        A = np.zeros((60, 60))
        np.add.at(A, (np.arange(60)[:, None], near), 0.5)
        return A + A.T

    # Its Laplacian is normalized as ours, and its labels are clamped as softly.
    other = LabelSpreading(kernel, alpha=0.95, max_iter=5000, tol=1e-9).fit(X, known)
    seeds = np.where(known[:, None] == np.arange(3), 1.0, 0.0)
    found = spread(make_graph(find_neighbors(X)), seeds)
    expected = other.label_distributions_
    np.testing.assert_allclose(normalize_by_class_mass(found, np.ones(3)), expected, atol=1e-4)
    assert np.mean(found.argmax(axis=1) == y) > 0.9


def test_columns_do_not_mix_and_seeds_add_up():
    S, Y = make_graph(find_neighbors(make_rows()[0])), make_seeds(60)
    together = spread(S, Y)
    for column in range(3):
        alone = spread(S, Y[:, [column]])
        np.testing.assert_allclose(together[:, [column]], alone, rtol=1e-4, atol=1e-5)
    total = spread(S, Y.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(together.sum(axis=1, keepdims=True), total, rtol=1e-4)


def test_the_order_of_rows_does_not_matter():
    (X, _), order = make_rows(), np.random.default_rng(2).permutation(60)
    Y = make_seeds(60)
    found = spread(make_graph(find_neighbors(X)), Y)
    other = spread(make_graph(find_neighbors(X[order])), Y[order])
    np.testing.assert_allclose(other, found[order], rtol=1e-4, atol=1e-5)


def test_nothing_leaves_its_part_of_the_graph():
    near = np.array([[1], [0], [3], [2]])
    found = spread(make_graph(near), np.array([[1.0, 0.0], [0, 0], [0, 0], [0, 0]]))
    # Each step leaves 0.95: of a pair, one gets the even steps, the other one the odd ones.
    even = 1 / (1 - 0.95**2)
    np.testing.assert_allclose(found[:, 0], [even, 0.95 * even, 0, 0], rtol=1e-5)
    np.testing.assert_array_equal(found[:, 1], 0.0)


def test_seeds_are_not_changed():
    Y = make_seeds(60)
    before = Y.copy()
    spread(make_graph(find_neighbors(make_rows()[0])), Y)
    np.testing.assert_array_equal(Y, before)


def test_whole_numbers_spread_like_fractions():
    S, Y = make_graph(find_neighbors(make_rows()[0])), np.eye(60, 3, dtype=np.int64)
    found = spread(S, Y)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, spread(S, Y.astype(float)))


def test_a_solver_that_stops_early_would_be_noticed(monkeypatch):
    S, Y = make_graph(find_neighbors(make_rows()[0])), make_seeds(60)
    expected = np.linalg.solve(np.eye(60) - 0.95 * S.toarray(), Y)
    monkeypatch.setattr(propagation, "_MAX_ITER", 2)
    assert np.abs(spread(S, Y) - expected).max() > 0.01


# shares


def test_shares_add_up_to_1_and_are_relative_to_the_mass():
    F, mass = make_seeds(20), np.array([1.0, 5.0, 0.2])
    found = normalize_by_class_mass(F, mass)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found, F / mass / (F / mass).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(normalize_by_class_mass(7 * F, 3 * mass), found)


def test_a_class_that_is_labeled_more_often_has_no_advantage():
    S = make_graph(np.array([[1, 2], [0, 2], [0, 1]]))
    one = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    found = normalize_by_class_mass(spread(S, one * [9.0, 1.0]), np.array([9.0, 1.0]))
    np.testing.assert_allclose(found[2], [0.5, 0.5], atol=1e-5)
    np.testing.assert_allclose(found[0], found[1][::-1], atol=1e-5)


def test_a_class_without_labels_gets_nothing():
    F = np.array([[2.0, 0.0, 1.0], [0.5, 0.0, 0.0]])
    found = normalize_by_class_mass(F, np.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(found, [[2 / 3, 0, 1 / 3], [1, 0, 0]])


def test_rows_that_nothing_reaches_are_shared_equally():
    F = np.array([[0.0, 0.0], [-1e-12, 0.0], [-1e-12, 3.0]])
    np.testing.assert_allclose(
        normalize_by_class_mass(F, np.ones(2)), [[0.5, 0.5], [0.5, 0.5], [0, 1]]
    )
    assert F[1, 0] == -1e-12
