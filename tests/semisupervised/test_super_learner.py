"""Super learner: the combination by hand, its gradient, and weights that data should give."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

from hotview.semisupervised import super_learner
from hotview.semisupervised import super_learner as module
from hotview.semisupervised.predictors import PREDICTORS
from hotview.semisupervised.super_learner import (
    PriorWeights,
    ScoresOutOfFold,
    SuperLearner,
    average_predictors,
    fit_super_learner,
    fit_weights,
)

N_PREDICTORS = len(PREDICTORS)
WEIGHTS = PriorWeights.of(list(PREDICTORS))


def make_learner(n_views=3, n_classes=4, power=0.7, seed=0, **changes):
    random = np.random.default_rng(seed)

    def tuples(*shape):
        return tuple(map(tuple, random.random(shape).tolist()))

    log_prior = log_softmax(random.normal(size=(n_views, n_classes)), axis=1)
    learner = SuperLearner(
        tuples(n_views, N_PREDICTORS),
        tuples(1, n_views + 1)[0],
        tuples(1, n_views + 1)[0],
        power,
        tuple(map(tuple, log_prior.tolist())),
    )
    return dataclasses.replace(learner, **changes)


def make_scores(n=40, n_views=3, n_classes=4, seed=0):
    random = np.random.default_rng(seed)
    scores = random.normal(size=(n, n_views, N_PREDICTORS, n_classes))
    joint = random.normal(size=(n, n_classes))
    present = random.random((n, n_views)) < 0.6
    present[0], present[1] = True, False
    present[2 : 2 + n_views] = np.eye(n_views, dtype=bool)
    return scores, joint, present


def combine(learner, scores, joint, present):
    joint = None if joint is None else torch.from_numpy(joint)
    return learner.combine(torch.from_numpy(scores), joint, torch.from_numpy(present)).numpy()


def combine_by_hand(learner, scores, joint, present):
    n_views = scores.shape[1]
    out = []
    for i, has in enumerate(present):
        total, views = np.zeros(scores.shape[3]), np.flatnonzero(has)
        n = len(views)
        for s in views:
            likelihood = sum(w * scores[i, s, m] for m, w in enumerate(learner.predictors[s]))
            u = 1.0
            if n == n_views and n > 1:
                u = learner.complete[s]
            elif n > 1:
                u = learner.partial[s] / n**learner.power
            total += u * likelihood + np.array(learner.log_prior[s]) / n
        if n > 1 and joint is not None:
            total += (learner.complete if n == n_views else learner.partial)[-1] * joint[i]
        out.append(log_softmax(total))
    return np.array(out)


@pytest.mark.parametrize(
    ("n_views", "power", "has_joint"),
    ((1, 0.7, False), (2, 0.7, True), (3, -0.3, True), (3, 0.2, False)),
)
def test_the_formula_by_hand(n_views, power, has_joint):
    learner = make_learner(n_views, power=power)
    scores, joint, present = make_scores(n_views=n_views)
    scores[~present] = 1e3  # of absent views, which do not count
    joint = joint if has_joint else None
    found = combine(learner, scores, joint, present)
    expected = combine_by_hand(learner, scores, joint, present)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1)


@pytest.mark.parametrize("n_views", (1, 3))
def test_the_base_rate_enters_once(n_views):
    prior = np.array([0.9, 0.08, 0.02])
    log_prior = (tuple(np.log(prior).tolist()),) * n_views
    learner = make_learner(n_views, 3, log_prior=log_prior)
    _, _, present = make_scores(n_views=n_views, n_classes=3)
    same = np.full((len(present), n_views, N_PREDICTORS, 3), -0.4)  # that tell nothing
    p = np.exp(combine(learner, same, np.full((len(present), 3), 2.0), present))
    has = present.any(axis=1)
    np.testing.assert_allclose(p[has], np.tile(prior, (has.sum(), 1)), rtol=1e-12)
    np.testing.assert_allclose(p[~has], 1 / 3)


def make_rows(n=200, quality=((1.0,) * 3,) * 2, gap=2.0, seed=0):
    """Rows with log-likelihoods of given quality: near 0 they are noise, at 1 calibrated."""
    random = np.random.default_rng(seed)
    prior = np.array([0.5, 0.3, 0.2])
    target = random.choice(3, size=n, p=prior)
    truth = gap * np.eye(3)[target][:, None, None]
    q = np.array(quality)[:, :, None]
    noise = random.normal(size=(n, *np.shape(quality), 3))
    rows = ScoresOutOfFold(
        gap * q * (truth + noise), np.zeros((n, 3)), np.ones((n, len(q)), bool), target
    )
    return rows, np.log(np.tile(prior, (len(q), 1)))


def fit(rows, log_prior, has_labels=None, seed=0, prior=WEIGHTS):
    has_labels = [True] * len(log_prior) if has_labels is None else has_labels
    return fit_super_learner([rows], log_prior, has_labels, np.random.default_rng(seed), prior)


def slow_loss(x, scores, target, offset, x0, shrinkage, number=None, row_weight=None):
    """Minus the log-likelihood, row by row, plus the penalty."""
    n_weights, value = len(x) - 1, 0.0
    has_joint = number is not None
    for i, y in enumerate(target):
        total = np.array(offset[i] if np.ndim(offset) == 2 else offset, dtype=float)
        for e in range(n_weights):
            is_joint = has_joint and e == n_weights - 1
            n = 1.0 if number is None or is_joint else number[i]
            total += np.exp(x[e]) * n ** -x[-1] * scores[i, e]
        value -= (1.0 if row_weight is None else row_weight[i]) * log_softmax(total)[y]
    return value + shrinkage * np.sum((x - x0) ** 2)


@pytest.mark.parametrize(("joint", "power"), ((False, 0.0), (True, 0.5), (True, 0.0)))
def test_the_loss_and_its_gradient(monkeypatch, joint, power):
    random = np.random.default_rng(0)
    scores, target = random.normal(size=(12, 3, 4)), random.integers(4, size=12)
    offset = log_softmax(random.normal(size=(12, 4)), axis=1)
    start, shrinkage = np.array([1.0, 0.5, 0.25]), 0.8
    more = {}
    if joint:
        more = {"number": random.integers(1, 4, size=12) * 1.0, "row_weight": random.random(12)}
    taken = {}

    def take(loss, x0, **options):
        taken.update(loss=loss, x0=x0)
        return minimize(loss, x0, **options)

    monkeypatch.setattr("scipy.optimize.minimize", take)
    module._minimize(scores, target, offset, start, power, shrinkage, **more)
    x0 = np.r_[np.log(start), power]
    np.testing.assert_allclose(taken["x0"], x0)
    for _ in range(2):
        x = x0 + random.normal(size=len(x0)) * 0.5
        x[-1] = x[-1] if power > 0 else 0.0

        def slow(x):
            return slow_loss(x, scores, target, offset, x0, shrinkage, **more)

        value, gradient = taken["loss"](x)
        assert value == pytest.approx(slow(x))
        expected = approx_fprime(x, slow, 1e-7)
        if power == 0:  # which stays 0
            expected[-1] = 0.0
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("power", (0.5, 0.0))
def test_weights_and_the_power_are_the_minimum_that_scipy_finds_without_a_gradient(power):
    random = np.random.default_rng(0)
    scores, target = random.normal(size=(40, 3, 3)), random.integers(3, size=40)
    scores[np.arange(40), :, target] += 1.0
    start, offset, more = np.array([1.0, 0.8, 0.5]), np.zeros((40, 3)), {}
    if power > 0:
        more = {"number": random.integers(1, 4, size=40) * 1.0, "row_weight": random.random(40)}
        w, found = module._minimize(scores, target, offset, start, power, 0.3, **more)
    else:
        w, found = fit_weights(scores, target, offset, start, 0.3), 0.0
    x0 = np.r_[np.log(start), power]

    def loss(x):
        x = x if power > 0 else np.r_[x[:-1], 0.0]
        return slow_loss(x, scores, target, offset, x0, 0.3, **more)

    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 2000, "maxfev": 2000}
    best = minimize(loss, x0, method="Nelder-Mead", options=options).x
    np.testing.assert_allclose(w, np.exp(best[:-1]), rtol=1e-3)
    if power > 0:
        assert found == pytest.approx(best[-1], abs=1e-3)
        assert abs(found - power) > 0.01


def test_without_any_row_weights_are_those_of_the_prior():
    prior, log_prior = WEIGHTS, np.log(np.full((4, 2), 0.5))
    known, random = [True, False, True, True], np.random.default_rng(0)
    learner = fit_super_learner([], log_prior, known, random, prior)
    assert learner.predictors == (prior.labeled, prior.transferred, prior.labeled, prior.labeled)
    assert learner.complete == pytest.approx((0.5, 0.5, 0.5, 0.5, 0.25))  # 4 views, to the −1/2
    assert learner.partial == (1.0, 1.0, 1.0, 1.0, 0.25)
    assert learner.power == 0.5
    np.testing.assert_allclose(learner.log_prior, log_prior)


def test_strong_shrinkage_keeps_the_prior_weights():
    rows, log_prior = make_rows()
    learner = fit(rows, log_prior, prior=dataclasses.replace(WEIGHTS, shrinkage=1e9))
    start = fit_super_learner([], log_prior, [True, True], np.random.default_rng(0), WEIGHTS)
    for name in ("predictors", "complete", "partial"):
        np.testing.assert_allclose(getattr(learner, name), getattr(start, name), rtol=1e-4)
    rows.present[:, 1] = False  # no row of a view leaves its prior weights, too
    learner = fit(rows, log_prior, [True, False])
    assert learner.predictors[1] == WEIGHTS.transferred
    assert learner.predictors[0] != WEIGHTS.labeled


def test_a_view_that_is_worse_than_the_prior_gets_no_weight():
    rows, log_prior = make_rows(quality=((1.0, 1.0, 1.0), (1.0, 1.0, 1.0)))
    wrong = (rows.target + 1) % 3  # sure, and always wrong
    rows.scores[:, 1] = 4 * np.eye(3)[wrong][:, None]
    learner = fit(rows, log_prior)
    assert learner.predictors[1] == (0.0, 0.0, 0.0)
    assert min(learner.predictors[0]) > 0
    alone = rows.present & [False, True]
    p = combine(learner, rows.scores, None, alone)
    np.testing.assert_allclose(p, np.tile(log_prior[1], (200, 1)), rtol=1e-12)  # the prior
    few = rows.take(np.arange(9))  # of which nothing is concluded
    assert min(fit(few, log_prior).predictors[1]) > 0


def test_views_that_tell_the_same_get_half_the_weight_and_those_that_know_more_get_more():
    different, log_prior = make_rows(5000, gap=0.5)
    same, _ = make_rows(5000, gap=0.5)
    same.scores[:, 1] = same.scores[:, 0]  # the second tells nothing new
    for rows, total in ((different, 2.0), (same, 1.0)):
        learner = fit(rows, log_prior)
        weights = np.mean(learner.predictors, axis=1) * learner.complete[:2]
        assert weights.sum() == pytest.approx(total, rel=0.2)
    rows, log_prior = make_rows(1000, gap=0.3)
    noise = np.random.default_rng(3).normal(size=rows.joint.shape)
    knows = dataclasses.replace(rows, joint=np.eye(3)[rows.target] + noise)
    assert fit(knows, log_prior).complete[-1] > 0.8  # 1 is calibrated
    assert fit(dataclasses.replace(rows, joint=noise), log_prior).complete[-1] < 0.15


def test_the_prior_of_a_row_of_some_views_is_their_mean(monkeypatch):
    offsets, fit_views = [], super_learner._fit_views
    look = lambda *given: offsets.append(given[3]) or fit_views(*given)  # noqa: E731
    monkeypatch.setattr(super_learner, "_fit_views", look)
    rows, log_prior = make_rows(40, quality=((1.0,) * 3,) * 3)
    fit(rows, log_prior)
    for offset in offsets:
        np.testing.assert_allclose(offset, np.tile(log_prior[0], (len(offset), 1)))


def test_folds_are_joined():
    rows, log_prior = make_rows()
    parts = [rows.take(np.arange(70)), rows.take(np.arange(70, 200))]
    random = np.random.default_rng(0)
    whole = fit(rows, log_prior)
    found = fit_super_learner(parts, log_prior, [True] * 2, random, WEIGHTS)
    assert found == whole == fit(rows, log_prior)


def test_subsets_of_the_views_of_complete_rows():
    present = np.ones((50, 4), dtype=bool)  # 3 views, and the joint predictor
    present[:10] = [True, False, True, True]
    whole = present[:, :3].all(axis=1)
    subsets, source = module._partial_rows(present, whole, np.random.default_rng(0))
    assert source.tolist() == [*range(10), *np.repeat(np.arange(10, 50), 8)]
    np.testing.assert_array_equal(subsets[:10], present[:10])
    drawn = subsets[10:]
    assert not drawn[:, -1].any()  # the joint predictor says nothing about them
    numbers = drawn[:, :3].sum(axis=1)
    assert set(numbers.tolist()) == {1, 2, 3}
    assert drawn[:, :3].mean(axis=0) == pytest.approx([2 / 3] * 3, abs=0.1)


@pytest.mark.parametrize(
    "changes",
    (
        {"predictors": ((1.0, 1.0),) * 3},
        {"complete": (1.0, 1.0, 1.0)},
        {"partial": (1.0,) * 5},
        {"log_prior": ((-1.0,) * 4,) * 2},
        {"log_prior": ((-1.0,) * 3,) * 3},
        {"predictors": ((1.0, 1.0, -0.1), *[(1.0,) * 3] * 2)},
        {"complete": (1.0, np.nan, 1.0, 1.0)},
        {"partial": (1.0, 1.0, 1.0, 1e7)},
        {"power": 1e7},
        {"log_prior": ((-1.0, 1e7, -1.0, -1.0), *[(-1.0,) * 4] * 2)},
    ),
    ids=str,
)
def test_weights_that_do_not_fit_are_refused(changes):
    largest = {"predictors": ((1e6,) * 3,) * 3, "log_prior": ((-1e6,) * 4,) * 3, "power": 16.0}
    make_learner(**largest, complete=(1e6,) * 4, partial=(0.0,) * 4).check(3, 4, 3)
    make_learner(power=-0.1).check(3, 4, 3)
    with pytest.raises(ValueError, match=r"super learner (cannot be|is of other views)"):
        make_learner(**changes).check(3, 4, 3)


def test_predictors_of_some_views_are_averaged():
    learner = average_predictors(np.log(np.full((3, 2), 0.5)), joint=True)
    scores = torch.randn(4, 3, 1, 2, dtype=torch.float64)
    found = learner.combine(scores, None, torch.tensor([[True, True, False]] * 4))
    torch.testing.assert_close(found, scores[:, :2, 0].mean(1).log_softmax(1))
