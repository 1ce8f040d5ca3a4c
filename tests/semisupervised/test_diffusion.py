import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from hotview.semisupervised import diffusion
from hotview.semisupervised.diffusion import diffusion_coordinates
from hotview.semisupervised.propagation import make_graph, spread


def make_rows(n=60, seed=0):
    """Rows around three places in the plane."""
    random = np.random.default_rng(seed)
    place = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    return place[np.arange(n) % 3] + random.normal(size=(n, 2))


def make(X, k=8):
    return make_graph(NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False))


def cosines(Y):
    length = np.linalg.norm(Y, axis=1)
    return Y @ Y.T / np.outer(length, length)


def test_with_all_coordinates_products_are_the_kernel():
    S = make(make_rows())
    K = np.linalg.inv(np.eye(60) - 0.99 * S.toarray())
    Y = diffusion_coordinates(S, 60)
    expected = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
    np.testing.assert_allclose(cosines(Y), expected, atol=1e-8)
    # That is what a seed in one row leaves in another.
    np.testing.assert_allclose(spread(S, np.eye(60), damping=0.99), K, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n", (1, 4, 20))
def test_coordinates_are_the_leading_eigenvectors(n):
    S = make(make_rows())
    values, U = np.linalg.eigh(S.toarray())
    values, U = values[::-1][:n], U[:, ::-1][:, :n]
    K = U / (1 - 0.99 * values) @ U.T
    d = np.sqrt(np.diag(K))
    np.testing.assert_allclose(cosines(diffusion_coordinates(S, n)), K / np.outer(d, d), atol=1e-6)


def test_some_eigenvectors_are_the_same_as_all(monkeypatch):
    S = make(make_rows(120))
    few = diffusion_coordinates(S, 5)  # by the solver for few
    monkeypatch.setattr(diffusion, "_SMALL", 1000)
    np.testing.assert_allclose(diffusion_coordinates(S, 5), few, atol=1e-6)


def test_every_row_has_the_same_length():
    Y = diffusion_coordinates(make(make_rows()), 7)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 2 * np.sqrt(7))
    assert np.sqrt((Y * Y).mean()) == pytest.approx(2)


def test_coordinates_beyond_the_number_of_rows_are_0():
    Y = diffusion_coordinates(make(make_rows(6), k=3), 10)
    assert Y.shape == (6, 10)
    np.testing.assert_array_equal(Y[:, 6:], 0)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 2 * np.sqrt(10))


def test_parts_that_nothing_connects_are_at_right_angles():
    X = np.concatenate([make_rows(30), 1000 + make_rows(30)])
    G = cosines(diffusion_coordinates(make(X), 30))
    np.testing.assert_allclose(G[:30, 30:], 0, atol=1e-6)
    assert G[:30, :30].min() > 0


def test_rows_of_one_place_are_nearer_than_rows_of_two():
    G = cosines(diffusion_coordinates(make(make_rows(90)), 6))
    same = np.arange(90)[:, None] % 3 == np.arange(90) % 3
    assert G[same].mean() > G[~same].mean() + 0.3


def test_the_order_of_rows_does_not_matter():
    X, order = make_rows(), np.random.default_rng(1).permutation(60)
    found, other = (diffusion_coordinates(make(rows), 4) for rows in (X, X[order]))
    np.testing.assert_allclose(other, found[order], atol=1e-6)


@pytest.mark.parametrize("n", (60, 400))
def test_the_same_graph_gives_the_same_bits(n):
    S = make(make_rows(n))
    np.testing.assert_array_equal(diffusion_coordinates(S, 5), diffusion_coordinates(S, 5))


@pytest.mark.parametrize("n", (60, 400))
def test_signs_do_not_depend_on_the_solver(n):
    Y = diffusion_coordinates(make(make_rows(n)), 5)
    assert (Y[:, 0] > 0).all()  # of one sign on a connected graph: made the positive one


def test_one_row_has_one_coordinate():
    Y = diffusion_coordinates(make_graph(np.empty((1, 0), dtype=np.int64)), 3)
    np.testing.assert_allclose(Y, [[2 * np.sqrt(3), 0, 0]])
