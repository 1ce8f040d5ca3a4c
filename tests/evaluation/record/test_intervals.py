import math

import numpy as np
import pytest
from scipy.stats import binomtest

from hotview.evaluation.record.intervals import compare, share


@pytest.mark.parametrize(("k", "n"), ((0, 1), (0, 20), (7, 20), (20, 20), (387, 400)))
def test_the_interval_of_a_share_is_scipys(k, n):
    found = share([True] * k + [False] * (n - k))
    truth = binomtest(k, n).proportion_ci(method="wilson")
    assert (found.value, found.n) == (k / n, n)
    assert (found.low, found.high) == pytest.approx((truth.low, truth.high))


def test_a_difference_is_that_of_pairs():
    random = np.random.default_rng(0)
    a, b = random.random(200) < 0.8, random.random(200) < 0.6
    found = compare(a, b)
    d = a.astype(float) - b
    assert found.value == pytest.approx(d.mean())
    assert found.error == pytest.approx(d.std(ddof=1) / math.sqrt(200))
    assert found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * found.error, rel=0.03)
    back = compare(b, a)
    assert (back.value, back.low) == pytest.approx((-found.value, -found.high))


def test_agreement_about_every_row_is_no_certainty():
    found = compare([True] * 30, [True] * 30)
    assert found.value == found.error == 0
    assert found.low < 0 < found.high
    few = compare([True] * 3, [True] * 3)
    assert few.high > found.high


def test_one_row_has_no_error():
    assert math.isnan(compare([True], [False]).error)
