"""Targets of all rows from linked ones: generalized CCA, against closed forms."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles, svdvals
from sklearn.decomposition import PCA

from hotview.estimators import rows as link_targets
from hotview.estimators.rows import generalized_cca, make_link_targets
from hotview.semisupervised.graph import build_graph
from hotview.semisupervised.propagation import diffusion_coordinates

COMPLETE = np.stack([np.arange(80)] * 2, axis=1)


def correlated(n=120, columns=(4, 3), n_common=2, noise=0.7, seed=0):
    """Views that share factors, each mixed into its own columns."""
    random = np.random.default_rng(seed)
    common = random.normal(size=(n, n_common))
    return [
        common @ random.normal(size=(n_common, D)) + noise * random.normal(size=(n, D))
        for D in columns
    ]


def white(X):
    """An orthonormal basis of the centered columns."""
    return np.linalg.qr(X - X.mean(axis=0))[0]


def test_two_complete_views_without_a_penalty_have_the_variables_of_cca(monkeypatch):
    monkeypatch.setattr(link_targets, "_PENALTY", 0.0)
    Xs = correlated()
    a, b = generalized_cca(Xs, COMPLETE, 3)
    linked = [X[:80] for X in Xs]
    rho = svdvals(white(linked[0]).T @ white(linked[1]))
    for j in range(3):
        # Canonical variables, with the correlations of CCA.
        assert np.corrcoef(a[:80, j], b[:80, j])[0, 1] == pytest.approx(rho[j])
        for i in range(j):
            assert np.corrcoef(a[:80, i], a[:80, j])[0, 1] == pytest.approx(0, abs=1e-8)
            assert np.corrcoef(a[:80, i], b[:80, j])[0, 1] == pytest.approx(0, abs=1e-8)
    # The shared variable has unit length, and the eigenvalue (1 + ρ) / 2 as its weight: the
    # variable of a view is then long √(λ / 2) times the weight, over the root of 2 views.
    value = (1 + rho) / 2
    G = (a + b)[:80] / 2
    np.testing.assert_allclose(np.linalg.norm(G, axis=0), value**2 / np.sqrt(2), rtol=1e-6)


def regression(X, rows, G):
    """Centered linked rows, the penalty, and the coefficients of a ridge regression of G."""
    has = rows >= 0
    A = X[rows[has]] - X[rows[has]].mean(axis=0)
    ridge = np.trace(A.T @ A) / A.shape[1]
    return A, ridge, np.linalg.solve(A.T @ A + ridge * np.eye(A.shape[1]), A.T @ G[has])


def slow_objective(Xs, links, G):
    """What G must minimize among all of its length: the error of every view's regression."""
    total = 0.0
    for X, rows in zip(Xs, links.T, strict=True):
        A, ridge, B = regression(X, rows, G)
        total += ((A @ B - G[rows >= 0]) ** 2).sum() + ridge * (B**2).sum()
    return total


def test_the_first_variable_minimizes_the_error_of_ridge_regressions_of_partial_rows():
    Xs, links = correlated(columns=(4, 3, 5)), np.stack([np.arange(60)] * 3, axis=1)
    random = np.random.default_rng(1)
    links[random.random(links.shape) < 0.25] = -1
    links = links[(links >= 0).sum(axis=1) > 1]
    m = (links >= 0).sum(axis=1)
    # Normalized by the number of views that a row has; the minimum is an eigenvector.
    halves = []
    for X, rows in zip(Xs, links.T, strict=True):
        has, P = rows >= 0, np.zeros((len(links), len(links)))
        A, _, B = regression(X, rows, np.eye(len(links)))
        P[has] = A @ B
        halves.append(P / np.sqrt(np.outer(m, m)))
    values, vectors = np.linalg.eigh(sum(halves))
    best = vectors[:, -1] / np.sqrt(m)
    least = slow_objective(Xs, links, best)
    assert least == pytest.approx(1 - values[-1])
    for _ in range(200):
        G = random.normal(size=len(links))
        assert slow_objective(Xs, links, G / np.sqrt((m * G**2).sum())) > least
    # The variables are the ridge regressions of that G, times its eigenvalue.
    found, expected = generalized_cca(Xs, links, 1), []
    for X, rows in zip(Xs, links.T, strict=True):
        B = regression(X, rows, best)[2]
        expected.append((X - X[rows[rows >= 0]].mean(axis=0)) @ B * values[-1])
    sign = np.sign(found[0][:, 0] @ expected[0])  # the same in all views
    for Z, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(Z[:, 0], sign * other, rtol=1e-6, atol=1e-9)


def test_what_does_not_matter_changes_nothing():
    Xs = correlated()
    expected = generalized_cca(Xs, COMPLETE, 3)
    random = np.random.default_rng(2)
    columns, order, rows = random.permutation(4), random.permutation(80), random.permutation(120)
    rotated = [Xs[0] @ np.linalg.qr(random.normal(size=(4, 4)))[0], Xs[1]]
    for changed, links in (
        ([Xs[0][:, columns], Xs[1]], COMPLETE),
        ([-Xs[0], Xs[1]], COMPLETE),
        ([1e3 * Xs[0] + 100, Xs[1]], COMPLETE),  # the penalty is relative
        (rotated, COMPLETE),
        (Xs, COMPLETE[order]),
        (Xs, np.vstack([COMPLETE, [[90, -1], [-1, 95], [-1, -1]]])),  # in one view or none
    ):
        for Z, other in zip(generalized_cca(changed, links, 3), expected, strict=True):
            np.testing.assert_allclose(Z, other, atol=1e-8)
    # Rows and views in another order have their own variables.
    links = np.stack([np.arange(80), np.argsort(rows)[:80]], axis=1)
    a, b = generalized_cca([Xs[1], Xs[0][rows]], links, 3)
    np.testing.assert_allclose(a, expected[1], atol=1e-8)
    np.testing.assert_allclose(b, expected[0][rows], atol=1e-8)


def test_a_view_without_linked_rows_and_a_constant_one_have_zeros():
    Xs = [*correlated(), np.random.default_rng(0).normal(size=(50, 3)), np.full((120, 2), 7.0)]
    links = np.column_stack([COMPLETE, np.full(80, -1), np.arange(80)])
    a, b, unlinked, constant = generalized_cca(Xs, links, 2)
    assert not unlinked.any()
    np.testing.assert_allclose(constant, 0, atol=1e-9)
    # The constant view weighs all variables down alike.
    for Z, other in zip((a, b), generalized_cca(Xs[:2], COMPLETE, 2), strict=True):
        assert subspace_angles(Z[:, :1], other[:, :1]).max() < 1e-6


def test_three_links_give_two_variables_and_others_are_zero():
    Xs = correlated()
    for Z in generalized_cca(Xs, COMPLETE[:3], 6):
        assert Z.shape == (120, 6)
        assert np.isfinite(Z).all()
        assert (np.abs(Z).max(axis=0) > 1e-9).tolist() == [True] * 2 + [False] * 4


def graphs_of(Xs, n_neighbors=5, seed=0):
    random = np.random.default_rng(seed)
    return [build_graph(X.astype(np.float32), PCA().fit(X), n_neighbors, random) for X in Xs]


def test_linked_rows_have_similar_targets_and_unseen_ones_too():
    Xs = correlated(300, (6, 5), noise=0.2)
    targets = make_link_targets(graphs_of(Xs), COMPLETE, 2)
    assert [(tuple(T.shape), str(T.dtype)) for T in targets] == [((300, 2), "torch.float32")] * 2
    variances = [T.double().var(0, correction=0).mean().item() for T in targets]
    assert np.mean(variances) == pytest.approx(1, rel=1e-5)
    a, b = (T.numpy() for T in targets)
    for rows in (slice(80), slice(80, None)):
        assert ((a[rows] - b[rows]) ** 2).mean() < 0.3
    wrong = COMPLETE.copy()
    wrong[:, 1] = np.random.default_rng(0).permutation(80)
    a, b = (T.numpy() for T in make_link_targets(graphs_of(Xs), wrong, 2))
    assert ((a[80:] - b[80:]) ** 2).mean() > 0.6


def test_targets_are_of_components_beside_twenty_diffusion_coordinates():
    graphs = graphs_of(correlated(200, (6, 5)))
    columns = []
    for graph in graphs:
        Y = diffusion_coordinates(graph.adjacency, 20)
        columns.append(np.hstack([graph.points, Y / np.sqrt(Y.var(axis=0).sum())]))
    nodes = np.stack([g.node_numbers(COMPLETE[:, s]) for s, g in enumerate(graphs)], axis=1)
    expected = generalized_cca(columns, nodes, 2)
    scale = np.mean([Z.var(axis=0).mean() for Z in expected]) ** -0.5
    for T, Z, graph in zip(make_link_targets(graphs, COMPLETE, 2), expected, graphs, strict=True):
        np.testing.assert_allclose(T.numpy()[graph.nodes], scale * Z, atol=1e-4)


def test_constant_views_have_targets_of_zero():
    with np.errstate(invalid="ignore"):  # their components explain a share of nothing
        graphs = graphs_of([np.full((30, 2), 3.0), np.full((40, 2), 5.0)])
    for T in make_link_targets(graphs, COMPLETE[:20], 2):
        assert np.isfinite(T.numpy()).all()
        assert np.abs(T.numpy()).max() < 10


def test_linked_rows_that_are_no_nodes_are_left_out(monkeypatch):
    monkeypatch.setattr("hotview.semisupervised.graph._MAX_NODES", 100)
    graphs = graphs_of(correlated(200, (6, 5)))
    targets = make_link_targets(graphs, COMPLETE, 2)
    both = [np.isin(COMPLETE[:, s], g.nodes) for s, g in enumerate(graphs)]
    kept = COMPLETE[both[0] & both[1]]
    assert 0 < len(kept) < 80
    for T, other in zip(targets, make_link_targets(graphs, kept, 2), strict=True):
        np.testing.assert_allclose(T, other, atol=1e-5)
