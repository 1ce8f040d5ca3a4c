import numpy as np

from hotview.report.figures import new_figure
from hotview.report.matrices import plot_matrix

VALUES = np.array([[np.nan, 0.25], [0.75, np.nan]])


def test_plot_matrix_draws_every_number_once():
    _, (ax,) = new_figure()
    assert plot_matrix(VALUES, ["a", "b"], ["x", "y"], ax=ax, title="W", digits=2) is ax
    assert [t.get_text() for t in ax.texts] == ["0.25", "0.75"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    np.testing.assert_array_equal(ax.images[0].get_array().filled(np.nan), VALUES)


def test_numbers_stand_out_from_their_cell():
    _, (ax,) = new_figure()
    plot_matrix(VALUES, ["a", "b"], ["x", "y"], ax=ax)
    assert [t.get_color() for t in ax.texts] == ["black", "white"]


def test_spread_stands_below_the_number_and_the_scale_can_be_given():
    _, (ax,) = new_figure()
    plot_matrix(VALUES, "ab", "xy", ax=ax, digits=1, spread=VALUES / 5, largest=1)
    assert [t.get_text() for t in ax.texts] == ["0.2\n±0.1", "0.8\n±0.1"]
    assert ax.images[0].get_clim() == (0, 1)


def test_long_names_do_not_touch():
    _, (ax,) = new_figure()
    names = ["Gabor", "WM", "CENTRIST", "HOG", "GIST", "LBP"]
    plot_matrix(np.eye(6), names, names, ax=ax)
    assert {t.get_rotation() for t in ax.get_xticklabels()} == {35}
