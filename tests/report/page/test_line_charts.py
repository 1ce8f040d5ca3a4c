import math
import re

import pytest

from hotview.evaluation.record.schema import Bin, Curve, NumberScore, Proportion
from hotview.report.page.line_charts import calibration_chart, curve_chart, number_chart


def line(found):
    return re.search(r'<path d="([^"]*)" class="line"', found)[1]


def test_a_curve_goes_through_all_epochs():
    found = curve_chart(Curve("loss", [3.0, 2.0, 1.0], [0.1] * 3), [1, 2, 3])
    assert len(re.findall("[ML]", line(found))) == 3
    assert 'class="band"' in found
    assert "from 3 to 1" in found


def test_gaps_interrupt_a_curve():
    found = curve_chart(Curve("loss", [3.0, math.nan, 1.0, 2.0], [math.nan] * 4), [1, 2, 3, 4])
    assert re.sub(r"[\d. ]", "", line(found)) == "MML"
    assert 'class="band"' not in found
    assert "nan" not in found


@pytest.mark.parametrize("values", ([math.nan], [math.inf, math.nan]))
def test_a_loss_that_was_never_finite_is_told(values):
    found = curve_chart(Curve("loss", values, values), list(range(len(values))))
    assert "never a finite number" in found


def test_a_constant_and_a_single_epoch():
    for values in ([0.0], [0.0, 0.0], [5.0, 5.0]):
        found = curve_chart(Curve("x", values, [math.nan] * len(values)), [*range(len(values))])
        assert "nan" not in found


def test_bins_are_where_they_should_be():
    found = calibration_chart(
        [Bin(0.0, Proportion(0.0, 0.0, 0.5, 2)), Bin(1.0, Proportion(1.0, 0.5, 1.0, 8))], "x"
    )
    places = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"', found)
    (x0, y0, r0), (x1, y1, r1) = [tuple(map(float, p)) for p in places]
    assert (x0, y0, x1, y1) == (46, 290, 370, 26)
    assert r0 < r1


def test_numbers_of_views_have_whole_ticks():
    scores = [NumberScore(k, 0.9, 0.81, 0.95, 1, 1) for k in range(1, 13)]
    found = number_chart(scores, "x")
    assert found.count("<circle") == 12
    assert ">1</text>" in found
    assert ">80%</text>" in found
