import numpy as np
import pytest

from hotview.report.page.markup import Markup
from hotview.report.page.svg import Frame, chart, figure, mark, shorten, ticks, view_color


@pytest.mark.parametrize("ends", ((0, 1), (0.93, 0.97), (-3.2, 1.9), (0, 1e-6), (5, 12345)))
def test_ticks_are_round_and_inside(ends):
    found = ticks(*ends)
    low, high = ends
    assert 2 <= len(found) <= 7
    assert low - 1e-9 <= found[0] <= found[-1] <= high * (1 + 1e-9) + 1e-9
    np.testing.assert_allclose(np.diff(found), found[1] - found[0], rtol=1e-6)


def test_one_number_has_one_tick():
    assert ticks(2.0, 2.0) == [2.0]
    assert ticks(float("nan"), 1.0) != []


def test_a_frame_maps_its_corners():
    frame = Frame(10.0, 20.0, 110.0, 220.0, (0.0, 2.0), (-1.0, 1.0))
    assert (frame.at_x(0.0), frame.at_x(2.0)) == (10, 110)
    assert (frame.at_y(-1.0), frame.at_y(1.0)) == (220, 20)
    assert Frame(0.0, 0.0, 10.0, 10.0, (3.0, 3.0)).at_x(3.0) == 5


def test_views_have_a_mark_of_their_own():
    marks = {mark(0.0, 0.0, s) for s in range(24)}
    assert len(marks) == 24
    assert view_color(3) == view_color(11)


def test_long_names_are_cut():
    assert shorten("a" * 50 + "1", 10) == "aaaaa…aaa1"


def test_charts_say_what_they_show():
    found = chart(10.0, 5.5, '"quoted"')
    assert found.startswith('<svg viewBox="0 0 10 5.5" role="img" aria-label="&quot;quoted&quot;"')
    assert "<h3>a &amp; b</h3>" in figure("a & b", "", Markup(found))
