import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, confusion_matrix

from hotview.evaluation import assess, expected_calibration_error
from hotview.evaluation.record import scores as scores_module
from hotview.evaluation.record.scores import Predictions, encode_truth, score_rows


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
    predicted = classifier.predict(X)
    truth = confusion_matrix(y, predicted, labels=classifier.classes_)
    np.testing.assert_array_equal(scores.confusion, truth)
    assert scores.accuracy.value == accuracy_score(y, predicted) < 1
    for score in scores.views:
        rest = {name: view for name, view in X.items() if name != score.view}
        assert score.without.value == accuracy_score(y, classifier.predict(rest))
        alone = classifier.predict({score.view: X[score.view]})
        assert score.alone.value == accuracy_score(y, alone)
        assert score.drop.value == pytest.approx(scores.accuracy.value - score.without.value)


def test_metrics_and_bins_are_those_of_assess(classifier, test, scores):
    X, y = test
    counts = [n for _, n in classifier.trained_on_["classes"]]
    P = classifier.predict_proba(X)
    assert scores.metrics == assess(y, P, classifier.classes_, prior=counts)
    groups = np.arange(80) // 2
    grouped = score_rows(predict(classifier, X, y), no_progress, groups=groups, positive=y[0])
    assert grouped.metrics.resampled == "groups"
    assert grouped.metrics.binary.positive == y[0]
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


def test_many_subsets_are_sampled_and_unknown_classes_are_mistakes(monkeypatch, classifier, test):
    monkeypatch.setattr(scores_module, "_SUBSETS", 3)
    X, y = test
    predictions = predict(classifier, X, y)
    predictions.truth[:10] = len(classifier.classes_)
    scores = score_rows(predictions, no_progress)
    subsets = scores.subsets
    assert [(n.n_subsets, n.n_possible) for n in subsets] == [(3, 4), (3, 6), (3, 4), (1, 1)]
    assert subsets == score_rows(predictions, no_progress).subsets
    assert scores.true_classes[-1] == "any other class"
    assert sum(scores.confusion[-1]) == 10
    assert scores.accuracy.value == (classifier.predict(X)[10:] == y[10:]).sum() / 80


def test_rows_that_lack_views(classifier, test):
    X, y = test
    first, *rest = X
    holes = {name: view.copy() for name, view in X.items()}
    holes[first][:30] = np.nan
    for name in rest:
        holes[name][30:50] = np.nan
    present = {name: ~np.isnan(view).all(1) for name, view in holes.items()}
    scores = score_rows(predict(classifier, holes, y, present), no_progress)
    found = {score.view: score for score in scores.views}
    assert (found[first].n_present, found[first].alone.n, found[first].drop.n) == (50, 50, 30)
    assert (found[rest[0]].alone.n, found[rest[0]].drop.n) == (60, 60)
    truth = classifier.predict({name: X[name][50:] for name in rest})
    assert found[first].without.value == accuracy_score(y[50:], truth)


def test_sparse_views_are_indexed_by_rows(classifier, test):
    X, y = test
    present = {name: np.arange(80) >= 20 for name in X}
    dense = predict(classifier, X, y, present).probabilities(X)
    thin = predict(classifier, {s: sparse.coo_array(v) for s, v in X.items()}, y, present)
    np.testing.assert_allclose(thin.probabilities(X), dense, rtol=1e-4)
    assert np.isnan(dense[:20]).all()


def test_labels_become_codes(classifier):
    first, *_, last = classifier.classes_
    found = encode_truth(classifier, [last, None, 99, first], 4)
    assert found.tolist() == [len(classifier.classes_) - 1, -1, len(classifier.classes_), 0]
    assert encode_truth(classifier, None, 2).tolist() == [-1, -1]
