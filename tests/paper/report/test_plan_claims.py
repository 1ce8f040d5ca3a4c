import numpy as np
import pytest
from scipy import stats

from paper.plans import correlations
from paper.report.claims.grouping import GROUPED, GROUPS, Count, grouping_claim
from paper.report.claims.plan_quality import (
    density_claim,
    mean_correlation,
    stability_claim,
    welch,
)

# Handwritten: pix, fou, fac, zer, kar, mor; Caltech7: Gabor, WM, CENTRIST, HOG, GIST, LBP.
# Rows of tenths, one per view.
AS_THE_PAPER_SAYS = {
    "handwritten": ("9 1 0", "4 1 5", "9 1 0", "3 1 6", "9 1 0", "1 8 1"),
    "caltech7": ("10 0 0", "0 10 0", "9 1 0", "0 5 5", "1 9 0", "0 5 5"),
}
SHARP = np.kron(np.eye(3), np.ones((2, 1))) / 6
EVEN = np.full((6, 3), 1 / 18)


def set_plans(summary, plans_of):
    for entry in summary["cells"]:
        if entry["cell"]["method"] == "HOT (11)" and "Ws" in entry:
            entry["Ws"] = [np.asarray(W).tolist() for W in plans_of(entry["cell"]["dataset"])]


def ours(claim):
    return [finding for finding in claim.findings if "HOT (11)" in finding.how]


def test_p_values_are_those_of_the_binomial_law_and_decide():
    count = Count(9, 20, 0.2)
    assert count.p_value == pytest.approx(stats.binom.sf(8, 20, 0.2))
    assert count.highest_share == pytest.approx(stats.beta.ppf(0.975, 10, 11))
    assert GROUPED.decide(count) is None  # under a half, but it may be a half
    assert GROUPED.decide(Count(20, 20, 0.2)) is True
    assert GROUPED.decide(Count(3, 20, 0.2)) is False
    assert GROUPED.decide(Count(3, 4, 0.5)) is None  # too few to exclude chance


@pytest.mark.parametrize("dataset", GROUPS)
def test_chance_is_what_shuffled_names_give(dataset):
    rng = np.random.default_rng(0)
    S = rng.random((6, 6))
    S = S + S.T
    np.fill_diagonal(S, np.nan)
    for group in GROUPS[dataset]:
        of = list(range(len(group.views)))
        orders = [rng.permutation(6) for _ in range(600)]
        share = np.mean([group.seen(S[np.ix_(order, order)], of) for order in orders])
        assert share == pytest.approx(group.chance(6), abs=0.06)


def test_groups_are_seen_where_they_are_and_even_plans_show_none(summaries, read):
    def as_the_paper_says(dataset):
        rows = AS_THE_PAPER_SAYS.get(dataset)
        W = EVEN if rows is None else np.array([row.split() for row in rows], float) / 60
        return [W[:, np.roll(range(3), t)] for t in range(5)]

    figure = summaries["figure5"]
    set_plans(figure, as_the_paper_says)
    found = ours(grouping_claim(read(summaries)))
    assert {(f.number.split(";")[0], f.verdict) for f in found} == {("5 of 5 trials", "holds")}
    assert len(found) == 8
    set_plans(figure, lambda dataset: [EVEN] * 5)
    found = ours(grouping_claim(read(summaries)))
    assert {f.number.split(";")[0] for f in found} == {"0 of 5 trials"}


def test_welch_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 20), rng.normal(0, 3, 12)
    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    found = welch(list(a), list(b))
    assert (found.mean, found.low, found.high) == pytest.approx((a.mean() - b.mean(), low, high))
    assert welch([1.0], [0.0, 1.0]).high == np.inf


def test_the_mean_correlation_is_over_pairs_and_its_interval_a_jackknife():
    table = correlations(np.random.default_rng(0).random((6, 6, 3)), pairwise=False)
    found = mean_correlation(table)
    assert found.mean == pytest.approx(table[np.triu_indices(6, k=1)].mean())
    rest = [np.delete(range(6), i) for i in range(6)]
    left_out = np.array([np.nanmean(table[np.ix_(kept, kept)]) for kept in rest])
    error = np.sqrt(5 / 6 * np.sum((left_out - left_out.mean()) ** 2))
    reach = stats.t.ppf(0.975, 5) * error
    assert (found.low, found.high) == pytest.approx((found.mean - reach, found.mean + reach))
    assert mean_correlation(table[:2, :2]).low == -np.inf


def test_noise_is_not_stable_and_a_fixed_plan_is(summaries, read):
    rng = np.random.default_rng(0)
    set_plans(summaries["figure5"], lambda _: [SHARP[:, np.roll(range(3), t)] for t in range(5)])
    set_plans(summaries["claims"], lambda _: [SHARP[rng.permutation(6)] for _ in range(20)])
    found = {f.how: f.verdict for f in ours(stability_claim(read(summaries)))}
    between = {verdict for how, verdict in found.items() if how.endswith("between splits")}
    within = {verdict for how, verdict in found.items() if "one split" in how}
    assert (between, within) == ({"holds"}, {"does not hold"})
    assert "HOT (11), the paper's settings, one split, M = 3 iid" in found


@pytest.mark.parametrize(
    ("many", "few", "verdict"),
    ((EVEN, SHARP, "holds"), (SHARP, EVEN, "not on our data"), (EVEN, EVEN, "not on our data")),
)
def test_density_each_way(summaries, read, many, few, verdict):
    set_plans(summaries["figure5"], lambda data: [many if data == "caltech20" else few] * 5)
    found = [finding.verdict for finding in ours(density_claim(read(summaries)))]
    assert found == [verdict] * 4  # two datasets, two settings
