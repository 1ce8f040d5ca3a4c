"""Predictors of new rows by neighbors and ridge regressions, on arrays alone."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from hotview.semisupervised.graph import build_graph
from hotview.semisupervised.knn import FLOOR
from hotview.semisupervised.predictors import fit_joint, fit_predictors
from hotview.semisupervised.pseudo_labels import ViewLabels, label_nodes, score_nodes
from hotview.semisupervised.ridge import fit_ridge

N_CLASSES, K = 3, 5
EQUAL = np.log(np.full((2, N_CLASSES), 1 / N_CLASSES))
WEIGHTS = np.array([[1.0, 0.5]] * 2)


def make_views(n=60, columns=(4, 3), noise=0.5, seed=0):
    random = np.random.default_rng(seed)
    y = np.concatenate([np.arange(N_CLASSES), random.integers(N_CLASSES, size=n - N_CLASSES)])
    Xs = [
        2 * np.eye(N_CLASSES)[y] @ random.normal(size=(N_CLASSES, D))
        + noise * random.normal(size=(n, D))
        for D in columns
    ]
    return [X.astype(np.float32) for X in Xs], y


def make_labels(y, n_labeled=12, log_prior=EQUAL, links=None, codes=None):
    known = np.where(np.arange(len(y)) < n_labeled, y, -1)
    links = np.repeat(np.arange(len(y))[:, None], 2, axis=1) if links is None else links
    return ViewLabels([known, known] if codes is None else codes, links, log_prior)


def fit(labels, Xs, features=()):
    random = np.random.default_rng(0)
    graphs = [build_graph(X, PCA().fit(X), K, random) for X in Xs]
    nobody = np.zeros(len(labels.links), dtype=bool)
    nodes = label_nodes(graphs, labels, score_nodes(graphs, labels), WEIGHTS, nobody, random)
    given = [[(f(graph.points), scale) for graph in graphs] for f, scale in features]
    return fit_predictors(graphs, nodes, labels, given), graphs, nodes


def as_rows(Xs):
    return {s: torch.from_numpy(X) for s, X in enumerate(Xs)}


def score(model, rows, heads=None, own=None):
    """Scores of all views that are given, (n_rows, n_views, 3, n_classes), without features."""
    scores = []
    for s, X in rows.items():
        logits = torch.zeros(len(X), N_CLASSES) if heads is None else heads[s]
        each = model.score_view(s, X, X[:, :0], logits, None if own is None else own[s])
        scores.append(torch.stack(each, dim=1))
    return torch.stack(scores, dim=1)


def test_scores_by_neighbors_ridge_and_head_of_every_view_and_jointly():
    Xs, y = make_views()
    labels = make_labels(y)
    model, _, _ = fit(labels, Xs)
    rows = as_rows(Xs)
    scores, joint = score(model, rows), model.joint.predict(rows)
    assert scores.shape == (60, 2, 3, N_CLASSES)
    assert scores.dtype == joint.dtype == torch.float64
    for s in rows:
        Y = model.knn[s].coordinates.project(rows[s], rows[s][:, :0])
        knn = model.knn[s].predict_log_proba(Y)
        torch.testing.assert_close(scores[:, s, 0], knn, rtol=0, atol=0)
        ridge = model.ridge[s].predict({0: rows[s]})
        torch.testing.assert_close(scores[:, s, 1], ridge, rtol=0, atol=0)
    right = (scores[:, :, :2].argmax(3).numpy() == y[:, None, None]).mean(axis=0)
    assert (right > 0.85).all()
    assert (joint.argmax(1).numpy() == y).mean() > 0.9


def test_the_prior_is_subtracted_from_logits_of_heads():
    Xs, y = make_views()
    prior = np.array([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6]])
    model, _, _ = fit(make_labels(y, log_prior=np.log(prior)), Xs)
    rows = as_rows(Xs)
    # A head that predicts the prior tells nothing.
    heads = {s: torch.from_numpy(np.tile(np.log(prior[s]), (60, 1))).float() for s in rows}
    scores = score(model, rows, heads)
    np.testing.assert_allclose(scores[:, :, 2], np.log(1 / 3 + FLOOR), rtol=1e-6)
    random = np.random.default_rng(0)
    logits = random.normal(size=(60, N_CLASSES))
    scores = score(model, rows, dict.fromkeys(rows, torch.from_numpy(logits)))
    for s in rows:
        likelihood = np.exp(logits) / prior[s]
        likelihood /= likelihood.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(scores[:, s, 2], np.log(likelihood + FLOOR), rtol=1e-9)


def test_several_heads_are_scored_at_once():
    Xs, y = make_views()
    model, _, _ = fit(make_labels(y, log_prior=np.log([[0.7, 0.2, 0.1]] * 2)), Xs)
    X = torch.from_numpy(Xs[1])
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 60, N_CLASSES)))
    *shared, heads = model.score_view(1, X, X[:, :0], logits)
    assert heads.shape == logits.shape
    for each, found in zip(logits, heads, strict=True):
        *same, expected = model.score_view(1, X, X[:, :0], each)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert all(map(torch.equal, shared, same))  # by neighbors and ridge, whoever the members


def test_a_row_is_no_neighbor_of_its_own():
    Xs, y = make_views()
    model, graphs, nodes = fit(make_labels(y), Xs)
    rows = {s: X[:7] for s, X in as_rows(Xs).items()}
    own = {s: torch.arange(7) for s in rows}
    own[1][3] = -1  # a row that is no point
    scores = score(model, rows, own=own)
    for s, graph in enumerate(graphs):
        for i in range(7):
            distance = ((graph.points - graph.points[i]) ** 2).sum(axis=1)
            if own[s][i] >= 0:
                distance[i] = np.inf
            near = np.argsort(distance)[:K]
            expected = np.log(nodes[s].votes[near].mean(axis=0) + FLOOR)
            np.testing.assert_allclose(scores[i, s, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("n", (1, 3))
def test_features_of_all_members_are_beside_the_components_in_points_and_in_rows(n):
    Xs, y = make_views()
    members = [(lambda P: P[:, :1] ** 2, 2.0), (lambda P: P[:, 1:2] ** 3, 5.0)]
    members = [*members, (lambda P: P[:, :1] * P[:, 1:2], 0.5)][:n]
    model, graphs, _ = fit(make_labels(y), Xs, members)
    for s in (0, 1):
        parts = [f(graphs[s].points) for f, _ in members]  # divided by the scales already
        expected = np.hstack([graphs[s].points, *(F / np.sqrt(n) for F in parts)])
        np.testing.assert_allclose(model.knn[s].points, expected, rtol=1e-5)
        features = np.hstack([F * scale for F, (_, scale) in zip(parts, members, strict=True)])
        found = model.knn[s].coordinates.project(
            torch.from_numpy(Xs[s]), torch.from_numpy(features)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_neighbors_of_every_view_are_condensed_and_nothing_else():
    Xs, y = make_views(1200)
    model, _, _ = fit(make_labels(y), Xs)
    found = model.condense(np.random.default_rng(0))
    random = np.random.default_rng(0)
    for s in (0, 1):
        expected = model.knn[s].condense(random)
        assert len(found.knn[s].points) <= 1000 < len(model.knn[s].points)
        assert torch.equal(found.knn[s].points, expected.points)
        assert torch.equal(found.knn[s].soft_labels, expected.soft_labels)
    assert all(a is b for a, b in zip(found.ridge, model.ridge, strict=True))
    assert (found.joint, found.log_prior) == (model.joint, model.log_prior)


def test_all_predictors_move_to_a_device():
    Xs, y = make_views()
    moved = fit(make_labels(y), Xs)[0].to("meta")  # the device that every machine has
    tensors = [knn.points for knn in moved.knn] + [knn.coordinates.offset for knn in moved.knn]
    tensors += [ridge.intercept for ridge in (*moved.ridge, moved.joint)] + [moved.log_prior]
    assert [x.device.type for x in tensors] == ["meta"] * 8


# the joint ridge regression


def test_the_joint_ridge_is_fitted_to_labeled_rows_of_whichever_views_they_have():
    Xs, y = make_views()
    links = np.repeat(np.arange(60)[:, None], 2, axis=1)
    links[:4, 1] = -1
    links[4:8, 0] = -1
    prior = np.array([[0.6, 0.3, 0.1], [0.4, 0.3, 0.3]])
    labels = make_labels(y, 20, np.log(prior), links)
    random = np.random.default_rng(0)
    graphs = [build_graph(X, PCA().fit(X), K, random) for X in Xs]
    found = fit_joint(graphs, labels)
    zeros = [X[:20].copy() for X in Xs]
    zeros[1][:4] = 0
    zeros[0][4:8] = 0
    mean = np.sqrt(prior[0] * prior[1])  # geometric
    expected = fit_ridge(zeros, np.eye(N_CLASSES)[y[:20]], mean / mean.sum())
    for B, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(B, other, rtol=1e-9)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-9)


def test_without_a_labeled_row_of_two_views_there_is_no_joint_ridge():
    Xs, y = make_views()
    assert fit(make_labels(y), Xs)[0].joint is not None
    alone = np.repeat(np.arange(60)[:, None], 2, axis=1)
    alone[:12, 1] = -1  # labeled rows have one view, the other rows two
    nobody = np.empty((0, 2), dtype=np.int64)
    codes = [np.where(np.arange(60) < 12, y, -1), np.where(np.arange(60) > 50, y, -1)]
    for labels in (
        make_labels(y, links=alone, codes=[codes[0], np.full(60, -1)]),
        make_labels(y, links=nobody, codes=codes),
    ):
        model, _, _ = fit(labels, Xs)
        assert model.joint is None
        assert score(model, as_rows(Xs)).shape == (60, 2, 3, N_CLASSES)
        assert model.to("cpu").joint is None
