import re
from dataclasses import replace

import pytest

from hotview.evaluation.metrics import Difference, Proportion
from hotview.evaluation.record.schema import MAJORITY, BaselineScore
from hotview.report.page import sentences as s


def plain(text):
    return re.sub("<[^>]*>", "", text).replace("\N{NO-BREAK SPACE}", " ")


def test_the_training_in_one_paragraph(record):
    assert plain(s.describe_training(record)) == (
        "A MultiViewClassifier learned 3 classes from 4 views, pix, mor, fac and zer. It was "
        "trained on 60 linked rows (40 of them labeled) and 1,140 unlinked rows in each view. "
        "Training 3 networks took 7.1 seconds on cpu."
    )


def test_an_encoder_and_a_model_without_provenance(record):
    old = replace(record, kind="MultiViewEncoder", trained_on={})
    assert plain(s.describe_training(old)).endswith("The number of training rows is not recorded.")
    trained_on = {"unaligned": {"a": 10, "b": 30}, "seconds": 1.0, "device": "cuda"}
    text = plain(
        s.describe_training(replace(record, kind="MultiViewEncoder", trained_on=trained_on))
    )
    assert "10 to 30 unlinked rows in each view" in text
    assert "without labels" in text


def test_labels_of_unaligned_rows_are_counted(record):
    trained_on = {**record.trained_on, "unaligned_labeled": {"pix": 7, "mor": 5}}
    text = plain(s.describe_training(replace(record, trained_on=trained_on)))
    assert "unlinked rows in each view (12 labels in total)." in text


def test_accuracy_and_its_interval(record):
    text = plain(s.describe_accuracy(record))
    assert "Of 50 rows with a known class, it predicts 80.0 % correctly" in text
    assert "95 % interval 70.0 to 90.0 %" in text
    assert "biased" not in text
    seen = plain(s.describe_accuracy(replace(record, seen=True)))
    assert "Of 50 training rows" in seen
    assert "these metrics are optimistically biased" in seen
    assert s.describe_accuracy(replace(record, scores=None)) == ""


@pytest.mark.parametrize(
    ("p", "n_views", "words"),
    (
        (0.05, 4, "some of these views are closer to each other than permuted views"),
        (0.4, 4, "no views are closer to each other than permuted views"),
        (1.0, 3, "With three views or fewer"),
    ),
)
def test_the_permutation_null(record, p, n_views, words):
    plan = replace(record.plan, null=replace(record.plan.null, p_value=p))
    assert words in s.describe_null(plan, n_views)
    assert "not compared" in s.describe_null(replace(plan, null=None), n_views)


def test_a_sentence_per_view(record):
    assert plain(s.describe_view(record, 0)) == (
        "pix is grouped with fac (in 3 of 3 trainings); without it accuracy drops by 7.8 ± 2.1 "
        "points; alone it reaches 60.0 %."
    )
    plan = replace(record.plan, groups=[0, 1, 1, 1], member_groups=[[0, 1, 1, 1], [0, 1, 0, 1]])
    alone = replace(record, plan=plan, scores=None)
    assert plain(s.describe_view(alone, 0)) == (
        "pix is in a group of its own (in 1 of 2 trainings)."
    )
    unclear = replace(alone, plan=replace(plan, unclear=[True] * 4))
    assert plain(s.describe_view(unclear, 0)) == "pix is in no clear group."
    assert s.describe_view(replace(alone, plan=None), 0) == ""


def test_long_lists_are_cut(make_one):
    record = replace(make_one(views=[f"v{s}" for s in range(12)]), scores=None)
    text = plain(s.describe_view(record, 0))
    assert text.startswith("v0 is grouped with v2, v4, v6 and 2 more (")


def test_one_training_is_not_compared_with_others(record):
    one = replace(record, plan=replace(record.plan, member_groups=[[0, 1, 0, 1]]), scores=None)
    assert plain(s.describe_view(one, 0)) == "pix is grouped with fac."


@pytest.mark.parametrize(
    ("value", "error", "words"),
    (
        (0.078, 0.021, "drops by 7.8 ± 2.1 points"),
        (-0.01, 0.005, "rises by 1.0 ± 0.5 points"),
        (0.0001, 0.005, "does not change (± 0.5 points)"),
        (0.0, float("nan"), "does not change"),
        (0.5, float("nan"), "drops by 50.0 points"),
    ),
)
def test_the_effect_of_hiding_a_view(value, error, words):
    assert s.describe_drop(Difference(value, error, 0.0, 0.0, 9)) == words


def test_baselines():
    def text(low, high):
        return s.describe_baseline(BaselineScore("x", None, Difference(0.0, 0.1, low, high, 9)))

    assert text(0.01, 0.2) == "the model is better"
    assert text(-0.2, -0.01) == "the model is worse"
    assert text(-0.1, 0.1) == "no significant difference"
    assert s.describe_baseline(BaselineScore("x", None, None, "gaps")) == "not compared: gaps"


def compared(name, accuracy, value, low, high):
    accuracy, difference = Proportion(accuracy, 0, 1, 200), Difference(value, 0.01, low, high, 200)
    return BaselineScore(name, accuracy, difference)


def test_a_better_baseline_is_reported_and_of_several_the_best():
    scores = [
        compared("x", 0.85, -0.002, -0.1, 0.1),
        compared("logistic regression", 0.95, -0.102, -0.15, -0.05),
        BaselineScore("y", None, None, "no rows"),
    ]
    (sentence,) = s.describe_comparison(scores)
    assert plain(sentence) == (
        "Logistic regression is better: 95.0 % against 84.8 % (difference −10.2 points, 95 % "
        "interval −15.0 to −5.0 points). For rows like these, use it."
    )


def test_a_baseline_that_is_as_good_is_reported():
    (sentence,) = s.describe_comparison([compared("x", 0.85, -0.002, -0.1, 0.1)])
    assert plain(sentence).startswith("X is as good: 85.0 % against 84.8 % (difference −0.2")
    assert s.describe_comparison([compared("x", 0.85, 0.002, -0.1, 0.1)]) == []
    assert s.describe_comparison([]) == []


@pytest.mark.parametrize(
    ("value", "low", "result"),
    ((-0.02, -0.1, "no better"), (0.0, -0.1, "no better"), (0.03, 0.0, "not significantly better")),
)
def test_a_model_that_is_not_better_than_the_majority_class(value, low, result):
    (sentence,) = s.describe_comparison([compared(MAJORITY, 0.6, value, low, 0.1)])
    assert plain(sentence).startswith(
        f"In accuracy, the model is {result} than always predicting the most frequent class: "
        f"{60 + 100 * value:.1f} % against 60.0 % (difference "
    )


def test_a_model_that_is_better_than_the_majority_class():
    assert s.describe_comparison([compared(MAJORITY, 0.6, 0.1, 0.01, 0.2)]) == []


def test_numbers_as_text():
    assert s.count(1, "class", "classes") == "1 class"
    assert s.count(1200, "row") == "1,200 rows"
    assert s.percent(float("nan")) == "–"
    assert plain(s.emphasize(["<a>"])) == "&lt;a&gt;"


def test_names_in_sentences_are_escaped(make_one):
    record = make_one(views=["<b>", "&", "c", "d"])
    assert "<em>&lt;b&gt;</em>, <em>&amp;</em>" in s.describe_training(record)
    assert s.describe_view(record, 0).startswith("<em>&lt;b&gt;</em> is grouped with <em>c</em>")
