import numpy as np
import pytest
from scipy import stats

from paper.report.claims.grouping import GROUPED, GROUPS, Count, grouping_claim

# Handwritten: pix, fou, fac, zer, kar, mor; Caltech7: Gabor, WM, CENTRIST, HOG, GIST, LBP.
AS_THE_PAPER_SAYS = {
    "handwritten": [
        [0.9, 0.1, 0.0],
        [0.4, 0.1, 0.5],
        [0.9, 0.1, 0.0],
        [0.3, 0.1, 0.6],
        [0.9, 0.1, 0.0],
        [0.1, 0.8, 0.1],
    ],
    "caltech7": [
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.9, 0.1, 0.0],
        [0.0, 0.5, 0.5],
        [0.1, 0.9, 0.0],
        [0.0, 0.5, 0.5],
    ],
}


def test_rule_each_way():
    assert GROUPED.decide(Count(20, 20, 0.2)) is True
    assert GROUPED.decide(Count(3, 20, 0.2)) is False
    assert GROUPED.decide(Count(9, 20, 0.2)) is None  # under a half, but it may be a half
    assert GROUPED.decide(Count(3, 4, 0.5)) is None  # too few to exclude chance


def test_p_values_are_those_of_the_binomial_law():
    count = Count(9, 20, 0.2)
    assert count.p_value == pytest.approx(stats.binom.sf(8, 20, 0.2))
    assert count.highest_share == pytest.approx(stats.beta.ppf(0.975, 10, 11))


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


def test_groups_are_seen_where_they_are(summaries, read):
    for entry in summaries["figure5"]["cells"]:
        cell = entry["cell"]
        if cell["method"] == "HOT (11)" and cell["dataset"] in AS_THE_PAPER_SAYS:
            W = np.array(AS_THE_PAPER_SAYS[cell["dataset"]]) / 6
            entry["Ws"] = [W[:, np.roll(range(3), t)].tolist() for t in range(5)]
    claim = grouping_claim(read(summaries))
    ours = [f for f in claim.findings if "HOT (11)" in f.how]
    assert len(ours) == 8
    assert {f.number.split(";")[0] for f in ours} == {"5 of 5 trials"}
    assert {f.verdict for f in ours} == {"holds"}


def test_even_plans_show_no_groups(summaries, read):
    for entry in summaries["figure5"]["cells"]:
        if entry["cell"]["method"] == "HOT (11)":
            entry["Ws"] = [np.full((6, 3), 1 / 18).tolist()] * 5
    found = [f for f in grouping_claim(read(summaries)).findings if "HOT (11)" in f.how]
    assert {f.number.split(";")[0] for f in found} == {"0 of 5 trials"}
