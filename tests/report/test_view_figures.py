from dataclasses import replace

import numpy as np
import pytest

from hotview.report.figures import (
    new_figure,
    plot_graph,
    plot_learning,
    plot_matrix,
    plot_plan,
    plot_similarity,
    plot_space,
)
from hotview.report.palette import VIEW_COLORS

VALUES = np.array([[np.nan, 0.25], [0.75, np.nan]])


@pytest.fixture
def ax():
    return new_figure()[1][0]


def test_the_plan_has_its_numbers(record, ax):
    assert plot_plan(record, ax=ax) is ax
    np.testing.assert_allclose(ax.images[0].get_array(), record.plan.W)
    assert [t.get_text() for t in ax.get_yticklabels()] == record.views


def test_the_graph_has_a_line_for_views_that_share_information(record, ax):
    low = np.full((4, 4), 0.05)
    low[0, 2] = 0.5
    found = replace(record, similarity=replace(record.similarity, low=low.tolist()))
    assert plot_graph(found, ax=ax) is ax
    *arcs, first, second = ax.lines
    assert len(arcs) == 2  # two groups
    np.testing.assert_allclose(first.get_linewidth(), 1 + 6 * 0.88)
    assert (first.get_linestyle(), second.get_linestyle()) == ("-", "--")
    assert [t.get_text() for t in ax.texts] == record.views


def test_similarities_with_their_intervals(record, ax):
    from matplotlib.colors import to_hex

    assert plot_similarity(record, ax=ax) is ax
    assert [t.get_text() for t in ax.get_yticklabels()[:2]] == ["pix – fac", "mor – zer"]
    bars, dots, within = ax.lines[::3], ax.lines[1::3], ax.lines[2::3]
    np.testing.assert_allclose(bars[0].get_xydata(), [[0.68, 0], [0.93, 0]])
    np.testing.assert_allclose(within[0].get_xdata(), 0.83)
    assert [to_hex(dot.get_markerfacecolor()) == "#ffffff" for dot in dots] == [False] * 2 + [
        True
    ] * 4
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the most similar pair is at the top


def test_the_number_of_pairs_is_limited(make_one, ax):
    plot_similarity(make_one(views=[f"v{s}" for s in range(12)]), ax=ax)
    assert len(ax.get_yticklabels()) == 15


def test_a_term_over_the_epochs(record, ax):
    assert plot_learning(record, ax=ax, term="transport") is ax
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), [[1, 2.0], [2, 1.5], [3, 1.0]])
    assert ax.get_ylabel() == "transport"


def test_points_have_the_colors_of_their_views(record, ax):
    from matplotlib.colors import to_hex

    assert plot_space(record, ax=ax) is ax
    assert [to_hex(c.get_facecolor()[0]) for c in ax.collections] == [
        light for light, _ in VIEW_COLORS[:4]
    ]
    drawn = np.vstack([c.get_offsets() for c in ax.collections])
    np.testing.assert_allclose(drawn, record.embedding.layouts[0].points)


def test_points_by_class(record, ax):
    plot_space(record, ax=ax, color="class", layout="UMAP")
    assert [t.get_text() for t in ax.get_legend().get_texts()] == record.classes


def test_what_is_not_there_cannot_be_drawn(record, ax):
    bare = replace(record, plan=None, coupling="none", learning=None, embedding=None)
    with pytest.raises(ValueError, match="coupling='none' solves for none"):
        plot_plan(bare, ax=ax)
    for draw in (plot_graph, plot_similarity):
        with pytest.raises(ValueError, match="Expected a model with linked rows"):
            draw(replace(record, similarity=None), ax=ax)
    with pytest.raises(ValueError, match=r"one of \[\], which were recorded, but it is 'loss'"):
        plot_learning(bare, ax=ax)
    with pytest.raises(ValueError, match="Pass views to make_record, or beside the model"):
        plot_space(bare, ax=ax)
    with pytest.raises(ValueError, match=r"one of \['PCA', 'UMAP'\]"):
        plot_space(record, ax=ax, layout="t-SNE")
    with pytest.raises(ValueError, match="Expected color to be one of"):
        plot_space(record, ax=ax, color="age")


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
    plot_matrix(VALUES, "ab", "xy", ax=ax, digits=1, std=VALUES / 5, largest=1)
    assert [t.get_text() for t in ax.texts] == ["0.2\n±0.1", "0.8\n±0.1"]
    assert ax.images[0].get_clim() == (0, 1)


def test_long_names_do_not_touch():
    _, (ax,) = new_figure()
    names = ["Gabor", "WM", "CENTRIST", "HOG", "GIST", "LBP"]
    plot_matrix(np.eye(6), names, names, ax=ax)
    assert {t.get_rotation() for t in ax.get_xticklabels()} == {35}
