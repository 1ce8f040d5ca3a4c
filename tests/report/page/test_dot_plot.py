import math
import re

from hotview.report.page.dot_plot import Dot, dot_plot


def drawn(rows, **how):
    how = {"ends": (0.0, 1.0), "title": "t", "text": "{:.1f}".format, "label": "x", **how}
    return dot_plot(rows, **how)


def test_dots_stand_at_their_number():
    found = drawn([("a", None, [Dot(0.0, 0.0, 0.0), Dot(1.0, 0.0, 2.0)])])
    left, right = (float(x) for x in re.findall(r'<circle cx="([\d.]+)" cy="25"', found))
    assert right == 366
    assert left < 40
    bars = re.findall(r'x1="([\d.]+)" x2="([\d.]+)" y1="25" y2="25" class="whisker"', found)
    assert bars[1] == (bars[0][0], "366")  # cut at the ends of the scale


def test_what_is_not_known_is_not_drawn():
    found = drawn([("a", None, [Dot(math.nan, math.nan, math.nan), Dot(0.5, math.nan, 1.0)])])
    assert found.count("<circle") == 1
    assert "whisker" not in found
    assert "nan" not in found


def test_a_view_keeps_its_color():
    assert 'style="fill:var(--view-2)"' in drawn([("a", 2, [Dot(0.5, 0.4, 0.6)])])


def test_long_names_stand_above_their_row():
    name = "a very long name of a method"
    assert f">{name}<title>" in drawn([(name, None, [])])


def test_a_line_to_compare_with():
    assert 'class="reference"' in drawn([("a", None, [])], line=0.5)
    assert drawn([]).startswith("<svg")
