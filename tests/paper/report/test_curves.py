import numpy as np
import pytest

from hotview.report.figures import new_figure
from paper.report.curves import plot_curve


def drawn(**how):
    _, (ax,) = new_figure()
    plot_curve(["1", "2", "3"], [[1.0, 3.0], [4.0, np.nan], [6.0, 6.0]], ax=ax, **how)
    return ax


def test_means_and_spreads_are_numpys():
    ax = drawn(label="ours")
    (line, _, (bars,)) = ax.containers[0]
    np.testing.assert_array_equal(line.get_ydata(), [2, 4, 6])
    ends = [segment[:, 1] for segment in bars.get_segments()]
    std = np.std([1, 3], ddof=1)
    np.testing.assert_allclose(ends, [[2 - std, 2 + std], [4, 4], [6, 6]])


def test_control_and_mark_have_their_names():
    ax = drawn(control=("none", [1.0, 2.0]), marked=("usual", "2"), title="K")
    assert ax.get_legend_handles_labels()[1] == ["none", "usual"]
    assert ax.get_title() == "K"
    mark = next(line for line in ax.lines if line.get_label() == "usual")
    assert list(mark.get_xdata()) == [1, 1]
    level = next(line for line in ax.lines if line.get_label() == "none")
    assert level.get_ydata()[0] == pytest.approx(1.5)


def test_a_value_that_is_not_there_is_not_marked():
    assert drawn(marked=("usual", "7")).get_legend_handles_labels()[1] == []
