import numpy as np
import pytest

from hotview.evaluation import assess
from hotview.evaluation.thresholds import choose_threshold, split_by_hash


def draw(n):
    """Calibrated probabilities of a class that is rare."""
    random = np.random.default_rng(0)
    p = random.beta(0.5, 2.0, n)
    return np.column_stack([1 - p, p]), (random.random(n) < p).astype(int)


def test_the_threshold_by_cost_is_the_cheapest_where_probabilities_are_calibrated():
    def cost_of(threshold):
        flagged = P[:, 1] >= threshold
        return np.mean(np.where(y == 1, 5 * ~flagged, flagged))

    P, y = draw(20_000)
    found = assess(y, P, [0, 1], cost=5).binary
    assert found.cost_ratio == 5
    assert found.chosen.threshold == pytest.approx(1 / 6)
    assert "lowest expected cost" in found.chosen.source
    assert found.chosen.cost.value == pytest.approx(cost_of(1 / 6))
    assert found.chosen.cost.value < min(found.default.cost.value, cost_of(0.08), cost_of(0.3))
    assert found.chosen.cost.low < found.chosen.cost.value < found.chosen.cost.high
    assert found.chosen.sensitivity.value > found.default.sensitivity.value
    assert found.chosen.specificity.value < found.default.specificity.value


def test_a_given_threshold_flags_probabilities_from_it_on():
    P = np.array([[0.7, 0.3], [0.8, 0.2], [0.6, 0.4], [0.9, 0.1]])
    found = assess([1, 1, 0, 0], P, [0, 1], threshold=0.3).binary.chosen
    assert (found.threshold, found.source, found.n) == (0.3, "given", 4)
    assert found.sensitivity.value == found.specificity.value == found.precision.value == 0.5
    assert found.cost is None
    nobody = assess([1, 1, 0, 0], P, [0, 1], threshold=1.0, cost=3).binary.chosen
    assert nobody.precision is None
    assert nobody.cost.value == 1.5


def test_a_threshold_is_chosen_on_one_half_and_scored_on_the_other():
    P, y = draw(2_000)
    ids = [f"p{i}" for i in range(2_000)]
    how = {"threshold": "held-out", "cost": 5, "groups": ids}
    found = assess(y, P, [0, 1], **how).binary.chosen
    half = split_by_hash(ids)
    assert found.threshold == choose_threshold(y[half] == 1, P[half, 1], np.ones(half.sum()), 5)
    assert found.n == (~half).sum()
    flagged = P[~half, 1] >= found.threshold
    assert found.sensitivity.value == pytest.approx(flagged[y[~half] == 1].mean())
    assert f"on the other {half.sum():,} rows" in found.source
    assert found.threshold == pytest.approx(1 / 6, abs=0.08)
    order = np.random.default_rng(0).permutation(2_000)
    how["groups"] = np.array(ids)[order]
    again = assess(y[order], P[order], [0, 1], **how).binary.chosen
    assert again.threshold == found.threshold


@pytest.mark.parametrize("cost", (0.5, 1.0, 4.0, None))
def test_no_threshold_is_cheaper(cost):
    P, y = draw(200)
    weights = np.random.default_rng(0).random(200)
    ratio = cost or weights[y == 0].sum() / weights[y == 1].sum()

    def total(threshold):
        flagged = P[:, 1] >= threshold
        return weights @ np.where(y == 1, ratio * ~flagged, flagged)

    best = min(total(t) for t in [*P[:, 1], 1.1])
    assert total(choose_threshold(y == 1, P[:, 1], weights, cost)) == pytest.approx(best)


def test_halves_have_the_same_size_and_keep_groups():
    half = split_by_hash(np.arange(400) // 2)
    assert half.mean() == 0.5
    assert half[:200].mean() == pytest.approx(0.5, abs=0.15)
    np.testing.assert_array_equal(half[::2], half[1::2])
    with pytest.raises(ValueError, match="both classes among those that the threshold is chosen"):
        assess([0] * 20, draw(20)[0], [0, 1], threshold="held-out", positive=1)
