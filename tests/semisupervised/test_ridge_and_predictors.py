"""Ridge regressions of classes, by hand and by scikit-learn, and predictors of new rows."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge as SklearnRidge

from hotview.semisupervised import knn, predictors
from hotview.semisupervised import ridge as ridge_module
from hotview.semisupervised.graph import build_graph
from hotview.semisupervised.knn import FLOOR
from hotview.semisupervised.predictors import Predictors, ViewInputs
from hotview.semisupervised.ridge import fit_joint_ridge, fit_ridge, thin_rows
from hotview.semisupervised.soft_labels import label_nodes, score_nodes
from tests.data.small_data import links_of, make_data

N_CLASSES = 3
EQUAL = np.full(N_CLASSES, 1 / N_CLASSES)


def make_views(n=30, columns=(4, 2), noise=1.0, seed=0):
    random = np.random.default_rng(seed)
    y = np.concatenate([np.arange(N_CLASSES), random.integers(N_CLASSES, size=n - N_CLASSES)])
    Xs = [
        2 * np.eye(N_CLASSES)[y] @ random.normal(size=(N_CLASSES, D))
        + noise * random.normal(size=(n, D))
        for D in columns
    ]
    return Xs, y


def one_hot(y):
    return np.eye(N_CLASSES)[y]


def soften(y, seed=0):
    """Class probabilities that are nearly those of the labels, and weights of the rows."""
    random = np.random.default_rng(seed)
    soft = 0.7 * one_hot(y) + 0.3 * random.dirichlet(np.ones(N_CLASSES), len(y))
    return soft, random.random(len(y))


def weights_of_rows(target, prior, row_weight=None):
    """Every class has a total weight of its prior probability; the mean weight is 1."""
    row_weight = np.ones(len(target)) if row_weight is None else row_weight
    w = row_weight * (target @ (prior / (row_weight @ target)))
    return w * len(target) / w.sum()


def joined(Xs):
    """All columns: views count alike, and the mean squared length of a row is 1."""
    X = np.hstack([X / np.sqrt(X.shape[1]) for X in Xs])
    return X / np.sqrt((X * X).sum(axis=1).mean())


def solve(X, Y, w, penalty):
    """Coefficients of scikit-learn; the intercept is penalized like the others, and the last."""
    X = np.hstack([X, np.ones((len(X), 1))])
    other = SklearnRidge(alpha=penalty, fit_intercept=False, solver="cholesky")
    return other.fit(X, Y, sample_weight=w).coef_.T


def slow_ridge(Xs, target, prior, row_weight=None):
    """Every penalty, every row left out and fitted anew, every sharpness."""
    X, n = joined(Xs), len(target)
    w, Y = weights_of_rows(target, prior, row_weight), target - 1 / N_CLASSES
    count = np.ones(n) if row_weight is None else row_weight
    best = None
    for penalty in 10.0 ** np.arange(-4, 2) * n:
        out = np.empty_like(Y)
        for i in range(n):
            others = np.arange(n) != i
            out[i] = np.r_[X[i], 1] @ solve(X[others], Y[others], w[others], penalty)
        for sharpness in np.exp(np.linspace(-1, 4, 26)):
            loss = -(count * (target * log_softmax(sharpness * out, axis=1)).sum(axis=1)).sum()
            if best is None or loss < best[0]:
                best = (loss, sharpness * np.c_[X, np.ones(n)] @ solve(X, Y, w, penalty))
    return best[1] - np.log(prior)


def scores(Xs, ridge):
    """The linear function itself."""
    parts = [X @ B.numpy() for X, B in zip(Xs, ridge.weights, strict=True)]
    return sum(parts) + ridge.intercept.numpy()


@pytest.mark.parametrize(
    ("n", "columns", "noise", "prior", "soft"),
    (
        *((30, (4, 2), 1.0, EQUAL, False), (30, (4, 2), 5.0, [0.05, 0.7, 0.25], True)),
        *((12, (20, 5), 1.0, [0.05, 0.7, 0.25], False), (12, (20, 5), 5.0, EQUAL, True)),
    ),
    ids=("long", "long and noisy", "wide", "wide and noisy"),
)
def test_it_is_what_leaving_out_every_row_finds(n, columns, noise, prior, soft):
    Xs, y = make_views(n, columns, noise)
    target, row_weight = soften(y) if soft else (one_hot(y), None)
    before = [x.copy() for x in (*Xs, target)]
    found = scores(Xs, fit_ridge(Xs, target, np.array(prior), row_weight))
    expected = slow_ridge(Xs, target, np.array(prior), row_weight)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    for x, old in zip((*Xs, target), before, strict=True):
        np.testing.assert_array_equal(x, old)  # nothing is changed


def fix(monkeypatch, penalty):
    monkeypatch.setattr(ridge_module, "_PENALTIES", np.array([penalty]))
    monkeypatch.setattr(ridge_module, "_SHARPNESS", np.ones(1))


def test_a_sample_of_many_rows_chooses_the_penalty_and_all_rows_are_fitted(monkeypatch):
    fix(monkeypatch, 0.01)
    Xs, y = make_views(200)
    expected = fit_ridge(Xs, one_hot(y), EQUAL)
    monkeypatch.setattr(ridge_module, "_MAX_LEFT_OUT", 10)
    found = fit_ridge(Xs, one_hot(y), EQUAL)
    np.testing.assert_array_equal(scores(Xs, found), scores(Xs, expected))


def test_neither_the_order_of_anything_nor_units_nor_copies_of_columns_matter():
    Xs, y = make_views()
    prior, classes = np.array([0.2, 0.5, 0.3]), [2, 0, 1]
    expected = scores(Xs, fit_ridge(Xs, one_hot(y), prior))
    order = np.random.default_rng(1).permutation(len(y))
    twice = [np.hstack([Xs[0], Xs[0]]), Xs[1]]  # views count alike whatever their columns
    for views in ([1000 * X for X in Xs], Xs[::-1], twice):
        found = scores(views, fit_ridge(views, one_hot(y), prior))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    mixed = fit_ridge([X[order] for X in Xs], one_hot(y[order])[:, classes], prior[classes])
    np.testing.assert_allclose(scores(Xs, mixed), expected[:, classes], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("counts", ([30, 30], [50, 10], [12, 48]), ids=str)
def test_columns_that_tell_nothing_give_the_prior_back(counts):
    y, prior = np.repeat([0, 1], counts), np.array(counts) / 60
    nothing = fit_ridge([np.zeros((60, 5))], np.eye(2)[y], prior)
    np.testing.assert_allclose(nothing.weights[0], 0)
    # Posterior = likelihood × prior, and the likelihood is about the same in all classes.
    posterior = softmax(nothing.intercept.numpy() + np.log(prior))
    np.testing.assert_allclose(posterior, prior, atol=0.02)


def test_a_class_that_no_row_has_is_not_predicted():
    Xs, y = make_views()
    seen = np.minimum(y, 1)
    prior = np.array([0.45, 0.45, 0.1])
    found = fit_ridge(Xs, one_hot(seen), prior)
    assert np.isfinite(scores(Xs, found)).all()
    posterior = scores(Xs, found) + np.log(prior)
    assert (posterior.argmax(axis=1) < 2).all()


def test_predictions_are_softmax_scores_with_a_lower_bound_of_the_views_that_are_there():
    Xs, y = make_views(columns=(4, 2, 3))
    found = fit_ridge(Xs, one_hot(y), np.array([0.2, 0.5, 0.3]))
    rows = as_rows(Xs)
    p = found.predict(rows)
    assert p.dtype == torch.float64
    np.testing.assert_allclose(p, np.log(softmax(scores(Xs, found), axis=1) + FLOOR), rtol=1e-12)
    torch.testing.assert_close(found.predict({s: rows[s] for s in (2, 0, 1)}), p)
    far = found.predict({s: 1e12 * X.float() for s, X in rows.items()})
    assert far.isfinite().all()
    assert far.min() >= np.log(FLOOR) - 1e-12
    assert far.max() <= np.log(1 + FLOOR) + 1e-12
    without = found.predict_without(rows)
    for s, X in rows.items():  # an absent view is a row of zeros
        others = found.predict({**rows, s: torch.zeros_like(X)})
        torch.testing.assert_close(without[:, s], others, rtol=1e-12, atol=1e-12)
        some = found.predict({t: Y for t, Y in rows.items() if t != s})
        torch.testing.assert_close(some, others, rtol=1e-12, atol=1e-12)


def test_many_rows_are_thinned_evenly():
    rows = np.arange(5, 100_005)
    thinned = thin_rows(rows)
    assert (len(thinned), thinned[0], thinned[-1]) == (20_000, 5, 100_004)
    assert set(np.diff(thinned)) <= {4, 5, 6}
    for few in (rows[:20_000], rows[:0]):
        np.testing.assert_array_equal(thin_rows(few), few)


K = 5
NO_FEATURES = [(lambda P: P[:, :0], 1.0)]  # of one network, which tells nothing but its logits
LOG_EQUAL = np.log(np.full((2, N_CLASSES), 1 / N_CLASSES))


def make_tables(n=60):
    Xs, y = make_views(n, (4, 3), 0.5)
    return [X.astype(np.float32) for X in Xs], y


def make_labels(y, n_labeled=12, links=None, codes=None):
    known = np.where(np.arange(len(y)) < n_labeled, y, -1)
    return make_data(
        [known, known] if codes is None else codes, links_of(len(y)) if links is None else links
    )


def fit(labels, Xs, features=NO_FEATURES, log_prior=LOG_EQUAL):
    random = np.random.default_rng(0)
    graphs = [build_graph(X, PCA().fit(X), K, random) for X in Xs]
    nobody, weights = np.zeros(len(labels.links), dtype=bool), np.array([[1.0, 0.5]] * 2)
    scores = score_nodes(graphs, labels.codes, log_prior)
    nodes = label_nodes(graphs, labels, log_prior, scores, weights, nobody, random)
    given = [[(f(graph.points), scale) for graph in graphs] for f, scale in features]
    return Predictors.fit(graphs, nodes, labels, log_prior, given), graphs, nodes


def as_rows(Xs):
    return {s: torch.from_numpy(X) for s, X in enumerate(Xs)}


def inputs_of(X, logits, own=None):
    return ViewInputs(X, X[:, :0], logits, own)


def score(model, rows, heads=None, own=None):
    """Scores of all views that are given, (n_rows, n_views, 3, n_classes), without features."""
    scores = []
    for s, X in rows.items():
        logits = torch.zeros(len(X), N_CLASSES) if heads is None else heads[s]
        inputs = inputs_of(X, logits, None if own is None else own[s])
        each = [one.log_scores(inputs) for one in model.views[s].values()]
        scores.append(torch.stack(each, dim=1))
    return torch.stack(scores, dim=1)


def test_scores_by_neighbors_ridge_and_head_of_every_view_and_jointly():
    Xs, y = make_tables()
    labels = make_labels(y)
    model, _, _ = fit(labels, Xs)
    rows = as_rows(Xs)
    scores, joint = score(model, rows), model.joint["ridge"].ridge.predict(rows)
    assert scores.shape == (60, 2, 3, N_CLASSES)
    assert scores.dtype == joint.dtype == torch.float64
    for s in rows:
        ridge = model.views[s]["ridge"].predict({0: rows[s]})
        torch.testing.assert_close(scores[:, s, 1], ridge, rtol=0, atol=0)
    right = (scores[:, :, :2].argmax(3).numpy() == y[:, None, None]).mean(axis=0)
    assert (right > 0.85).all()
    assert (joint.argmax(1).numpy() == y).mean() > 0.9


def test_the_prior_is_subtracted_from_logits_of_heads():
    Xs, y = make_tables()
    prior = np.array([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6]])
    model, _, _ = fit(make_labels(y), Xs, log_prior=np.log(prior))
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
    # Several heads are scored at once, by neighbors and ridge as whoever the members are.
    X, members = rows[1], torch.from_numpy(random.normal(size=(4, 60, N_CLASSES)))
    *shared, heads = (one.log_scores(inputs_of(X, members)) for one in model.views[1].values())
    for each, found in zip(members, heads, strict=True):
        *same, expected = (one.log_scores(inputs_of(X, each)) for one in model.views[1].values())
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        assert all(map(torch.equal, shared, same))


@pytest.mark.parametrize("n", (1, 3))
def test_features_of_all_members_are_beside_the_components_in_points_and_in_rows(n):
    Xs, y = make_tables()
    members = [(lambda P: P[:, :1] ** 2, 2.0), (lambda P: P[:, 1:2] ** 3, 5.0)]
    members = [*members, (lambda P: P[:, :1] * P[:, 1:2], 0.5)][:n]
    model, graphs, _ = fit(make_labels(y), Xs, members)
    for s in (0, 1):
        parts = [f(graphs[s].points) for f, _ in members]  # divided by the scales already
        expected = np.hstack([graphs[s].points, *(F / np.sqrt(n) for F in parts)])
        np.testing.assert_allclose(model.views[s]["neighbors"].points, expected, rtol=1e-5)
        features = np.hstack([F * scale for F, (_, scale) in zip(parts, members, strict=True)])
        coordinates = model.views[s]["neighbors"].coordinates
        found = coordinates.project(torch.from_numpy(Xs[s]), torch.from_numpy(features))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_neighbors_of_every_view_are_condensed_and_nothing_else():
    Xs, y = make_tables(1200)
    model, _, _ = fit(make_labels(y), Xs)
    found = model.condense(np.random.default_rng(0))
    for own, condensed in zip(model.views, found.views, strict=True):
        assert len(condensed["neighbors"].points) <= 1000 < len(own["neighbors"].points)
        assert all(condensed[name] is own[name] for name in ("ridge", "head"))
    assert found.joint is model.joint


def test_all_predictors_move_to_a_device(monkeypatch):
    Xs, y = make_tables()
    model = fit(make_labels(y), Xs)[0]
    for part in (knn, ridge_module, predictors):  # tensors there have no values to check
        monkeypatch.setattr(part, "require_array", lambda *_, **__: None)
    moved = model.to("meta")  # the device that every machine has
    tensors = [moved.joint["ridge"].ridge.intercept]
    for own in moved.views:
        neighbors = own["neighbors"]
        tensors += [neighbors.points, neighbors.coordinates.offset]
        tensors += [own["ridge"].intercept, own["head"].log_prior]
    assert [x.device.type for x in tensors] == ["meta"] * 9


def test_the_joint_ridge_is_fitted_to_labeled_rows_of_whichever_views_they_have():
    Xs, y = make_tables()
    links = links_of(60)
    links[:4, 1] = -1
    links[4:8, 0] = -1
    prior = np.array([[0.6, 0.3, 0.1], [0.4, 0.3, 0.3]])
    labels = make_labels(y, 20, links)
    random = np.random.default_rng(0)
    graphs = [build_graph(X, PCA().fit(X), K, random) for X in Xs]
    found = fit_joint_ridge(graphs, labels, np.log(prior))
    zeros = [X[:20].copy() for X in Xs]
    zeros[1][:4] = 0
    zeros[0][4:8] = 0
    mean = np.sqrt(prior[0] * prior[1])  # geometric
    expected = fit_ridge(zeros, one_hot(y[:20]), mean / mean.sum())
    for B, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(B, other, rtol=1e-9)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-9)


def test_without_a_labeled_row_of_two_views_there_is_no_joint_ridge():
    Xs, y = make_tables()
    assert list(fit(make_labels(y), Xs)[0].joint) == ["ridge"]
    alone = links_of(60)
    alone[:12, 1] = -1  # labeled rows have one view, the other rows two
    nobody = np.empty((0, 2), dtype=np.int64)
    codes = [np.where(np.arange(60) < 12, y, -1), np.where(np.arange(60) > 50, y, -1)]
    for labels in (
        make_labels(y, links=alone, codes=[codes[0], np.full(60, -1)]),
        make_labels(y, links=nobody, codes=codes),
    ):
        model, _, _ = fit(labels, Xs)
        assert model.joint == {}
        assert score(model, as_rows(Xs)).shape == (60, 2, 3, N_CLASSES)
        assert model.to("cpu").joint == {}
