import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading
from torch import nn

from hotview.semisupervised import graph as module
from hotview.semisupervised.graph import (
    ArrayRows,
    build_graph,
    choose_nodes,
    encode_nodes,
    make_coordinates,
    nearest_neighbors,
    refine_graph,
    root_mean_square,
)
from hotview.semisupervised.propagation import (
    diffusion_coordinates,
    normalize_by_class_mass,
    normalized_adjacency,
    propagate,
)

K = 6


def make_rows(n=70, D=5, seed=0):
    random = np.random.default_rng(seed)
    centers = 4 * random.normal(size=(3, D))
    return (centers[np.arange(n) % 3] + random.normal(size=(n, D))).astype(np.float32)


def find_neighbors(X, k=5):
    return NearestNeighbors(n_neighbors=k).fit(X).kneighbors(return_distance=False)


def make_graph(X=None, k=K, first=None, seed=0):
    X = make_rows() if X is None else X
    with np.errstate(invalid="ignore"):
        pca = PCA().fit(X)
    return build_graph(X, pca, k, np.random.default_rng(seed), first)


@pytest.fixture
def few_nodes(monkeypatch):
    monkeypatch.setattr(module, "_MAX_NODES", 30)
    return 30


def test_neighbors_are_found_by_principal_components():
    X, graph = make_rows(), make_graph()
    assert graph.nodes.tolist() == list(range(70))
    np.testing.assert_array_equal(graph.rows.take(np.array([3, 1])), X[[3, 1]])
    # With all components, distances are those of the columns, in other units.
    expected = np.linalg.norm(X[:, None] - X, axis=2)
    distance = np.linalg.norm(graph.points[:, None] - graph.points, axis=2)
    np.testing.assert_allclose(distance / distance.max(), expected / expected.max(), atol=1e-4)
    assert root_mean_square(graph.points) == pytest.approx(1, abs=0.02)
    expected = normalized_adjacency(find_neighbors(X, K)).toarray()
    np.testing.assert_allclose(graph.adjacency.toarray(), expected, atol=1e-9)


@pytest.mark.parametrize("n", (2, K, K + 1))
def test_few_rows_are_all_neighbors(n):
    graph = make_graph(make_rows(n))
    np.testing.assert_allclose(graph.adjacency.toarray(), (1 - np.eye(n)) / (n - 1))


def test_rows_of_a_constant_view_are_one_point_but_have_neighbors():
    graph = make_graph(np.full((20, 3), 3.0, dtype=np.float32))
    np.testing.assert_array_equal(graph.points, 0)
    assert (graph.adjacency.sum(axis=1) > 0).all()
    features = np.ones((20, 4), dtype=np.float32)
    np.testing.assert_allclose(
        refine_graph(graph, features).adjacency.toarray(), graph.adjacency.toarray()
    )


@pytest.mark.parametrize(("n", "D", "k"), ((60, 3, 5), (30, 12, 4), (120, 1, 10)))
def test_they_are_the_nearest_of_all_rows_by_the_components(n, D, k):
    X = np.random.default_rng(0).normal(size=(n, D)) * np.arange(1, D + 1)
    neighbors = nearest_neighbors(ArrayRows(X), PCA().fit(X), k)
    np.testing.assert_array_equal(neighbors, find_neighbors(X, k))
    assert neighbors.dtype == np.int64
    pca = PCA(1).fit(X)  # few components
    expected = find_neighbors(pca.transform(X), k)
    np.testing.assert_array_equal(nearest_neighbors(ArrayRows(X), pca, k), expected)


def test_a_row_is_not_its_own_neighbor_even_among_copies():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 4, axis=0)
    for i, near in enumerate(nearest_neighbors(ArrayRows(X), PCA().fit(X), 3)):
        assert sorted([i, *near]) == list(range(i // 4 * 4, i // 4 * 4 + 4))


def test_features_of_nodes_are_scaled_to_a_root_mean_square_of_1(few_nodes):
    X, graph, encoder = make_rows(), make_graph(), nn.Linear(5, 4)
    features, scale = encode_nodes(graph, encoder)
    with torch.no_grad():
        F = encoder(torch.from_numpy(X[graph.nodes])).numpy()
    assert scale == pytest.approx(np.sqrt(F.var(axis=0).sum()), rel=1e-5)
    np.testing.assert_allclose(features, F / scale, rtol=1e-5, atol=1e-6)
    constant, scale = encode_nodes(graph, lambda X: torch.ones(len(X), 4))
    assert scale == 1.0
    assert (constant == 1).all()


def test_features_are_added_to_the_components():
    graph = make_graph()
    features = 3 * np.random.default_rng(1).normal(size=(70, 4)).astype(np.float32)
    refined = refine_graph(graph, features)
    near = find_neighbors(np.hstack([graph.points, features]), K)
    expected = normalized_adjacency(near).toarray()
    np.testing.assert_allclose(refined.adjacency.toarray(), expected)
    assert (refined.adjacency != graph.adjacency).nnz > 0
    assert refined.nodes is graph.nodes


def test_other_rows_get_the_mean_of_the_nearest_nodes(few_nodes):
    X, graph = make_rows(), make_graph()
    values = np.random.default_rng(0).random((30, 2))
    extended = graph.extend(values)
    assert extended.dtype == torch.float32
    np.testing.assert_allclose(extended[graph.nodes], values, rtol=1e-6)
    others = np.setdiff1d(np.arange(70), graph.nodes)
    near = NearestNeighbors(n_neighbors=K).fit(X[graph.nodes]).kneighbors(X[others])[1]
    np.testing.assert_allclose(extended[others], values[near].mean(axis=1), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("most", (1, 4, 19))
def test_nodes_are_distinct_and_sorted(monkeypatch, most):
    monkeypatch.setattr(module, "_MAX_NODES", most)
    first = np.array([17, 3, 11, 3, 8])  # one of them twice
    nodes = choose_nodes(20, first, np.random.default_rng(0))
    assert len(set(nodes.tolist())) == most
    assert nodes.tolist() == sorted(nodes.tolist())
    assert len(set(nodes.tolist()) & set(first.tolist())) == min(most, 4)
    assert choose_nodes(20, first, np.random.default_rng(0)).tolist() == nodes.tolist()
    all_rows = choose_nodes(most, first[first < most], None)  # no random number is drawn
    assert all_rows.tolist() == list(range(most))


def test_the_other_nodes_are_a_fair_draw(monkeypatch):
    monkeypatch.setattr(module, "_MAX_NODES", 7)
    counts = np.zeros(12)
    random = np.random.default_rng(0)
    for _ in range(600):
        counts[choose_nodes(12, np.array([0, 1]), random)] += 1
    np.testing.assert_array_equal(counts[:2], 600)
    np.testing.assert_allclose(counts[2:] / 600, 0.5, atol=0.08)


def test_coordinates_are_those_of_the_graph_and_means_for_other_rows(monkeypatch):
    graph = make_graph()
    coordinates = make_coordinates(graph, 6)
    assert coordinates.dtype == torch.float32
    np.testing.assert_allclose(coordinates, diffusion_coordinates(graph.adjacency, 6), rtol=1e-5)
    more = make_coordinates(make_graph(make_rows(5)), 8)  # than rows
    assert more.shape == (5, 8)
    assert torch.isfinite(more).all()
    assert (more[:, 5:] == 0).all()
    monkeypatch.setattr(module, "_MAX_NODES", 30)
    graph = make_graph()
    inside = diffusion_coordinates(graph.adjacency, 6)
    np.testing.assert_allclose(make_coordinates(graph, 6), graph.extend(inside), atol=1e-5)


@pytest.mark.parametrize("value", (0.1, 1e-20, 1e10))
def test_the_root_mean_square_is_that_of_distances_beyond_rounding(value):
    assert root_mean_square(np.full((70, 3), value, dtype=np.float32)) == 1.0
    apart = np.array([[value], [1.1 * value]])
    assert root_mean_square(apart) == pytest.approx(0.05 * value)
    Y = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0], [0.0, -4.0]])
    assert root_mean_square(value * (Y + 100)) == pytest.approx(value * np.sqrt(12.5))


def test_rows_are_numbered_among_the_nodes(few_nodes):
    graph = make_graph()
    numbers = graph.node_numbers(np.arange(-1, 70))
    expected = [np.flatnonzero(graph.nodes == row) for row in range(-1, 70)]
    assert numbers.tolist() == [int(at[0]) if len(at) else -1 for at in expected]
    np.testing.assert_array_equal(graph.node_numbers(graph.nodes[::-1]), np.arange(30)[::-1])


def make_places(n=60, seed=0):
    """Rows of three classes around three places."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return 4.0 * np.eye(3)[y] + random.normal(size=(n, 3)), y


def make_adjacency(X=None, k=5):
    return normalized_adjacency(find_neighbors(make_places()[0] if X is None else X, k))


def make_seeds(n, n_columns=3, seed=1):
    return np.random.default_rng(seed).random((n, n_columns))


def test_the_graph_is_what_its_formula_says():
    near = find_neighbors(make_places()[0])
    A = np.zeros((60, 60))
    for i, others in enumerate(near):
        for j in others:
            A[i, j] += 0.5
            A[j, i] += 0.5
    d = A.sum(axis=1)
    np.testing.assert_allclose(normalized_adjacency(near).toarray(), A / np.sqrt(np.outer(d, d)))


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
    X, y = make_places()
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


def make_clusters(n=60, seed=0):
    """Rows around three places in the plane."""
    random = np.random.default_rng(seed)
    place = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    return place[np.arange(n) % 3] + random.normal(size=(n, 2))


def cosines(Y):
    length = np.linalg.norm(Y, axis=1)
    return Y @ Y.T / np.outer(length, length)


# of many rows, some
@pytest.mark.parametrize(("n_rows", "n"), ((60, 1), (60, 20), (60, 60), (200, 4)))
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
