"""Scores on left-out labels: by hand, warnings, and what a fit records."""

import math

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.metrics import accuracy_score, log_loss

import hotview as hv
from hotview.datasets import make_views
from hotview.estimators.out_of_fold import (
    ALL_VIEWS,
    score_out_of_fold,
    score_warnings,
    shift_warnings,
)
from hotview.semisupervised.super_learner import ScoresOutOfFold, SuperLearner

PRIOR = np.array([0.5, 0.3, 0.2])
NAMES = ["a", "b"]


def make_learner(prior=(PRIOR, PRIOR)):
    return SuperLearner(
        ((1.0, 0.0, 0.0), (0.5, 0.5, 0.0)),
        (0.7, 0.7, 0.3),
        (1.0, 1.0, 0.3),
        0.5,
        tuple(tuple(np.log(p).tolist()) for p in prior),
    )


def make_rows(n=40, seed=0):
    random = np.random.default_rng(seed)
    target = random.integers(3, size=n)
    scores = 2 * np.eye(3)[target][:, None, None] + random.normal(size=(n, 2, 3, 3))
    present = np.ones((n, 2), dtype=bool)
    present[:5, 1] = False
    present[5:12, 0] = False
    return ScoresOutOfFold(scores, random.normal(size=(n, 3)), present, target)


def score(labeled=None, linked=None, has_labels=(True, True), learner=None):
    return score_out_of_fold(learner or make_learner(), labeled, linked, NAMES, has_labels)


def test_scores_of_every_view_alone_by_scikit_learn():
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


def test_scores_of_all_views_are_those_of_rows_with_several():
    rows = make_rows()
    found = score(rows)[ALL_VIEWS]
    several = rows.present.all(axis=1)
    by_view = [rows.scores[:, 0, 0], rows.scores[:, 1, :2].mean(axis=1)]
    logits = 0.7 * sum(by_view) + 0.3 * rows.joint + np.log(PRIOR)
    log_p = log_softmax(logits, axis=1)[several]
    target = rows.target[several]
    assert found["n"] == several.sum() == 28
    assert found["accuracy"] == pytest.approx(np.mean(log_p.argmax(axis=1) == target))
    assert found["log_loss"] == pytest.approx(-log_p[np.arange(28), target].mean())


def test_without_rows_there_are_no_scores():
    assert score() == {}
    rows = make_rows()
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
    rows = make_rows()
    three = ScoresOutOfFold(
        np.concatenate([rows.scores, rows.scores[:, :1]], axis=1),
        rows.joint,
        np.ones((40, 3), dtype=bool),
        np.full(40, -1),
    )
    learner = SuperLearner(
        ((1.0, 0.0, 0.0),) * 3, (0.5,) * 4, (1.0,) * 4, 0.5, (tuple(np.log(PRIOR).tolist()),) * 3
    )
    known = [True, True, False]
    found = score_out_of_fold(learner, None, three, ["a", "b", "c"], known)["c"]
    other = ScoresOutOfFold(three.scores, 9 * three.joint, three.present, three.target)
    assert score_out_of_fold(learner, None, other, ["a", "b", "c"], known)["c"] == found


# warnings


def scores_of(n=100, loss=0.5, prior=1.0, error=0.1, expected=False):
    return {
        "n": n,
        "accuracy": 0.5,
        "log_loss": loss,
        "prior_log_loss": prior,
        "standard_error": error,
        "expected": expected,
    }


def test_views_that_are_not_better_than_the_prior_are_named():
    scores = {"a": scores_of(), "b": scores_of(loss=0.95), ALL_VIEWS: scores_of(loss=1.2)}
    first, second = score_warnings(scores)
    assert first.startswith("Predictions from view 'b' are not measurably better")
    assert "on 100 labels that were left out, the log loss is 0.950, that of the shares 1" in first
    assert second.startswith("Predictions from all views together are")


@pytest.mark.parametrize(
    "fine", (scores_of(n=9, loss=2.0), scores_of(loss=2.0, expected=True), scores_of(loss=0.85))
)
def test_few_labels_and_expected_classes_are_no_reason_to_warn(fine):
    assert list(score_warnings({"a": fine})) == []


def test_views_whose_linked_rows_are_another_mix_are_named():
    before = np.log([[0.5, 0.3, 0.2]] * 3)
    after = np.log([[0.1, 0.3, 0.6], [0.2, 0.3, 0.5], [0.45, 0.35, 0.2]])
    known = [True, False, False]
    (found,) = shift_warnings(["a", "b", "c"], known, before, after, np.array(["x", "y", "z"]))
    assert "Linked rows of view 'b'" in found
    assert "class 'x' has a share of 0.20 there, and 0.50 among the labels" in found


# fits

DATA = make_views(90, n_views=3, n_groups=1, n_classes=3, labeled=0.6, random_state=0)
SMALL = {
    "coupling": "none",
    "hidden": (8,),
    "encoder_dim": 4,
    "n_components": 3,
    "max_epochs": 3,
    "n_estimators": 3,
    "random_state": 0,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def model():
    classifier = hv.MultiViewClassifier(**SMALL)
    return classifier.fit(DATA.linked, DATA.linked_target, unaligned=DATA.views)


def test_every_label_is_left_out_once(model):
    n = len(DATA.linked_target) // 3 * 3
    assert {x["n"] for x in model.out_of_fold_.values()} == {n}
    assert list(model.out_of_fold_) == [*DATA.linked, ALL_VIEWS]
    for scores in model.out_of_fold_.values():
        assert scores["log_loss"] < scores["prior_log_loss"]
        assert 0.5 < scores["accuracy"] <= 1


def test_accuracy_on_new_rows_is_about_that_on_left_out_ones():
    data = make_views(
        900, n_views=2, n_groups=1, n_classes=3, class_sep=1.0, labeled=0.9, random_state=1
    )
    y, train = data.linked_target, np.arange(len(data.linked_target)) < 200
    classifier = hv.MultiViewClassifier(**SMALL)
    classifier.fit({name: X[train] for name, X in data.linked.items()}, y[train])
    new = {name: X[~train] for name, X in data.linked.items()}
    found = classifier.out_of_fold_
    assert classifier.score(new, y[~train]) == pytest.approx(found[ALL_VIEWS]["accuracy"], abs=0.1)
    for name in new:
        alone = classifier.score({name: new[name]}, y[~train])
        assert alone == pytest.approx(found[name]["accuracy"], abs=0.1)


def test_scores_are_saved_and_loaded(model, tmp_path):
    loaded = hv.load(model.save(tmp_path / "m.hotview"))
    assert loaded.out_of_fold_ == model.out_of_fold_
    assert loaded.out_of_fold_[ALL_VIEWS]["n"] > 0


def test_labels_of_one_view_alone_are_scored():
    linked = {name: X[:20] for name, X in DATA.linked.items()}
    classifier = hv.MultiViewClassifier(**SMALL)
    own = {"view_1": DATA.target["view_1"]}
    classifier.fit(linked, np.full(20, -1), unaligned=DATA.views, unaligned_y=own)
    found = classifier.out_of_fold_
    assert found["view_1"]["n"] == len(own["view_1"]) // 3 * 3
    assert not found["view_1"]["expected"]
    for name in ("view_0", "view_2"):  # by what view_1 expects of linked rows
        assert found[name]["expected"]
        assert found[name]["n"] == 20
    assert ALL_VIEWS not in found


def test_noise_is_told():
    random = np.random.default_rng(0)
    y = np.arange(60) % 2
    views = {"signal": random.normal(size=(60, 3)) + 3 * y[:, None]}
    views["noise"] = random.normal(size=(60, 3))
    with pytest.warns(UserWarning, match="view 'noise' are not measurably better") as caught:
        classifier = hv.MultiViewClassifier(**SMALL).fit(views, y)
    assert len(caught) == 1
    assert any("view 'noise'" in text for text in classifier.fit_warnings_)
    assert classifier.score(views, y) > 0.9


def test_an_unfitted_classifier_has_none_and_heads_neither():
    with pytest.raises(ValueError, match="not fitted"):
        hv.MultiViewClassifier().out_of_fold_  # noqa: B018
    heads = hv.MultiViewClassifier(**SMALL, pseudo_labels=False)
    assert heads.fit(DATA.linked, DATA.linked_target).out_of_fold_ == {}
