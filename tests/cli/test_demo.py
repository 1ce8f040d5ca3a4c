import pytest

from hotview import MultiViewClassifier
from hotview.cli.demo import (
    compare,
    describe_farthest,
    describe_groups,
    describe_null,
    load_digits,
)


@pytest.fixture(scope="module")
def contest():
    return compare(load_digits(0), 0)


def test_the_digits_are_taken_apart_as_in_the_paper():
    data = load_digits(0)
    assert len(data.target) == 60
    assert {len(X) for X in data.unaligned.values()} == {1140}
    assert len(data.test_target) == 400


def test_baselines_control_and_default_are_judged_on_the_same_rows(contest):
    assert len(contest.accuracies) == 5
    assert 'hotview, coupling="none"' in contest.accuracies
    assert all(0.75 < accuracy <= 1 for accuracy in contest.accuracies.values())
    data = load_digits(0)
    ours = contest.classifier.score(data.test, data.test_target)
    assert contest.accuracies["hotview, default"] == ours
    assert ours > contest.accuracies["PCA in each view + logistic regression"]


def test_the_classifier_shown_is_the_default(contest):
    changed = {"random_state", "verbose"}
    default = MultiViewClassifier().get_params()
    shown = contest.classifier.get_params()
    assert {k: v for k, v in shown.items() if k not in changed} == {
        k: v for k, v in default.items() if k not in changed
    }


def test_every_view_is_in_one_group(contest):
    sentence = describe_groups(contest.classifier)
    for name in contest.classifier.view_names_:
        assert sentence.count(name) == 1


def test_mor_is_the_view_unlike_the_others(contest):
    sentence = describe_farthest(contest.classifier.plan_.null, contest.classifier.view_names_)
    assert sentence.startswith("Farthest from the others before training: mor")


def test_the_null_is_told_with_its_p_value(contest):
    null = contest.classifier.plan_.null
    sentence = describe_null(null)
    assert f"p = {null.p_value:.2f}" in sentence
    assert ("closer than others" in sentence) == (null.p_value <= 0.05)
