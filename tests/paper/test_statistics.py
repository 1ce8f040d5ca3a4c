import math

import numpy as np
import pytest
from scipy import stats

from paper.statistics import Difference, half_width, mean_score, paired_difference


def test_mean_and_standard_deviation_over_n_minus_1():
    values = [0.8, 0.9, 0.95]
    score = mean_score(values)
    assert score.mean == pytest.approx(np.mean(values))
    assert score.std == pytest.approx(np.std(values, ddof=1))
    assert score.n == 3


def test_missing_trials_do_not_count():
    assert mean_score([None, 0.5, None]).n == 1
    assert mean_score([None, 0.5, None]).mean == 0.5
    assert math.isnan(mean_score([0.5]).std)
    assert math.isnan(mean_score([]).mean)


def test_without_shared_rows_the_interval_is_scipys_of_a_paired_test():
    rng = np.random.default_rng(0)
    ours, control = rng.normal(0.9, 0.02, 20), rng.normal(0.88, 0.02, 20)
    expected = stats.ttest_rel(ours, control).confidence_interval(0.95)
    difference = paired_difference(ours.tolist(), control.tolist(), test_to_train=0.0)
    assert difference.low == pytest.approx(expected.low)
    assert difference.high == pytest.approx(expected.high)
    assert difference.mean == pytest.approx(np.mean(ours - control))


def test_shared_rows_widen_the_interval_as_nadeau_and_bengio_say():
    rng = np.random.default_rng(0)
    gains = rng.normal(0.02, 0.02, 20)
    plain, shared = (half_width(gains, test_to_train=ratio) for ratio in (0.0, 1 / 3))
    assert half_width(gains) == pytest.approx(shared)  # the paper's protocol is the default
    assert shared / plain == pytest.approx(math.sqrt((1 / 20 + 1 / 3) / (1 / 20)))
    found = paired_difference(gains.tolist(), [0.0] * 20)
    assert found.high - found.mean == pytest.approx(shared)


def test_the_interval_covers_a_mean_over_splits_of_the_same_rows():
    """Of a method that predicts a constant: its mean over splits varies less than it says."""
    rng = np.random.default_rng(1)
    held = {0.0: 0, 1 / 3: 0}
    for _ in range(200):
        right = rng.random(100) < 0.6
        trials = [right[rng.permutation(100)[:20]].mean() for _ in range(20)]
        for ratio in held:
            held[ratio] += abs(np.mean(trials) - 0.6) <= half_width(trials, test_to_train=ratio)
    assert held[0.0] < 160 < 180 < held[1 / 3]


def test_a_lower_level_is_narrower():
    assert half_width([0.1, 0.2, 0.3], level=0.9) < half_width([0.1, 0.2, 0.3])
    assert half_width([0.1]) == math.inf


def test_pairs_are_of_the_same_trial():
    # Unpaired, the mean of what is there would say otherwise.
    difference = paired_difference([0.9, None, 0.7, 0.8], [0.8, 0.1, 0.6, None])
    assert difference.n == 2
    assert difference.mean == pytest.approx(0.1)
    with pytest.raises(ValueError, match="longer"):
        paired_difference([0.9], [0.8, 0.7])


def test_few_pairs_say_nothing_for_certain():
    alone = paired_difference([0.9], [0.8])
    assert (alone.low, alone.high, alone.n) == (-math.inf, math.inf, 1)
    assert not alone.excludes_zero


@pytest.mark.parametrize(
    ("low", "high", "excludes"), ((0.1, 0.2, True), (-0.2, -0.1, True), (-0.1, 0.1, False))
)
def test_zero_is_excluded_on_either_side(low, high, excludes):
    assert Difference(0.0, low, high, 20).excludes_zero is excludes
