import numpy as np
import pytest
import torch
from hotview.semisupervised.fusion import LogOpinionPool, OutOfFold, fit_pool
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

from hotview.semisupervised import fusion

N_VIEWS, N_CLASSES = 3, 4
PRECISE = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 10_000, "maxfev": 10_000}


def random_numbers(seed=0):
    return np.random.default_rng(seed)


def make_fold(n=60, right=(0.9, 0.5, 0.5, 0.7), absent=0.0, seed=0):
    """Judges, the joint one last, who are right as often as told, and say so with noise."""
    random = random_numbers(seed)
    y = random.integers(N_CLASSES, size=n)
    says = np.stack([np.where(random.random(n) < p, y, random.integers(4, size=n)) for p in right])
    log_probs = 2 * np.eye(N_CLASSES)[says.T] + 0.3 * random.normal(size=(n, len(right), N_CLASSES))
    present = random.random((n, len(right))) >= absent
    present[:, -1] = present[:, :-1].all(axis=1)
    return OutOfFold(log_softmax(log_probs, axis=2), present, y)


def equal_weights(n_views=N_VIEWS):
    joined = np.r_[np.ones(n_views), fusion._JOINT]
    together = fusion._TOTAL * joined / joined.sum()
    return together, np.full(n_views, fusion._SINGLE / np.sqrt(n_views))


def slow_scores(pool, log_probs, present):
    """Row by row, judge by judge."""
    n_views, found = len(pool.partial), []
    for row, who in zip(log_probs, present, strict=True):
        total = np.zeros(row.shape[1])
        if len(row) > n_views and who[-1]:  # who judges jointly has all views
            for words, weight, heard in zip(row, pool.complete, who, strict=True):
                total += weight * words * heard
        else:
            voices = [s for s in range(n_views) if who[s]]
            for s in voices:
                total += pool.partial[s] * row[s] / len(voices) ** pool.power
        p = np.exp(total)
        found.append(np.log(p / p.sum()))
    return np.array(found)


def scores(pool, log_probs, present):
    return pool.combine(torch.from_numpy(log_probs), torch.from_numpy(present)).numpy()


@pytest.mark.parametrize(
    ("absent", "joint", "power"),
    (
        *((0.0, True, 0.7), (0.0, False, 0.7), (0.5, True, 0.2)),
        *((0.5, False, 1.3), (1.0, True, 1.3), (1.0, False, 0.2)),
    ),
)
def test_scores_are_weighted_sums_of_logarithms(absent, joint, power):
    pool = LogOpinionPool((1.0, 0.2, 0.5, 2.0), (0.3, 0.9, 1.1), power)
    fold = make_fold(absent=absent)
    log_probs, present = (
        (fold.log_probs, fold.present) if joint else (fold.log_probs[:, :3], fold.present[:, :3])
    )
    found = scores(pool, log_probs, present)
    np.testing.assert_allclose(found, slow_scores(pool, log_probs, present), rtol=1e-6)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)


def test_some_views_may_be_silent_beside_the_joint_judgment_and_all_judges():
    pool, fold = LogOpinionPool((1.0, 0.2, 0.5, 2.0), (0.3, 0.9, 1.1), 0.7), make_fold(5)
    present = np.tile([False, True, False, True], (5, 1))
    expected = log_softmax(0.2 * fold.log_probs[:, 1] + 2 * fold.log_probs[:, 3], axis=1)
    np.testing.assert_allclose(scores(pool, fold.log_probs, present), expected)
    silent = scores(pool, fold.log_probs, np.zeros((5, 4), dtype=bool))
    np.testing.assert_allclose(silent, np.log(1 / N_CLASSES))


def test_without_labels_weights_are_equal_and_worth_as_much_however_many_views_there_are():
    complete, partial = equal_weights()
    for fold in ([], [make_fold(0)], [make_fold(0), make_fold(0)]):
        pool = fit_pool(fold, N_VIEWS, random_numbers())
        np.testing.assert_allclose(pool.complete, complete)
        np.testing.assert_allclose(pool.partial, partial)
        assert pool.power == fusion._POWER
    pool = fit_pool([], 5, random_numbers())
    assert sum(pool.complete) == pytest.approx(1.5)
    assert len(set(pool.complete[:-1])) == len(set(pool.partial)) == 1
    assert pool.complete[-1] < pool.complete[0]


def test_weights_of_all_judges_are_what_another_solver_finds():
    fold, (equal, _) = make_fold(), equal_weights()
    rows = np.arange(60)

    def loss(x):  # labels, and a normal prior of the logarithms
        z = np.tensordot(fold.log_probs, np.exp(x), axes=(1, 0))
        prior = 0.5 * ((x - np.log(equal)) ** 2).sum()
        return prior - log_softmax(z, axis=1)[rows, fold.target].sum()

    best = minimize(loss, np.zeros(4), method="Nelder-Mead", options=PRECISE)
    pool = fit_pool([fold], N_VIEWS, random_numbers())
    np.testing.assert_allclose(pool.complete, np.exp(best.x), rtol=1e-3)
    assert pool.complete[0] > 1.5 * max(pool.complete[1:3])


def test_weights_of_views_and_the_power_are_what_another_solver_finds():
    """Eight random subsets of the views of a row count as one row."""
    fold, (_, equal) = make_fold(), equal_weights()
    subsets = fusion._random_subsets(fold.present[:, :N_VIEWS], random_numbers())
    number, rows = subsets.sum(axis=1), np.repeat(np.arange(60), 8)
    log_probs = fold.log_probs[rows, :N_VIEWS] * subsets[:, :, None]

    def loss(x):  # labels, and normal priors of the logarithms of weights and of the power
        z = np.einsum("nek,e->nk", log_probs, np.exp(x[:-1])) / number[:, None] ** x[-1]
        prior = 0.5 * ((x[:-1] - np.log(equal)) ** 2).sum() + 4.0 * (x[-1] - 0.7) ** 2
        log_p = log_softmax(z, axis=1)[np.arange(len(rows)), fold.target[rows]]
        return prior - log_p.sum() / 8

    best = minimize(loss, np.zeros(4), method="Nelder-Mead", options=PRECISE)
    pool = fit_pool([fold], N_VIEWS, random_numbers())
    np.testing.assert_allclose(pool.partial, np.exp(best.x[:-1]), rtol=1e-3)
    assert pool.power == pytest.approx(best.x[-1], abs=1e-3)
    assert abs(pool.power - 0.7) > 0.01


def test_gradients_are_right(monkeypatch):
    """Of what `fit_pool` minimizes: by all judges, and by some of the views."""
    taken = []

    def take(loss, start, **options):
        taken.append((loss, start))
        return minimize(loss, start, **options)

    monkeypatch.setattr("scipy.optimize.minimize", take)
    fit_pool([make_fold(absent=0.2)], N_VIEWS, random_numbers())
    assert [start[-1] > 0 for _, start in taken] == [False, True]
    for loss, start in taken:
        x = start + random_numbers().normal(size=len(start)) / 2
        x[-1] *= start[-1] > 0  # a power of 0 stays
        expected = approx_fprime(x, lambda x, loss=loss: loss(x)[0], 1e-7)
        expected[-1] *= start[-1] > 0
        np.testing.assert_allclose(loss(x)[1], expected, rtol=1e-4, atol=1e-4)


def test_numbers_of_rows_views_and_classes_and_parts_of_rows_do_not_matter():
    fold = make_fold()
    expected = fit_pool([fold], N_VIEWS, random_numbers())
    views, classes = [2, 0, 1, 3], [1, 3, 0, 2]
    parts = [OutOfFold(fold.log_probs[i::2], fold.present[i::2], fold.target[i::2]) for i in (0, 1)]
    silent = OutOfFold(fold.log_probs[:10], np.zeros((10, 4), dtype=bool), fold.target[:10])
    found = fit_pool([*parts, silent], N_VIEWS, random_numbers())
    np.testing.assert_allclose(found.complete, expected.complete, rtol=1e-3)
    turned = OutOfFold(fold.log_probs[:, views], fold.present[:, views], fold.target)
    found = np.array(fit_pool([turned], N_VIEWS, random_numbers()).complete)
    np.testing.assert_allclose(found, np.array(expected.complete)[views], rtol=1e-3)
    named = OutOfFold(fold.log_probs[:, :, classes], fold.present, np.argsort(classes)[fold.target])
    found = fit_pool([named], N_VIEWS, random_numbers())
    np.testing.assert_allclose(found.complete, expected.complete, rtol=1e-3)
    np.testing.assert_allclose(found.partial, expected.partial, rtol=1e-3)


def test_where_nobody_judges_jointly_the_views_are_weighed():
    fold, shifted = make_fold(), make_fold()
    fold.present[:, -1] = shifted.present[:, -1] = False
    shifted.log_probs[:] += 5.0  # scores that are not probabilities are made such
    pool, same = (fit_pool([one], N_VIEWS, random_numbers()) for one in (fold, shifted))
    np.testing.assert_allclose(pool.complete, equal_weights()[0])
    assert pool.partial[0] > max(pool.partial[1:])
    np.testing.assert_allclose(same.partial, pool.partial, rtol=1e-4)


def test_every_row_keeps_some_of_its_views_and_gets_none():
    present = random_numbers().random((200, 5)) < 0.6
    some = fusion._random_subsets(present, random_numbers(1))
    several = np.repeat(present, 8, axis=0)
    assert not (some & ~several).any()
    np.testing.assert_array_equal(some.any(axis=1), several.any(axis=1))
    # Any number of views is alike often, and every view too.
    some = fusion._random_subsets(np.ones((1000, 5), dtype=bool), random_numbers())
    shares = np.bincount(some.sum(axis=1), minlength=6) / len(some)
    np.testing.assert_allclose(shares, [0, *[0.2] * 5], atol=0.03)
    np.testing.assert_allclose(some.mean(axis=0), 0.6, atol=0.03)


@pytest.mark.parametrize("bad", (-0.1, np.nan, np.inf, 1e7))
def test_one_weight_that_cannot_be_is_refused(bad):
    LogOpinionPool((1e6, 0.0, 0.5, 2.0), (0.3, 0.9, 1.1), 16).check(3)
    for pool in (
        LogOpinionPool((1.0, bad, 0.5, 2.0), (0.3, 0.9, 1.1), 0.7),
        LogOpinionPool((1.0, 0.2, 0.5, 2.0), (0.3, 0.9, bad), 0.7),
        LogOpinionPool((1.0, 0.2, 0.5, 2.0), (0.3, 0.9, 1.1), 170 * bad),
    ):
        with pytest.raises(ValueError, match="its pool cannot be"):
            pool.check(3)
    with pytest.raises(ValueError, match="of other views"):
        LogOpinionPool((1.0, 0.2, 2.0), (0.3, 0.9, 1.1), 0.7).check(3)
