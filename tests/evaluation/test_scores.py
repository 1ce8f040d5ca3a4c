import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, confusion_matrix

from hotview.evaluation import assess, expected_calibration_error
from hotview.evaluation import scores as scores_module
from hotview.evaluation.scores import Predictions, encode_truth, score_rows


def score(predictions, **how):
    return score_rows(predictions, lambda things, _: things, **how)


def predict(model, X, y, present=None):
    there = present or {name: np.ones(len(y), dtype=bool) for name in X}
    return Predictions(model, X, there, np.searchsorted(model.classes_, y))


@pytest.fixture(scope="module")
def scores(classifier, test):
    return score(predict(classifier, *test))


def test_accuracies_are_those_of_predict(classifier, test, scores):
    X, y = test
    predicted = classifier.predict(X)
    truth = confusion_matrix(y, predicted, labels=classifier.classes_)
    np.testing.assert_array_equal(scores.confusion, truth)
    assert scores.accuracy.value == accuracy_score(y, predicted) < 1
    for one in scores.views:
        rest = {name: view for name, view in X.items() if name != one.view}
        assert one.without.value == accuracy_score(y, classifier.predict(rest))
        alone = classifier.predict({one.view: X[one.view]})
        assert one.alone.value == accuracy_score(y, alone)
        assert one.drop.value == pytest.approx(scores.accuracy.value - one.without.value)


def test_metrics_and_bins_are_those_of_assess(classifier, test, scores):
    X, y = test
    counts = [n for _, n in classifier.trained_on_["classes"]]
    P = classifier.predict_proba(X)
    assert scores.metrics == assess(y, P, classifier.classes_, prior=counts)
    groups = np.arange(80) // 2
    grouped = score(predict(classifier, X, y), groups=groups, positive=y[0])
    assert grouped.metrics.resampled == "groups"
    assert grouped.metrics.binary.positive == y[0]
    truth = expected_calibration_error(P, y, classifier.classes_, 10)  # as many as are drawn
    gaps = [b.accuracy.n * abs(b.accuracy.value - b.confidence) for b in scores.bins]
    assert sum(gaps) / 80 == pytest.approx(truth)
    assert sum(b.accuracy.n for b in scores.bins) == 80
    found = [(n.n_views, n.n_subsets, n.n_possible) for n in scores.subsets]
    assert found == [(1, 4, 4), (2, 6, 6), (3, 4, 4), (4, 1, 1)]
    alone = [one.alone.value for one in scores.views]
    first, last = scores.subsets[0], scores.subsets[-1]
    assert (first.mean, first.low, first.high) == (np.mean(alone), min(alone), max(alone))
    assert last.mean == scores.accuracy.value


def test_many_subsets_are_sampled_and_unknown_classes_are_mistakes(monkeypatch, classifier, test):
    monkeypatch.setattr(scores_module, "_SUBSETS", 3)
    X, y = test
    predictions = predict(classifier, X, y)
    predictions.truth[:10] = len(classifier.classes_)
    scores, again = score(predictions), score(predictions)
    counts = [(n.n_subsets, n.n_possible) for n in scores.subsets]
    assert counts == [(3, 4), (3, 6), (3, 4), (1, 1)]
    assert scores.subsets == again.subsets
    assert scores.true_classes[-1] == "any other class"
    assert sum(scores.confusion[-1]) == 10
    assert scores.accuracy.value == (classifier.predict(X)[10:] == y[10:]).sum() / 80


def test_rows_that_lack_views(classifier, test):
    X, y = test
    first, *rest = X
    present = {name: (np.arange(80) < 30) | (np.arange(80) >= 50) for name in rest}
    present[first] = np.arange(80) >= 30
    holes = {name: np.where(present[name][:, None], view, np.nan) for name, view in X.items()}
    scores = score(predict(classifier, holes, y, present))
    found = {one.view: one for one in scores.views}
    assert (found[first].n_present, found[first].alone.n, found[first].drop.n) == (50, 50, 30)
    assert (found[rest[0]].alone.n, found[rest[0]].drop.n) == (60, 60)
    truth = classifier.predict({name: X[name][50:] for name in rest})
    assert found[first].without.value == accuracy_score(y[50:], truth)


def test_sparse_views_are_indexed_by_rows_and_labels_become_codes(classifier, test):
    X, y = test
    present = {name: np.arange(80) >= 20 for name in X}
    dense = predict(classifier, X, y, present).probabilities(X)
    thin = predict(classifier, {s: sparse.coo_array(v) for s, v in X.items()}, y, present)
    np.testing.assert_allclose(thin.probabilities(X), dense, rtol=1e-4)
    assert np.isnan(dense[:20]).all()
    first, *_, last = classifier.classes_
    codes = [len(classifier.classes_) - 1, -1, len(classifier.classes_), 0]
    assert encode_truth(classifier, [last, None, 99, first], 4).tolist() == codes
    assert encode_truth(classifier, None, 2).tolist() == [-1, -1]
