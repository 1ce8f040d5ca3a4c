import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from hotview.semisupervised import propagation
from hotview.semisupervised.propagation import (
    diffusion_coordinates,
    normalize_by_class_mass,
    normalized_adjacency,
    propagate,
)


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
    np.testing.assert_allclose(normalized_adjacency(near).toarray(), A / np.sqrt(np.outer(d, d)))


def test_the_graph_is_symmetric_with_eigenvalues_up_to_1():
    S = normalized_adjacency(find_neighbors(make_rows()[0]))
    assert isinstance(S, sparse.csr_array)
    np.testing.assert_allclose(S.toarray(), S.toarray().T)
    values = np.linalg.eigvalsh(S.toarray())
    assert values[0] > -1
    assert values[-1] == pytest.approx(1.0)


def test_a_row_without_neighbors_is_alone():
    S = normalized_adjacency(np.empty((1, 0), dtype=np.int64))
    assert S.toarray().tolist() == [[0.0]]
    assert propagate(S, np.array([[2.0, 0.0]])).tolist() == [[2.0, 0.0]]


# spreading


@pytest.mark.parametrize("damping", (0.0, 0.5, 0.95, 0.99))
def test_what_spreads_solves_the_equation(damping):
    S, Y = normalized_adjacency(find_neighbors(make_rows()[0])), make_seeds(60)
    expected = np.linalg.solve(np.eye(60) - damping * S.toarray(), Y)
    found = propagate(S, Y, damping=damping)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_what_spreads_is_the_sum_of_all_steps():
    S, Y = normalized_adjacency(find_neighbors(make_rows()[0])), make_seeds(60)
    total, step = np.zeros_like(Y), Y
    for _ in range(100):
        total, step = total + step, 0.5 * (S @ step)
    np.testing.assert_allclose(propagate(S, Y, damping=0.5), total, rtol=1e-5)


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
    found = propagate(normalized_adjacency(find_neighbors(X)), seeds)
    expected = other.label_distributions_
    np.testing.assert_allclose(normalize_by_class_mass(found, np.ones(3)), expected, atol=1e-4)
    assert np.mean(found.argmax(axis=1) == y) > 0.9


def test_columns_do_not_mix_and_seeds_add_up():
    S, Y = normalized_adjacency(find_neighbors(make_rows()[0])), make_seeds(60)
    together = propagate(S, Y)
    for column in range(3):
        alone = propagate(S, Y[:, [column]])
        np.testing.assert_allclose(together[:, [column]], alone, rtol=1e-4, atol=1e-5)
    total = propagate(S, Y.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(together.sum(axis=1, keepdims=True), total, rtol=1e-4)


def test_the_order_of_rows_does_not_matter():
    (X, _), order = make_rows(), np.random.default_rng(2).permutation(60)
    Y = make_seeds(60)
    found = propagate(normalized_adjacency(find_neighbors(X)), Y)
    other = propagate(normalized_adjacency(find_neighbors(X[order])), Y[order])
    np.testing.assert_allclose(other, found[order], rtol=1e-4, atol=1e-5)


def test_nothing_leaves_its_part_of_the_graph():
    near = np.array([[1], [0], [3], [2]])
    found = propagate(normalized_adjacency(near), np.array([[1.0, 0.0], [0, 0], [0, 0], [0, 0]]))
    # Each step leaves 0.95: of a pair, one gets the even steps, the other one the odd ones.
    even = 1 / (1 - 0.95**2)
    np.testing.assert_allclose(found[:, 0], [even, 0.95 * even, 0, 0], rtol=1e-5)
    np.testing.assert_array_equal(found[:, 1], 0.0)


def test_seeds_are_not_changed():
    Y = make_seeds(60)
    before = Y.copy()
    propagate(normalized_adjacency(find_neighbors(make_rows()[0])), Y)
    np.testing.assert_array_equal(Y, before)


def test_whole_numbers_spread_like_fractions():
    S, Y = normalized_adjacency(find_neighbors(make_rows()[0])), np.eye(60, 3, dtype=np.int64)
    found = propagate(S, Y)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, propagate(S, Y.astype(float)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_propagates_like_the_cpu_and_the_same_twice():
    S, Y = normalized_adjacency(find_neighbors(make_rows()[0])), make_seeds(60)
    found = propagate(S, Y, device=torch.device("cuda"))
    np.testing.assert_allclose(found, propagate(S, Y), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found, propagate(S, Y, device=torch.device("cuda")))


def test_a_solver_that_stops_early_would_be_noticed(monkeypatch):
    S, Y = normalized_adjacency(find_neighbors(make_rows()[0])), make_seeds(60)
    expected = np.linalg.solve(np.eye(60) - 0.95 * S.toarray(), Y)
    monkeypatch.setattr(propagation, "_MAX_ITER", 2)
    assert np.abs(propagate(S, Y) - expected).max() > 0.01


# shares


def test_shares_add_up_to_1_and_are_relative_to_the_mass():
    F, mass = make_seeds(20), np.array([1.0, 5.0, 0.2])
    found = normalize_by_class_mass(F, mass)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found, F / mass / (F / mass).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(normalize_by_class_mass(7 * F, 3 * mass), found)


def test_a_class_that_is_labeled_more_often_has_no_advantage():
    S = normalized_adjacency(np.array([[1, 2], [0, 2], [0, 1]]))
    one = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    found = normalize_by_class_mass(propagate(S, one * [9.0, 1.0]), np.array([9.0, 1.0]))
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


# diffusion coordinates


def make_clusters(n=60, seed=0):
    """Rows around three places in the plane."""
    random = np.random.default_rng(seed)
    place = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    return place[np.arange(n) % 3] + random.normal(size=(n, 2))


def make_adjacency(X, k=8):
    return normalized_adjacency(
        NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)
    )


def cosines(Y):
    length = np.linalg.norm(Y, axis=1)
    return Y @ Y.T / np.outer(length, length)


def test_with_all_coordinates_products_are_the_kernel():
    S = make_adjacency(make_clusters())
    K = np.linalg.inv(np.eye(60) - 0.99 * S.toarray())
    Y = diffusion_coordinates(S, 60)
    expected = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    np.testing.assert_allclose(cosines(Y), expected, atol=1e-8)
    # That is what a seed in one row leaves in another.
    np.testing.assert_allclose(propagate(S, np.eye(60), damping=0.99), K, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n", (1, 4, 20))
def test_coordinates_are_the_leading_eigenvectors(n):
    S = make_adjacency(make_clusters())
    values, U = np.linalg.eigh(S.toarray())
    values, U = values[::-1][:n], U[:, ::-1][:, :n]
    K = U / (1 - 0.99 * values) @ U.T
    d = np.sqrt(np.diag(K))
    np.testing.assert_allclose(cosines(diffusion_coordinates(S, n)), K / np.outer(d, d), atol=1e-6)


def test_some_eigenvectors_are_the_same_as_all(monkeypatch):
    S = make_adjacency(make_clusters(120))
    few = diffusion_coordinates(S, 5)  # by the solver for few
    monkeypatch.setattr(propagation, "_DENSE_FACTOR", 1000)
    np.testing.assert_allclose(diffusion_coordinates(S, 5), few, atol=1e-6)


def test_every_row_has_the_same_length():
    Y = diffusion_coordinates(make_adjacency(make_clusters()), 7)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 2 * np.sqrt(7))
    assert np.sqrt((Y * Y).mean()) == pytest.approx(2)


def test_coordinates_beyond_the_number_of_rows_are_0():
    Y = diffusion_coordinates(make_adjacency(make_clusters(6), k=3), 10)
    assert Y.shape == (6, 10)
    np.testing.assert_array_equal(Y[:, 6:], 0)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 2 * np.sqrt(10))


def test_parts_that_nothing_connects_are_at_right_angles():
    X = np.concatenate([make_clusters(30), 1000 + make_clusters(30)])
    G = cosines(diffusion_coordinates(make_adjacency(X), 30))
    np.testing.assert_allclose(G[:30, 30:], 0, atol=1e-6)
    assert G[:30, :30].min() > 0


def test_rows_of_one_place_are_nearer_than_rows_of_two():
    G = cosines(diffusion_coordinates(make_adjacency(make_clusters(90)), 6))
    same = np.arange(90)[:, None] % 3 == np.arange(90) % 3
    assert G[same].mean() > G[~same].mean() + 0.3


def test_diffusion_does_not_depend_on_the_order_of_rows():
    X, order = make_clusters(), np.random.default_rng(1).permutation(60)
    found, other = (diffusion_coordinates(make_adjacency(rows), 4) for rows in (X, X[order]))
    np.testing.assert_allclose(other, found[order], atol=1e-6)


@pytest.mark.parametrize("n", (60, 400))
def test_the_same_graph_gives_the_same_bits(n):
    S = make_adjacency(make_clusters(n))
    np.testing.assert_array_equal(diffusion_coordinates(S, 5), diffusion_coordinates(S, 5))


@pytest.mark.parametrize("n", (60, 400))
def test_signs_do_not_depend_on_the_solver(n):
    Y = diffusion_coordinates(make_adjacency(make_clusters(n)), 5)
    assert (Y[:, 0] > 0).all()  # of one sign on a connected graph: made the positive one


def test_one_row_has_one_coordinate():
    Y = diffusion_coordinates(normalized_adjacency(np.empty((1, 0), dtype=np.int64)), 3)
    np.testing.assert_allclose(Y, [[2 * np.sqrt(3), 0, 0]])
