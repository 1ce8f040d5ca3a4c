import math

import numpy as np
import pytest

from hotview.report.page.scales import Frame, shorten, ticks, whole_ticks


@pytest.mark.parametrize("ends", ((0, 1), (0.93, 0.97), (-3.2, 1.9), (0, 1e-6), (5, 12345)))
def test_ticks_are_round_and_inside(ends):
    values = ticks(*ends)
    low, high = ends
    assert 2 <= len(values) <= 7
    assert low - 1e-9 <= values[0] <= values[-1] <= high * (1 + 1e-9) + 1e-9
    np.testing.assert_allclose(np.diff(values), values[1] - values[0], rtol=1e-6)


def test_a_single_value_has_one_tick():
    assert ticks(2.0, 2.0) == [2.0]
    assert ticks(float("nan"), 1.0) != []


def test_whole_ticks_are_whole():
    assert whole_ticks(1, 4) == [1, 2, 3, 4]
    assert whole_ticks(1, 12) == [1, 3, 5, 7, 9, 11]
    assert whole_ticks(1, 100) == [50, 100]


def test_a_frame_maps_its_corners():
    frame = Frame(10.0, 20.0, 110.0, 220.0, (0.0, 2.0), (-1.0, 1.0))
    assert (frame.at_x(0.0), frame.at_x(2.0)) == (10, 110)
    assert (frame.at_y(-1.0), frame.at_y(1.0)) == (220, 20)
    assert Frame(0.0, 0.0, 10.0, 10.0, (3.0, 3.0)).at_x(3.0) == 5


def test_missing_values_interrupt_a_path():
    frame = Frame(0.0, 0.0, 10.0, 10.0)
    assert frame.path([0, 0.5, 1], [0, math.nan, 1]) == "M0.0 10.0M10.0 0.0"
    assert frame.path([0, 1], [0, 1]) == "M0.0 10.0L10.0 0.0"


def test_long_names_are_shortened():
    assert shorten("a" * 50 + "1", 10) == "aaaaa…aaa1"
