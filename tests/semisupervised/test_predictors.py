"""Nearest-neighbor and ridge predictors, on arrays alone."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge as SklearnRidge

from hotview.semisupervised import predictors
from hotview.semisupervised.graph import build_graph
from hotview.semisupervised.predictors import RidgePredictor, fit_predictors, fit_ridge
from hotview.semisupervised.pseudo_labels import ViewLabels, propagate_labels

N_CLASSES = 3


def make_views(n=30, columns=(4, 2), noise=1.0, seed=0):
    random = np.random.default_rng(seed)
    y = np.concatenate([np.arange(N_CLASSES), random.integers(N_CLASSES, size=n - N_CLASSES)])
    Xs = [
        2 * np.eye(N_CLASSES)[y] @ random.normal(size=(N_CLASSES, D))
        + noise * random.normal(size=(n, D))
        for D in columns
    ]
    return Xs, y


def weights_of_rows(y, class_weight):
    w = np.asarray(class_weight, dtype=float)[y] / np.bincount(y)[y]
    return w * len(y) / w.sum()


def joined(Xs):
    """All columns: views count alike, and the mean squared length of a row is 1."""
    X = np.hstack([X / np.sqrt(X.shape[1]) for X in Xs])
    return X / np.sqrt((X * X).sum(axis=1).mean())


def solve(X, Y, w, penalty):
    """Coefficients of a ridge regression, the intercept penalized like the others."""
    X = np.hstack([X, np.ones((len(X), 1))])
    return np.linalg.solve(X.T @ (w[:, None] * X) + penalty * np.eye(X.shape[1]), X.T @ (w * Y.T).T)


def slow_ridge(Xs, y, class_weight):
    """Every penalty, every row left out and fitted anew, every sharpness."""
    X, n = joined(Xs), len(y)
    w, Y = weights_of_rows(y, class_weight), np.eye(N_CLASSES)[y] - 1 / N_CLASSES
    best = None
    for penalty in 10.0 ** np.arange(-4, 2) * n:
        out = np.empty_like(Y)
        for i in range(n):
            others = np.arange(n) != i
            B = solve(X[others], Y[others], w[others], penalty)
            out[i] = np.r_[X[i], 1] @ B
        for sharpness in np.exp(np.linspace(-1, 4, 26)):
            loss = -log_softmax(sharpness * out, axis=1)[np.arange(n), y].mean()
            if best is None or loss < best[0]:
                best = (loss, sharpness * np.c_[X, np.ones(n)] @ solve(X, Y, w, penalty))
    return best[1]


def scores(Xs, ridge):
    return ridge.predict_log_proba([torch.from_numpy(X) for X in Xs]).numpy()


@pytest.mark.parametrize("class_weight", ([1.0, 1.0, 1.0], [0.2, 3.0, 1.0]), ids=str)
@pytest.mark.parametrize(
    ("n", "columns", "noise"),
    ((30, (4, 2), 1.0), (30, (4, 2), 5.0), (12, (20, 5), 1.0), (12, (20, 5), 5.0)),
    ids=("long", "long and noisy", "wide", "wide and noisy"),
)
def test_it_is_what_leaving_out_every_row_finds(n, columns, noise, class_weight):
    Xs, y = make_views(n, columns, noise)
    found = scores(Xs, fit_ridge(Xs, y, np.array(class_weight)))
    np.testing.assert_allclose(found, slow_ridge(Xs, y, class_weight), rtol=1e-6, atol=1e-8)


def test_the_penalty_is_that_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(predictors, "_PENALTIES", np.array([0.1]))
    monkeypatch.setattr(predictors, "_SHARPNESS", np.ones(1))
    Xs, y = make_views()
    X = np.c_[joined(Xs), np.ones(len(y))]
    other = SklearnRidge(alpha=0.1 * len(y), fit_intercept=False)
    w = weights_of_rows(y, np.ones(N_CLASSES))
    other.fit(X, np.eye(N_CLASSES)[y] - 1 / N_CLASSES, sample_weight=w)
    found = fit_ridge(Xs, y, np.ones(N_CLASSES))
    np.testing.assert_allclose(scores(Xs, found), other.predict(X), rtol=1e-8, atol=1e-10)


def test_long_and_wide_tables_are_solved_alike(monkeypatch):
    Xs, y = make_views(20, (15, 4))  # 20 columns with the intercept, as many as rows
    more = [*Xs, np.zeros((20, 1))]  # one more, which tells nothing
    monkeypatch.setattr(predictors, "_PENALTIES", np.array([0.01]))
    monkeypatch.setattr(predictors, "_SHARPNESS", np.ones(1))
    long, wide = fit_ridge(Xs, y, np.ones(3)), fit_ridge(more, y, np.ones(3))
    np.testing.assert_allclose(scores(Xs, long), scores(more, wide), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(wide.weights[2], 0, atol=1e-12)


def test_it_learns():
    Xs, y = make_views(60, noise=0.3)
    assert np.mean(scores(Xs, fit_ridge(Xs, y, np.ones(3))).argmax(axis=1) == y) == 1.0


def test_it_is_sure_where_rows_left_out_are_right_and_unsure_where_they_are_not():
    def sureness(noise):
        Xs, y = make_views(60, noise=noise)
        p = np.exp(log_softmax(scores(Xs, fit_ridge(Xs, y, np.ones(3))), axis=1))
        return p.max(axis=1).mean()

    assert sureness(0.1) > 0.95
    assert sureness(100.0) < 0.6


def test_views_count_alike_whatever_their_columns():
    Xs, y = make_views()
    twice = [np.hstack([Xs[0], Xs[0]]), Xs[1]]
    one, other = (fit_ridge(views, y, np.ones(3)) for views in (Xs, twice))
    np.testing.assert_allclose(scores(Xs, one), scores(twice, other), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.weights[0][:4], one.weights[0] / 2, rtol=1e-6, atol=1e-8)


def test_the_unit_of_all_columns_does_not_matter():
    Xs, y = make_views()
    big = [1000 * X for X in Xs]
    one, other = (fit_ridge(views, y, np.ones(3)) for views in (Xs, big))
    np.testing.assert_allclose(scores(Xs, one), scores(big, other), rtol=1e-6, atol=1e-8)


def test_neither_the_order_of_rows_nor_that_of_views_matters():
    Xs, y = make_views()
    order = np.random.default_rng(1).permutation(len(y))
    expected = fit_ridge(Xs, y, np.ones(3))
    mixed = fit_ridge([X[order] for X in Xs], y[order], np.ones(3))
    turned = fit_ridge(Xs[::-1], y, np.ones(3))
    for s in (0, 1):
        np.testing.assert_allclose(mixed.weights[s], expected.weights[s], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(turned.weights[1 - s], expected.weights[s], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(mixed.intercept, expected.intercept, rtol=1e-6, atol=1e-9)


def test_classes_count_alike_however_many_rows_they_have():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))  # that tells nothing
    y = np.repeat([0, 1], [50, 10])
    p = np.exp(log_softmax(scores([X], fit_ridge([X], y, np.ones(2))), axis=1)).mean(axis=0)
    np.testing.assert_allclose(p, [0.5, 0.5], atol=0.1)
    heavy = fit_ridge([X], y, np.array([20.0, 1.0]))
    assert (scores([X], heavy).argmax(axis=1) == 0).mean() > 0.9


def test_a_constant_view_tells_nothing():
    Xs, y = make_views()
    found = fit_ridge([*Xs, np.zeros((30, 5))], y, np.ones(3))
    np.testing.assert_allclose(found.weights[2], 0, atol=1e-12)
    nothing = fit_ridge([np.zeros((30, 5))], y, np.ones(3))
    np.testing.assert_allclose(nothing.weights[0], 0)
    np.testing.assert_allclose(nothing.intercept, 0, atol=1e-9)  # classes weigh the same


def test_one_row_of_each_class_is_enough():
    Xs = [np.eye(3), -np.eye(3)]
    found = scores(Xs, fit_ridge(Xs, np.arange(3), np.ones(3)))
    assert np.isfinite(found).all()
    assert found.argmax(axis=1).tolist() == [0, 1, 2]


def test_from_a_class_of_weight_0_nothing_is_learned():
    Xs, y = make_views()
    weight, some = np.array([1.0, 0.0, 2.0]), y != 1
    found = fit_ridge(Xs, y, weight)
    expected = fit_ridge([X[some] for X in Xs], y[some], weight)
    np.testing.assert_allclose(scores(Xs, found), scores(Xs, expected), rtol=1e-9)
    assert np.mean(scores(Xs, found).argmax(axis=1)[some] == y[some]) > 0.9


def test_tables_are_not_changed():
    Xs, y = make_views()
    before = [X.copy() for X in Xs]
    fit_ridge(Xs, y, np.ones(3))
    for X, old in zip(Xs, before, strict=True):
        np.testing.assert_array_equal(X, old)


def test_scores_are_linear_in_the_columns_of_all_views():
    random = torch.Generator().manual_seed(0)
    Xs = [torch.randn(5, n, generator=random) for n in (3, 2)]
    weights = [torch.randn(n, 4, generator=random, dtype=torch.float64) for n in (3, 2)]
    ridge = RidgePredictor(weights, torch.arange(4.0, dtype=torch.float64))
    expected = torch.hstack(Xs).double() @ torch.vstack(weights) + torch.arange(4.0)
    torch.testing.assert_close(ridge.predict_log_proba(Xs), expected)


# all views


def fit_views(n_labeled=12, columns=(4, 3), seed=0, codes=None):
    """Predictors of two views with aligned rows, and these rows as tensors."""
    random = np.random.default_rng(seed)
    Xs, y = make_views(60, columns, noise=0.5, seed=seed)
    graphs = [build_graph(X, PCA().fit(X), 5, random) for X in Xs]
    codes = np.where(np.arange(60) < n_labeled, y, -1) if codes is None else codes(y)
    aligned = np.repeat(np.arange(60)[:, None], len(columns), axis=1)
    labels = ViewLabels([codes] * len(columns), aligned, np.ones(N_CLASSES))
    rows = {s: torch.as_tensor(X, dtype=torch.float32) for s, X in enumerate(Xs)}
    probabilities = propagate_labels(graphs, labels, random)
    return fit_predictors(graphs, probabilities, labels), rows, y


def no_features(rows):
    return {s: X[:, :0] for s, X in rows.items()}


def test_predictions_by_every_view_and_jointly():
    model, rows, y = fit_views()
    log_probs = model.predict_log_proba(rows, no_features(rows))
    assert log_probs.shape == (60, 3, N_CLASSES)
    assert log_probs.dtype == torch.float64
    right = (log_probs.argmax(2).numpy() == y[:, None]).mean(axis=0)
    assert (right > 0.9).all()
    for s, knn in enumerate(model.knn):
        torch.testing.assert_close(
            log_probs[:, s], knn.predict_log_proba(rows[s], rows[s][:, :0]), rtol=0, atol=0
        )


@pytest.mark.parametrize("s", (0, 1))
def test_absent_views_are_0_and_there_is_no_joint_prediction(s):
    model, rows, _ = fit_views()
    some = {s: rows[s]}
    log_probs = model.predict_log_proba(some, no_features(some))
    assert log_probs.shape == (60, 2, N_CLASSES)
    assert (log_probs[:, 1 - s] == 0).all()
    both = model.predict_log_proba(rows, no_features(rows))
    torch.testing.assert_close(log_probs[:, s], both[:, s], rtol=0, atol=0)


def test_without_linked_labels_of_all_classes_there_is_no_ridge():
    assert fit_views()[0].ridge is not None
    model, rows, _ = fit_views(codes=lambda y: np.where((np.arange(60) < 12) & (y < 2), y, -1))
    assert model.ridge is None
    assert model.predict_log_proba(rows, no_features(rows)).shape == (60, 2, N_CLASSES)
