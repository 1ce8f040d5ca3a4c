import re
from dataclasses import replace

import pytest

from hotview.evaluation.record.schema import Change, Rival
from hotview.report.page import sentences as s


def plain(text):
    return re.sub("<[^>]*>", "", text).replace("\N{NO-BREAK SPACE}", " ")


def test_the_training_in_one_paragraph(record):
    assert plain(s.say_training(record)) == (
        "A MultiViewClassifier learned 3 classes from 4 views, pix, mor, fac and zer. It saw 60 "
        "linked rows (40 of them labeled) and 1,140 rows in each view that correspond to nothing. "
        "Training 3 networks took 7.1 seconds on cpu."
    )


def test_an_encoder_and_an_old_model(record):
    old = replace(record, kind="MultiViewEncoder", trained_on={})
    assert plain(s.say_training(old)).endswith("it was trained on is not recorded.")
    told = {"unaligned": {"a": 10, "b": 30}, "seconds": 1.0, "device": "cuda"}
    said = plain(s.say_training(replace(record, kind="MultiViewEncoder", trained_on=told)))
    assert "10 to 30 rows in each view" in said
    assert "without labels" in said


def test_labels_of_unaligned_rows_are_told(record):
    told = {**record.trained_on, "unaligned_labeled": {"pix": 7, "mor": 5}}
    assert "nothing, 12 of them labeled." in plain(s.say_training(replace(record, trained_on=told)))


def test_accuracy_and_how_sure_it_is(record):
    said = plain(s.say_accuracy(record))
    assert "Of 50 rows with a known class, it gets 80.0 % right" in said
    assert "95 % interval 70.0 to 90.0 %" in said
    assert "too high" not in said
    seen = plain(s.say_accuracy(replace(record, seen=True)))
    assert "rows that it was trained on" in seen
    assert "too high" in seen
    assert s.say_accuracy(replace(record, scores=None)) == ""


@pytest.mark.parametrize(
    ("p", "n_views", "words"),
    (
        (0.05, 4, "some of these views are closer to each other than noise is"),
        (0.4, 4, "no views are closer to each other than noise is"),
        (1.0, 3, "With three views or fewer"),
    ),
)
def test_the_null_says_no_more_than_it_knows(record, p, n_views, words):
    plan = replace(record.plan, null=replace(record.plan.null, p_value=p))
    assert words in s.say_null(plan, n_views)
    assert "not compared" in s.say_null(replace(plan, null=None), n_views)


def test_a_sentence_per_view(record):
    assert plain(s.say_view(record, 0)) == (
        "pix goes with fac (so in 3 of 3 trainings); without it accuracy falls by 7.8 ± 2.1 "
        "points; alone it reaches 60.0 %."
    )
    plan = replace(record.plan, groups=[0, 1, 1, 1], replica_groups=[[0, 1, 1, 1], [0, 1, 0, 1]])
    alone = replace(record, plan=plan, scores=None)
    assert plain(s.say_view(alone, 0)) == "pix stands alone (so in 1 of 2 trainings)."
    unclear = replace(alone, plan=replace(plan, unclear=[True] * 4))
    assert plain(s.say_view(unclear, 0)) == "pix belongs to no group clearly."
    assert s.say_view(replace(alone, plan=None), 0) == ""


def test_long_lists_are_cut(make_one):
    record = replace(make_one(views=[f"v{s}" for s in range(12)]), scores=None)
    assert plain(s.say_view(record, 0)).startswith("v0 goes with v2, v4, v6 and 2 more (")


def test_one_training_says_nothing_of_others(record):
    one = replace(record, plan=replace(record.plan, replica_groups=[[0, 1, 0, 1]]), scores=None)
    assert plain(s.say_view(one, 0)) == "pix goes with fac."


@pytest.mark.parametrize(
    ("value", "error", "words"),
    (
        (0.078, 0.021, "falls by 7.8 ± 2.1 points"),
        (-0.01, 0.005, "rises by 1.0 ± 0.5 points"),
        (0.0001, 0.005, "does not change (± 0.5 points)"),
        (0.5, float("nan"), "falls by 50.0 points"),
    ),
)
def test_what_hiding_a_view_does(value, error, words):
    assert s.say_fall(Change(value, error, 0.0, 0.0, 9)) == words


def test_rivals():
    def said(low, high):
        return s.say_rival(Rival("x", None, Change(0.0, 0.1, low, high, 9)))

    assert said(0.01, 0.2) == "the model is better"
    assert said(-0.2, -0.01) == "the model is worse"
    assert "cannot be told apart" in said(-0.1, 0.1)
    assert s.say_rival(Rival("x", None, None, "gaps")) == "not compared: gaps"


def test_numbers_in_words():
    assert s.count(1, "class", "classes") == "1 class"
    assert s.count(1200, "row") == "1,200 rows"
    assert s.percent(float("nan")) == "–"
    assert plain(s.names(["<a>"])) == "&lt;a&gt;"
