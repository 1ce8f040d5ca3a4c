from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hotview import MultiViewClassifier
from hotview.datasets import make_views
from hotview.evaluation import ConcatenatedLogisticRegression, PerViewLabelPropagation, scores
from hotview.evaluation.baseline_rows import are_present
from hotview.evaluation.scores import MAJORITY, Predictions, encode_truth, score_baselines

CONTROL = 'the same model with coupling="none"'
LOGISTIC, PROPAGATION = "logistic regression", "label propagation in each view"


def part(X, rows):
    return {name: V[rows] for name, V in X.items()}


def compare(model, test, training=None, **settings):
    (X, y), progress = test, lambda things, _: things
    present = {s: are_present(V) for s, V in X.items()}
    predictions = Predictions(model, X, present, encode_truth(model, y, len(y)))
    found = score_baselines(predictions, training, progress, **settings)
    return {baseline.name: baseline for baseline in found}


@pytest.fixture(scope="module")
def baselines(classifier, train, test):
    return compare(classifier, test, dict(zip(("Xs", "y"), train, strict=True)))


def test_the_majority_class_needs_no_training_rows(classifier, train, test):
    found = compare(classifier, test)
    values, counts = np.unique(train[1], return_counts=True)
    assert list(found) == [MAJORITY]
    assert found[MAJORITY].accuracy.value == np.mean(test[1] == values[counts.argmax()])
    bare = copy(classifier)
    bare.model_ = replace(bare.model_, trained_on={})
    assert compare(bare, test) == {}


def test_methods_are_fitted_on_the_same_rows(baselines, classifier, train, test):
    ours = classifier.score(*test)
    assert len(baselines) == 5
    for baseline in baselines.values():
        assert baseline.difference.value == pytest.approx(ours - baseline.accuracy.value)
        assert baseline.reason == ""
    truth = PerViewLabelPropagation().fit(*train).score(*test)
    assert baselines[PROPAGATION].accuracy.value == truth
    control = clone(classifier).set_params(coupling="none").fit(*train)
    assert baselines[CONTROL].accuracy.value == control.score(*test)


def test_unlabeled_rows_count_as_unaligned_and_a_class_may_never_be_seen(classifier, train, test):
    (X, y), more = train, part(train[0], slice(40, 60))
    training = {"Xs": X, "y": np.where(np.arange(80) < 40, y, -1), "unaligned": more}
    found = compare(classifier, test, training, control=False)
    rest = {name: np.vstack([view[40:], more[name]]) for name, view in X.items()}
    method = PerViewLabelPropagation().fit(part(X, slice(40)), y[:40], unaligned=rest)
    assert found[PROPAGATION].accuracy.value == method.score(*test)
    kept = np.flatnonzero(y != classifier.classes_[0])
    some = {"Xs": part(X, kept), "y": y[kept]}
    found = compare(classifier, test, some, control=False)
    expected = ConcatenatedLogisticRegression().fit(**some).score(*test)
    assert found[LOGISTIC].accuracy.value == expected > 0.3


def test_errors_are_reasons(classifier, train, test, monkeypatch):
    class Failing:
        def _fit_rows(self, rows):
            raise ValueError("no luck")

    monkeypatch.setitem(scores._BASELINES, LOGISTIC, Failing)
    found = compare(classifier, test, {"Xs": train[0], "y": train[1]}, control=False)
    assert (found[LOGISTIC].accuracy, found[LOGISTIC].reason) == (None, "no luck")
    assert found[PROPAGATION].accuracy is not None


def test_of_large_tables_a_sample_is_used(baselines, classifier, train, test, monkeypatch):
    monkeypatch.setattr(scores, "MAX_BASELINE_ROWS", 30)
    small = compare(classifier, test, {"Xs": train[0], "y": train[1]}, control=False)
    rows = np.sort(np.random.default_rng(0).permutation(80)[:30])
    fitted = ConcatenatedLogisticRegression().fit(part(train[0], rows), train[1][rows])
    assert small[LOGISTIC].accuracy.value == fitted.score(*test)
    assert small[LOGISTIC].accuracy.value != baselines[LOGISTIC].accuracy.value
    assert CONTROL not in small


def test_one_view_at_hand_is_what_simple_methods_are_fitted_on(classifier, train, test):
    one = {"view_0": test[0]["view_0"]}
    found = compare(classifier, (one, test[1]), {"Xs": train[0], "y": train[1]}, control=False)
    alone = make_pipeline(StandardScaler(), LogisticRegression()).fit(train[0]["view_0"], train[1])
    assert found[LOGISTIC].accuracy.value == alone.score(one["view_0"], test[1])


N, NAMES = 120, ("view_0", "view_1", "view_2")


@pytest.fixture(scope="module")
def people():
    """Rows of three views to train on and to test on, and their classes."""
    data = make_views(2 * N, n_views=3, n_groups=1, labeled=1.0, random_state=0)
    both = slice(N), slice(N, None)
    return [(part(data.linked, rows), data.linked_target[rows]) for rows in both]


def partial_rows(X, y):
    X = {name: V.copy() for name, V in X.items()}
    X["view_0"][:50], X["view_1"][40:90], X["view_0"][50::3, 0] = np.nan, np.nan, np.nan
    return {"Xs": X, "y": y}


def labels_of_one_view(X, y):
    own = {"unaligned": part(X, slice(60, None)), "unaligned_y": {"view_0": y[60:]}}
    return {"Xs": part(X, slice(60)), "y": np.full(60, -1), **own}


def labels_of_unaligned_rows(X, y):
    labels = {"view_0": y[20:], "view_1": np.where(y[20:] == 0, -1, y[20:])}
    own = {"unaligned": part(X, slice(20, None)), "unaligned_y": labels}
    return {"Xs": part(X, slice(20)), "y": y[:20], **own}


def nobody_linked(X, y):
    return {"Xs": None, "y": None, "unaligned": X, "unaligned_y": dict.fromkeys(X, y)}


def sparse_views(X, y):
    return {"Xs": {name: sparse.csr_array(V) for name, V in X.items()}, "y": y}


DATA = (partial_rows, labels_of_one_view, labels_of_unaligned_rows, nobody_linked, sparse_views)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", DATA)
def test_whatever_the_model_accepts_is_compared(make, people):
    (X, y), (test, truth) = people
    training = make(X, y)
    how = {"max_epochs": 1, "n_estimators": 1, "hidden": (4,), "impute": "mean"}
    model = MultiViewClassifier(**how, random_state=0).fit(**training)
    test = {name: V.copy() for name, V in test.items()}
    test["view_0"][:30], test["view_1"][30:60, 1] = np.nan, np.nan
    for names in (NAMES, ("view_1",)):
        rows = {name: test[name] for name in names}
        found = compare(model, (rows, truth), training, control=names is NAMES)
        assert len(found) == 4 + (names is NAMES)
        assert all(baseline.accuracy.n == N for baseline in found.values()), found
        others = [b.accuracy.value for name, b in found.items() if name not in (MAJORITY, CONTROL)]
        assert min(others) > found[MAJORITY].accuracy.value, found
