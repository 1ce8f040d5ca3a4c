import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from hotview.semisupervised import graph as graph_module
from hotview.semisupervised.graph import build_graph
from hotview.semisupervised.predictors import fit_predictors
from hotview.semisupervised.pseudo_labels import (
    ViewLabels,
    linked_nodes,
    make_soft_labels,
    propagate_labels,
)

N_CLASSES, K = 3, 6


def make_tables(sizes=(70, 60), columns=(5, 4), n_linked=20, gap=4.0, seed=0):
    """Views whose first rows are of the same individuals, in the same order, and the classes."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(N_CLASSES, 3))
    shared = np.arange(n_linked) % N_CLASSES
    targets = [np.concatenate([shared, random.integers(3, size=n - n_linked)]) for n in sizes]
    tables = [
        gap * centers[y] @ np.linalg.qr(random.normal(size=(D, D)))[0][:3]
        + random.normal(size=(len(y), D))
        for y, D in zip(targets, columns, strict=True)
    ]
    return [X.astype(np.float32) for X in tables], targets


def links(n, n_views=2):
    return np.repeat(np.arange(n)[:, None], n_views, axis=1)


def label(targets, labeled, n_linked=20, weight=(1.0, 1.0, 1.0)):
    """Labels of some rows of every view."""
    codes = []
    for y, rows in zip(targets, labeled, strict=True):
        codes.append(np.full(len(y), -1))
        codes[-1][rows] = y[rows]
    return ViewLabels(codes, links(n_linked, len(targets)), np.array(weight))


def make_graphs(tables, labels, k=K, seed=0):
    return [
        build_graph(X, PCA().fit(X), k, np.random.default_rng(seed), labels.node_order(s))
        for s, X in enumerate(tables)
    ]


def run(tables, labels, graphs=None, seed=0):
    graphs = graphs or make_graphs(tables, labels)
    return propagate_labels(graphs, labels, np.random.default_rng(seed))


def slow_probabilities(graph, codes, weight=(1.0, 1.0, 1.0)):
    """By the inverse; the labels of a class have the same total mass in all classes."""
    codes = codes[graph.nodes]
    seeds = np.array([codes == c for c in range(N_CLASSES)], dtype=float).T
    F = np.linalg.solve(np.eye(len(codes)) - 0.95 * graph.adjacency.toarray(), seeds)
    scaled = F * weight / np.maximum(seeds.sum(axis=0), 1)
    return scaled / scaled.sum(axis=1, keepdims=True)


NINE = [np.arange(9), np.arange(9)]
NOTHING = np.empty(0, dtype=np.int64)


# labels


def test_labels_of_aligned_individuals():
    codes = [np.array([2, -1, 0, -1]), np.array([0, 2, -1])]
    labels = ViewLabels(codes, np.array([[2, 0], [0, 1], [1, 2]]), np.ones(3))
    assert labels.target.tolist() == [0, 2, -1]


@pytest.mark.parametrize(
    ("codes", "sources"),
    (
        (([0, 1, 2], [0, 1, -1]), [0]),
        (([0, 1, -1], [0, 1, 1]), []),
        (([-1, -1, -1], [-1, -1, -1]), []),
        (([0, 1, -1], [-1, -1, -1], [1, 0, -1]), [0, 2]),
    ),
)
def test_views_with_labels_of_most_classes_are_sources(codes, sources):
    labels = ViewLabels([np.array(c) for c in codes], links(3, len(codes)), np.ones(3))
    assert labels.sources == sources


def test_anchors_and_labeled_rows_become_nodes_first():
    codes = np.full(500, -1)
    codes[[499, 250, 3]] = [0, 1, 2]
    labels = ViewLabels([codes, codes], links(300), np.ones(3))
    order = labels.node_order(0)
    assert order[:200].tolist() == list(range(200))
    assert order[200:203].tolist() == [3, 250, 499]
    assert set(order.tolist()) == {*range(300), 499}


# propagation


@pytest.mark.parametrize("weight", ((1.0, 1.0, 1.0), (0.2, 3.0, 1.0)), ids=str)
def test_labels_are_propagated_along_the_graph(weight):
    tables, targets = make_tables()
    labels = label(targets, [np.arange(8)] * 2, weight=weight)
    graphs = make_graphs(tables, labels)
    for s, probabilities in enumerate(run(tables, labels, graphs)):
        expected = slow_probabilities(graphs[s], labels.codes[s], weight)
        np.testing.assert_allclose(probabilities, expected, atol=1e-4)


def test_labels_of_one_view_are_propagated_there_alone():
    tables, targets = make_tables()
    few = label(targets, NINE)
    more = label(targets, [np.r_[np.arange(9), 30, 40], np.arange(9)])
    graphs = make_graphs(tables, few)
    with_more, without = run(tables, more, graphs), run(tables, few, graphs)
    assert not np.allclose(with_more[0], without[0], atol=1e-3)
    np.testing.assert_array_equal(with_more[1], without[1])


def test_propagated_labels_are_right():
    tables, targets = make_tables(gap=8.0)
    for probabilities, y in zip(run(tables, label(targets, NINE)), targets, strict=True):
        assert np.mean(probabilities.argmax(axis=1) == y) > 0.9


def test_the_order_of_rows_does_not_matter():
    tables, targets = make_tables()
    labels = label(targets, NINE, n_linked=9)
    order = np.random.default_rng(1).permutation(70)
    aligned = np.stack([np.argsort(order)[:9], np.arange(9)], axis=1)
    moved = ViewLabels([labels.codes[0][order], labels.codes[1]], aligned, np.ones(3))
    expected = run(tables, labels)
    probabilities = run([tables[0][order], tables[1]], moved)
    np.testing.assert_allclose(probabilities[0], expected[0][order], atol=1e-4)
    np.testing.assert_allclose(probabilities[1], expected[1], atol=1e-4)


def test_a_class_of_weight_0_has_probability_0():
    tables, targets = make_tables()
    labels = label(targets, [np.arange(20)] * 2, weight=(1.0, 0.0, 1.0))
    for probabilities in run(tables, labels):
        np.testing.assert_allclose(probabilities[:, 1], 0, atol=1e-12)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_rows_that_no_label_reaches_have_equal_probabilities():
    tables, targets = make_tables()
    tables[0][-15:] += 1000.0  # a part of the graph of its own
    probabilities = run(tables, label(targets, NINE, n_linked=9))[0]
    np.testing.assert_allclose(probabilities[-15:], 1 / 3)
    assert probabilities[:-15].max(axis=1).min() > 1 / 3


# transfer between views


def test_a_view_without_labels_receives_them_over_linked_rows():
    tables, targets = make_tables(sizes=(150, 150), gap=8.0)
    labels = label(targets, [np.arange(20, 150), NOTHING])
    source, target = run(tables, labels)
    np.testing.assert_allclose(target.sum(axis=1), 1)
    assert np.mean(target.argmax(axis=1) == targets[1]) > 0.9
    graph = make_graphs(tables, labels)[0]
    np.testing.assert_allclose(source, slow_probabilities(graph, labels.codes[0]), atol=1e-4)


def test_without_linked_rows_no_labels_are_transferred():
    tables, targets = make_tables()
    labels = label(targets, [np.arange(70), NOTHING], n_linked=0)
    np.testing.assert_allclose(run(tables, labels)[1], 1 / 3)


def test_two_sources_are_mixed():
    tables, targets = make_tables(sizes=(80, 80, 80), columns=(5, 4, 6), gap=8.0)
    labels = label(targets, [np.arange(20, 80), np.arange(20, 80), NOTHING])
    assert labels.sources == [0, 1]
    probabilities = run(tables, labels)[2]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.mean(probabilities.argmax(axis=1) == targets[2]) > 0.9


def test_a_view_keeps_its_own_labels_of_the_classes_that_it_has():
    tables, targets = make_tables(sizes=(150, 150), gap=8.0)
    own = np.flatnonzero(targets[1] < 2)[20:60]
    labels = label(targets, [np.arange(20, 150), own])
    probabilities = run(tables, labels)[1]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert np.mean(probabilities[own].argmax(axis=1) == targets[1][own]) > 0.9
    assert np.mean(probabilities.argmax(axis=1) == targets[1]) > 0.9


def test_linked_rows_that_are_no_nodes_are_not_used(monkeypatch):
    monkeypatch.setattr(graph_module, "_MAX_NODES", 10)  # fewer than are linked
    tables, targets = make_tables(gap=8.0)
    labels = label(targets, [np.arange(20, 70), NOTHING])
    graphs = [
        build_graph(X, PCA().fit(X), K, np.random.default_rng(s)) for s, X in enumerate(tables)
    ]
    pairs = linked_nodes(*graphs, labels.aligned)
    both = set(graphs[0].nodes.tolist()) & set(graphs[1].nodes.tolist()) & set(range(20))
    assert {int(graphs[0].nodes[a]) for a, _ in pairs} == both
    assert {int(graphs[1].nodes[b]) for _, b in pairs} == both
    np.testing.assert_allclose(run(tables, labels, graphs)[1].sum(axis=1), 1)


# soft labels


def test_soft_labels_are_labels_where_known_and_probabilities_elsewhere():
    tables, targets = make_tables()
    labels = label(targets, NINE)
    graphs = make_graphs(tables, labels)
    probabilities = run(tables, labels, graphs)[0]
    soft_labels = make_soft_labels(graphs[0], probabilities, labels.codes[0])
    assert soft_labels.dtype == torch.float32
    assert soft_labels[:9].tolist() == np.eye(3)[targets[0][:9]].tolist()
    np.testing.assert_allclose(soft_labels[9:], probabilities[9:], rtol=1e-6)
    assert not np.allclose(probabilities[:9], np.eye(3)[targets[0][:9]])


def test_rows_that_are_no_nodes_have_soft_labels_of_their_neighbors(monkeypatch):
    monkeypatch.setattr(graph_module, "_MAX_NODES", 30)
    tables, targets = make_tables(gap=8.0)
    labels = label(targets, NINE)
    graphs = make_graphs(tables, labels)
    probabilities = run(tables, labels, graphs)[0]
    soft_labels = make_soft_labels(graphs[0], probabilities, labels.codes[0]).numpy()
    np.testing.assert_allclose(soft_labels.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(soft_labels[20:], graphs[0].extend(probabilities)[20:])
    assert np.mean(soft_labels.argmax(axis=1) == targets[0]) > 0.9


def test_predictors_have_the_points_and_probabilities_of_the_nodes():
    tables, targets = make_tables(gap=8.0)
    labels = label(targets, NINE)
    graphs = make_graphs(tables, labels)
    probabilities = run(tables, labels, graphs)
    features = [(graph.points[:, :1] ** 2, 2.0) for graph in graphs]
    featured = fit_predictors(graphs, probabilities, labels, features).knn[0]
    expected = np.hstack([graphs[0].points, features[0][0]])
    np.testing.assert_allclose(featured.points, expected, rtol=1e-5)
    assert (featured.n_neighbors, featured.feature_scale) == (K, 2.0)
    knn = fit_predictors(graphs, probabilities, labels).knn[0]
    np.testing.assert_allclose(knn.points, graphs[0].points, rtol=1e-5)
    np.testing.assert_allclose(knn.soft_labels, probabilities[0], rtol=1e-5)
    X = torch.from_numpy(tables[0])
    predicted = knn.predict_log_proba(X, X[:, :0]).argmax(1).numpy()
    assert np.mean(predicted == targets[0]) > 0.9
