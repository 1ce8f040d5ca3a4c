import re
from dataclasses import replace

import numpy as np
import pytest

from hotview.evaluation.importance import Effects
from hotview.evaluation.metrics import Difference
from hotview.evaluation.record.schema import MAJORITY, BaselineScore, Setting
from hotview.report.page.sections import (
    error_section,
    importance_section,
    learning_section,
    metric_section,
    plan_section,
    provenance_section,
    similarity_section,
    view_section,
)


def views(n):
    return [f"v{s}" for s in range(n)]


def table_rows(text, k=1):
    """Rows of a table of a section, by default the first."""
    table = text.split("<caption")[k].split("</table>")[0]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
    return [[first, *re.findall("<td[^>]*>(.*?)</td>", rest)] for first, rest in rows]


def test_the_sentences_come_first_and_then_which_views_are_needed(record):
    text = similarity_section(record)
    p = "(p\N{NO-BREAK SPACE}≤\N{NO-BREAK SPACE}0.05)"
    parts = [f"<p>By 60 linked rows, &#39;pix&#39; is similar {p}.</p>\n<p>Second.</p>",
             "also site, batch or depth effects", "<h3>Which views are needed</h3>",
             "<li>Keep &#39;mor&#39;.</li>", "<figure>"]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "Which views are needed" not in similarity_section(replace(record, contributions=[]))


@pytest.mark.parametrize(("n", "n_figures"), ((2, 1), (4, 2), (12, 2)))
def test_every_pair_is_in_the_table_and_15_are_drawn(make_one, n, n_figures):
    text = similarity_section(make_one(views=views(n)))
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
    rows = table_rows(similarity_section(record))
    assert rows[0] == ["pix – fac", "0.88", "0.68 to 0.93", "0.001", "0.83", "60"]
    bare = replace(record, similarity=replace(record.similarity, within_classes=None))
    text = similarity_section(bare)
    assert table_rows(text)[0] == ["pix – fac", "0.88", "0.68 to 0.93", "0.001", "60"]
    assert "within classes" not in text
    X = np.full((4, 4), np.nan)
    X[0, 1] = X[1, 0] = 0.5
    np.fill_diagonal(X, 1.0)
    parts = dict.fromkeys(("value", "low", "high", "p_value"), X)
    within = replace(record.similarity.within_classes, **parts)
    parts |= {"n_rows": np.full((4, 4), 7), "groups": None}
    found = replace(record.similarity, **parts, within_classes=within)
    text = similarity_section(replace(record, similarity=found))
    assert table_rows(text)[1][1:] == ["–", "–", "–", "–", "7"]
    assert text.count("<circle") == text.count("<figure>") == 1  # nothing is significant
    assert "nan" not in text


def test_every_view_with_its_group_and_its_most_similar_view(record):
    groups = replace(record.similarity, groups=np.array([0, 1, 0, 2]))
    rows = table_rows(similarity_section(replace(record, similarity=groups)), 2)
    found = [" ".join(row) for row in rows]
    assert found == ["pix 1 fac 0.88", "fac 1 pix 0.88", "mor – zer 0.88", "zer – mor 0.88"]


def test_without_linked_rows_shapes_are_compared(record, make_one):
    unlinked = replace(record, similarity=None)
    text = similarity_section(unlinked)
    assert "Similarity of shapes before training" in text
    assert "Shapes are compared, not individuals." in text
    assert table_rows(text)[0] == ["pix", "–", "0.1250", "0.2500", "0.3750"]
    assert text.count("<figure>") == 1
    assert "batch" not in text
    assert "Similarity of shapes" not in similarity_section(record)
    assert "<figure>" not in similarity_section(replace(unlinked, plan=None))
    two = replace(make_one(views=views(2)), similarity=None)
    assert "<figure>" not in similarity_section(two)


def test_rows_of_the_plan_sum_to_one_and_nothing_is_concluded_from_it_alone(record, make_one):
    text = plan_section(record)
    for view, row in zip(record.views, record.plan.W, strict=True):
        cells = "".join(f'<td class="number">{4 * w:.3f} ± {4 * w / 10:.3f}</td>' for w in row)
        assert f'<th scope="row">{view}</th>{cells}' in text
    np.testing.assert_allclose(np.sum(record.plan.W, axis=1) * 4, 1)
    assert "equation (11) of the paper" in text
    assert "It depends on the seed: nothing about the views should be concluded" in text
    assert "group" not in text
    assert "mean costs of 3 trainings" in text
    assert "the variation of the plan is not known" in plan_section(make_one(replicas=1))
    assert "did not converge" not in text
    failed = replace(record, plan=replace(record.plan, marginal_error=1.0))
    assert "did not converge" in plan_section(failed)


def test_pairwise_plans_leave_the_diagonal_blank(record):
    W = (np.ones((4, 4)) - np.eye(4)) / 12
    plan = replace(record.plan, W=W, C=W, g=np.zeros(4), std=None, mask=np.eye(4, dtype=bool))
    text = plan_section(replace(record, plan=plan))
    assert text.count('class="heat"') == 12
    assert "equation (10)" in text
    assert "transported to each view" in text


def test_accuracies_by_view_and_by_number_of_views(record):
    text = view_section(record, record.scores)
    assert text.count("<figure>") == 3
    assert "nothing is retrained" in text
    assert "the last point may differ from the accuracy of all rows" in text
    assert "2 of 5" in text
    assert "Not all subsets were scored" in text
    bare = [replace(v, without=None, drop=None, alone=None) for v in record.scores.views]
    scores = replace(record.scores, views=bare, subsets=[])  # views without rows are left out
    assert view_section(replace(record, scores=scores), scores).count("<figure>") == 1


def test_metrics_errors_and_calibration(record, make_one):
    text = error_section(record, record.scores)
    assert "6 of 36 rows are misclassified." in text
    assert "Expected calibration error: 5.0 points" in text
    assert "mostly too high" in text
    metrics = record.scores.metrics  # a class that was not in training has a row
    other = {"classes": [*metrics.classes, "any other class"]}
    metrics = replace(metrics, confusion=[*metrics.confusion, [1, 0, 0]], **other)
    scores = replace(record.scores, metrics=metrics)
    text = error_section(replace(record, scores=scores), scores)
    assert "7 of 37 rows are misclassified." in text
    assert "any other class" in text
    record = make_one(classes=[f"class {k}" for k in range(50)])
    text = error_section(record, record.scores)
    assert "A matrix of 50 classes is too large to draw" in text
    assert 'class="heat"' not in text
    assert text.count('<tr><th scope="row">class 0</th><td>class ') == 30


def test_the_majority_class_comes_before_the_accuracy(record):
    text = metric_section(record.scores)
    assert text.index("majority class, always a") < text.index(">accuracy<")
    for words in ("96.8", "Intervals of shares of rows are Wilson", "mean probability"):
        assert words in text


def comparison(record, baselines):
    text = error_section(replace(record, baselines=baselines), record.scores)
    return text.split("Comparison with baselines")[1]


def test_baselines_with_their_differences(record):
    text = comparison(record, record.baselines)
    for part in ("+10.0 points", "+6.0 to +14.0 points", "the model is better"):
        assert part in text
    assert "not compared: it cannot do with gaps" in text
    note = "(of larger tables, on 50,000 rows)"
    assert note not in error_section(record, record.scores)
    large = replace(record, trained_on={**record.trained_on, "linked": 50_001})
    assert note in error_section(large, record.scores)


def test_baselines_that_were_not_fitted_and_the_majority_class_are_not_drawn(record):
    text = comparison(record, [BaselineScore("x", None, None, "no rows")])
    assert "<svg" not in text
    assert "not compared: no rows" in text
    worse = replace(record.baselines[0], difference=Difference(0.0, 0.1, -0.2, -0.01, 9))
    even = replace(worse, difference=Difference(0.0, 0.1, -0.1, 0.1, 9))
    text = comparison(record, [worse, even])
    assert text.index("the model is worse") < text.index("no significant difference")
    words = "Simple methods were not fitted: that needs the training rows."
    assert words in error_section(replace(record, baselines=None), record.scores)
    assert words not in error_section(record, record.scores)
    majority = replace(record.baselines[0], name=MAJORITY)
    text = comparison(record, [majority])
    assert words in text
    assert "<svg" not in text
    assert '<th scope="row">majority class</th><td>the model is better</td>' in text
    drawing = comparison(record, [majority, *record.baselines]).split("</svg>")[0]
    assert "label propagation" in drawing
    assert MAJORITY not in drawing


def test_curves_and_ranks(record, make_one):
    text = learning_section(record)
    assert text.count("<figure>") == 2
    assert "of 3 networks" in text
    assert "effective rank, of 10 dimensions" in text
    one = make_one(replicas=1)
    text = learning_section(replace(one, learning=replace(one.learning, n_epochs=900)))
    assert "One network." in text
    assert "3 of 900 epochs are drawn." in text
    unknown = replace(record.ranks[0], mean=np.nan, std=np.nan)
    text = learning_section(replace(record, ranks=[unknown]))
    assert table_rows(text, 2)[0] == ["pix", "–", "–", "10"]
    empty = replace(record, learning=None, ranks=[])
    assert "No learning curves were recorded." in learning_section(empty)


def test_where_the_model_comes_from(record):
    text = provenance_section(record)
    for part in ("<li>few rows</li>", "<code>hotview fit a.csv</code>", 'class="copy"',
                 "differ from the defaults: 1 of 2.", "<td>(64,)</td><td>(128,)</td>",
                 '<th scope="row">version of hotview</th><td>1.0</td>'):  # fmt: skip
        assert part in text
    assert "There were none." in provenance_section(replace(record, fit_warnings=[]))
    files = {"pix": {"path": "a.csv", "sha256": "ab12"}, "mor": "b.csv"}
    bare = {"metadata": {"files": files}, "trained_on": {}, "fit_warnings": None}
    text = provenance_section(replace(record, **bare, settings=[Setting("a", "1", "1", False)]))
    for part in ("Warnings were not recorded.", "defaults: 0 of 1.", "a.csv, sha256 ab12", "b.csv",
                 "The command that trained this model was not recorded."):  # fmt: skip
        assert part in text
    assert "copy" not in text


def test_importance_has_a_bar_per_view_and_column(record):
    html = importance_section(record, record.importance)
    assert html.count('class="bar"') == 8
    assert "rows, 0.432, rises" in html
    assert "8 other columns" in html  # of 12, 4 are drawn
    views_only = replace(record.importance, columns=Effects([], [], *np.empty((6, 0))))
    assert importance_section(record, views_only).count('class="bar"') == 4
