"""Labels of all rows: propagated, calibrated, and taught by other views over linked rows."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.decomposition import PCA

from hotview.semisupervised import graph as graph_module
from hotview.semisupervised import label_transfer
from hotview.semisupervised import soft_labels as module
from hotview.semisupervised.class_prior import class_priors, share_evidence, shift_prior
from hotview.semisupervised.graph import build_graph
from hotview.semisupervised.knn import FLOOR
from hotview.semisupervised.label_transfer import (
    anchor_profiles,
    linked_nodes,
    profile_agreement,
    transfer_labels,
)
from hotview.semisupervised.ridge import NodeScores, fit_ridge, score_view
from hotview.semisupervised.soft_labels import (
    calibrate,
    doubt_priors,
    label_fold,
    label_nodes,
    make_soft_labels,
    node_order,
    propagate_labels,
    score_nodes,
    shift_priors,
)
from hotview.semisupervised.super_learner import fit_weights
from tests.data.small_data import links_of, make_data

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


def label(targets, labeled, n_linked=20, links=None):
    """Labels of some rows of every view."""
    codes = []
    for y, rows in zip(targets, labeled, strict=True):
        codes.append(np.full(len(y), -1))
        codes[-1][rows] = y[rows]
    return make_data(codes, links_of(n_linked, len(targets)) if links is None else links)


def log_priors(prior=(1 / 3, 1 / 3, 1 / 3), n_views=2):
    return np.log(np.tile(prior, (n_views, 1)))


EQUAL = log_priors()


def make_graphs(tables, data, k=K, seed=0):
    return [
        build_graph(X, PCA().fit(X), k, np.random.default_rng(seed), node_order(data, s))
        for s, X in enumerate(tables)
    ]


def run(tables, data, graphs=None, prior=(1 / 3, 1 / 3, 1 / 3), left_out=(), weights=(1.0, 0.5)):
    """Labels of the nodes of every view."""
    graphs = graphs or make_graphs(tables, data)
    is_out = np.isin(np.arange(len(data.links)), left_out)
    prior, weights = log_priors(prior, len(graphs)), np.array([weights] * len(graphs))
    scores, random = score_nodes(graphs, data.codes, prior), np.random.default_rng(0)
    return label_nodes(graphs, data, prior, scores, weights, is_out, random)


def slow_probabilities(graph, codes):
    """By the inverse; the labels of a class have the same total mass in all classes."""
    codes = codes[graph.nodes]
    seeds = np.array([codes == c for c in range(N_CLASSES)], dtype=float).T
    F = np.linalg.solve(np.eye(len(codes)) - 0.95 * graph.adjacency.toarray(), seeds)
    scaled = F / np.maximum(seeds.sum(axis=0), 1)
    return scaled / scaled.sum(axis=1, keepdims=True)


NOTHING = np.empty(0, dtype=np.int64)


def test_anchors_and_labeled_rows_become_nodes_first():
    codes = np.full(500, -1)
    codes[[499, 250, 3]] = [0, 1, 2]
    order = node_order(make_data([codes, codes], links_of(300)), 0)
    assert order[:200].tolist() == list(range(200))
    assert order[200:203].tolist() == [3, 250, 499]
    assert set(order.tolist()) == {*range(300), 499}


def test_labels_are_propagated_along_the_graph_and_learned_by_ridge_regressions():
    tables, targets = make_tables()
    prior = np.array([0.6, 0.3, 0.1])
    labels = label(targets, [np.arange(30)] * 2)
    graphs = make_graphs(tables, labels)
    for s, found in enumerate(score_nodes(graphs, labels.codes, log_priors(prior))):
        expected = slow_probabilities(graphs[s], labels.codes[s])
        np.testing.assert_allclose(found.propagated, expected, atol=1e-4)
        np.testing.assert_allclose(found.scores[:, 0], np.log(found.propagated + FLOOR))
        ridge = fit_ridge([tables[s][:30]], np.eye(3)[targets[s][:30]], prior)
        np.testing.assert_allclose(found.ridge.weights[0], ridge.weights[0], rtol=1e-9)
        expected = ridge.predict({0: torch.from_numpy(tables[s][graphs[s].nodes])})
        np.testing.assert_allclose(found.scores[:, 1], expected, rtol=1e-6)


def test_weights_are_those_of_labels_that_were_left_out():
    tables, targets = make_tables(gap=2.0)
    labels, prior = label(targets, [np.arange(60)] * 2), log_priors((0.5, 0.3, 0.2))
    graphs = make_graphs(tables, labels)
    halves = np.arange(0, 30), np.arange(30, 60)
    folds = [label(targets, [np.setdiff1d(np.arange(60), half)] * 2) for half in halves]
    scores = [score_nodes(graphs, fold.codes, prior) for fold in folds]
    found = calibrate(graphs, labels, folds, scores, prior)
    left = np.concatenate([of_fold[0].scores[h] for of_fold, h in zip(scores, halves, strict=True)])
    start = np.array(module._PRIOR_WEIGHTS)
    expected = fit_weights(left, targets[0][:60], prior[0], start, module._SHRINKAGE)
    np.testing.assert_allclose(found[0], expected)
    known = score_nodes(graphs, labels.codes, prior)
    none = calibrate(graphs, labels, [labels], [known], prior)
    np.testing.assert_array_equal(none, [start, start])  # nothing was left out


def test_the_posterior_is_the_likelihood_times_the_prior_and_labels_are_certain():
    tables, targets = make_tables()
    prior = np.array([0.6, 0.3, 0.1])
    labels = label(targets, [np.arange(30)] * 2)
    graphs = make_graphs(tables, labels)
    found = run(tables, labels, graphs, prior, left_out=np.arange(20), weights=(0.8, 0.3))
    for s, scores in enumerate(score_nodes(graphs, labels.codes, log_priors(prior))):
        logits = 0.8 * scores.scores[:, 0] + 0.3 * scores.scores[:, 1] + np.log(prior)
        expected = softmax(logits, axis=1)
        expected[:30] = np.eye(3)[targets[s][:30]]
        np.testing.assert_allclose(found[s].posterior, expected, rtol=1e-9)
        np.testing.assert_array_equal(found[s].votes, scores.propagated)
        assert not found[s].taught


def test_a_view_without_labels_receives_them_over_linked_rows():
    tables, targets = make_tables(sizes=(150, 150), gap=8.0)
    labels = label(targets, [np.arange(20, 150), NOTHING])
    source, target = run(tables, labels)
    for found in (target.votes, target.posterior):
        np.testing.assert_allclose(found.sum(axis=1), 1)
        assert np.mean(found.argmax(axis=1) == targets[1]) > 0.9
    X = torch.from_numpy(tables[1])
    assert np.mean(target.ridge.predict({0: X}).argmax(1).numpy() == targets[1]) > 0.9
    assert target.taught
    assert not source.taught  # no other view has labels of its own


def test_one_linked_row_teaches_and_labels_of_one_class_are_labels():
    tables, targets = make_tables(n_linked=1)
    data = label(targets, [np.arange(1, 40), []], n_linked=1)
    assert run(tables, data)[1].taught
    one = [np.where(codes == 0, 0, -1) for codes in data.codes]
    first, second = score_nodes(make_graphs(tables, data), one, EQUAL)
    assert first is not None
    assert second is None


def test_rows_whose_label_is_only_left_out_teach_nobody():
    tables, targets = make_tables(sizes=(150, 150), gap=8.0)
    prior = (0.6, 0.3, 0.1)
    labels = label(targets, [np.arange(20, 150), NOTHING])
    before = [*(c.copy() for c in labels.codes), labels.links.copy()]
    graphs = make_graphs(tables, labels)
    untaught = run(tables, labels, graphs, prior, left_out=np.arange(20))[1]
    assert not untaught.taught
    np.testing.assert_allclose(untaught.votes, 1 / 3)  # as if all classes had the same mass
    np.testing.assert_allclose(untaught.posterior, np.tile(prior, (150, 1)))
    assert (untaught.ridge.weights[0] == 0).all()
    some = np.arange(0, 20, 2)  # are no links
    taught = run(tables, labels, graphs, prior, left_out=some)[1]
    full = run(tables, labels, graphs, prior)[1]
    unlinked = make_data(labels.codes, labels.links[1::2])
    expected = run(tables, unlinked, graphs, prior)[1]
    assert taught.taught
    np.testing.assert_array_equal(taught.votes, expected.votes)
    np.testing.assert_array_equal(taught.posterior, expected.posterior)
    assert not np.allclose(taught.votes, full.votes, atol=1e-3)
    for x, old in zip([*labels.codes, labels.links], before, strict=True):
        np.testing.assert_array_equal(x, old)  # nothing is changed


def test_a_view_is_taught_over_rows_that_lack_other_views():
    tables, targets = make_tables(sizes=(80, 80, 80), columns=(5, 4, 6), gap=8.0)
    labels = label(targets, [np.arange(20, 80), NOTHING, np.arange(20, 80)])
    labels.links[:, 2] = -1  # rows that have the first two views alone
    graphs = make_graphs(tables, labels)
    found = run(tables, labels, graphs)[1]
    assert found.taught
    assert np.mean(found.posterior.argmax(axis=1) == targets[1]) > 0.9
    # The third view, of which no row is linked, has no influence.
    labels.codes[2][:] = np.where(labels.codes[2] >= 0, (labels.codes[2] + 1) % 3, -1)
    again = run(tables, labels, graphs)[1]
    np.testing.assert_array_equal(found.posterior, again.posterior)


def test_what_other_views_say_is_added_and_divided_by_the_root_of_their_number():
    tables, targets = make_tables(sizes=(80, 80, 80), columns=(5, 4, 6))
    labels = label(targets, [np.arange(20, 80), np.arange(20, 80), NOTHING])
    labels.links[:5, 0] = -1
    labels.links[5:8, :2] = -1  # rows about which nothing is said
    labels.links[8, 2] = -1
    graphs = make_graphs(tables, labels)
    random = np.random.default_rng(0)
    logits = [random.normal(size=(80, 3)), random.normal(size=(80, 3)), None]
    rows, total = module._linked_likelihoods(graphs, labels.links[:15], logits, 2, 3)
    expected = [logits[1][i] for i in range(5)]
    expected += [(logits[0][i] + logits[1][i]) / np.sqrt(2) for i in range(9, 15)]
    assert rows.tolist() == [*range(5), *range(9, 15)]
    np.testing.assert_allclose(total, expected)
    rows, total = module._linked_likelihoods(graphs, labels.links[:15], logits, 0, 3)
    assert rows.tolist() == list(range(8, 15))  # not by what the view itself says
    np.testing.assert_allclose(total, logits[1][8:15])


@pytest.mark.parametrize("n_nodes", (150, 60))  # all rows, and fewer than are known
def test_a_view_keeps_its_own_labels_of_the_classes_that_it_has(monkeypatch, n_nodes):
    monkeypatch.setattr(graph_module, "_MAX_NODES", n_nodes)
    tables, targets = make_tables(sizes=(150, 150), gap=8.0)
    own = np.flatnonzero(targets[1] < 2)[20:60]
    labels = label(targets, [np.arange(20, 150), own])
    graphs = make_graphs(tables, labels)
    pairs = linked_nodes(*graphs, labels.links)
    both = set.intersection(*(set(graph.nodes.tolist()) for graph in graphs)) & set(range(20))
    assert [set(g.nodes[at].tolist()) for g, at in zip(graphs, pairs.T, strict=True)] == [both] * 2
    posterior = run(tables, labels, graphs)[1].posterior
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert np.mean(posterior.argmax(axis=1) == targets[1][graphs[1].nodes]) > 0.9
    known = np.isin(graphs[1].nodes, own)
    np.testing.assert_array_equal(posterior[known], np.eye(3)[targets[1][graphs[1].nodes[known]]])


def test_class_probabilities_count_by_how_much_they_know():
    """Seeds are class probabilities times their certainty, and labels; so are weights of rows."""
    tables, targets = make_tables()
    labels = label(targets, [np.arange(20, 70), NOTHING])
    graph = make_graphs(tables, labels)[0]
    of_nodes = labels.codes[0][graph.nodes]
    rows = np.flatnonzero(of_nodes < 0)[:4]
    q = np.array([[0.8, 0.15, 0.05]] * 3 + [[1 / 3] * 3])  # of which the last knows nothing
    certainty = 1 + (q * np.log(q)).sum(axis=1) / np.log(3)
    seeds = np.eye(4)[of_nodes][:, :3]
    seeds[rows] = q * certainty[:, None]
    F = np.linalg.solve(np.eye(len(seeds)) - 0.95 * graph.adjacency.toarray(), seeds)
    F /= seeds.sum(axis=0)
    found = score_view(graph, labels.codes[0], EQUAL[0], rows, q)
    np.testing.assert_allclose(found.propagated, F / F.sum(axis=1, keepdims=True), atol=1e-4)
    X, Y = tables[0], np.vstack([np.eye(3)[targets[0][20:]], q])
    weight = np.r_[np.ones(50), certainty]
    ridge = fit_ridge([np.vstack([X[20:], X[rows]])], Y, np.full(3, 1 / 3), weight)
    expected = ridge.predict({0: torch.from_numpy(X)})
    np.testing.assert_allclose(found.scores[:, 1], expected, rtol=1e-6)


@pytest.mark.parametrize(("n_linked", "trust"), ((12, 0.0), (40, 0.6), (12, 1.0)))
def test_transport_weighs_by_trust_and_by_how_few_rows_are_linked(monkeypatch, n_linked, trust):
    """w = 0.25 + 0.65 · trust · min(1, 40 / (20 + n)), beside 3 · propagation + 0.5 · ridge."""
    tables, targets = make_tables(sizes=(80, 80), n_linked=40)
    prior = log_priors((0.5, 0.3, 0.2))
    labels = label(targets, [np.arange(40, 80), NOTHING], n_linked=n_linked)
    graphs = make_graphs(tables, labels)
    random = np.random.default_rng(0)
    moved = random.dirichlet(np.ones(3), size=80)
    monkeypatch.setattr(label_transfer, "_receive_labels", lambda *_: (moved, trust))
    rows, q = np.arange(n_linked), random.dirichlet(np.ones(3), size=n_linked)
    own = labels.codes[1], rows, q
    found = transfer_labels(graphs, labels.links, [None, None], prior, 1, *own, random)
    local = score_view(graphs[1], labels.codes[1], prior[1], rows, q).scores
    w = 0.25 + 0.65 * trust * min(1.0, 40 / (20 + n_linked))
    pooled = w * (np.log(moved + FLOOR) - prior[1])
    pooled += (1 - w) * (3 * local[:, 0] + 0.5 * local[:, 1])
    np.testing.assert_allclose(found.propagated, softmax(pooled, axis=1), rtol=1e-8)


@pytest.mark.parametrize("classes", ((0, 1, 2), (0, 1)))
def test_trust_in_transport_is_agreement_less_where_linked_rows_have_another_mix(classes):
    """min(1, r² / 0.3) (1 − λ), λ the share of the difference in classes that is not chance."""
    tables, targets = make_tables(sizes=(150, 150), n_linked=60, gap=5.0)
    labels = label(targets, [np.arange(60, 150), NOTHING], n_linked=60)
    labels.links[:] = np.where(np.isin(targets[0][:60], classes)[:, None], labels.links, -1)
    graphs = make_graphs(tables, labels)
    weights = np.array([[1.0, 0.5]] * 2)
    found = score_nodes(graphs, labels.codes, EQUAL)
    logits = [found[0].logits(weights[0]), None]
    random = np.random.default_rng(0)
    _, trust = label_transfer._receive_labels(graphs, labels.links, logits, EQUAL, 1, random)
    pairs = linked_nodes(*graphs, labels.links)
    P, Q = (anchor_profiles(g.adjacency, pairs[:, i]) for i, g in enumerate(graphs))
    agreement = min(1.0, profile_agreement(P, Q, pairs) / 0.3)
    posterior = softmax(logits[0], axis=1)
    shift = share_evidence(posterior[pairs[:, 0]].sum(axis=0), posterior.mean(axis=0))
    assert trust == pytest.approx(agreement * (1 - shift))
    assert agreement > 0.1
    assert (shift > 0.3) == (classes == (0, 1))


def fake_scores(posterior):
    """Scores whose posterior under equal priors and weights (1, 0) is given."""
    scores = np.stack([np.log(posterior), np.zeros_like(posterior)], axis=1)
    return NodeScores(posterior, None, scores)


def test_linked_rows_of_another_mix_shift_the_prior():
    tables, targets = make_tables(sizes=(150, 150), n_linked=50)
    prior = np.array([0.5, 0.3, 0.2])
    labels = label(targets, [np.arange(50, 150), NOTHING], n_linked=50)
    graphs = make_graphs(tables, labels)
    of_nodes = np.tile([0.2, 0.4, 0.4], (150, 1))
    of_nodes[:50] = [0.8, 0.1, 0.1]
    likelihood = fake_scores(of_nodes / prior)
    how = np.array([[1.0, 0.0]] * 2), log_priors(prior)
    found = shift_priors(graphs, labels, [[likelihood, None]] * 2, *how)
    np.testing.assert_array_equal(found[0], np.log(prior))
    shifted = shift_prior(of_nodes[:50], of_nodes.mean(axis=0), prior)
    np.testing.assert_allclose(found[1], np.log(shifted), rtol=1e-9)
    assert np.exp(found[1, 0]) > 0.6
    np.testing.assert_allclose(np.exp(found[1]).sum(), 1)
    same = fake_scores(np.ones((150, 3)))  # linked rows that are like all others
    of_all = shift_priors(graphs, labels, [[same, None]], *how)
    np.testing.assert_allclose(of_all[1], np.log(prior))
    nobody = make_data(labels.codes, links_of(0))
    unlinked = shift_priors(graphs, nobody, [[likelihood, None]], *how)
    np.testing.assert_array_equal(unlinked, log_priors(prior))
    doubted = doubt_priors(found, labels)
    np.testing.assert_array_equal(doubted[0], found[0])  # has labels
    roots = np.exp(found[1]) ** module._DOUBT
    np.testing.assert_allclose(np.exp(doubted[1]), roots / roots.sum())


@pytest.mark.parametrize("n_nodes", (70, 30))
def test_soft_labels_are_labels_where_known_and_those_of_neighbors_for_rows_that_are_no_nodes(
    monkeypatch, n_nodes
):
    monkeypatch.setattr(graph_module, "_MAX_NODES", n_nodes)
    tables, targets = make_tables(gap=8.0)
    labels = label(targets, [np.arange(9)] * 2)
    graphs = make_graphs(tables, labels)
    probabilities = score_nodes(graphs, labels.codes, EQUAL)[0].propagated
    found = make_soft_labels(graphs[0], probabilities, labels.codes[0])
    assert found.dtype == torch.float32
    assert found[:9].tolist() == np.eye(3)[targets[0][:9]].tolist()
    np.testing.assert_array_equal(found[20:], graphs[0].extend(probabilities)[20:])
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    assert np.mean(found.argmax(1).numpy() == targets[0]) > 0.9


def test_folds_are_scored_then_weighed_and_shifted_together_then_labeled():
    tables, targets = make_tables(gap=2.0)
    linked = np.arange(10, 20)  # ten linked rows have a label, which both folds leave out
    given = label(targets, [np.arange(10, 60), linked])
    graphs = make_graphs(tables, given)
    rows = given.labeled()
    folds = [
        given.hide(rows[(rows[:, 1] >= 0) | np.isin(rows[:, 0], half)], np.arange(f, 10, 2))
        for f, half in enumerate((np.arange(10, 35), np.arange(35, 60)))
    ]
    found = propagate_labels(graphs, given, folds, [np.random.default_rng(f) for f in (0, 1)])
    prior = np.log(class_priors(given.codes, 3))
    scores = [score_nodes(graphs, fold.codes, prior) for fold in folds]
    weights = calibrate(graphs, given, folds, scores, prior)
    np.testing.assert_array_equal(found.given, prior)
    np.testing.assert_array_equal(found.weights, weights)
    expected = shift_priors(graphs, given, scores, weights, prior)
    np.testing.assert_array_equal(found.shifted, expected)
    np.testing.assert_array_equal(found.log_prior, doubt_priors(found.shifted, given))
    rule = found.log_prior, weights
    every = label_fold(graphs, given, given, *rule, np.random.default_rng(2))
    left_out = np.zeros((3, 20), dtype=bool)  # of the two folds, and of all labels
    left_out[:2, linked] = left_out[0, :10:2] = left_out[1, 1:10:2] = True
    for f, fold in enumerate((*folds, given)):
        known = scores[f] if f < 2 else score_nodes(graphs, given.codes, found.log_prior)
        random = np.random.default_rng(f)
        expected = label_nodes(graphs, fold, rule[0], known, weights, left_out[f], random)
        for nodes, others in zip((*found.nodes, every)[f], expected, strict=True):
            np.testing.assert_array_equal(nodes.posterior, others.posterior)
