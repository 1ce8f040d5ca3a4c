import math

import numpy as np
import pytest
from scipy.stats import binomtest

from hotview.evaluation import expected_calibration_error
from hotview.evaluation.metrics import (
    accuracy_with_interval,
    compare_accuracies,
    square_and_add,
    wilson_interval,
)


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    P = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    y = np.array(["a", "b", "b", "b"])
    assert expected_calibration_error(P, y, ["a", "b"]) == pytest.approx((0.4 + 0.4) / 2)
    assert expected_calibration_error([[1.0, 0.0]] * 4, [2] * 4, [0, 1]) == 1.0
    with pytest.raises(ValueError, match="2 probabilities"):
        expected_calibration_error(np.ones((3, 4)) / 4, [0, 1, 0], [0, 1])


@pytest.mark.parametrize(("k", "n"), ((0, 1), (0, 20), (7, 20), (20, 20), (387, 400)))
def test_the_interval_of_a_share_is_scipys(k, n):
    found = accuracy_with_interval([True] * k + [False] * (n - k))
    truth = binomtest(k, n).proportion_ci(method="wilson")
    assert (found.value, found.n) == (k / n, n)
    assert (found.low, found.high) == pytest.approx((truth.low, truth.high))


def test_a_difference_is_that_of_pairs():
    random = np.random.default_rng(0)
    a, b = random.random(200) < 0.8, random.random(200) < 0.6
    found = compare_accuracies(a, b)
    d = a.astype(float) - b
    assert found.value == pytest.approx(d.mean())
    assert found.error == pytest.approx(d.std(ddof=1) / math.sqrt(200))
    assert found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * found.error, rel=0.03)
    back = compare_accuracies(b, a)
    assert (back.value, back.low) == pytest.approx((-found.value, -found.high))


def test_agreement_about_every_row_is_no_certainty():
    found = compare_accuracies([True] * 30, [True] * 30)
    assert found.value == found.error == 0
    assert found.low < 0 < found.high
    assert compare_accuracies([True] * 3, [True] * 3).high > found.high
    assert math.isnan(compare_accuracies([True], [False]).error)


def test_intervals_of_rows_with_weights_are_between_those_of_whole_numbers():
    low, between, high = (wilson_interval(0.3, n) for n in (40, 40.5, 41))
    assert low[0] < between[0] < high[0]
    assert high[1] < between[1] < low[1]


def test_the_interval_of_a_mean_is_made_of_those_of_its_parts():
    parts = [accuracy_with_interval([True] * k + [False] * (50 - k)) for k in (30, 50)]
    found = square_and_add(parts)
    assert found.value == 0.8
    below = math.hypot(*(x.value - x.low for x in parts)) / 2
    assert found.low == pytest.approx(0.8 - below)
    assert found.high == pytest.approx(0.8 + (parts[0].high - parts[0].value) / 2)
