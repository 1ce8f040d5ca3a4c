import math

import numpy as np
import pytest
from scipy.stats import binomtest

from hotview.evaluation import expected_calibration_error
from hotview.evaluation.bootstrap import (
    ClassStatistics,
    RankStatistics,
    RowSample,
    bootstrap,
    estimate,
    likely_gaps,
    make_sample,
    proportion,
)
from hotview.evaluation.metrics import (
    accuracy_with_interval,
    compare_accuracies,
    square_and_add,
    wilson_interval,
)


def mean_of(x):
    return lambda W: {"mean": x @ W / W.sum(axis=0)}


def test_the_standard_deviation_of_a_mean_is_that_of_the_rows():
    x, sample = np.random.default_rng(0).normal(size=500), make_sample(500)
    found, again = (bootstrap([mean_of(x)], sample)["mean"] for _ in range(2))
    np.testing.assert_array_equal(found, again)
    assert len(found) == 1001
    assert len(bootstrap([mean_of(x)], sample, width=1800)["mean"]) == 1 + 222  # of large tables
    assert found[0] == pytest.approx(x.mean())
    error = x.std() / np.sqrt(500)
    assert found[1:].std() == pytest.approx(error, rel=0.1)
    interval = estimate(found, sample)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_resamples_draw_as_many_rows():
    for sample, n in ((make_sample(7), 7), (make_sample(6, groups=list("aabbcc")), 6)):
        blocks = list(sample.resamples(50))
        np.testing.assert_array_equal(blocks[0][:, 0], 1)
        W = np.hstack(blocks[1:])
        assert W.shape == (n, 50)
        np.testing.assert_array_equal(W.sum(axis=0), n)
    np.testing.assert_array_equal(W[::2], W[1::2])


def test_weights_are_worth_fewer_rows():
    assert make_sample(10).n_effective == 10
    assert RowSample(np.array([1.0, 1.0, 0.0])).n_effective == 2
    hits = np.array([True, False, True, True])
    found = proportion(hits, make_sample(4, [1, 1, 2, 0]))
    assert found.value == pytest.approx(0.75)
    assert (found.low, found.high) == pytest.approx(wilson_interval(0.75, 16 / 6))
    assert proportion(hits[:0], RowSample(np.empty(0))) is None


def test_intervals_of_calibration_errors_hold_the_value_and_begin_at_0_where_it_may_be_chance():
    replicates = np.append(0.1, np.linspace(0.15, 0.25, 1000))
    found = estimate(replicates, make_sample(10), chance=0.05)
    assert (found.low, found.value, found.high) == (0.0, 0.1, 0.1)
    replicates = np.append(0.2, np.linspace(0.15, 0.25, 1000))
    low = estimate(replicates, make_sample(1000), chance=0.1).low
    assert low == pytest.approx(0.1525, abs=1e-3)
    assert estimate(replicates, make_sample(1000), chance=0.3).low == 0.0


def test_intervals_of_few_rows_are_expanded():
    """Of means of 5 normal values, 95 % intervals without expansion cover 0 in 82 %."""
    found = [
        estimate(bootstrap([mean_of(x)], make_sample(5))["mean"], make_sample(5))
        for x in np.random.default_rng(0).normal(size=(150, 5))
    ]
    assert np.mean([x.low <= 0 <= x.high for x in found]) >= 0.88


def test_gaps_that_are_likely_by_chance_are_those_of_drawn_outcomes():
    random, sample = np.random.default_rng(0), make_sample(400)
    P = random.dirichlet([0.5, 1.0, 2.0], 400)
    gaps = likely_gaps(P, sample)
    found = {name: [] for name in gaps}
    for _ in range(400):
        y = (random.random(400)[:, None] > P.cumsum(axis=1)).sum(axis=1)
        metrics = ClassStatistics(y, P)(np.ones((400, 1)))
        for name in ("class_calibration_error", "calibration_error"):
            found[name].append(metrics[name][..., 0] <= gaps[name])
        found["excess"].append(np.abs(metrics["excess"][:, 0]) <= gaps["excess"])
        entropy = -(P * np.log(P)).sum(axis=1).mean()
        found["log_loss"].append(abs(metrics["log_loss"][0] - entropy) <= gaps["log_loss"])
    for name, hits in found.items():
        assert (np.mean(hits, axis=0) >= 0.92).all(), name
        assert (np.mean(hits, axis=0) <= 0.995).all(), name
    # Rows of a group vary together.
    copies = np.repeat(np.arange(400), 4)
    grouped = likely_gaps(P[copies], make_sample(1600, groups=copies))
    assert all(grouped[name] == pytest.approx(gap) for name, gap in gaps.items())
    assert likely_gaps(P[copies], make_sample(1600))["log_loss"] < 0.6 * gaps["log_loss"]


def test_metrics_of_columns_are_computed_independently():
    random = np.random.default_rng(0)
    P, y = random.dirichlet(np.ones(3), 40), random.integers(0, 4, 40)
    W = random.integers(0, 3, (40, 5)).astype(float)
    for f in (ClassStatistics(y, P), RankStatistics(y == 1, P[:, 1], np.ones(40))):
        together = f(W)
        for j in range(5):
            for name, values in f(W[:, j : j + 1]).items():
                np.testing.assert_allclose(together[name][..., j], values[..., 0])
    # A resample without positive rows has no rank.
    f = RankStatistics(np.array([True, False, False]), np.array([0.9, 0.5, 0.1]), np.ones(3))
    found = f(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(found["auc"], [1.0, np.nan])


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
    low, between, high = (wilson_interval(k / n, m) for m in (n, n + 0.5, n + 1))  # of weights
    assert low[0] <= between[0] <= high[0]
    assert high[1] <= between[1] <= low[1]


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
    # Agreement about every row is no certainty.
    many, few = (compare_accuracies([True] * n, [True] * n) for n in (30, 3))
    assert many.value == many.error == 0
    assert many.low < 0 < many.high < few.high
    assert math.isnan(compare_accuracies([True], [False]).error)


def test_the_interval_of_a_mean_is_made_of_those_of_its_parts():
    parts = [accuracy_with_interval([True] * k + [False] * (50 - k)) for k in (30, 50)]
    found = square_and_add(parts)
    below = math.hypot(*(x.value - x.low for x in parts)) / 2
    above = (parts[0].high - parts[0].value) / 2
    assert (found.value, found.low, found.high) == pytest.approx((0.8, 0.8 - below, 0.8 + above))
