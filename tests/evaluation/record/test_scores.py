import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import accuracy_score, confusion_matrix

from hotview.evaluation import PerViewLabelPropagation, expected_calibration_error
from hotview.evaluation.record import scores as scores_module
from hotview.evaluation.record.scores import Predictions, score_baselines, score_rows


def no_progress(things, _):
    return things


def predict(model, X, y, present=None):
    there = present or {name: np.ones(len(y), dtype=bool) for name in X}
    return Predictions(model, X, there, np.searchsorted(model.classes_, y))


@pytest.fixture(scope="module")
def scores(classifier, test):
    return score_rows(predict(classifier, *test), no_progress)


def test_accuracies_are_those_of_predict(classifier, test, scores):
    X, y = test
    assert scores.accuracy.value == accuracy_score(y, classifier.predict(X))
    assert scores.accuracy.value < 1
    for score in scores.views:
        rest = {name: view for name, view in X.items() if name != score.view}
        assert score.without.value == accuracy_score(y, classifier.predict(rest))
        alone = classifier.predict({score.view: X[score.view]})
        assert score.alone.value == accuracy_score(y, alone)
        assert score.drop.value == pytest.approx(scores.accuracy.value - score.without.value)


def test_mistakes_are_scikit_learns(classifier, test, scores):
    X, y = test
    truth = confusion_matrix(y, classifier.predict(X), labels=classifier.classes_)
    np.testing.assert_array_equal(scores.confusion, truth)


def test_the_calibration_error_and_its_bins_are_those_of_the_metric(classifier, test, scores):
    X, y = test
    P = classifier.predict_proba(X)
    error = expected_calibration_error(P, y, classifier.classes_)
    assert scores.calibration_error == pytest.approx(error)
    truth = expected_calibration_error(P, y, classifier.classes_, 10)  # as many as are drawn
    gaps = [b.accuracy.n * abs(b.accuracy.value - b.confidence) for b in scores.bins]
    assert sum(gaps) / 80 == pytest.approx(truth)
    assert sum(b.accuracy.n for b in scores.bins) == 80


def test_numbers_of_views(scores):
    assert [(n.n_views, n.n_subsets, n.n_possible) for n in scores.subsets] == [
        (1, 4, 4), (2, 6, 6), (3, 4, 4), (4, 1, 1),
    ]  # fmt: skip
    alone = [score.alone.value for score in scores.views]
    first, last = scores.subsets[0], scores.subsets[-1]
    assert (first.mean, first.low, first.high) == (np.mean(alone), min(alone), max(alone))
    assert last.mean == scores.accuracy.value


def test_many_subsets_are_sampled(monkeypatch, classifier, test):
    monkeypatch.setattr(scores_module, "_SUBSETS", 3)
    found = score_rows(predict(classifier, *test), no_progress).subsets
    assert [(n.n_subsets, n.n_possible) for n in found] == [(3, 4), (3, 6), (3, 4), (1, 1)]
    assert found == score_rows(predict(classifier, *test), no_progress).subsets


def test_every_prediction_is_made_once(test):
    class Counting:
        classes_ = np.arange(2)
        asked: list = []  # noqa: RUF012

        def predict_proba(self, views):
            self.asked.append(tuple(views))
            return np.full((len(next(iter(views.values()))), 2), 0.5)

    X, y = test
    score_rows(predict(Counting(), X, y % 2), no_progress)
    assert len(Counting.asked) == len(set(Counting.asked)) == 15  # subsets of four views


def test_rows_that_lack_views(classifier, test):
    X, y = test
    first, *rest = X
    holes = {name: view.copy() for name, view in X.items()}
    holes[first][:30] = np.nan
    for name in rest:
        holes[name][30:50] = np.nan
    present = {name: ~np.isnan(view).all(1) for name, view in holes.items()}
    found = {
        s.view: s for s in score_rows(predict(classifier, holes, y, present), no_progress).views
    }
    assert (found[first].n_present, found[first].alone.n, found[first].drop.n) == (50, 50, 30)
    assert (found[rest[0]].alone.n, found[rest[0]].drop.n) == (60, 60)
    truth = classifier.predict({name: X[name][50:] for name in rest})
    assert found[first].without.value == accuracy_score(y[50:], truth)


def test_classes_that_were_never_seen_are_mistakes(classifier, test):
    X, y = test
    predictions = predict(classifier, X, y)
    predictions.truth[:10] = len(classifier.classes_)
    found = score_rows(predictions, no_progress)
    assert found.true_classes[-1] == "any other class"
    assert sum(found.confusion[-1]) == 10
    right = classifier.predict(X)[10:] == y[10:]
    assert found.accuracy.value == right.sum() / 80


def test_sparse_views_are_indexed_by_rows(classifier, test):
    X, y = test
    present = {name: np.arange(80) >= 20 for name in X}
    dense = predict(classifier, X, y, present).probabilities(X)
    thin = predict(classifier, {s: sparse.coo_array(v) for s, v in X.items()}, y, present)
    np.testing.assert_allclose(thin.probabilities(X), dense, rtol=1e-4)
    assert np.isnan(dense[:20]).all()


CONTROL = 'the same model with coupling="none"'


@pytest.fixture(scope="module")
def baselines(classifier, train, test):
    X, y = train
    found = score_baselines(predict(classifier, *test), {"Xs": X, "y": y}, no_progress)
    return {baseline.name: baseline for baseline in found}


def test_simple_methods_are_fitted_on_the_same_rows(baselines, train, test):
    truth = PerViewLabelPropagation().fit(*train).score(*test)
    assert baselines["label propagation in each view"].accuracy.value == truth


def test_the_control_has_the_models_parameters(baselines, classifier, train, test):
    control = clone(classifier).set_params(coupling="none").fit(*train)
    assert baselines[CONTROL].accuracy.value == control.score(*test)


def test_differences_are_those_of_accuracies(baselines, classifier, test):
    ours = classifier.score(*test)
    assert len(baselines) == 4
    for baseline in baselines.values():
        assert baseline.difference.value == pytest.approx(ours - baseline.accuracy.value)
        assert baseline.reason == ""


def test_unlabeled_rows_count_as_unaligned(classifier, train, test):
    X, y = train
    hidden = np.where(np.arange(80) < 40, y, -1)
    more = {name: view[40:60] for name, view in X.items()}
    found = score_baselines(
        predict(classifier, *test), {"Xs": X, "y": hidden, "unaligned": more}, no_progress
    )
    first = {name: view[:40] for name, view in X.items()}
    rest = {name: np.vstack([view[40:], more[name]]) for name, view in X.items()}
    truth = PerViewLabelPropagation().fit(first, y[:40], unaligned=rest).score(*test)
    assert found[2].accuracy.value == truth


def test_a_class_that_a_method_never_saw(classifier, train, test):
    X, y = train
    kept = np.flatnonzero(y != classifier.classes_[0])
    some = {"Xs": {name: view[kept] for name, view in X.items()}, "y": y[kept]}
    if len(np.unique(y[kept])) < 2:
        pytest.skip("two classes only")
    found = score_baselines(predict(classifier, *test), some, no_progress)[0]
    assert found.accuracy.value <= np.mean(test[1] != classifier.classes_[0])


def test_baselines_without_support_for_gaps_give_a_reason(classifier, train, test):
    X, y = train
    holes = {name: view.copy() for name, view in X.items()}
    next(iter(holes.values()))[:5] = np.nan
    found = {
        r.name: r
        for r in score_baselines(predict(classifier, *test), {"Xs": holes, "y": y}, no_progress)
    }
    assert found[CONTROL].accuracy is not None
    assert "finite numbers" in found["label propagation in each view"].reason


def test_without_complete_rows_there_is_no_comparison(classifier, train, test):
    X, y = test
    one = {"view_0": X["view_0"]}
    found = score_baselines(
        predict(classifier, one, y), {"Xs": train[0], "y": train[1]}, no_progress
    )
    assert {baseline.reason for baseline in found} == {"no labeled row has all views"}
