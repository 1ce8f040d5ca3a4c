"""Scores on left-out labels: by hand, warnings, and what a fit records."""

import math
import re

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, log_loss

import hotview as hv
from hotview.datasets import make_views
from hotview.estimators.diagnostics import score_warnings, shift_warnings
from hotview.semisupervised.out_of_fold import (
    ALL_VIEWS,
    fit_other_folds,
    increase_losses,
    score_out_of_fold,
)
from hotview.semisupervised.sentences import describe_contributions
from hotview.semisupervised.super_learner import ScoresOutOfFold, ScoresWithout, SuperLearner
from tests.estimators.small_fits import UNCOUPLED

PRIOR = np.array([0.5, 0.3, 0.2])
NAMES = ["a", "b"]


def make_learner():
    weights = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0)), (0.7, 0.7, 0.3), (1.0, 1.0, 0.3), 0.5
    return SuperLearner(*weights, (tuple(np.log(PRIOR).tolist()),) * 2)


def make_rows(n=40, seed=0):
    random = np.random.default_rng(seed)
    target = random.integers(3, size=n)
    scores = 2 * np.eye(3)[target][:, None, None] + random.normal(size=(n, 2, 3, 3))
    present = np.ones((n, 2), dtype=bool)
    present[:5, 1] = False
    present[5:12, 0] = False
    return ScoresOutOfFold(scores, random.normal(size=(n, 3)), present, target)


def score(labeled=None, linked=None, has_labels=(True, True), increase=None):
    return score_out_of_fold(make_learner(), labeled, linked, NAMES, has_labels, increase)


def test_scores_of_every_view_alone_and_of_rows_with_several():
    rows = make_rows()
    found = score(rows)
    by_view = [rows.scores[:, 0, 0], rows.scores[:, 1, :2].mean(axis=1)]
    for s, name in enumerate(NAMES):
        has = rows.present[:, s]
        p = np.exp(log_softmax(by_view[s] + np.log(PRIOR), axis=1))[has]
        target = rows.target[has]
        assert found[name]["n"] == has.sum()
        assert found[name]["accuracy"] == pytest.approx(accuracy_score(target, p.argmax(axis=1)))
        loss = log_loss(target, p, labels=range(3))
        assert found[name]["log_loss"] == pytest.approx(loss)
        assert found[name]["prior_log_loss"] == pytest.approx(-np.log(PRIOR)[target].mean())
        gain = np.log(PRIOR)[target] - np.log(p[np.arange(len(target)), target])
        error = gain.std() / math.sqrt(len(target))
        assert found[name]["standard_error"] == pytest.approx(error)
        assert not found[name]["expected"]
    several = rows.present.all(axis=1)
    logits = 0.7 * sum(by_view) + 0.3 * rows.joint + np.log(PRIOR)
    p, target = np.exp(log_softmax(logits, axis=1))[several], rows.target[several]
    assert found[ALL_VIEWS]["n"] == several.sum() == 28
    assert found[ALL_VIEWS]["accuracy"] == pytest.approx(accuracy_score(target, p.argmax(axis=1)))
    assert found[ALL_VIEWS]["log_loss"] == pytest.approx(log_loss(target, p, labels=range(3)))
    assert score() == {}
    rows.present[:, 1] = False
    assert list(score(rows)) == ["a"]  # neither view b nor both together


def test_a_view_without_labels_is_compared_with_what_others_expect():
    linked = make_rows()
    linked.target[:] = -1  # unknown
    found = score(None, linked, has_labels=(True, False))
    assert list(found) == ["b"]
    both = linked.present.all(axis=1)
    q = np.exp(log_softmax(linked.scores[both, 0, 0] + np.log(PRIOR), axis=1))
    log_p = log_softmax(linked.scores[both, 1, :2].mean(axis=1) + np.log(PRIOR), axis=1)
    assert found["b"]["n"] == both.sum()
    assert found["b"]["expected"]
    assert found["b"]["log_loss"] == pytest.approx(-(q * log_p).sum(axis=1).mean())
    accuracy = q[np.arange(len(q)), log_p.argmax(axis=1)].mean()
    assert found["b"]["accuracy"] == pytest.approx(accuracy)


def test_the_joint_predictor_does_not_tell_what_to_expect():
    """It knows the view that is to be scored."""
    rows, found = make_rows(), []
    scores = np.concatenate([rows.scores, rows.scores[:, :1]], axis=1)
    weights = ((1.0, 0.0, 0.0),) * 3, (0.5,) * 4, (1.0,) * 4, 0.5
    learner = SuperLearner(*weights, (tuple(np.log(PRIOR).tolist()),) * 3)
    for joint in (rows.joint, 9 * rows.joint):
        three = ScoresOutOfFold(scores, joint, np.ones((40, 3), dtype=bool), np.full(40, -1))
        known = ["a", "b", "c"], [True, True, False]
        found.append(score_out_of_fold(learner, None, three, *known)["c"])
    assert found[0] == found[1]


def make_without(rows):
    n, S = rows.present.shape
    present = rows.present[:, None] & ~np.eye(S, dtype=bool) & rows.present[:, :, None]
    joint = np.random.default_rng(9).normal(size=(n, S, 3))
    return ScoresWithout(joint, present)


def test_the_loss_without_a_view_is_that_of_the_others_by_weights_of_other_folds():
    folds = [make_rows(seed=seed) for seed in range(3)]
    without = [make_without(rows) for rows in folds]
    given = []

    def fit(rows):
        given.append(rows)
        return make_learner()

    found = increase_losses(folds, without, fit_other_folds(folds, fit))
    for f, rows in enumerate(folds):
        others = [fold.target for i, fold in enumerate(folds) if i != f]
        np.testing.assert_array_equal(given[f].target, np.concatenate(others))
        by_view = [rows.scores[:, 0, 0], rows.scores[:, 1, :2].mean(axis=1)]
        both = log_softmax(0.7 * sum(by_view) + 0.3 * rows.joint + np.log(PRIOR), axis=1)
        part = found[40 * f : 40 * f + 40]
        for s in (0, 1):  # rows of one view alone have no joint predictor
            alone = log_softmax(by_view[1 - s] + np.log(PRIOR), axis=1)
            rise = (both - alone)[np.arange(40), rows.target]
            expected = np.where(rows.present.all(axis=1), rise, np.nan)
            np.testing.assert_allclose(part[:, s], expected, rtol=1e-10)


def test_the_interval_is_that_of_student_with_two_rows_more():
    rows = make_rows()
    increase = np.random.default_rng(1).normal(0.2, 0.5, size=(40, 2))
    increase[:7, 1] = np.nan
    found = score(rows, increase=increase)
    unit = found[ALL_VIEWS]["prior_log_loss"]
    for name, rises in zip(NAMES, (increase[:, 0], increase[7:, 1]), strict=True):
        x, more = found[name]["loss_without"], np.r_[rises, unit, -unit]
        assert (x["n"], x["increase"]) == (len(rises), pytest.approx(rises.mean()))
        low, high = stats.t.interval(0.95, len(more) - 1, more.mean(), stats.sem(more))
        assert (x["low"], x["high"]) == (pytest.approx(low), pytest.approx(high))
    assert found[ALL_VIEWS]["loss_without"] is None


@pytest.mark.parametrize(("n", "rise"), ((1, 0.0), (2, 50.0), (10, -50.0), (1000, 1e-9)))
def test_the_mean_is_in_the_interval(n, rise):
    found = score(make_rows(), increase=np.full((n, 2), rise))["a"]["loss_without"]
    assert found["low"] < found["increase"] < found["high"]
    nothing = score(make_rows(), increase=np.full((40, 2), np.nan))
    assert nothing["a"]["loss_without"] is None


def scores_of(n=100, loss=0.5, prior=1.0, expected=False):
    losses = {"log_loss": loss, "prior_log_loss": prior, "standard_error": 0.1}
    return {"n": n, "accuracy": 0.5, **losses, "expected": expected}


def change(increase, low, high, n=100, **scores):
    x = {"n": n, "increase": increase, "low": low, "high": high}
    return {**scores_of(**scores), "loss_without": x}


WHOLE = {**scores_of(loss=0.5, prior=1.5), "loss_without": None}  # the margin is 0.02


UNSURE, LITTLE = change(0.1, -0.2, 0.4), change(-0.001, -0.01, 0.008)
STRONG = change(0.3, 0.1, 0.5, n=90)


@pytest.mark.parametrize(
    ("a", "other", "expected"),
    (
        (
            change(0.1, 0.02, 0.18),
            STRONG,
            "Keep 'b' and 'a': without one of them, the log loss on 90 to 100 left-out labels "
            "rises by 0.300 without 'b' (95 % interval 0.100 to 0.500), by 0.100 without 'a' "
            "(0.020 to 0.180).",
        ),
        (change(0.1, -0.02, 0.22), STRONG, "Keep 'b': without it.* on 90 left"),
        (LITTLE, UNSURE, "could leave out 'a'.*0.001.*0.020"),
        (LITTLE, change(0.002, -0.005, 0.009), "'b' or 'a', one of them and not.* at most 0.009"),
        # What is no better than the prior is noise if it is not missed either.
        (UNSURE, change(-0.01, -0.03, 0.01, loss=0.95), "^'b' looks like noise.* −0.010 .*−0.030"),
        (UNSURE, change(0.1, 0.01, 0.19, loss=0.95), "^Keep 'b'"),
        (UNSURE, change(0.1, -0.01, 0.21, loss=0.95), "^((?!noise).)*$"),
        (UNSURE, change(0.1, 0.01, 0.2, n=9), "^100 left-out labels are too few"),
        (UNSURE, change(0.1, 0.01, 0.2, n=10), "^Keep 'b'"),
    ),
    ids=range(9),
)
def test_views_are_kept_or_could_be_left_out_or_look_like_noise(a, other, expected):
    (text,) = describe_contributions({"a": a, "b": other, ALL_VIEWS: WHOLE})
    assert text == expected or re.search(expected, text)


@pytest.mark.parametrize("loss", (0.5, 1.6))
def test_without_a_comparison_nothing_is_said(loss):
    assert describe_contributions({}) == []
    assert describe_contributions({"a": scores_of(), ALL_VIEWS: scores_of()}) == []  # older files
    one = {"a": change(0.1, 0.01, 0.2), ALL_VIEWS: scores_of(loss=loss)}
    assert describe_contributions(one) == []
    nothing_known = {"b": change(0.0, -1.0, -0.5), ALL_VIEWS: scores_of(loss=1.6)}
    assert describe_contributions({**one, **nothing_known}) == []


def test_views_that_are_not_better_than_the_prior_are_named():
    scores = {"a": scores_of(), "b": scores_of(loss=0.95), ALL_VIEWS: scores_of(loss=1.2)}
    first, second = score_warnings(scores)
    assert first.startswith("Predictions from view 'b' are not measurably better")
    assert "on 100 labels that were left out, the log loss is 0.950, that of the shares 1" in first
    assert second.startswith("Predictions from all views together are")
    # Few labels, expected classes and a small loss are no reason to warn.
    for fine in ({"n": 9, "loss": 2.0}, {"loss": 2.0, "expected": True}, {"loss": 0.85}):
        assert list(score_warnings({"a": scores_of(**fine)})) == []


def test_views_whose_linked_rows_are_another_mix_are_named():
    before = np.log([[0.5, 0.3, 0.2]] * 3)
    after = np.log([[0.1, 0.3, 0.6], [0.2, 0.3, 0.5], [0.45, 0.35, 0.2]])
    known = [True, False, False]
    (found,) = shift_warnings(["a", "b", "c"], known, before, after, np.array(["x", "y", "z"]))
    assert "Linked rows of view 'b'" in found
    assert "class 'x' has a share of 0.20 there, and 0.50 among the labels" in found


DATA = make_views(90, n_views=3, n_groups=1, n_classes=3, labeled=0.6, random_state=0)
SETTINGS = {**UNCOUPLED, "max_epochs": 3, "n_estimators": 2}


@pytest.fixture(scope="module")
def model():
    classifier = hv.MultiViewClassifier(**SETTINGS)
    return classifier.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


def test_every_label_is_left_out_once(model, tmp_path):
    n = len(DATA.linked_target) // 2 * 2
    assert {x["n"] for x in model.out_of_fold_.values()} == {n}
    assert list(model.out_of_fold_) == [*DATA.linked, ALL_VIEWS]
    for scores in model.out_of_fold_.values():
        assert scores["log_loss"] < scores["prior_log_loss"]
        assert 0.5 < scores["accuracy"] <= 1
    assert model.out_of_fold_["view_0"]["loss_without"]["n"] > 0
    assert hv.load(model.save(tmp_path / "m.hotview")).out_of_fold_ == model.out_of_fold_
    with pytest.raises(ValueError, match="not fitted"):
        hv.MultiViewClassifier().out_of_fold_  # noqa: B018


def test_accuracy_on_new_rows_is_about_that_on_left_out_ones():
    how = {"n_views": 2, "n_groups": 1, "n_classes": 3, "class_sep": 1.0, "labeled": 0.9}
    data = make_views(900, **how, random_state=1)
    y, train = data.linked_target, np.arange(len(data.linked_target)) < 200
    classifier = hv.MultiViewClassifier(**SETTINGS)
    classifier.fit({name: X[train] for name, X in data.linked.items()}, y[train])
    new = {name: X[~train] for name, X in data.linked.items()}
    found = classifier.out_of_fold_
    assert classifier.score(new, y[~train]) == pytest.approx(found[ALL_VIEWS]["accuracy"], abs=0.1)
    for name, X in new.items():
        accuracy = pytest.approx(found[name]["accuracy"], abs=0.1)
        assert classifier.score({name: X}, y[~train]) == accuracy


def test_labels_of_one_view_alone_are_scored():
    linked = {name: X[:20] for name, X in DATA.linked.items()}
    classifier = hv.MultiViewClassifier(**SETTINGS)
    own = {"view_1": DATA.target["view_1"]}
    classifier.fit(linked, np.full(20, -1), unaligned=DATA.views, unaligned_y=own)
    found = classifier.out_of_fold_
    assert found["view_1"]["n"] == len(own["view_1"]) // 2 * 2
    assert not found["view_1"]["expected"]
    for name in ("view_0", "view_2"):  # by what view_1 expects of linked rows
        assert found[name]["expected"]
        assert found[name]["n"] == 20
    assert ALL_VIEWS not in found


def test_one_view_tells_the_class_and_one_is_noise():
    random = np.random.default_rng(0)
    y = np.arange(300) % 2
    views = {"signal": random.normal(size=(300, 3)) + 2 * y[:, None]}
    views["weak"] = random.normal(size=(300, 3)) + 0.5 * y[:, None]
    views["noise"] = random.normal(size=(300, 3))
    message = "view 'noise' are not measurably better than the shares of the classes: on 300 labels"
    with pytest.warns(UserWarning, match=message) as caught:
        classifier = hv.MultiViewClassifier(**SETTINGS).fit(views, y)
    assert classifier.fit_warnings_ == [str(w.message) for w in caught]
    found = {name: x["loss_without"] for name, x in classifier.out_of_fold_.items()}
    assert {found[name]["n"] for name in views} == {300}
    assert found["signal"]["low"] > 0.3
    assert found["noise"]["low"] < 0 < found["noise"]["high"] < 0.05
    assert describe_contributions(classifier.out_of_fold_)[0].startswith("Keep 'signal': without")


def test_a_member_scores_at_most_a_thousand_of_the_labels_that_it_left_out():
    many = make_views(2100, n_views=2, n_columns=4, labeled=1.0, random_state=0)
    quick = {"n_estimators": 2, "max_epochs": 1, "steps_per_epoch": 1, "random_state": 0}
    model = hv.MultiViewClassifier(**quick, device="cpu").fit(many.linked, many.linked_target)
    assert model.out_of_fold_["all views"]["n"] == 2000
