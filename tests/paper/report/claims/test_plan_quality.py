import numpy as np
import pytest
from scipy import stats

from paper.plans import correlations
from paper.report.claims.plan_quality import (
    DENSER,
    STABLE,
    density_claim,
    mean_correlation,
    stability_claim,
    welch,
)
from paper.statistics import Difference

SHARP = np.kron(np.eye(3), np.ones((2, 1))) / 6
EVEN = np.full((6, 3), 1 / 18)


def set_plans(summary, plans_of):
    for entry in summary["cells"]:
        if entry["cell"]["method"] == "HOT (11)" and "Ws" in entry:
            entry["Ws"] = [np.asarray(W).tolist() for W in plans_of(entry["cell"])]


def test_rules_each_way():
    assert [
        DENSER.decide(Difference(0, *ends, 20)) for ends in ((0.1, 0.3), (-0.2, 0.04), (0, 0.2))
    ] == [
        True,
        False,
        None,
    ]
    assert [
        STABLE.decide(Difference(0, *ends, 20)) for ends in ((0.6, 0.9), (0.0, 0.4), (0.4, 0.9))
    ] == [
        True,
        False,
        None,
    ]


def test_welch_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 20), rng.normal(0, 3, 12)
    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    found = welch(list(a), list(b))
    assert (found.mean, found.low, found.high) == pytest.approx((a.mean() - b.mean(), low, high))
    assert welch([1.0], [0.0, 1.0]).high == np.inf


def test_the_mean_correlation_is_over_pairs_and_its_interval_a_jackknife():
    rng = np.random.default_rng(0)
    table = correlations(rng.random((6, 6, 3)), pairwise=False)
    found = mean_correlation(table)
    upper = np.triu_indices(6, k=1)
    assert found.mean == pytest.approx(table[upper].mean())
    left_out = [
        np.nanmean(table[np.ix_(kept, kept)])
        for kept in ([j for j in range(6) if j != i] for i in range(6))
    ]
    error = np.sqrt(5 / 6 * np.sum((left_out - np.mean(left_out)) ** 2))
    reach = stats.t.ppf(0.975, 5) * error
    assert (found.low, found.high) == pytest.approx((found.mean - reach, found.mean + reach))
    assert mean_correlation(table[:2, :2]).low == -np.inf


def test_noise_is_not_stable_and_a_fixed_plan_is(summaries, read):
    rng = np.random.default_rng(0)
    set_plans(summaries["figure5"], lambda cell: [SHARP[:, np.roll(range(3), t)] for t in range(5)])
    set_plans(summaries["claims"], lambda cell: [SHARP[rng.permutation(6)] for _ in range(20)])
    found = [f for f in stability_claim(read(summaries)).findings if "HOT (11)" in f.how]
    between = {f.verdict for f in found if f.how.endswith("between splits")}
    within = {f.verdict for f in found if "one split" in f.how}
    assert (between, within) == ({"holds"}, {"does not hold"})
    assert "HOT (11), the paper's settings, one split, M = 3 iid" in [f.how for f in found]


@pytest.mark.parametrize(
    ("many", "few", "verdict"),
    ((EVEN, SHARP, "holds"), (SHARP, EVEN, "not on our data"), (EVEN, EVEN, "not on our data")),
)
def test_density_each_way(summaries, read, many, few, verdict):
    set_plans(
        summaries["figure5"],
        lambda cell: [many if cell["dataset"] == "caltech20" else few] * 5,
    )
    found = [f for f in density_claim(read(summaries)).findings if "HOT (11)" in f.how]
    assert len(found) == 4  # two datasets, two settings
    assert {f.verdict for f in found} == {verdict}


def test_without_caltech20_nothing_is_compared(summaries, read):
    figure = summaries["figure5"]
    figure["cells"] = [e for e in figure["cells"] if e["cell"]["dataset"] != "caltech20"]
    assert density_claim(read(summaries)).findings == ()
