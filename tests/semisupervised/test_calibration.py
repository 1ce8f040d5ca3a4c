"""Prediction sets: their coverage, what they are calibrated by; percentiles of disagreement."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax, softmax

import hotview as hv
from hotview.datasets import make_views
from hotview.semisupervised.calibration import (
    ScoresByViews,
    calibrate_super_learner,
    draw_subsets,
    group_rows,
    rows_needed,
    score_sets,
)
from hotview.semisupervised.super_learner import ScoresOutOfFold, SuperLearner

DATA = make_views(300, n_views=3, n_groups=1, labeled=0.4, random_state=0)
SMALL = {"hidden": (8,), "max_epochs": 2, "random_state": 0, "device": "cpu"}


def of_one_group(scores, n_views=2):
    """Scores of rows with all views alone."""
    return ScoresByViews([np.empty(0)] * (n_views + 1) + [np.sort(scores)])


@pytest.fixture(scope="module")
def model():
    found = hv.MultiViewClassifier(**SMALL, n_estimators=3)
    return found.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


@pytest.mark.parametrize(("n", "alpha"), ((30, 0.1), (60, 0.2)))
def test_sets_of_exchangeable_rows_have_the_coverage_of_the_theorem(n, alpha):
    # The mean coverage is exactly k / (n + 1) where scores do not tie.
    random, hits, n_draws = np.random.default_rng(n), 0, 1500
    for _ in range(n_draws):
        logits = random.normal(size=(n + 1, 3))
        P = softmax(3 * logits, axis=1)  # far too sure, which calibration has to undo
        chances = softmax(logits, axis=1).cumsum(axis=1)
        y = np.minimum((random.random((n + 1, 1)) > chances).sum(axis=1), 2)
        misses = 1 - P[np.arange(n + 1), y]
        sets, n_whole = score_sets(P[-1:], np.array([3]), of_one_group(misses[:-1]), alpha)
        without_top = P[-1] >= 1 - np.sort(misses[:-1])[math.ceil((n + 1) * (1 - alpha)) - 1]
        assert (sets[0] == (without_top | (P[-1] == P[-1].max()))).all()
        hits += without_top[y[-1]]
    exact = math.ceil((n + 1) * (1 - alpha)) / (n + 1)
    assert n_whole == 0
    assert stats.binomtest(hits, n_draws, exact).pvalue > 1e-4


def test_the_threshold_is_the_kth_smallest_score():
    scores = of_one_group(np.arange(1, 41) / 100)  # k = ceil(41 · 0.9) = 37
    P = np.array([[0.37, 0.63], [0.36, 0.64], [0.629, 0.371], [0.64, 0.36]])
    sets, _ = score_sets(P, np.full(4, 3), scores, 0.1)
    assert sets.tolist() == [[False, True], [False, True], [True, False], [True, False]]
    P = np.array([[0.37, 0.63, 0.0]])
    scores = of_one_group(np.arange(27, 67) / 100)  # the 37th is 0.63
    assert score_sets(P, np.array([3]), scores, 0.1)[0].tolist() == [[True, True, False]]
    # The most probable class is always in the set.
    scores = of_one_group(np.full(50, 0.1))
    P = np.array([[0.4, 0.35, 0.25]])
    assert score_sets(P, np.array([3]), scores, 0.1)[0].tolist() == [[True, False, False]]
    # Rows without a view that counts may be anything.
    sets, n_whole = score_sets(np.array([[0.9, 0.1]]), np.array([-1]), scores, 0.1)
    assert (sets.all(), n_whole) == (True, 0)
    counts = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=bool)
    assert group_rows(counts).tolist() == [0, 1, 3, -1]


@pytest.mark.parametrize(("alpha", "n"), ((0.1, 9), (0.3, 3)))
def test_with_fewer_rows_than_needed_all_classes_are_in_the_set(alpha, n):
    assert rows_needed(alpha) == n
    P, group = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([3, 0])
    sets, n_whole = score_sets(P, group, of_one_group(np.zeros(n - 1)), alpha)
    assert (sets.all(), n_whole) == (True, 2)
    sets, n_whole = score_sets(P, group, of_one_group(np.zeros(n)), alpha)
    assert (sets.sum(), n_whole) == (2, 0)
    assert score_sets(P, group, None, alpha)[1] == 2


def test_a_group_of_few_rows_is_compared_with_all():
    low, high = np.linspace(0, 0.1, 30), np.linspace(0.8, 0.9, 19)
    scores = ScoresByViews([low, high, np.empty(0), np.empty(0)])
    np.testing.assert_array_equal(scores.of(0), low)
    assert len(ScoresByViews([low, np.ones(20), high, high]).of(1)) == 20
    np.testing.assert_array_equal(scores.of(1), np.concatenate([low, high]))
    np.testing.assert_array_equal(scores.of(-1), np.concatenate([low, high]))
    found = scores.percentiles(np.array([0.05, 0.7, -1.0, 0.7]), np.array([0, 0, 1, 3]))
    np.testing.assert_allclose(found, [50, 100, 0, 100 * 30 / 49])


def test_subsets_have_several_but_not_all_views_of_a_row():
    present = np.random.default_rng(0).random((500, 5)) < 0.7
    kept, number = draw_subsets(present), present.sum(axis=1)
    assert not (kept & ~present).any()
    sizes = kept.sum(axis=1)
    assert (sizes[number <= 2] == 0).all()
    assert ((sizes >= 2) & (sizes < number))[number > 2].all()
    assert set(sizes[number == 5]) == {2, 3, 4}


def test_left_out_rows_are_scored_by_weights_of_other_folds():
    random = np.random.default_rng(0)
    prior = np.log([0.5, 0.3, 0.2])
    weights = ((0.7, 0.7, 0.3), (1.0, 1.0, 0.3), 0.5, (tuple(prior),) * 2)
    learners = [SuperLearner(((w, 0.0, 0.0),) * 2, *weights) for w in (1.0, 2.0)]
    folds = []
    for _ in range(2):
        present = np.ones((30, 2), dtype=bool)
        present[:4, 1] = False
        joint, target = random.normal(size=(30, 3)), random.integers(3, size=30)
        folds.append(ScoresOutOfFold(random.normal(size=(30, 2, 3, 3)), joint, present, target))
    none = [ScoresOutOfFold(f.scores, f.joint, np.zeros_like(f.present), f.target) for f in folds]
    found = calibrate_super_learner(folds, none, learners, 2)
    expected = [[], [], [], []]
    for w, f in zip((1.0, 2.0), folds, strict=True):
        by_view = w * f.scores[:, :, 0]
        both = log_softmax(0.7 * by_view.sum(axis=1) + 0.3 * f.joint + prior, axis=1)
        for i, k in enumerate(f.target):
            expected[0].append(1 - np.exp(log_softmax(by_view[i, 0] + prior))[k])
            if f.present[i, 1]:
                expected[1].append(1 - np.exp(log_softmax(by_view[i, 1] + prior))[k])
                expected[3].append(1 - np.exp(both[i, k]))
    for scores, true in zip(found.groups, expected, strict=True):
        np.testing.assert_allclose(scores, np.sort(true), atol=1e-12)


@pytest.mark.parametrize("pseudo_labels", (True, False))
def test_a_fit_keeps_scores_of_every_kind_of_row(pseudo_labels, request):
    if pseudo_labels:
        model = request.getfixturevalue("model")
    else:
        model = hv.MultiViewClassifier(**SMALL, n_estimators=2, pseudo_labels=False)
        model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)
    assert {len(scores) for scores in model.model_.learner.set_scores.groups} == {
        len(DATA.linked_target)
    }
    assert min(map(len, model.model_.learner.disagreement.groups)) >= len(DATA.linked_target)
    test = make_views(300, n_views=3, n_groups=1, labeled=1.0, random_state=0)
    views = {name: X[150:] for name, X in test.linked.items()}
    for names in (list(views), list(views)[:1], list(views)[1:]):
        given = {name: views[name] for name in names}
        sets, P = model.predict_set(given, 0.1), model.predict_proba(given)
        kind = {3: 4, 1: 0, 2: 3}[len(names)]
        scores = model.model_.learner.set_scores.groups[kind]
        k = math.ceil((len(scores) + 1) * 0.9)
        expected = np.less_equal(1 - P, scores[k - 1] + 1e-9)
        expected[np.arange(len(P)), P.argmax(axis=1)] = True
        np.testing.assert_array_equal(sets, expected)


def test_a_model_covers_new_rows_of_the_same_kind():
    how = {"n_views": 2, "n_groups": 1, "noise": 0.5, "class_sep": 1.5, "labeled": 1.0}
    data = make_views(650, **how, random_state=0)
    y = np.asarray(data.linked_target)
    model = hv.MultiViewClassifier(**SMALL, n_estimators=2)
    model.fit({name: X[:250] for name, X in data.linked.items()}, y[:250])
    sets = model.predict_set({name: X[250:] for name, X in data.linked.items()}, 0.2)
    covered = sets[np.arange(400), np.searchsorted(model.classes_, y[250:])].mean()
    assert sets.sum(axis=1).mean() < len(model.classes_) - 0.5
    # 250 calibration rows have a standard deviation of 0.025, 400 test rows of 0.02.
    assert covered > 0.8 - 3 * math.sqrt(0.16 / 250 + 0.16 / 400)


def test_without_left_out_labels_sets_hold_all_classes_and_a_warning_says_so():
    model = hv.MultiViewClassifier(**SMALL, n_estimators=1)
    model.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)
    with pytest.warns(UserWarning, match="Expected at least 9 labels"):
        assert model.predict_set(DATA.linked).all()
    # One member does not disagree.
    assert (model.predict_disagreement(DATA.linked) < 1e-12).all()
    assert (model.predict_disagreement(DATA.linked, percentile=True) == 0).all()


def test_alpha_is_between_0_and_1(model):
    for alpha in (0, 1, -0.1, 2, "x", math.nan):
        with pytest.raises(ValueError, match=r"Expected alpha (to be a share|above 0|below 1)"):
            model.predict_set(DATA.linked, alpha)
    # Where labels suffice, there is no warning; sets grow where alpha falls.
    wide, narrow = (model.predict_set(DATA.linked, alpha) for alpha in (0.1, 0.4))
    assert (wide >= narrow).all()


def test_percentiles_of_disagreement_are_those_of_training_rows(model, tmp_path):
    given = {"view_1": DATA.views["view_1"][:50]}
    found = model.predict_disagreement(given, percentile=True)
    values = model.predict_disagreement(given)
    scores = model.model_.learner.disagreement.groups[1]
    np.testing.assert_allclose(found, [100 * (scores < x).mean() for x in values])
    loaded = hv.load(model.save(tmp_path / "m.hotview"), device="cpu")
    np.testing.assert_array_equal(loaded.predict_disagreement(given, percentile=True), found)
    np.testing.assert_array_equal(loaded.predict_set(given), model.predict_set(given))
    assert 30 < np.median(found) < 70  # these are training rows
    # Rows that lack views are compared with their kind.
    views = {name: X[:4].copy() for name, X in DATA.linked.items()}
    views["view_0"][0] = views["view_2"][0] = views["view_1"][1] = np.nan
    assert model.model_.group_rows(model._check(views)).tolist() == [1, 3, 4, 4]


def test_what_are_no_scores_is_refused():
    ScoresByViews([np.zeros(3)] * 3 + [np.array([0.0, 1.0])]).check(2, 1.0, "scores")
    gap, unsorted, large = ([np.array(x)] for x in ([0.3, np.nan], [0.3, 0.2], [0.1, 1.1]))
    for group in ([], unsorted, gap, large, [np.zeros(2, dtype=np.float32)]):
        with pytest.raises(ValueError, match="its scores of training rows are none"):
            ScoresByViews([np.zeros(3)] * 3 + group).check(2, 1.0, "scores")
