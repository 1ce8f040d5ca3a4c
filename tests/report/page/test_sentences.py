import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from hotview.evaluation.metrics import Difference, Proportion
from hotview.evaluation.scores import MAJORITY, BaselineScore
from hotview.report.chart_data import describe_drop
from hotview.report.page import sentences as s
from tests.report.records import MultiViewEncoder, change, make


def plain(text):
    return re.sub("<[^>]*>", "", text).replace("\N{NO-BREAK SPACE}", " ")


def test_the_training_in_one_paragraph(record):
    assert plain(s.describe_training(record)) == (
        "A MultiViewClassifier learned 3 classes from 4 views, pix, mor, fac and zer. It was "
        "trained on 60 linked rows (40 of them labeled) and 1,140 unlinked rows in each view. "
        "Training 3 networks took 7.1 seconds on cpu."
    )


def test_an_encoder_and_a_model_without_provenance(record):
    trained_on = {**record.model.trained_on_, "unaligned_labeled": {"pix": 7, "mor": 5}}
    text = plain(s.describe_training(change(record, trained_on_=trained_on)))
    assert "unlinked rows in each view (12 labels in total)." in text
    old = change(record, MultiViewEncoder, trained_on_={})
    assert plain(s.describe_training(old)).endswith("The number of training rows is not recorded.")
    trained_on = {"unaligned": {"a": 10, "b": 30}, "seconds": 1.0, "device": "cuda"}
    text = plain(s.describe_training(change(old, trained_on_=trained_on)))
    assert "10 to 30 unlinked rows in each view" in text
    assert "without labels" in text


def test_accuracy_and_its_interval(record):
    text = plain(s.describe_accuracy(record))
    assert "Of 50 rows with a known class, it predicts 80.0 % correctly" in text
    assert "95 % interval 70.0 to 90.0 %" in text
    assert "Always predicting the most frequent class, a, gets 96.8 %." in text
    assert "Of 50 training rows" in plain(s.describe_accuracy(replace(record, seen=True)))
    assert s.describe_accuracy(replace(record, scores=None)) == ""


@pytest.mark.parametrize(
    ("p", "n", "words"),
    (
        (0.05, 19, "Some views are closer than others: of 19 copies.*, none shows.*p = 0.05"),
        (0.1, 19, "than others may be chance: of 19 copies .*, 1 shows this"),
        (0.4, 9, "of 9 copies of the tables with shuffled columns, 3 show this as clearly"),
    ),
)
def test_similar_shapes(record, p, n, words):
    null = SimpleNamespace(p_value=p, W=np.zeros((n, 1, 1)))
    text = plain(
        s.describe_shapes(change(record, plan_=replace(record.model.plan_, null=null)).model)
    )
    assert text.startswith("Cost of transport between the principal components of two views")
    assert "Shapes are compared, not individuals." in text
    assert re.search(words, text)


def test_shapes_of_three_views_have_no_p_value(record):
    for shown in (make(views=("a", "b", "c")), change(record, plan_=None)):
        assert "p =" not in plain(s.describe_shapes(shown.model))


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
    assert describe_drop(Difference(value, error, 0.0, 0.0, 9)) == words


def compared(name, accuracy, value, low, high):
    accuracy, difference = Proportion(accuracy, 0, 1, 200), Difference(value, 0.01, low, high, 200)
    return BaselineScore(name, accuracy, difference)


def test_a_baseline_that_is_better_or_as_good_is_reported():
    same = compared("x", 0.85, -0.002, -0.1, 0.1)
    better = compared("logistic regression", 0.95, -0.102, -0.15, -0.05)
    (sentence,) = s.describe_comparison([same, better, BaselineScore("y", None, None, "no rows")])
    assert plain(sentence) == (
        "Logistic regression is better: 95.0 % against 84.8 % (difference −10.2 points, 95 % "
        "interval −15.0 to −5.0 points). For rows like these, use it."
    )
    (sentence,) = s.describe_comparison([same])
    assert plain(sentence).startswith("X is as good: 85.0 % against 84.8 % (difference −0.2")
    worse = compared("x", 0.85, 0.002, -0.1, 0.1), compared(MAJORITY, 0.6, 0.1, 0.01, 0.2)
    assert s.describe_comparison([worse[0]]) == s.describe_comparison([worse[1]]) == []
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
