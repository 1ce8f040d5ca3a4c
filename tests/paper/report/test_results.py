import math

import numpy as np
import pytest
from scipy import stats

from paper.cells import Cell
from paper.report.results import Entry, Outcome, Results, compare, difference

CELL = Cell("handwritten", "unsupervised", "HOT (11)", "paper")


def entry(*scores, **record):
    return Entry(CELL, {"test": scores}, record=record)


def test_scores_leave_missing_trials_out():
    score = entry(80.0, None, 90.0).score()
    assert (score.mean, score.std, score.n) == (85.0, np.std([80, 90], ddof=1), 2)
    assert math.isnan(entry(80.0).score("standardized").mean)


def test_a_difference_is_paired_and_its_interval_widened_for_shared_rows():
    rng = np.random.default_rng(0)
    a, b = rng.normal(90, 3, (2, 20))
    found = difference(entry(*a), entry(*b))
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    wider = ((1 / 20 + 1 / 3) * 20) ** 0.5 * (high - low) / 2
    mean = np.mean(a - b)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - wider, mean + wider))


def test_trials_are_paired_by_their_number():
    found = difference(entry(90.0, None, 80.0, 70.0), entry(80.0, 1.0, None, 60.0))
    assert (found.mean, found.n) == (10.0, 2)
    assert compare((1.0, 2.0, 9.0), (0.0, 1.0)).n == 2


def test_what_is_lacking_has_no_difference():
    assert difference(None, entry(1.0)) is None
    assert difference(entry(1.0), None) is None
    assert difference(entry(1.0), entry(1.0), "standardized") is None


def test_plans_with_holes_are_left_out():
    plans = entry(1.0, Ws=[[[0.5, 0.5]], [[None, 1.0]]]).plans
    assert len(plans) == 1
    np.testing.assert_array_equal(plans[0], [[0.5, 0.5]])
    assert entry(1.0).plans == []


def test_a_control_is_found_whatever_its_task():
    control = Cell("msrc", "unsupervised", "logistic regression", "-")
    outcome = Outcome("table3", "", 1, {}, {control.essence: Entry(control, {"test": (1.0,)})})
    assert outcome.find(Cell("msrc", "semi-supervised", "logistic regression", "-"))
    results = Results({"table3": outcome})
    assert results.find("table3", control)
    assert results.find("table2", control) is None


def test_select_keeps_fixed_splits_apart(results):
    claims = results.outcomes["claims"]
    assert all(e.cell.split is None for e in claims.select(method="HOT (11)"))
    assert {e.cell.split for e in claims.select(split=0)} == {0}
