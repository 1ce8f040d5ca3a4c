"""Ridge regression of classes: refits by hand, scikit-learn, invariances, prior probabilities."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.linear_model import Ridge as SklearnRidge

from hotview.semisupervised import ridge as ridge_module
from hotview.semisupervised.knn import FLOOR
from hotview.semisupervised.ridge import RidgePredictor, fit_ridge, thin_rows

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
    return 0.7 * one_hot(y) + 0.3 * random.dirichlet(np.ones(N_CLASSES), len(y)), random.random(
        len(y)
    )


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
    """Coefficients of a ridge regression, the intercept penalized like the others."""
    X = np.hstack([X, np.ones((len(X), 1))])
    return np.linalg.solve(X.T @ (w[:, None] * X) + penalty * np.eye(X.shape[1]), X.T @ (w * Y.T).T)


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
    return sum(X @ B.numpy() for X, B in zip(Xs, ridge.weights, strict=True)) + (
        ridge.intercept.numpy()
    )


@pytest.mark.parametrize("prior", ([1 / 3, 1 / 3, 1 / 3], [0.05, 0.7, 0.25]), ids=str)
@pytest.mark.parametrize(
    ("n", "columns", "noise"),
    ((30, (4, 2), 1.0), (30, (4, 2), 5.0), (12, (20, 5), 1.0), (12, (20, 5), 5.0)),
    ids=("long", "long and noisy", "wide", "wide and noisy"),
)
def test_it_is_what_leaving_out_every_row_finds(n, columns, noise, prior):
    Xs, y = make_views(n, columns, noise)
    found = scores(Xs, fit_ridge(Xs, one_hot(y), np.array(prior)))
    expected = slow_ridge(Xs, one_hot(y), np.array(prior))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("columns", ((4, 2), (30, 8)), ids=("long", "wide"))
def test_class_probabilities_and_weights_of_rows(columns):
    Xs, y = make_views(25, columns)
    target, row_weight = soften(y)
    found = scores(Xs, fit_ridge(Xs, target, EQUAL, row_weight))
    expected = slow_ridge(Xs, target, EQUAL, row_weight)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_rows_of_little_weight_hardly_choose_the_penalty():
    Xs, y = make_views(40)
    doubtful = np.arange(40) >= 20
    target = one_hot(np.where(doubtful, (y + 1) % N_CLASSES, y))
    row_weight = np.where(doubtful, 0.01, 1.0)
    found = scores(Xs, fit_ridge(Xs, target, EQUAL, row_weight))
    expected = slow_ridge(Xs, target, EQUAL, row_weight)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def fix(monkeypatch, penalty):
    monkeypatch.setattr(ridge_module, "_PENALTIES", np.array([penalty]))
    monkeypatch.setattr(ridge_module, "_SHARPNESS", np.ones(1))


@pytest.mark.parametrize("soft", (False, True), ids=("labels", "probabilities"))
def test_the_penalty_is_that_of_scikit_learn(monkeypatch, soft):
    fix(monkeypatch, 0.1)
    Xs, y = make_views()
    prior = np.array([0.2, 0.5, 0.3])
    target, row_weight = soften(y) if soft else (one_hot(y), None)
    X = np.c_[joined(Xs), np.ones(len(y))]
    other = SklearnRidge(alpha=0.1 * len(y), fit_intercept=False)
    w = weights_of_rows(target, prior, row_weight)
    other.fit(X, target - 1 / N_CLASSES, sample_weight=w)
    found = scores(Xs, fit_ridge(Xs, target, prior, row_weight)) + np.log(prior)
    np.testing.assert_allclose(found, other.predict(X), rtol=1e-8, atol=1e-10)


def test_long_and_wide_tables_are_solved_alike(monkeypatch):
    fix(monkeypatch, 0.01)
    Xs, y = make_views(20, (15, 4))  # 20 columns with the intercept, as many as rows
    more = [*Xs, np.zeros((20, 1))]  # one more, which tells nothing
    long, wide = fit_ridge(Xs, one_hot(y), EQUAL), fit_ridge(more, one_hot(y), EQUAL)
    np.testing.assert_allclose(scores(Xs, long), scores(more, wide), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(wide.weights[2], 0, atol=1e-12)


def test_a_sample_of_many_rows_chooses_the_penalty_and_all_rows_are_fitted(monkeypatch):
    fix(monkeypatch, 0.01)
    Xs, y = make_views(200)
    expected = fit_ridge(Xs, one_hot(y), EQUAL)
    monkeypatch.setattr(ridge_module, "_MAX_LEFT_OUT", 10)
    found = fit_ridge(Xs, one_hot(y), EQUAL)
    np.testing.assert_array_equal(scores(Xs, found), scores(Xs, expected))


def test_it_learns():
    Xs, y = make_views(60, noise=0.3)
    assert np.mean(scores(Xs, fit_ridge(Xs, one_hot(y), EQUAL)).argmax(axis=1) == y) == 1.0


def test_it_is_sure_where_rows_left_out_are_right_and_unsure_where_they_are_not():
    def sureness(noise):
        Xs, y = make_views(60, noise=noise)
        return softmax(scores(Xs, fit_ridge(Xs, one_hot(y), EQUAL)), axis=1).max(axis=1).mean()

    assert sureness(0.1) > 0.95
    assert sureness(100.0) < 0.6


def test_views_count_alike_whatever_their_columns():
    Xs, y = make_views()
    twice = [np.hstack([Xs[0], Xs[0]]), Xs[1]]
    one, other = (fit_ridge(views, one_hot(y), EQUAL) for views in (Xs, twice))
    np.testing.assert_allclose(scores(Xs, one), scores(twice, other), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.weights[0][:4], one.weights[0] / 2, rtol=1e-6, atol=1e-8)


def test_the_unit_of_all_columns_does_not_matter():
    Xs, y = make_views()
    big = [1000 * X for X in Xs]
    one, other = (fit_ridge(views, one_hot(y), EQUAL) for views in (Xs, big))
    np.testing.assert_allclose(scores(Xs, one), scores(big, other), rtol=1e-6, atol=1e-8)


def test_neither_the_order_of_rows_nor_that_of_views_matters():
    Xs, y = make_views()
    order = np.random.default_rng(1).permutation(len(y))
    expected = fit_ridge(Xs, one_hot(y), EQUAL)
    mixed = fit_ridge([X[order] for X in Xs], one_hot(y[order]), EQUAL)
    turned = fit_ridge(Xs[::-1], one_hot(y), EQUAL)
    for s in (0, 1):
        np.testing.assert_allclose(mixed.weights[s], expected.weights[s], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(turned.weights[1 - s], expected.weights[s], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(mixed.intercept, expected.intercept, rtol=1e-6, atol=1e-9)


def test_the_order_of_classes_does_not_matter():
    Xs, y = make_views()
    prior, order = np.array([0.2, 0.5, 0.3]), [2, 0, 1]
    one = scores(Xs, fit_ridge(Xs, one_hot(y), prior))
    other = scores(Xs, fit_ridge(Xs, one_hot(y)[:, order], prior[order]))
    np.testing.assert_allclose(other, one[:, order], rtol=1e-6, atol=1e-9)


# prior probabilities


@pytest.mark.parametrize("counts", ([30, 30], [50, 10], [12, 48]), ids=str)
def test_columns_that_tell_nothing_give_the_prior_back(counts):
    y, prior = np.repeat([0, 1], counts), np.array(counts) / 60
    nothing = fit_ridge([np.zeros((60, 5))], np.eye(2)[y], prior)
    np.testing.assert_allclose(nothing.weights[0], 0)
    # Posterior = likelihood × prior, and the likelihood is about the same in all classes.
    posterior = softmax(nothing.intercept.numpy() + np.log(prior))
    np.testing.assert_allclose(posterior, prior, atol=0.02)


def test_equal_priors_and_no_columns_are_equal_scores():
    _, y = make_views()
    nothing = fit_ridge([np.zeros((30, 5))], one_hot(y), EQUAL)
    np.testing.assert_allclose(nothing.intercept - nothing.intercept.mean(), 0, atol=1e-9)


def test_the_logarithms_of_the_prior_are_subtracted(monkeypatch):
    fix(monkeypatch, 0.1)
    Xs, y = make_views()
    prior = np.array([0.2, 0.5, 0.3])
    w = weights_of_rows(one_hot(y), prior)
    B = solve(joined(Xs), one_hot(y) - 1 / N_CLASSES, w, 0.1 * len(y))
    found = fit_ridge(Xs, one_hot(y), prior)
    np.testing.assert_allclose(found.intercept, B[-1] - np.log(prior), rtol=1e-9)


def test_likelihoods_hardly_depend_on_the_prior():
    Xs, y = make_views(300, noise=2.0)
    some, more = np.array([0.4, 0.3, 0.3]), np.array([0.2, 0.3, 0.5])
    one, other = (scores(Xs, fit_ridge(Xs, one_hot(y), prior)) for prior in (some, more))
    shift = (other - other[:, :1] - one + one[:, :1]).mean(axis=0)  # of logits, by the class
    assert np.abs(shift).max() < np.abs(np.diff(np.log([some, more]), axis=0)).max() / 2


def test_a_class_that_no_row_has_is_not_predicted():
    Xs, y = make_views()
    seen = np.minimum(y, 1)
    prior = np.array([0.45, 0.45, 0.1])
    found = fit_ridge(Xs, one_hot(seen), prior)
    assert np.isfinite(scores(Xs, found)).all()
    posterior = scores(Xs, found) + np.log(prior)
    assert (posterior.argmax(axis=1) < 2).all()


def test_rows_of_no_weight_count_nearly_nothing():
    Xs, y = make_views(40)
    keep = np.arange(40) < 30
    wrong = np.where(keep, y, (y + 1) % N_CLASSES)
    weighted = fit_ridge(Xs, one_hot(wrong), EQUAL, keep.astype(float))
    assert np.mean(scores(Xs, weighted).argmax(axis=1) == y) > 0.9


# rows that lack views


def test_an_absent_view_is_a_row_of_zeros():
    Xs, y = make_views()
    found = fit_ridge(Xs, one_hot(y), EQUAL)
    rows = [torch.from_numpy(X) for X in Xs]
    alone = found.predict({0: rows[0]})
    torch.testing.assert_close(alone, found.predict({0: rows[0], 1: torch.zeros_like(rows[1])}))
    turned = found.predict({1: rows[1], 0: rows[0]})
    torch.testing.assert_close(turned, found.predict({0: rows[0], 1: rows[1]}))


def test_rows_without_a_view_teach_the_others(monkeypatch):
    fix(monkeypatch, 1e-9)  # nearly least squares
    Xs, y = make_views(60, noise=0.3)
    halves = np.arange(60) < 30
    split = [np.where(has[:, None], X, 0.0) for X, has in zip(Xs, (halves, ~halves), strict=True)]
    found = fit_ridge(split, one_hot(y), EQUAL)
    for s, has in enumerate((halves, ~halves)):
        p = found.predict({s: torch.from_numpy(Xs[s][has])})
        assert np.mean(p.argmax(1).numpy() == y[has]) > 0.9


# predictions


def test_predictions_are_softmax_scores_with_a_lower_bound():
    Xs, y = make_views()
    found = fit_ridge(Xs, one_hot(y), np.array([0.2, 0.5, 0.3]))
    p = found.predict({s: torch.from_numpy(X) for s, X in enumerate(Xs)})
    assert p.dtype == torch.float64
    np.testing.assert_allclose(p, np.log(softmax(scores(Xs, found), axis=1) + FLOOR), rtol=1e-12)


@pytest.mark.parametrize("size", (1.0, 1e3, 1e12))
def test_far_rows_have_bounded_scores(size):
    Xs, y = make_views()
    found = fit_ridge(Xs, one_hot(y), EQUAL)
    p = found.predict({s: size * torch.from_numpy(X).float() for s, X in enumerate(Xs)})
    assert p.isfinite().all()
    assert p.min() >= np.log(FLOOR) - 1e-12
    assert p.max() <= np.log(1 + FLOOR) + 1e-12


def test_scores_are_linear_in_the_columns_of_all_views():
    random = torch.Generator().manual_seed(0)
    Xs = [torch.randn(5, n, generator=random) for n in (3, 2)]
    weights = [torch.randn(n, 4, generator=random, dtype=torch.float64) for n in (3, 2)]
    ridge = RidgePredictor(weights, torch.arange(4.0, dtype=torch.float64))
    linear = torch.hstack(Xs).double() @ torch.vstack(weights) + torch.arange(4.0)
    expected = (linear.softmax(1) + FLOOR).log()
    torch.testing.assert_close(ridge.to("cpu").predict(dict(enumerate(Xs))), expected)


def test_a_constant_view_tells_nothing():
    Xs, y = make_views()
    found = fit_ridge([*Xs, np.zeros((30, 5))], one_hot(y), EQUAL)
    np.testing.assert_allclose(found.weights[2], 0, atol=1e-12)


def test_one_row_of_each_class_is_enough():
    Xs = [np.eye(3), -np.eye(3)]
    found = scores(Xs, fit_ridge(Xs, np.eye(3), EQUAL))
    assert np.isfinite(found).all()
    assert found.argmax(axis=1).tolist() == [0, 1, 2]


def test_tables_are_not_changed():
    Xs, y = make_views()
    target, row_weight = soften(y)
    before = [x.copy() for x in (*Xs, target, row_weight)]
    fit_ridge(Xs, target, EQUAL, row_weight)
    for X, old in zip((*Xs, target, row_weight), before, strict=True):
        np.testing.assert_array_equal(X, old)


def test_many_rows_are_thinned_evenly():
    rows = np.arange(5, 100_005)
    thinned = thin_rows(rows)
    assert len(thinned) == 20_000
    assert thinned[0] == 5
    assert thinned[-1] == 100_004
    assert set(np.diff(thinned)) <= {4, 5, 6}
    np.testing.assert_array_equal(thin_rows(rows[:20_000]), rows[:20_000])
    assert len(thin_rows(rows[:0])) == 0


def test_without_a_view_the_others_are_summed():
    Xs, y = make_views(columns=(4, 2, 3))
    ridge = fit_ridge(Xs, one_hot(y), EQUAL)
    rows = {s: torch.from_numpy(X) for s, X in enumerate(Xs)}
    found = ridge.predict_without(rows)
    for s in rows:
        others = {t: X for t, X in rows.items() if t != s}
        torch.testing.assert_close(found[:, s], ridge.predict(others), rtol=1e-12, atol=1e-12)
