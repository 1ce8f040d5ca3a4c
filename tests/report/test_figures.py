"""Figures of a model, or of its record."""

import os
import stat
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from hotview.report import figures
from hotview.report.canvas import VIEW_COLORS
from hotview.report.figures import (
    new_figure,
    plot_graph,
    plot_learning,
    plot_matrix,
    plot_plan,
    plot_similarity,
    plot_space,
    save_figure,
)
from tests.report.records import change

VALUES = np.array([[np.nan, 0.25], [0.75, np.nan]])
DATA = make_views(60, n_views=4, n_columns=4, n_groups=1, labeled=1.0, random_state=0)
MODEL_ALONE = ("plot_plan", "plot_similarity", "plot_graph", "plot_learning")
WITH_ROWS = ("plot_space", "plot_importance", "plot_column_importance")
WITH_ROWS += ("plot_number_of_views", "plot_confusion", "plot_calibration")


@pytest.fixture
def ax():
    return new_figure()[1][0]


@pytest.fixture(scope="module")
def model():
    classifier = MultiViewClassifier(max_epochs=2, n_estimators=2, hidden=(4,), random_state=0)
    return classifier.fit(DATA.linked, DATA.linked_target)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.mark.parametrize("suffix", ("png", "svg", "pdf"))
def test_figures_are_saved_whole_and_the_same_gives_the_same_bytes(tmp_path, suffix):
    paths = []
    for name in ("first", "second"):
        figure, (ax,) = new_figure()
        plot_matrix(VALUES, ["a", "b"], ["x", "y"], ax=ax)
        paths.append(save_figure(figure, tmp_path / f"{name}.{suffix}"))
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert paths[0].read_bytes().startswith(starts[suffix])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(os.listdir(tmp_path)) == [path.name for path in paths]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(paths[0].stat().st_mode) == 0o666 & ~umask


def test_a_failed_drawing_leaves_what_was_there_and_bad_paths_are_told(tmp_path):
    path = tmp_path / "plan.png"
    path.write_bytes(b"old")
    figure, (ax,) = new_figure()
    ax.set_title(r"$\frac{$")  # not valid mathematics: matplotlib fails while drawing
    with pytest.raises(ValueError, match="frac"):
        save_figure(figure, path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["plan.png"]
    with pytest.raises(ValueError, match=r"\.pdf, \.png or \.svg, got '.xyz'"):
        save_figure(figure, tmp_path / "plan.xyz")


@pytest.mark.parametrize("name", MODEL_ALONE)
def test_a_model_is_drawn_on_new_axes_and_on_given_ones(model, ax, name):
    draw = getattr(figures, name)
    assert draw(model) is plt.gca()
    assert draw(model, ax=ax) is ax
    assert ax.has_data()
    assert len(plt.get_fignums()) == 1  # none for the given axes


@pytest.mark.parametrize("name", WITH_ROWS)
def test_rows_stand_beside_the_model(model, name):
    draw = getattr(figures, name)
    assert draw(model, DATA.linked, DATA.linked_target).has_data()
    with pytest.raises(ValueError, match=r"beside the model|a classifier and labeled rows"):
        draw(model)


def test_what_cannot_be_drawn_is_said_and_leaves_no_empty_figure(record, ax):
    parts = ("plan_", "view_similarity_", "scores", "embedding", "importance")
    bare = change(record, **dict.fromkeys(parts), coupling="none", histories_=[])
    messages = {
        "plot_plan": "coupling='none' solves for none",
        "plot_graph": "Expected a model with linked rows.*Fit with rows",
        "plot_similarity": "Expected a model with linked rows.*Fit with rows",
        "plot_learning": r"one of \[\], which were recorded, but it is 'loss'",
        "plot_space": "Pass views to make_record, or beside the model",
        "plot_column_importance": "importance=True to make_record",
    }
    for name in (*MODEL_ALONE, *WITH_ROWS):
        message = messages.get(name, "Pass views and y to make_record")
        with pytest.raises(ValueError, match=message):
            getattr(figures, name)(bare)
    assert plt.get_fignums() == []
    with pytest.raises(ValueError, match=r"one of \['PCA', 'UMAP'\]"):
        plot_space(record, ax=ax, layout="t-SNE")
    with pytest.raises(ValueError, match="Expected color to be one of"):
        plot_space(record, ax=ax, color="age")
    with pytest.raises(ValueError, match="they are beside a record"):
        plot_space(record, DATA.linked)
    with pytest.raises(TypeError, match="but got a dict"):
        plot_plan({})


def test_an_encoder_is_drawn_too():
    encoder = MultiViewEncoder(max_epochs=1, hidden=(4,), random_state=0).fit(DATA.linked)
    assert len(plot_space(encoder, DATA.linked).collections) == 4


def test_the_plan_has_its_numbers(model, record, ax):
    np.testing.assert_allclose(plot_plan(model).images[0].get_array(), model.plan_.W)
    plot_plan(record, ax=ax)
    np.testing.assert_allclose(ax.images[0].get_array(), record.model.plan_.W)
    assert words(ax.get_yticklabels()) == record.views


def test_the_graph_has_a_line_for_views_that_share_information(record, ax):
    low = np.full((4, 4), 0.05)
    low[0, 2] = 0.5
    found = change(record, view_similarity_=replace(record.model.view_similarity_, low=low))
    assert plot_graph(found, ax=ax) is ax
    *arcs, first, second = ax.lines
    assert len(arcs) == 2  # two groups
    np.testing.assert_allclose(first.get_linewidth(), 1 + 6 * 0.88)
    assert (first.get_linestyle(), second.get_linestyle()) == ("-", "--")
    assert words(ax.texts) == record.views


def test_similarities_with_their_intervals(record, ax):
    assert plot_similarity(record, ax=ax) is ax
    assert words(ax.get_yticklabels()[:2]) == ["pix – fac", "mor – zer"]
    bars, dots, within = ax.lines[::3], ax.lines[1::3], ax.lines[2::3]
    np.testing.assert_allclose(bars[0].get_xydata(), [[0.68, 0], [0.93, 0]])
    np.testing.assert_allclose(within[0].get_xdata(), 0.83)
    hollow = [to_hex(dot.get_markerfacecolor()) == "#ffffff" for dot in dots]
    assert hollow == [False] * 2 + [True] * 4
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the most similar pair is at the top


def words(labels):
    return [label.get_text() for label in labels]


def test_a_term_over_the_epochs(record, ax):
    assert plot_learning(record, ax=ax, term="transport") is ax
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), [[1, 2.0], [2, 1.5], [3, 1.0]])
    assert ax.get_ylabel() == "transport"


def test_what_is_lost_is_by_view_number_of_views_and_bin(record):
    ax = figures.plot_importance(record)
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose([d.get_xdata()[0] for d in dots], [7.8] * 4)
    assert words(ax.get_yticklabels()) == record.views
    line = figures.plot_number_of_views(record).lines[0]
    np.testing.assert_allclose(line.get_xydata()[0], [1, 0.5])
    points = figures.plot_calibration(record).collections[-1]
    np.testing.assert_allclose(points.get_offsets(), [[0.35, 0.4], [0.9, 0.85]])


def test_points_have_the_colors_of_their_views_or_classes(record, ax):
    assert plot_space(record, ax=ax) is ax
    colors = [to_hex(c.get_facecolor()[0]) for c in ax.collections]
    assert colors == [light for light, _ in VIEW_COLORS[:4]]
    drawn = np.vstack([c.get_offsets() for c in ax.collections])
    np.testing.assert_allclose(drawn, record.embedding.layouts[0].points)
    by_class = plot_space(record, color="class", layout="UMAP")
    assert words(by_class.get_legend().get_texts()) == record.classes


def test_a_matrix_has_every_number_once():
    ax = plot_matrix(VALUES, ["a", "b"], ["x", "y"], title="W", digits=2)
    assert words(ax.texts) == ["0.25", "0.75"]
    assert [t.get_color() for t in ax.texts] == ["black", "white"]  # which stand out
    assert words(ax.get_xticklabels()) == ["x", "y"]
    assert words(ax.get_yticklabels()) == ["a", "b"]
    np.testing.assert_array_equal(ax.images[0].get_array().filled(np.nan), VALUES)
    ax = plot_matrix(VALUES, "ab", "xy", digits=1, std=VALUES / 5, largest=1)
    assert words(ax.texts) == ["0.2\n±0.1", "0.8\n±0.1"]
    assert ax.images[0].get_clim() == (0, 1)
    ax = plot_matrix(np.eye(6), ["CENTRIST"] * 6, ["CENTRIST"] * 6)
    assert {t.get_rotation() for t in ax.get_xticklabels()} == {35}  # names do not touch


def test_columns_stand_below_views_with_bars_and_intervals(record, ax):
    assert figures.plot_column_importance(record, ax=ax, max_columns=2) is ax
    names = words(ax.get_yticklabels())
    assert names == [*record.views, "pix: pix 0", "pix: pix 1"]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches][3:], [0.125, 0.3, 0.2])
    np.testing.assert_allclose(ax.lines[-4].get_xdata(), [-0.1, 0.4])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_mistakes_and_no_zeros(record, ax):
    counts = [[9, 1, 0], [0, 9, 0], [0, 0, 9]]
    scores = replace(record.scores, metrics=replace(record.scores.metrics, confusion=counts))
    assert figures.plot_confusion(replace(record, scores=scores), ax=ax) is ax
    assert words(ax.texts) == ["9", "1", "9", "9"]
