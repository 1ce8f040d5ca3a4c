import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

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


def make_adjacency(X=None, k=5):
    return normalized_adjacency(find_neighbors(make_rows()[0] if X is None else X, k))


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


# spreading


@pytest.mark.parametrize("damping", (0.0, 0.5, 0.95, 0.99))
def test_what_spreads_solves_the_equation(damping):
    S, Y = make_adjacency(), make_seeds(60)
    expected = np.linalg.solve(np.eye(60) - damping * S.toarray(), Y)
    found = propagate(S, Y, damping=damping)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    whole = np.eye(60, 3, dtype=np.int64)  # spread like fractions, and are not changed
    np.testing.assert_array_equal(propagate(S, whole), propagate(S, whole.astype(float)))
    np.testing.assert_array_equal(whole, np.eye(60, 3))


def test_nothing_leaves_its_part_of_the_graph():
    near = np.array([[1], [0], [3], [2]])
    found = propagate(normalized_adjacency(near), np.eye(4)[:, :1])
    # Each step leaves 0.95: of a pair, one gets the even steps, the other one the odd ones.
    even = 1 / (1 - 0.95**2)
    np.testing.assert_allclose(found[:, 0], [even, 0.95 * even, 0, 0], rtol=1e-5)
    alone = normalized_adjacency(np.empty((1, 0), dtype=np.int64))
    assert alone.toarray().tolist() == [[0.0]]
    assert propagate(alone, np.array([[2.0, 0.0]])).tolist() == [[2.0, 0.0]]
    np.testing.assert_allclose(diffusion_coordinates(alone, 3), [[2 * np.sqrt(3), 0, 0]])


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_propagates_like_the_cpu_and_the_same_twice():
    S, Y = make_adjacency(), make_seeds(60)
    found = propagate(S, Y, device=torch.device("cuda"))
    np.testing.assert_allclose(found, propagate(S, Y), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found, propagate(S, Y, device=torch.device("cuda")))


# shares


def test_shares_add_up_to_1_and_are_relative_to_the_mass():
    F, mass = make_seeds(20), np.array([1.0, 5.0, 0.2])
    found = normalize_by_class_mass(F, mass)
    np.testing.assert_allclose(found, F / mass / (F / mass).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(normalize_by_class_mass(7 * F, 3 * mass), found)
    F = np.array([[2.0, 0.0, 1.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [-1e-12, 0.0, 3.0]])
    found = normalize_by_class_mass(F, np.array([1.0, 0.0, 1.0]))  # a class without labels
    expected = [[2 / 3, 0, 1 / 3], [1, 0, 0], [1 / 3] * 3, [0, 0, 1]]  # nothing reaches the third
    np.testing.assert_allclose(found, expected)
    assert F[3, 0] == -1e-12


# diffusion coordinates


def make_clusters(n=60, seed=0):
    """Rows around three places in the plane."""
    random = np.random.default_rng(seed)
    place = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    return place[np.arange(n) % 3] + random.normal(size=(n, 2))


def cosines(Y):
    length = np.linalg.norm(Y, axis=1)
    return Y @ Y.T / np.outer(length, length)


def test_with_all_coordinates_products_are_the_kernel():
    S = make_adjacency(make_clusters(), 8)
    K = np.linalg.inv(np.eye(60) - 0.99 * S.toarray())
    Y = diffusion_coordinates(S, 60)
    expected = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    np.testing.assert_allclose(cosines(Y), expected, atol=1e-8)
    # That is what a seed in one row leaves in another.
    np.testing.assert_allclose(propagate(S, np.eye(60), damping=0.99), K, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("n_rows", "n"), ((60, 1), (60, 20), (200, 4)))  # of many rows, some
def test_coordinates_are_the_leading_eigenvectors(n_rows, n):
    S = make_adjacency(make_clusters(n_rows), 8)
    values, U = np.linalg.eigh(S.toarray())
    values, U = values[::-1][:n], U[:, ::-1][:, :n]
    K = U / (1 - 0.99 * values) @ U.T
    d = np.sqrt(np.diag(K))
    Y = diffusion_coordinates(S, n)
    np.testing.assert_allclose(cosines(Y), K / np.outer(d, d), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 2 * np.sqrt(n))
    np.testing.assert_array_equal(diffusion_coordinates(S, n), Y)
    assert (Y[:, 0] > 0).all()  # of one sign on a connected graph: made the positive one
    more = diffusion_coordinates(make_adjacency(make_clusters(6), k=3), 10)  # than rows
    assert more.shape == (6, 10)
    np.testing.assert_array_equal(more[:, 6:], 0)
    np.testing.assert_allclose(np.linalg.norm(more, axis=1), 2 * np.sqrt(10))
