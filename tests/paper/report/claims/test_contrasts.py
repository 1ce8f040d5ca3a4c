import numpy as np
import pytest

from paper.markdown import signed
from paper.report.claims.contrasts import (
    CONTRASTS,
    contrast_claim,
    relaxation_claim,
)

TITLES = {contrast.title: contrast for contrast in CONTRASTS}
HOT = ("HOT (10)", "HOT (11)", "HOT (10) + AE", "HOT (11) + AE")


def verdicts(claim, data="Handwritten"):
    return {f.how: f.verdict for f in claim.findings if f.data == data}


def test_titles_are_unique_and_pairs_are_pairs():
    assert len(TITLES) == len(CONTRASTS)
    assert all(len(c.better) == len(c.worse) for c in CONTRASTS)


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


def test_every_dataset_and_settings_has_a_finding(results):
    for contrast in CONTRASTS:
        assert len(contrast_claim(results, contrast).findings) == 8


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


def test_sw_as_good_as_cca_needs_no_gain(summaries, change, read):
    change(summaries["table2"], [90, 91, 92, 93, 94])
    contrast = TITLES["SW without alignment is as good as CCA with it, semi-supervised"]
    assert set(verdicts(contrast_claim(read(summaries), contrast)).values()) == {"holds"}


def test_two_tasks_are_compared_across_tables(summaries, change, read):
    change(summaries["table2"], [90, 91, 92, 93, 94])
    change(summaries["table3"], [70, 72, 71, 73, 74])
    contrast = TITLES["CCA loses without labels in the objective"]
    assert set(verdicts(contrast_claim(read(summaries), contrast)).values()) == {"holds"}
    del summaries["table3"]
    assert contrast_claim(read(summaries), contrast).findings == ()


@pytest.mark.parametrize(
    ("exact", "verdict"),
    (([90.1, 91, 92, 93, 94], "holds"), ([97, 98, 99, 99, 99], "does not hold")),
)
def test_relaxing_does_no_harm_or_does(summaries, change, read, exact, verdict):
    claims = summaries["claims"]
    change(claims, [90, 91, 92, 93, 94])
    change(claims, exact, overrides={"coupling__orthogonality_weight": "inf"})
    found = verdicts(relaxation_claim(read(summaries)))
    assert set(found.values()) == {verdict}
    assert len(found) == 8  # two methods, two tasks, two settings
