from dataclasses import replace

import numpy as np
import pytest

from hotview.report.figures import (
    new_figure,
    plot_calibration,
    plot_column_importance,
    plot_confusion,
    plot_importance,
    plot_number_of_views,
)


@pytest.fixture
def ax():
    return new_figure()[1][0]


def test_importance_is_what_is_lost(record, ax):
    assert plot_importance(record, ax=ax) is ax
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose([d.get_xdata()[0] for d in dots], [7.8] * 4)
    assert [t.get_text() for t in ax.get_yticklabels()] == record.views


def test_columns_stand_below_views_with_bars_and_intervals(record, ax):
    assert plot_column_importance(record, ax=ax, max_columns=2) is ax
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == [*record.views, "pix: pix 0", "pix: pix 1"]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches][3:], [0.125, 0.3, 0.2])
    np.testing.assert_allclose(ax.lines[-4].get_xdata(), [-0.1, 0.4])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]
    with pytest.raises(ValueError, match="importance=True to make_record"):
        plot_column_importance(replace(record, importance=None), ax=ax)


def test_accuracy_by_number_of_views(record, ax):
    assert plot_number_of_views(record, ax=ax) is ax
    np.testing.assert_allclose(ax.lines[0].get_xydata()[0], [1, 0.5])


def test_mistakes_and_no_zeros(record, ax):
    counts = [[9, 1, 0], [0, 9, 0], [0, 0, 9]]
    scores = replace(record.scores, metrics=replace(record.scores.metrics, confusion=counts))
    assert plot_confusion(replace(record, scores=scores), ax=ax) is ax
    assert [t.get_text() for t in ax.texts] == ["9", "1", "9", "9"]


def test_calibration_has_a_point_for_every_bin(record, ax):
    assert plot_calibration(record, ax=ax) is ax
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), [[0.35, 0.4], [0.9, 0.85]])


def test_without_scores_there_is_nothing_to_draw(record, ax):
    for draw in (plot_importance, plot_number_of_views, plot_confusion, plot_calibration):
        with pytest.raises(ValueError, match="Pass views and y to make_record"):
            draw(replace(record, scores=None), ax=ax)
