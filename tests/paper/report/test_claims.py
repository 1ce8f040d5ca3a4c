import math

import numpy as np
import pytest

from paper.markdown import number, signed
from paper.report.claims.contrasts import CONTRASTS, contrast_claim, relaxation_claim
from paper.report.claims.distances import bound_claim, cost_claim, exact_claim
from paper.report.claims.losses import LOSSES, equal_loss_claim, loss_claim
from paper.report.claims.robustness import best_claim, robustness_claim
from paper.report.claims.verdicts import ADDS, HARMLESS, is_the_papers
from paper.report.results import Results
from paper.statistics import Difference

TITLES = {contrast.title: contrast for contrast in CONTRASTS}
HOT = ("HOT (10)", "HOT (11)", "HOT (10) + AE", "HOT (11) + AE")
USUAL = [90, 91, 92, 93, 94]


def verdicts(claim, data="Handwritten"):
    return {f.how: f.verdict for f in claim.findings if f.data == data}


def by_way(claim):
    return {f.how: f for f in claim.findings}


def test_numbers_are_scipys(results, scores, interval_of):
    claim = contrast_claim(results, TITLES["HOT is better than SW, unsupervised"])
    (finding,) = (f for f in claim.findings if (f.data, f.how) == ("MSRC-v1", "robust settings"))
    where = {"dataset": "msrc", "settings": "robust"}
    hot, sw = (
        np.mean([scores("table3", method=f"{kind} {row}", **where) for row in rows], axis=0)
        for kind, rows in (
            ("HOT", ("(10)", "(11)", "(10) + AE", "(11) + AE")),
            ("SW", ("(8)", "(9)", "(8) + AE", "(9) + AE")),
        )
    )
    low, high = interval_of(hot, sw)
    assert signed(np.mean(hot - sw), 2) in finding.number
    assert f"[{signed(low, 2)}, {signed(high, 2)}]" in finding.number


@pytest.mark.parametrize(
    ("ours", "here", "elsewhere"),
    (
        ([95, 96, 97, 98, 99], "holds", "holds"),
        ([85, 86, 87, 88, 89], "does not hold", "not on our data"),
        ([95, 82, 97, 84, 92], "cannot be told", "cannot be told"),
    ),
)
def test_verdicts_each_way(summaries, change, read, ours, here, elsewhere):
    change(summaries["table2"], [90, 91, 92, 93, 94])
    for method in HOT:
        change(summaries["table2"], ours, method=method)
    results = read(summaries)
    for title in ("HOT is better than SW", "HOT is better than no coupling"):
        claim = contrast_claim(results, TITLES[f"{title}, semi-supervised"])
        assert set(verdicts(claim).values()) == {here}
        assert set(verdicts(claim, "Caltech20 (re-extracted)").values()) == {elsewhere}


def test_two_tasks_are_compared_across_tables_and_as_good_needs_no_gain(summaries, change, read):
    change(summaries["table2"], USUAL)
    change(summaries["table3"], [70, 72, 71, 73, 74])
    as_good = TITLES["SW without alignment is as good as CCA with it, semi-supervised"]
    across = TITLES["CCA loses without labels in the objective"]
    for contrast in (as_good, across):
        assert set(verdicts(contrast_claim(read(summaries), contrast)).values()) == {"holds"}
    del summaries["table3"]
    assert contrast_claim(read(summaries), across).findings == ()


@pytest.mark.parametrize(
    ("exact", "verdict"),
    (([90.1, 91, 92, 93, 94], "holds"), ([97, 98, 99, 99, 99], "does not hold")),
)
def test_relaxing_does_no_harm_or_does(summaries, change, read, exact, verdict):
    change(summaries["claims"], USUAL)
    change(summaries["claims"], exact, overrides={"coupling__orthogonality_weight": "inf"})
    found = verdicts(relaxation_claim(read(summaries)))
    assert list(found.values()) == [verdict] * 8  # two methods, two tasks, two settings


@pytest.mark.parametrize(
    ("without", "verdict"), (([70, 72, 71, 73, 74], "holds"), (USUAL, "does not hold"))
)
def test_mor_is_missed_and_pix_fac_and_kar_alike_or_not(summaries, change, read, without, verdict):
    table = summaries["table4"]
    change(table, USUAL)
    assert {f.verdict for f in equal_loss_claim(read(summaries)).findings} == {"holds"}
    change(table, without, without="mor", dataset="handwritten")
    claim = loss_claim(read(summaries), LOSSES[0])
    assert list(by_way(claim)) == [
        "HOT (11), the paper's settings",
        "HOT (11), robust settings",
        "PCA + logistic regression",
    ]
    assert {f.verdict for f in claim.findings} == {verdict}
    change(table, [70, 72, 71, 73, 74], without="kar")
    assert {f.verdict for f in equal_loss_claim(read(summaries)).findings} == {"does not hold"}


def test_spreads_are_numpys(results, scores):
    found = by_way(robustness_claim(results))["references K, the paper's settings"]
    where = {"dataset": "handwritten", "settings": "paper"}
    usual = scores("figure3", **where)
    others = [{"coupling__n_references": k} for k in (1, 2, 4, 5, 6)]
    means = [np.mean(scores("figure3", overrides=given, **where)) for given in ({}, *others)]
    assert found.number.startswith(number(np.ptp(means)))
    assert found.number.endswith(f"std {number(np.std(usual, ddof=1))}")


def test_a_parameter_that_matters_and_the_best_value(summaries, change, read):
    figure, five = summaries["figure3"], {"coupling__n_references": 5}
    change(figure, [85, 90, 95, 85, 95])
    change(figure, [50, 51, 52, 53, 54], overrides={"batch_size": 50})
    found = by_way(robustness_claim(read(summaries)))
    assert found["batch size, the paper's settings"].verdict == "does not hold"
    assert found["projections M, the paper's settings"].verdict == "holds"
    change(figure, [85, 86, 87, 88, 89])
    change(figure, [95, 97, 96, 98, 99], overrides=five)
    found = by_way(best_claim(read(summaries)))["references K, robust settings"]
    assert found.verdict == "does not hold"
    assert found.number.endswith(" to 5")
    change(figure, [75, 77, 76, 78, 79], overrides=five)
    equal = by_way(best_claim(read(summaries)))["references K, robust settings"]
    assert equal.verdict == "cannot be told"


def test_whose_data():
    for label in ("Caltech7", "Caltech7 (re-extracted)", "Caltech7 (not the published file)"):
        assert is_the_papers("caltech7", {"label": label}) is (label == "Caltech7")
    assert [is_the_papers(name, {"label": ""}) for name in ("handwritten", "msrc")] == [True, False]


@pytest.mark.parametrize(
    ("low", "high", "adds", "harmless"),
    (
        (0.01, 0.2, True, True),  # little, but more than nothing
        (-0.4, -0.1, False, True),  # harm, but too little to matter
        (-1.0, 0.4, False, None),
        (-2.0, -0.1, False, False),
        (-0.6, 0.6, None, None),
        (-0.1, 0.6, None, True),
        (-math.inf, math.inf, None, None),
    ),
)
def test_what_an_interval_says(low, high, adds, harmless):
    found = Difference((low + high) / 2, low, high, 20)
    assert (ADDS.decide(found), HARMLESS.decide(found)) == (adds, harmless)


def bench(**ms):
    usual = {"sliced_3": 1.0, "sliced_50": 4.0, "assignment": 250.0, "emd2": 340.0}
    usual |= {"sinkhorn": 55.0, "sinkhorn_log": 220.0, **ms}
    slow = {**usual, "assignment": 13000.0, "emd2": 12345.0}
    return Results({}, {"ground_distances": {"cases": [{"ms": usual}, {"ms": slow}]}})


def test_ratios_are_to_the_faster_rival_and_one_slower_size_is_enough():
    findings = by_way(cost_claim(bench()))
    assert findings["Wasserstein against 3 iid directions"].number == "250 to 12,000 times"
    assert findings["Sinkhorn against 50 orthogonal directions"].number == "14 to 14 times"
    assert {f.verdict for f in findings.values()} == {"holds"}
    findings = by_way(cost_claim(bench(sinkhorn=3.0)))
    assert findings["Sinkhorn against 50 orthogonal directions"].verdict == "does not hold"
    assert findings["Sinkhorn against 3 iid directions"].verdict == "holds"


@pytest.mark.parametrize(("share", "verdict"), ((6.0, "holds"), (10.5, "does not hold")))
def test_the_lower_bound(share, verdict):
    checks = {"n": 400, "d_times_sliced_over_exact": [0.1, share]}
    results = Results({}, {"ground_distances": {"dimension": 10, "checks": checks}})
    (finding,) = bound_claim(results).findings
    assert finding.verdict == verdict


@pytest.mark.parametrize(
    ("sliced", "verdict"),
    (
        ([0.901, 0.911, 0.921], "holds"),
        ([0.80, 0.81, 0.821], "does not hold"),
        ([0.80, 0.99, 0.92], "cannot be told"),
    ),
)
def test_sliced_against_exact(sliced, verdict):
    scores = {"exact": [0.90, 0.91, 0.92], "sliced, 3 iid": sliced, "no coupling": [0.9] * 3}
    models = {name: {"accuracy": {"by_split": values}} for name, values in scores.items()}
    results = Results({}, {"sliced_against_exact": {"training": {"models": models}}})
    (finding,) = exact_claim(results).findings
    assert (finding.how, finding.verdict) == ("sliced, 3 iid − exact", verdict)
