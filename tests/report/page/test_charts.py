import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from hotview.evaluation.embedding import Layout
from hotview.evaluation.metrics import Proportion
from hotview.evaluation.scores import Bin, SubsetScore
from hotview.report.chart_data import Dot, DotChart, Matrix
from hotview.report.page.charts import (
    calibration_chart,
    curve_chart,
    dot_plot,
    embedding_chart,
    heat_map,
    pair_chart,
    subset_chart,
    ticks,
    view_graph,
    whole_ticks,
)
from hotview.report.page.sentences import render
from hotview.report.view_data import Curve, list_pairs
from tests.report.records import change, make, with_similarity


def draw_dots(*dots, **options):
    return dot_plot(DotChart(dots, ends=(0.0, 1.0), title="t", label="x", **options))


def test_dots_are_at_their_value():
    text = draw_dots(Dot("a", 0.0, 0.0, 0.0), Dot("b", 1.0, 0.0, 2.0))
    dots = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)
    (left, _), (right, _) = [tuple(map(float, dot)) for dot in dots]
    assert [y for _, y in dots] == ["25", "55"]
    assert right == 366
    assert left < 40
    bars = re.findall(r'x1="([\d.]+)" x2="([\d.]+)" y1="\d+" y2="\d+" class="whisker"', text)
    assert bars[1] == (bars[0][0], "366")  # cut at the ends of the scale


def test_missing_values_are_not_drawn_and_others_keep_their_marks():
    text = draw_dots(Dot("a", math.nan), Dot("a", 0.5, math.nan, 1.0))
    assert text.count("<circle") == 1
    assert "whisker" not in text
    assert "nan" not in text
    assert 'style="fill:var(--view-2)"' in draw_dots(Dot("a", 0.5, view=2))
    assert 'class="reference"' in draw_dots(Dot("a", 0.5), reference=0.5)
    second = draw_dots(Dot("a", 0.5, second=1.0), Dot("b", 0.5))
    (path,) = re.findall(r'<path d="M([\d.]+) [^"]*" class="second"/>', second)
    assert float(path) == 366


HOW = {"label": "W", "text": "{:.2f}".format, "row_title": "view", "column_title": "to"}


def draw_matrix(values, rows, columns, **options):
    return heat_map(Matrix(np.array(values, dtype=float), rows, columns, **{**HOW, **options}))


def test_cells_are_as_dark_as_their_value():
    text = draw_matrix([[0.5, 0.25], [np.nan, 0.0]], "ab", "xy")
    assert re.findall(r'fill-opacity="([\d.]+)"', text) == ["1", "0.5", "0"]
    assert 'fill-opacity="0.5"' in draw_matrix([[0.5]], "a", "x", largest=1.0)
    assert "heat" not in draw_matrix([[np.nan]], ["a"], ["x"])
    text = draw_matrix([[0.5]], ["a"], ["x"], std=np.array([[0.125]]))
    assert ">±0.12</text>" in text
    assert "<title>a, x: 0.50 ±0.12</title>" in text
    names = [f"view_{s}" for s in range(12)]
    small = np.full((12, 12), 0.002), names, names
    assert 'class="cell' not in draw_matrix(*small, text="{:.3f}".format)  # too wide
    assert 'class="cell' in draw_matrix(*small, text=lambda x: ".00")


def test_small_cells_have_tooltips_only_and_slanted_names_end_inside_the_drawing():
    for n in (2, 12):
        names = [f"a long name {k}" for k in range(n)]
        text = draw_matrix(np.ones((n, n)), names, names)
        assert text.count('class="heat"') == text.count("<title>a long name 0, ") * n
        assert ('class="cell light"' in text) == (n < 12)
    starts = [float(x) for x in re.findall(r"rotate\(-40 ([\d.]+) ", text)]
    assert len(starts) == 12
    assert max(starts) + 14 * 6.2 * math.cos(math.radians(40)) <= 380


def line(text):
    return re.search(r'<path d="([^"]*)" class="line"', text)[1]


def test_a_curve_goes_through_all_epochs_and_gaps_interrupt_it():
    text = curve_chart(Curve("loss", [3.0, 2.0, 1.0], [0.1] * 3), [1, 2, 3])
    assert len(re.findall("[ML]", line(text))) == 3
    assert 'class="band"' in text
    assert "from 3 to 1" in text
    text = curve_chart(Curve("loss", [3.0, math.nan, 1.0, 2.0], [math.nan] * 4), [1, 2, 3, 4])
    assert re.sub(r"[\d. ]", "", line(text)) == "MML"
    assert 'class="band"' not in text
    assert "nan" not in text


def test_curves_that_are_constant_or_were_never_finite():
    for values in ([0.0], [0.0, 0.0], [5.0, 5.0]):
        text = curve_chart(Curve("x", values, [math.nan] * len(values)), [*range(len(values))])
        assert "nan" not in text
    for values in ([math.nan], [math.inf, math.nan]):
        text = curve_chart(Curve("<loss>", values, values), [*range(len(values))])
        assert "&lt;loss&gt; was never a finite number" in text


def test_bins_are_at_their_confidence_and_accuracy():
    bins = [Bin(0.0, Proportion(0.0, 0.0, 0.5, 2)), Bin(1.0, Proportion(1.0, 0.5, 1.0, 8))]
    circle = r'<circle cx="([\d.]+)" cy="([\d.]+)" r="([\d.]+)"'
    places = re.findall(circle, calibration_chart(bins))
    (x0, y0, r0), (x1, y1, r1) = [tuple(map(float, p)) for p in places]
    assert (x0, y0, x1, y1) == (46, 290, 370, 26)
    assert r0 < r1


def test_edges_are_as_thick_as_views_are_similar(record):
    value = np.full((4, 4), 0.5)
    value[0, 2] = value[2, 0] = 1.0
    found = with_similarity(record, value=value, low=value - 0.45)
    text = view_graph(change(found, view_names_=["a", "b", "<c>", "d"]).model)
    lines = re.findall(r'<line .*?stroke-width="([\d.]+)".*?class="([^"]*)"', text)
    assert lines == [("5", "edge-of-graph uncertain"), ("9", "edge-of-graph")]  # where p <= 0.05
    assert text.count('class="group"') == 2
    assert "<title>a and &lt;c&gt;: 1.00 (0.55 to 0.93), p = 0.001" in text
    assert "<c>" not in text


def test_pairs_that_could_be_unrelated_are_hollow(record):
    pairs = list_pairs(record.model)
    text = pair_chart(record.views, pairs)
    styles = re.findall(r'<circle [^>]*class="([^"]*)"', text)
    assert styles == ["dot", "dot"] + ["dot hollow"] * 4
    names = re.findall(r'class="name">([^<]*)<', text)
    assert names == [f"{record.views[p.first]} – {record.views[p.second]}" for p in pairs]
    assert text.count('class="second"') == 6
    without = with_similarity(record, within_classes=None)
    assert 'class="second"' not in pair_chart(without.views, list_pairs(without.model))


def test_similarities_are_drawn_between_0_and_1(record):
    value = np.full((4, 4), -0.3)
    within = replace(record.model.view_similarity_.within_classes, value=value)
    found = with_similarity(record, value=value, low=value - 0.6, within_classes=within)
    text = pair_chart(found.views, list_pairs(found.model))
    (zero,) = set(re.findall(r'<circle cx="([\d.]+)"', text))
    bars = re.findall(r'x1="([\d.]+)" x2="[\d.]+" y1="[\d.]+" y2="[\d.]+" class="whisker"', text)
    assert set(bars) == {zero}
    assert "−0.30 (−0.90 to " in text


def script_data(text):
    script = re.search(r'<script type="application/json" id="points">(.*?)</script>', text)
    return json.loads(script[1])


def test_the_script_gets_every_point_of_the_same_shape_inside_the_drawing(record):
    text = embedding_chart(record)
    data, n = script_data(text), len(record.embedding.views)
    assert text.count(" data-i=") == n
    assert data["view"] == record.embedding.views
    assert data["ids"] == record.embedding.ids
    for layout, drawn in zip(record.embedding.layouts, data["layouts"], strict=True):
        before, after = np.array(layout.points), np.array(drawn) * [1, -1]
        unit = np.ptp(after, axis=0) / np.ptp(before, axis=0)
        assert unit[0] == pytest.approx(unit[1], rel=1e-2)
        assert np.all((np.array(drawn) >= 0) & (np.array(drawn) <= [720, 500]))
    coinciding = [Layout("PCA", ["a", "b"], [[0.0, 0.0]] * n)]  # in the middle
    one = replace(record, embedding=replace(record.embedding, layouts=coinciding))
    found = script_data(embedding_chart(one))["layouts"]
    assert np.unique(found).tolist() == [250.0, 360.0]


def test_only_available_options_are_offered_and_long_legends_are_cut(record):
    unknown, first = [-1] * len(record.embedding.views), record.embedding.layouts[:1]
    bare = replace(record.embedding, truth=unknown, predicted=unknown, layouts=first)
    text = embedding_chart(replace(record, embedding=bare, classes=[]))
    for absent in ('value="class"', 'name="layout"', 'legend" aria'):
        assert absent not in text
    assert text.count('type="checkbox"') == 4
    record = make(classes=[f"class {k}" for k in range(60)], n=130)
    assert "<li>and 20 more</li>" in embedding_chart(record)


def test_each_view_has_its_own_mark():
    nodes = [("a", (1.0, 2.0), "start", (1.0, 2.0))] * 24
    text = render("view_graph.svg", size=(9, 5.5), label="a", edges=[], nodes=nodes, arcs=[])
    marks = {line.split("<text")[0] for line in text.splitlines() if "var(--view-" in line}
    assert len(marks) == 24


@pytest.mark.parametrize("ends", ((0, 1), (0.93, 0.97), (-3.2, 1.9), (0, 1e-6), (5, 12345)))
def test_ticks_are_round_and_inside(ends):
    values = ticks(*ends)
    low, high = ends
    assert 2 <= len(values) <= 7
    assert low - 1e-9 <= values[0] <= values[-1] <= high * (1 + 1e-9) + 1e-9
    np.testing.assert_allclose(np.diff(values), values[1] - values[0], rtol=1e-6)


def test_ticks_of_a_single_value_and_of_counts():
    assert ticks(2.0, 2.0) == [2.0]
    assert ticks(math.nan, 1.0) != []
    assert whole_ticks(1, 4) == [1, 2, 3, 4]
    assert whole_ticks(1, 12) == [1, 3, 5, 7, 9, 11]
    text = subset_chart([SubsetScore(k, 0.9, 0.81, 0.95, 1, 1) for k in range(1, 13)])
    assert text.count("<circle") == 12
    assert ">80%</text>" in text
