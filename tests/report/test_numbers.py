"""What figures and pages show: numbers, tables and colors."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from hotview.evaluation import assess
from hotview.evaluation.metrics import Estimate, Proportion
from hotview.evaluation.scores import Bin
from hotview.report.canvas import CLASS_COLORS, VIEW_COLORS
from hotview.report.chart_data import calibration_points, drop_dots, effect_dots
from hotview.report.tables import describe_metrics, matrix_table, metric_tables, number, signed
from hotview.report.view_data import Curve, graph_of_views, list_pairs, similarity_matrix
from tests.report.records import make, with_similarity


def test_bands_have_one_standard_deviation():
    _, low, high = Curve("loss", [2.0, math.inf, 1.0], [0.5, 0.5, math.nan]).band
    np.testing.assert_array_equal(low, [1.5, math.nan, 1.0])
    np.testing.assert_array_equal(high, [2.5, math.nan, 1.0])


def test_drops_of_views_that_can_be_hidden_and_weights_of_bins(record):
    first, *rest = record.scores.views
    scores = replace(record.scores, views=[replace(first, drop=None), *rest])
    drops = drop_dots(replace(record, scores=scores)).dots
    assert [(dot.name, dot.view) for dot in drops] == [("mor", 1), ("fac", 2), ("zer", 3)]
    bins = [Bin(0.2, Proportion(0.1, 0.0, 0.5, 2)), Bin(0.9, Proportion(1.0, 0.5, 1.0, 8))]
    assert [weight for _, _, weight in calibration_points(bins)] == [0.25, 1.0]


def test_effects_have_the_names_of_columns_and_the_colors_of_their_views(record):
    found = record.importance
    views, columns = found.views.to_dicts(), found.columns.to_dicts()
    dots = effect_dots(record, [views[1], columns[0]]).dots
    assert [(dot.name, dot.view) for dot in dots] == [("mor", 1), ("pix: pix 0", 0)]
    assert dots[1].tooltip == "pix 0 of pix: 0.3 (-0.1 to 0.4)"
    same = [columns[0], columns[0] | {"view": "mor"}]
    other = columns[0] | {"column": "x"}
    names = [dot.name for dot in effect_dots(record, [*same, other]).dots]
    assert names == ["pix: pix 0", "mor: pix 0", "pix: x"], "all of them, or none"
    assert [dot.name for dot in effect_dots(record, [same[0], other]).dots] == ["pix 0", "x"]


@pytest.mark.parametrize("n", (2, 6))
def test_all_pairs_the_most_similar_first(n):
    record = make(views=[f"v{s}" for s in range(n)])
    pairs, found = list_pairs(record.model), record.model.view_similarity_
    assert len({(pair.first, pair.second) for pair in pairs}) == n * (n - 1) // 2
    values = [pair.value for pair in pairs]
    assert values == sorted(values, reverse=True)
    for pair in pairs:
        at = pair.first, pair.second
        assert pair.first < pair.second
        for name in ("value", "low", "high", "p_value", "n_rows"):
            assert getattr(pair, name) == getattr(found, name)[at]
        assert pair.within == found.within_classes.value[at]
        assert pair.is_significant == ((pair.second - pair.first) % 2 == 0)


def test_the_matrix_is_blank_where_views_could_be_unrelated(record):
    matrix = similarity_matrix(record.model)
    assert matrix.rows == matrix.columns == ["pix", "fac", "mor", "zer"]
    expected = np.kron(np.eye(2), np.array([[0, 0.88], [0.88, 0]]))
    np.testing.assert_allclose(np.nan_to_num(matrix.values), expected)
    assert np.isnan(matrix.values).sum() == 12


def test_views_stand_on_a_circle_group_beside_group():
    record = with_similarity(make(views="abcde"), groups=np.array([0, 1, 0, 1, 2]))
    graph = graph_of_views(record.model)
    np.testing.assert_allclose(np.linalg.norm(graph.positions, axis=1), 1)
    angle = np.arctan2(graph.positions[:, 0], -graph.positions[:, 1]) % (2 * np.pi)
    assert np.argsort(angle).tolist() == [0, 2, 1, 3, 4]
    gaps = np.diff(np.sort(angle))
    assert gaps[0] < gaps[1]  # within a group, between groups
    ends = [(arc[0].tolist(), arc[-1].tolist()) for arc in graph.arcs]  # none of a single view
    at = graph.positions.tolist()
    np.testing.assert_allclose(ends, [(at[0], at[2]), (at[1], at[3])])
    graph = graph_of_views(with_similarity(record, groups=None).model)  # spread evenly
    np.testing.assert_allclose(graph.positions.sum(0), 0, atol=1e-12)
    assert graph.arcs == []


@pytest.fixture(scope="module")
def metrics():
    """Metrics of 1,000 rows, 32 of which are positive, that are all predicted to be negative."""
    p = np.repeat([0.4, 0.04], 500)
    y = np.where(np.arange(1000) % 31 == 0, "yes", "no")
    return assess(y, np.column_stack([1 - p, p]), ["no", "yes"], cost=9)


def test_rows_of_all_classes_and_of_each(metrics):
    first, by_class, _ = metric_tables(metrics)
    names = [row[0] for row in first.rows]
    assert names[:2] == ["majority class, always no", "accuracy"]
    assert first.rows[0][1] == first.rows[1][1] == "96.7"
    assert first.rows[1][2] == "95.4 to 97.6"
    assert {"area under the ROC curve", "average precision", "log loss (nats)"} <= set(names)
    of_no, of_yes = by_class.rows  # with prevalence and mean probability
    assert of_no[1].startswith("96.7 (95.4–97.6)")
    assert of_yes[2].startswith("22.0 (")
    assert of_yes[4].startswith("0.0 (0.0–")
    assert of_yes[5] == "–"  # it is never predicted


def test_the_positive_class_at_both_thresholds(metrics):
    table = metric_tables(metrics)[2]
    assert table.title.startswith("Positive class yes (the rarer class of these rows)")
    default, chosen = table.rows
    assert default[:2] == ("most probable class", "–")
    assert chosen[1] == "0.100"
    assert chosen[3].startswith("51.5 (")
    assert chosen[4].startswith("50.1 (")
    cost = (9 * 16 + 483) / 1000
    assert chosen[6].startswith(f"{cost:.3f} (")
    assert table.headings[6] == "cost per row"
    sentence = describe_metrics(metrics)[1]
    assert sentence.startswith("Class yes is predicted from a probability of 0.100 on: 1/(1 + 9)")
    assert sentence.endswith("A missed row costs 9, a false alarm 1.")
    plain = replace(metrics, binary=replace(metrics.binary, cost_ratio=None, chosen=None))
    assert len(metric_tables(plain)[2].rows[0]) == len(metric_tables(plain)[2].headings) == 6


def test_what_there_is_to_say_about_metrics(metrics):
    text = describe_metrics(metrics)[0].replace("\N{NO-BREAK SPACE}", " ")
    assert text.startswith("The mean probability of 'yes' is too high: 22.0 % against a prevalence")
    assert "(difference +18.7 points, 95 % interval +16.4 to +21.0)" in text
    near = replace(metrics.by_class[1], excess=Estimate(0.01, -0.01, 0.03))
    calibrated = replace(metrics, by_class=[metrics.by_class[0], near])
    assert len(describe_metrics(calibrated)) == len(describe_metrics(metrics)) - 1
    assert "1,000 bootstrap resamples of the rows" in describe_metrics(metrics)[-1]
    grouped = replace(metrics, resampled="groups", log_loss=None)
    assert "1,000 bootstrap resamples of groups" in describe_metrics(grouped)[-1]
    assert metric_tables(grouped)[0].rows[-1] == ("log loss (nats)", "–", "–")
    P = np.random.default_rng(0).dirichlet(np.ones(3), 90)
    many = assess(P.argmax(axis=1), P, range(3))  # of which none is positive
    assert (len(metric_tables(many)), len(describe_metrics(many))) == (2, 1)


def test_rare_classes_are_named():
    P = [[0.9, 0.1, 0.0]] * 40
    text = describe_metrics(assess([0] * 37 + [1] * 3, P, [0, 1, 2]))
    assert "Classes with fewer than 20 rows: 1 (3), 2 (none). " in text[0]
    assert "leave out classes without any" in text[0]
    both = describe_metrics(assess([0, 1] * 20, [[0.9, 0.1]] * 40, [0, 1], positive=1))
    assert not any("fewer than" in sentence for sentence in both)


@pytest.mark.parametrize(("highlight", "bold", "plain"), (("max", 3, 1), ("min", 1, 3)))
def test_nan_is_a_dot_and_the_extreme_is_bold(highlight, bold, plain):
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    how = {"title": "Costs", "digits": 2, "highlight": highlight}
    console.print(matrix_table([[np.nan, 3.0, 1.0]], ["pix"], ["fou", "mor", "zer"], **how))
    text = console.file.getvalue()
    for part in ("Costs", "pix", "fou", "mor", "·", f"\x1b[1m{bold}.00", f"{plain}.00"):
        assert part in text
    assert f"\x1b[1m{plain}.00" not in text


def test_numbers_have_true_minus_signs_and_no_negative_zero():
    assert (number(-1.25, 2), number(-0.01), number(float("nan"))) == ("−1.25", "0.0", "–")
    assert (signed(0.25, 2), signed(-3.0), signed(-0.01)) == ("+0.25", "−3.0", "0.0")


def luminance(color):
    """Relative luminance of a color, as the accessibility guidelines define it."""
    shares = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return linear @ (0.2126, 0.7152, 0.0722)


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_marks_stand_out_from_the_paper_and_no_color_comes_twice():
    for colors in (VIEW_COLORS, CLASS_COLORS):
        for light, dark in colors:
            assert contrast(light, "#fcfcfb") >= 2.6
            assert contrast(dark, "#14181c") >= 4.5
        for theme in zip(*colors, strict=True):
            assert len(set(theme)) == len(colors)
