import math

import pytest

from paper.markdown import listed, number, percent, section, signed, table


def test_a_minus_is_a_minus_and_zero_has_no_sign():
    assert [number(x, 1) for x in (1.25, -1.26, -0.04, 0.0)] == ["1.2", "−1.3", "0.0", "0.0"]
    assert [signed(x, 1) for x in (1.25, -1.26, -0.04, 0.04)] == ["+1.2", "−1.3", "0.0", "0.0"]
    assert number(math.nan) == signed(math.nan) == percent(math.nan) == "–"


def test_percent_is_whole():
    assert percent(1 / 3) == "33 %"


def test_words_are_joined_as_in_a_sentence():
    assert listed([]) == "none"
    assert listed(["a"]) == "a"
    assert listed(["a", "b"], "or") == "a or b"


def test_a_table_has_its_alignment_and_escapes_bars():
    laid = table(["a", "b", "c"], [["x|y", "z", "1"]], words=2)
    assert laid.splitlines() == ["| a | b | c |", "|---|---|--:|", r"| x\|y | z | 1 |"]


def test_a_ragged_row_is_refused():
    with pytest.raises(ValueError, match=r"must have 2 cells, got \['x'\]"):
        table(["a", "b"], [["x"]])


def test_empty_blocks_leave_no_gap():
    assert section("T", "", "text", "", level=3) == "### T\n\ntext"
