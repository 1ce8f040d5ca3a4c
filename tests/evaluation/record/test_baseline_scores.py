import numpy as np
import pytest
from sklearn.base import clone

from hotview.evaluation import PerViewLabelPropagation
from hotview.evaluation.record.baseline_scores import fit_rivals
from hotview.evaluation.record.scores import Judgments

CONTROL = 'the same model with coupling="none"'


def every(things, _):
    return things


def judge(model, X, y):
    present = {name: ~np.isnan(view).all(1) for name, view in X.items()}
    return Judgments(model, X, present, np.searchsorted(model.classes_, y))


@pytest.fixture(scope="module")
def rivals(classifier, train, test):
    X, y = train
    found = fit_rivals(judge(classifier, *test), {"Xs": X, "y": y}, every)
    return {rival.name: rival for rival in found}


def test_simple_methods_are_fitted_on_the_same_rows(rivals, train, test):
    truth = PerViewLabelPropagation().fit(*train).score(*test)
    assert rivals["label propagation in each view"].accuracy.value == truth


def test_the_control_has_the_models_parameters(rivals, classifier, train, test):
    control = clone(classifier).set_params(coupling="none").fit(*train)
    assert rivals[CONTROL].accuracy.value == control.score(*test)


def test_differences_are_those_of_accuracies(rivals, classifier, test):
    ours = classifier.score(*test)
    assert len(rivals) == 4
    for rival in rivals.values():
        assert rival.difference.value == pytest.approx(ours - rival.accuracy.value)
        assert rival.reason == ""


def test_unlabeled_rows_count_as_unaligned(classifier, train, test):
    X, y = train
    hidden = np.where(np.arange(80) < 40, y, -1)
    more = {name: view[40:60] for name, view in X.items()}
    found = fit_rivals(judge(classifier, *test), {"Xs": X, "y": hidden, "unaligned": more}, every)
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
    found = fit_rivals(judge(classifier, *test), some, every)[0]
    assert found.accuracy.value <= np.mean(test[1] != classifier.classes_[0])


def test_who_cannot_do_with_gaps_says_so(classifier, train, test):
    X, y = train
    holes = {name: view.copy() for name, view in X.items()}
    next(iter(holes.values()))[:5] = np.nan
    found = {r.name: r for r in fit_rivals(judge(classifier, *test), {"Xs": holes, "y": y}, every)}
    assert found[CONTROL].accuracy is not None
    assert "finite numbers" in found["label propagation in each view"].reason


def test_without_complete_rows_there_is_no_comparison(classifier, train, test):
    X, y = test
    one = {"view_0": X["view_0"]}
    found = fit_rivals(judge(classifier, one, y), {"Xs": train[0], "y": train[1]}, every)
    assert {rival.reason for rival in found} == {"no labeled row has all views"}
