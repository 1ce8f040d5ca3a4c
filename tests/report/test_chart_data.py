import math
from dataclasses import replace

import numpy as np
import pytest

from hotview.evaluation.metrics import Proportion
from hotview.evaluation.record.schema import Bin, Curve
from hotview.report.chart_data import (
    accuracy_drops,
    calibration_points,
    confusion,
    curve_band,
    plan_matrix,
)


def test_the_plan_itself_and_as_shares(record):
    plain, shares = plan_matrix(record), plan_matrix(record, shares=True)
    np.testing.assert_array_equal(plain.values, record.plan.W)
    assert plain.rows == shares.rows == record.views
    np.testing.assert_allclose(shares.values.sum(axis=1), 1)
    np.testing.assert_allclose(shares.std, shares.values / 10)


def test_shares_of_a_pairwise_plan_have_no_diagonal(record):
    W = np.arange(16.0).reshape(4, 4)
    plan = replace(record.plan, W=W.tolist(), std=None, pairwise=True, columns=record.views)
    shares = plan_matrix(replace(record, plan=plan), shares=True)
    assert shares.columns == shares.rows
    assert np.isnan(np.diag(shares.values)).all()
    assert shares.values[0, 2] == 4 * W[0, 2]


def test_bands_have_one_standard_deviation():
    band = curve_band(Curve("loss", [2.0, math.inf, 1.0], [0.5, 0.5, math.nan]))
    np.testing.assert_array_equal(band.low, [1.5, math.nan, 1.0])
    np.testing.assert_array_equal(band.high, [2.5, math.nan, 1.0])


def test_drops_of_views_that_can_be_hidden(record):
    first, *rest = record.scores.views
    scores = replace(record.scores, views=[replace(first, drop=None), *rest])
    drops = accuracy_drops(replace(record, scores=scores))
    assert [(name, view) for name, view, _ in drops] == [("mor", 1), ("fac", 2), ("zer", 3)]


def test_zeros_of_the_confusion_matrix_are_blank(record):
    counts = [[9, 1, 0], [0, 9, 0], [0, 0, 9]]
    scores = replace(record.scores, metrics=replace(record.scores.metrics, confusion=counts))
    values = confusion(replace(record, scores=scores)).values
    np.testing.assert_array_equal(np.isnan(values), np.array(scores.confusion) == 0)


def test_bins_are_weighted_by_their_rows():
    bins = [Bin(0.2, Proportion(0.1, 0.0, 0.5, 2)), Bin(0.9, Proportion(1.0, 0.5, 1.0, 8))]
    assert [weight for _, _, weight in calibration_points(bins)] == [0.25, 1.0]


def test_records_without_plan_or_scores_are_refused(record):
    bare = replace(record, plan=None, coupling="none", scores=None)
    with pytest.raises(ValueError, match="coupling='none' solves for none"):
        plan_matrix(bare)
    with pytest.raises(ValueError, match="Pass views and y to make_record"):
        confusion(bare)


def test_effects_have_the_names_of_columns_and_the_colors_of_their_views(record):
    from hotview.report.chart_data import effect_dots, importance_of

    found = importance_of(record)
    dots = effect_dots(record, [found.views[1], found.columns[0]])
    assert [(dot.name, dot.view) for dot in dots] == [("mor", 1), ("pix 0", 0)]
    assert dots[1].tooltip == "pix 0 of pix: 0.3 (-0.1 to 0.4)"
    same = [found.columns[0], replace(found.columns[0], view="mor")]
    other = replace(found.columns[0], column="x")
    names = [dot.name for dot in effect_dots(record, [found.views[0], *same, other])]
    assert names == ["pix", "pix: pix 0", "mor: pix 0", "pix: x"], "all of them, or none"
