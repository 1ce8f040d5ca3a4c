import math
from dataclasses import replace

from hotview.evaluation.record.schema import Rival
from hotview.report.page.markup import join
from hotview.report.page.score_section import rival_figure, score_figures, view_figures
from hotview.report.page.sentences import percent


def test_views_and_numbers(record):
    found = join(view_figures(record, record.scores))
    assert found.count("<figure>") == 3
    assert "nothing is trained again" in found
    assert "2 of 5" in found
    assert "Not all subsets were tried" in found


def test_a_view_without_rows_is_left_out(record):
    bare = [replace(v, without=None, fall=None, alone=None) for v in record.scores.views]
    scores = replace(record.scores, views=bare, numbers=[])
    found = join(view_figures(record, scores))
    assert found.count("<figure>") == 1


def test_the_matrix_has_its_numbers(record):
    found = join(score_figures(record, record.scores))
    assert "6 of 36 rows are mistaken." in found
    assert "off by 5.0 points" in found
    assert "mostly it is too high" in found


def test_many_classes_are_told_by_their_mistakes(make_one):
    record = make_one(classes=[f"class {k}" for k in range(50)])
    found = join(score_figures(record, record.scores))
    assert "A matrix of 50 classes could not be read" in found
    assert 'class="heat"' not in found


def test_classes_never_seen_have_a_row(record):
    scores = replace(record.scores, truths=[*record.scores.truths, "any other class"],
                     confusion=[*record.scores.confusion, [1, 0, 0]])  # fmt: skip
    found = join(score_figures(record, scores))
    assert "7 of 37 rows are mistaken." in found
    assert "any other class" in found


def test_rivals_with_their_differences(record):
    found = rival_figure(record.rivals)
    assert "+10.0 points" in found
    assert "+6.0 to +14.0 points" in found
    assert "the model is better" in found
    assert "not compared: it cannot do with gaps" in found


def test_labels_that_simple_methods_cannot_use(record):
    assert "labels of rows that are in one view only" not in rival_figure(record.rivals)
    found = rival_figure(record.rivals, more_labels=True)
    assert "labels of rows that are in one view only" in found


def test_no_rival_could_be_fitted():
    found = rival_figure([Rival("x", None, None, "no rows")])
    assert "<svg" not in found
    assert "not compared: no rows" in found


def test_numbers_that_are_missing_leave_no_trace(record):
    scores = replace(record.scores, calibration_error=math.nan)
    assert "nan" not in join(score_figures(record, scores))


def test_rows_of_the_comparison_are_those_with_all_views(record):
    one = next(rival for rival in record.rivals if rival.difference is not None)
    ours = percent(one.accuracy.value + one.difference.value)
    expected = f"Of the {one.accuracy.n:,} rows that have all views, the model gets {ours} right."
    assert expected in rival_figure(record.rivals)
