import re
from dataclasses import replace

import numpy as np
import pytest

from hotview.evaluation.importance import Effects
from hotview.evaluation.metrics import Difference
from hotview.evaluation.scores import MAJORITY, BaselineScore
from hotview.report.page import make_section
from hotview.training.trainer import History
from tests.report.records import change, histories_of, with_similarity


def section(key, record, **parts):
    return make_section(key, change(record, **parts))


def views(n):
    return [f"v{s}" for s in range(n)]


def table_rows(text, k=1):
    """Rows of a table of a section, by default the first."""
    table = text.split("<caption")[k].split("</table>")[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
    return [[first, *re.findall("<td[^>]*>(.*?)</td>", rest)] for first, rest in rows]


def test_the_sentences_come_first_and_then_which_views_are_needed(record):
    text = section("similarity", record)
    p = "(p\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}0.05 after"
    parts = ["<p>By 60 linked rows, ", p, "<p>Most similar are &#39;pix&#39;", "<p>Groups of views",
             "also site, batch or depth effects", "<h3>Which views are needed</h3>",
             "<li>Keep &#39;mor&#39;: without it", "<figure>"]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "Which views are needed" not in section("similarity", record, out_of_fold_={})


@pytest.mark.parametrize(("n", "n_figures"), ((2, 1), (4, 2), (12, 2)))
def test_every_pair_is_in_the_table_and_15_are_drawn(make_one, n, n_figures):
    text = section("similarity", make_one(views=views(n)))
    n_pairs = n * (n - 1) // 2
    rows = table_rows(text)
    assert len(rows) == n_pairs
    values = [float(row[1].replace("−", "-")) for row in rows]
    assert values == sorted(values, reverse=True)
    assert text.count("<figure>") == n_figures
    dots = text.split("<figure>")[1].count("<circle")
    assert dots == min(n_pairs, 15)
    assert ("most similar of" in text) == (n_pairs > 15)
    assert ("Graph of the views" in text) == (4 <= n < 12)
    assert ("Similarity of all views" in text) == (n >= 12)


def test_the_numbers_of_a_pair_and_dashes_without_enough_linked_rows(record):
    rows = table_rows(section("similarity", record))
    assert rows[0] == ["pix – fac", "0.88", "0.68 to 0.93", "0.001", "0.83", "60"]
    text = make_section("similarity", with_similarity(record, within_classes=None))
    assert table_rows(text)[0] == ["pix – fac", "0.88", "0.68 to 0.93", "0.001", "60"]
    assert "within classes" not in text
    X = np.full((4, 4), np.nan)
    X[0, 1] = X[1, 0] = 0.5
    np.fill_diagonal(X, 1.0)
    parts = dict.fromkeys(("value", "low", "high", "p_value"), X)
    within = replace(record.model.view_similarity_.within_classes, **parts)
    parts |= {"n_rows": np.full((4, 4), 7), "groups": None}
    found = replace(record.model.view_similarity_, **parts, within_classes=within)
    text = section("similarity", record, view_similarity_=found)
    assert table_rows(text)[1][1:] == ["–", "–", "–", "–", "7"]
    assert text.count("<circle") == text.count("<figure>") == 1  # nothing is significant
    assert "nan" not in text


def test_every_view_with_its_group_and_its_most_similar_view(record):
    other = with_similarity(record, groups=np.array([0, 1, 0, 2]))
    rows = table_rows(section("similarity", other), 2)
    found = [" ".join(row) for row in rows]
    assert found == ["pix 1 fac 0.88", "fac 1 pix 0.88", "mor – zer 0.88", "zer – mor 0.88"]


def test_without_linked_rows_shapes_are_compared(record, make_one):
    unlinked = change(record, view_similarity_=None)
    text = section("similarity", unlinked)
    assert "Similarity of shapes before training" in text
    assert "Shapes are compared, not individuals." in text
    assert table_rows(text)[0] == ["pix", "–", "0.1250", "0.2500", "0.3750"]
    assert text.count("<figure>") == 1
    assert "batch" not in text
    assert "Similarity of shapes" not in section("similarity", record)
    assert "<figure>" not in section("similarity", unlinked, plan_=None)
    two = change(make_one(views=views(2)), view_similarity_=None)
    assert "<figure>" not in section("similarity", two)


def test_rows_of_the_plan_sum_to_one_and_nothing_is_concluded_from_it_alone(record, make_one):
    text = section("plan", record)
    for view, row in zip(record.views, record.model.plan_.W, strict=True):
        cells = "".join(f'<td class="number">{4 * w:.3f} ± {4 * w / 10:.3f}</td>' for w in row)
        assert f'<th scope="row">{view}</th>{cells}' in text
    np.testing.assert_allclose(np.sum(record.model.plan_.W, axis=1) * 4, 1)
    assert "equation (11) of the paper" in text
    assert "It depends on the seed: nothing about the views should be concluded" in text
    assert "group" not in text
    assert "mean costs of 3 trainings" in text
    assert "the variation of the plan is not known" in section("plan", make_one(replicas=1))
    assert "did not converge" not in text
    failed = change(record, plan_=replace(record.model.plan_, marginal_error=1.0))
    assert "did not converge" in section("plan", failed)


def test_pairwise_plans_leave_the_diagonal_blank(record):
    W = (np.ones((4, 4)) - np.eye(4)) / 12
    mask = np.eye(4, dtype=bool)
    plan = replace(record.model.plan_, W=W, C=W, g=np.zeros(4), std=None, mask=mask)
    text = section("plan", record, plan_=plan)
    assert text.count('class="heat"') == 12
    assert "equation (10)" in text
    assert "transported to each view" in text


def test_accuracies_by_view_and_by_number_of_views(record):
    text = section("views", record)
    assert text.count("<figure>") == 3
    assert "nothing is retrained" in text
    assert "the last point may differ from the accuracy of all rows" in text
    assert "2 of 5" in text
    assert "Not all subsets were scored" in text
    bare = [replace(v, without=None, drop=None, alone=None) for v in record.scores.views]
    scores = replace(record.scores, views=bare, subsets=[])  # views without rows are left out
    assert section("views", record, scores=scores).count("<figure>") == 1


def test_metrics_errors_and_calibration(record, make_one):
    text = section("errors", record)
    assert "6 of 36 rows are misclassified." in text
    assert "Expected calibration error: 5.0 points" in text
    assert "mostly too high" in text
    metrics = record.scores.metrics  # a class that was not in training has a row
    other = {"classes": [*metrics.classes, "any other class"], "n": 37}
    metrics = replace(metrics, confusion=[*metrics.confusion, [1, 0, 0]], **other)
    scores = replace(record.scores, metrics=metrics)
    text = section("errors", record, scores=scores)
    assert "7 of 37 rows are misclassified." in text
    assert "any other class" in text
    record = make_one(classes=[f"class {k}" for k in range(50)])
    text = section("errors", record)
    assert "A matrix of 50 classes is too large to draw" in text
    assert 'class="heat"' not in text
    assert text.count('<tr><th scope="row">class 0</th><td>class ') == 30


def test_the_majority_class_comes_before_the_accuracy(record):
    text = section("metrics", record)
    assert text.index("majority class, always a") < text.index(">accuracy<")
    for words in ("96.8", "Intervals of shares of rows are Wilson", "mean probability"):
        assert words in text


def comparison(record, baselines):
    text = section("errors", record, baselines=baselines)
    return text.split("Comparison with baselines")[1]


def test_baselines_with_their_differences(record):
    text = comparison(record, record.baselines)
    for part in ("+10.0 points", "+6.0 to +14.0 points", "the model is better"):
        assert part in text
    assert "not compared: it cannot do with gaps" in text
    note = "(of larger tables, on 50,000 rows)"
    assert note not in section("errors", record)
    large = change(record, trained_on_={**record.model.trained_on_, "linked": 50_001})
    assert note in section("errors", large)


def test_baselines_that_were_not_fitted_and_the_majority_class_are_not_drawn(record):
    text = comparison(record, [BaselineScore("x", None, None, "no rows")])
    assert "<svg" not in text
    assert "not compared: no rows" in text
    worse = replace(record.baselines[0], difference=Difference(0.0, 0.1, -0.2, -0.01, 9))
    even = replace(worse, difference=Difference(0.0, 0.1, -0.1, 0.1, 9))
    text = comparison(record, [worse, even])
    assert text.index("the model is worse") < text.index("no significant difference")
    words = "Simple methods were not fitted: that needs the training rows."
    assert words in section("errors", record, baselines=None)
    assert words not in section("errors", record)
    majority = replace(record.baselines[0], name=MAJORITY)
    text = comparison(record, [majority])
    assert words in text
    assert "<svg" not in text
    assert '<th scope="row">majority class</th><td>the model is better</td>' in text
    drawing = comparison(record, [majority, *record.baselines]).split("</svg>")[0]
    assert "label propagation" in drawing
    assert MAJORITY not in drawing


def test_curves_and_ranks(record, make_one):
    text = section("learning", record)
    assert text.count("<figure>") == 2
    assert "of 3 networks" in text
    assert "effective rank, of 10 dimensions" in text
    one = make_one(replicas=1)
    text = section("learning", one, histories_=histories_of(["pix"], 1, 900))
    assert "One network." in text
    assert "200 of 900 epochs are drawn." in text
    unknown = History([{"epoch": 1, "loss": 2.0, "effective_rank_pix": np.nan}])
    text = section("learning", record, histories_=[unknown])
    assert table_rows(text, 2)[0] == ["pix", "–", "–", "10"]
    empty = change(record, histories_=[])
    assert "No learning curves were recorded." in section("learning", empty)


def test_where_the_model_comes_from(record):
    text = section("provenance", record)
    for part in ("<li>few rows</li>", "<code>hotview fit a.csv</code>", 'class="copy"',
                 "differ from the defaults: 1 of 2.", "<td>(64,)</td><td>(128,)</td>",
                 '<th scope="row">version of hotview</th><td>1.0</td>'):  # fmt: skip
        assert part in text
    assert "There were none." in section("provenance", record, fit_warnings_=[])
    files = {"pix": {"path": "a.csv", "sha256": "ab12"}, "mor": "b.csv"}
    bare = {"metadata_": {"files": files}, "trained_on_": {}, "hidden": (128,)}
    text = section("provenance", record, **bare)
    for part in ("Warnings were not recorded.", "defaults: 0 of 2.", "a.csv, sha256 ab12", "b.csv",
                 "The command that trained this model was not recorded."):  # fmt: skip
        assert part in text
    assert "copy" not in text


def test_importance_has_a_bar_per_view_and_column(record):
    html = section("importance", record)
    assert html.count('class="bar"') == 8
    assert "rows, 0.432, rises" in html
    assert "8 other columns" in html  # of 12, 4 are drawn
    views_only = replace(record.importance, columns=Effects([], [], *np.empty((6, 0))))
    assert section("importance", record, importance=views_only).count('class="bar"') == 4
