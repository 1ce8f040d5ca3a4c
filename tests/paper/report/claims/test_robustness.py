import math

import numpy as np

from paper.markdown import number
from paper.report.claims.robustness import (
    BEST,
    ROBUST,
    Lead,
    Spread,
    best_claim,
    robustness_claim,
)
from paper.statistics import Difference


def by_way(claim):
    return {f.how: f for f in claim.findings}


def test_rules_each_way():
    assert ROBUST.decide(Spread(1.0, 2.0)) is True
    assert ROBUST.decide(Spread(2.1, 2.0)) is False
    assert ROBUST.decide(Spread(2.1, math.nan)) is None
    assert BEST.decide(Lead(5, Difference(1.0, 0.1, 1.9, 20))) is True
    assert BEST.decide(Lead(5, Difference(-1.0, -1.9, -0.1, 20))) is False
    assert BEST.decide(Lead(5, Difference(1.0, -0.1, 1.9, 20))) is None


def test_every_parameter_is_asked_in_both_settings(results):
    assert len(robustness_claim(results).findings) == 12
    assert len(best_claim(results).findings) == 6


def test_spreads_are_numpys(results, scores):
    found = by_way(robustness_claim(results))["references K, the paper's settings"]
    where = {"dataset": "handwritten", "settings": "paper"}
    usual = scores("figure3", **where)
    means = [np.mean(usual)]
    means += [
        np.mean(scores("figure3", overrides={"coupling__n_references": k}, **where))
        for k in (1, 2, 4, 5, 6)
    ]
    assert found.number.startswith(number(np.ptp(means)))
    assert found.number.endswith(f"std {number(np.std(usual, ddof=1))}")


def test_a_parameter_that_matters(summaries, change, read):
    change(summaries["figure3"], [85, 90, 95, 85, 95])
    change(summaries["figure3"], [50, 51, 52, 53, 54], overrides={"batch_size": 50})
    found = by_way(robustness_claim(read(summaries)))
    assert found["batch size, the paper's settings"].verdict == "does not hold"
    assert found["projections M, the paper's settings"].verdict == "holds"


def test_the_best_value(summaries, change, read):
    change(summaries["figure3"], [85, 86, 87, 88, 89])
    change(summaries["figure3"], [95, 97, 96, 98, 99], overrides={"coupling__n_references": 5})
    found = by_way(best_claim(read(summaries)))["references K, robust settings"]
    assert found.verdict == "does not hold"
    assert found.number.endswith(" to 5")
    change(summaries["figure3"], [75, 77, 76, 78, 79], overrides={"coupling__n_references": 5})
    equal = by_way(best_claim(read(summaries)))["references K, robust settings"]
    assert equal.verdict == "cannot be told"


def test_a_value_without_any_trial_leaves_it_open():
    assert ROBUST.decide(Spread(math.nan, 2.5)) is None
    assert ROBUST.decide(Spread(1.0, math.nan)) is None
