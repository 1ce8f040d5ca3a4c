import math

from paper.report.parts import (
    Part,
    join_parts,
    picture,
    written_difference,
    written_score,
)
from paper.statistics import Difference, Score


def test_pictures_are_gathered():
    parts = [Part("a", {"1.svg": print}), Part("b", {"2.svg": repr})]
    assert join_parts("T", parts).pictures == {"1.svg": print, "2.svg": repr}


def test_a_picture_has_words_for_those_who_cannot_see_it():
    assert picture("1.svg", "Plans") == "![Plans]({pictures}/1.svg)"


def test_scores():
    assert written_score(Score(90.04, 2.55, 20)) == "90.0 ± 2.5"
    assert written_score(Score(90.0, math.nan, 1)) == "90.0"
    assert written_score(Score(math.nan, math.nan, 0)) == "–"
    assert written_score((73.48, 2.08)) == "73.5 ± 2.1"


def test_differences_are_bold_where_zero_is_excluded():
    assert written_difference(Difference(-0.3, -0.5, -0.1, 20)) == "**−0.30** [−0.50, −0.10]"
    assert written_difference(Difference(0.3, -0.1, 0.7, 20)) == "+0.30 [−0.10, +0.70]"
    assert written_difference(Difference(0.3, -math.inf, math.inf, 1)) == "+0.30 (one trial)"
    assert written_difference(Difference(math.nan, -math.inf, math.inf, 0)) == "–"
    assert written_difference(None) == "–"
