import base64
import hashlib
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from hotview.evaluation.importance import Effects
from hotview.evaluation.metrics import Difference, Estimate
from hotview.evaluation.scores import MAJORITY, BaselineScore
from hotview.report.page import make_section, page, write_report
from hotview.similarity import PairSimilarity
from hotview.training.trainer import History
from tests.report.records import MultiViewEncoder, change, histories_of, make, with_similarity

HOSTILE = """<script>alert(1)</script><img src=x onerror=alert(2)>"&'</style>{{}}"""
VOID = {"meta", "input", "br", "line", "rect", "circle", "path"}


class Outline(HTMLParser):
    """Elements, attributes and headings of a page; fails where tags do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.found, self.headings, self.ids = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id"]
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag not in VOID or (tag in ("line", "circle", "path") and not self._closed()):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def _closed(self):
        return self.get_starttag_text().endswith("/>")


def check(record, **how):
    """A page must be well formed whatever it is made of."""
    text = page(record, **how)
    outline = Outline(text)
    assert len(text) < 2e6
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert max(np.diff(outline.headings)) <= 1
    scripts = [attrs for tag, attrs in outline.found if tag == "script"]
    assert [attrs.get("type") for attrs in scripts if attrs] in ([], ["application/json"])
    assert sum(attrs == {} for attrs in scripts) == 1
    for tag, attrs in outline.found:
        assert tag not in ("img", "link", "iframe", "object")
        assert not [key for key in attrs if key.startswith("on")]
        assert attrs.get("href", "#").startswith("#")
        assert "nan" not in {attrs.get(key) for key in ("x", "y", "cx", "cy", "x1", "d", "width")}
    drawings = [attrs for tag, attrs in outline.found if tag == "svg"]
    assert all(attrs.get("aria-label") or attrs.get("aria-hidden") for attrs in drawings)
    return text


def test_a_page_of_everything(record):
    text = check(record)
    keys = ("similarity", "metrics", "views", "errors", "space", "plan", "learning", "provenance")
    for key in keys:
        assert f'<section id="{key}"' in text
        assert f'<a href="#{key}"' in text
    assert "<title>Report on 4 views</title>" in text
    figures = text.split("<figure>")[1:]
    assert len(figures) == 14
    assert all("<table>" in part.split("</figure>")[0] for part in figures)  # its numbers


@pytest.mark.parametrize("name", (HOSTILE, "ж中文 🙂 ́", "x" * 3000, " ", "a\x00b\udcff"))
def test_names_are_escaped(name, tmp_path):
    record = make([f"{name}{s}" for s in range(4)], [f"{name}{k}" for k in range(3)])
    embedding = replace(record.embedding, ids=[name] * len(record.embedding.ids))
    told = {"fit_warnings_": [name], "metadata_": {"command": name, "files": name}}
    record = change(record, embedding=embedding, **told)
    text = check(record, title=name)
    write_report(record, tmp_path / "report.html", title=name)
    if name == HOSTILE:
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


CASES = {
    "an encoder": {"kind": MultiViewEncoder, "classes": [], "scores": None, "baselines": None},
    "no plan": {"plan_": None, "coupling": "none"},
    "no linked rows": {"view_similarity_": None, "out_of_fold_": {}},
    "no linked rows and no plan": {"view_similarity_": None, "plan_": None, "coupling": "none"},
    "no labels": {"scores": None, "baselines": None, "n_labeled": 0},
    "no rows": {"scores": None, "baselines": None, "embedding": None, "rows": {}},
    "no history": {"histories_": []},
    "an old file": {"trained_on_": {}, "fit_warnings_": [], "metadata_": {}},
    "rows that were trained on": {"seen": True},
    "no baselines": {"baselines": None},
}


@pytest.mark.parametrize("case", CASES)
def test_pages_of_less(record, case):
    check(change(record, **CASES[case]))


@pytest.mark.parametrize(
    ("n_views", "n_classes", "replicas"), ((2, 40, 1), (3, 2, 1), (3, 40, 3), (12, 2, 3))
)
def test_few_and_many(n_views, n_classes, replicas):
    views, classes = [f"v{s}" for s in range(n_views)], [f"c{k}" for k in range(n_classes)]
    check(make(views=views, classes=classes, replicas=replicas))


def test_numbers_that_are_missing_leave_no_trace(record):
    unknown = Estimate(math.nan, math.nan, math.nan)
    metrics = replace(record.scores.metrics, calibration_error=unknown, log_loss=None)
    rows = [{"epoch": k, "loss": math.nan, "effective_rank_pix": 1.0} for k in (1, 2, 3)]
    found = {"scores": replace(record.scores, metrics=metrics), "networks_": [None]}
    text = check(change(record, histories_=[History(rows)], **found))
    assert "loss was never a finite number" in text
    ranks = [row | {"effective_rank_pix": math.nan} for row in rows]
    check(change(record, histories_=[History(ranks)], **found))
    assert not re.search(r"\bnan\b", text)


def tile_of_views(record):
    return re.search(r"<dt>views</dt><dd>\d+<small>(.*?)</small>", page(record))


def test_the_number_of_groups_that_hold(record):
    def note(groups):
        groups = None if groups is None else np.array(groups)
        return tile_of_views(with_similarity(record, groups=groups))[1]

    assert note([0, 1, 0, 1]) == "2 groups that hold"
    assert note([0, 1, 0, 2]) == "1 group that holds"
    assert note(None) == "no stable groups"
    assert tile_of_views(make(views="abc"))[1] == "60 linked rows"
    unlinked = change(record, view_similarity_=None, trained_on_={"linked": 0})
    assert tile_of_views(unlinked)[1] == "no linked rows"
    assert tile_of_views(change(unlinked, trained_on_={})) is None


def test_thousands_of_points_are_small():
    text = check(make(n=600))
    assert text.count(" data-i=") == 2400
    assert "2,400 of 2,407 points" in text


def test_what_is_missing_or_biased_is_said(record):
    assert "these metrics are optimistically biased" in page(replace(record, seen=True))
    assert "biased" not in page(record)
    bare = page(change(record, **CASES["no rows"]))
    assert "to <code>hotview report</code> or <code>model.report</code>" in bare
    assert "None of the rows has a label" in page(change(record, **CASES["no labels"]))


def test_only_our_script_may_run(record):
    text = page(record)
    script = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert len(script) == 1
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert f"sha256-{digest}" in policy
    assert policy.startswith("default-src 'none'")


def test_files_are_written_whole_and_the_same_record_gives_the_same_bytes(record, tmp_path):
    path = tmp_path / "report.html"
    assert write_report(record, str(path), title="Digits") == path
    assert "<h1>Digits</h1>" in path.read_text(encoding="utf-8")
    first = path.read_bytes()
    assert write_report(make(), path, title="Digits").read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(ValueError, match=r"must end in \.html or \.htm, got '.txt'"):
        write_report(record, tmp_path / "report.txt")


def test_a_better_baseline_is_next_to_the_accuracy(record):
    better = replace(record.baselines[0], difference=Difference(-0.1, 0.02, -0.14, -0.06, 50))
    worse = page(replace(record, baselines=[better]))
    sentence = "Label propagation in each view is better: 70.0\N{NO-BREAK SPACE}% against"
    assert sentence in worse.split("<main")[0]
    assert sentence not in page(record)
    assert sentence not in page(replace(record, baselines=[better], seen=True))


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
def test_every_pair_is_in_the_table_and_15_are_drawn(n, n_figures):
    text = section("similarity", make(views=views(n)))
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
    X[:2, :2] = 0.5
    parts = dict.fromkeys(("value", "low", "high", "p_value"), X)
    parts["n_rows"] = np.full((4, 4), 7)
    within = PairSimilarity(**parts)
    found = replace(record.model.view_similarity_, **parts, within_classes=within, groups=None)
    text = section("similarity", record, view_similarity_=found)
    assert table_rows(text)[1][1:] == ["–", "–", "–", "–", "7"]
    assert text.count("<circle") == text.count("<figure>") == 1  # nothing is significant
    assert "nan" not in text


def test_every_view_with_its_group_and_its_most_similar_view(record):
    other = with_similarity(record, groups=np.array([0, 1, 0, 2]))
    rows = table_rows(section("similarity", other), 2)
    found = [" ".join(row) for row in rows]
    assert found == ["pix 1 fac 0.88", "fac 1 pix 0.88", "mor – zer 0.88", "zer – mor 0.88"]


def test_without_linked_rows_shapes_are_compared(record):
    unlinked = change(record, view_similarity_=None)
    text = section("similarity", unlinked)
    assert "Similarity of shapes before training" in text
    assert "Shapes are compared, not individuals." in text
    assert table_rows(text)[0] == ["pix", "–", "0.1250", "0.2500", "0.3750"]
    assert text.count("<figure>") == 1
    assert "batch" not in text
    assert "Similarity of shapes" not in section("similarity", record)
    assert "<figure>" not in section("similarity", unlinked, plan_=None)
    two = change(make(views=views(2)), view_similarity_=None)
    assert "<figure>" not in section("similarity", two)


def test_rows_of_the_plan_sum_to_one_and_nothing_is_concluded_from_it_alone(record):
    text = section("plan", record)
    for view, row in zip(record.views, record.model.plan_.W, strict=True):
        cells = "".join(f'<td class="number">{4 * w:.3f} ± {4 * w / 10:.3f}</td>' for w in row)
        assert f'<th scope="row">{view}</th>{cells}' in text
    np.testing.assert_allclose(np.sum(record.model.plan_.W, axis=1) * 4, 1)
    assert "equation (11) of the paper" in text
    assert "It depends on the seed: nothing about the views should be concluded" in text
    assert "group" not in text
    assert "mean costs of 3 trainings" in text
    assert "the variation of the plan is not known" in section("plan", make(replicas=1))
    assert "did not converge" not in text
    failed = change(record, plan_=replace(record.model.plan_, marginal_error=1.0))
    assert "did not converge" in section("plan", failed)


def test_pairwise_plans_leave_the_diagonal_blank(record):
    W = (np.ones((4, 4)) - np.eye(4)) / 12
    plan = replace(record.model.plan_, W=W, C=W, g=W[0], std=None, mask=W == 0)
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


def test_metrics_errors_and_calibration(record):
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
    record = make(classes=[f"class {k}" for k in range(50)])
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


def test_curves_and_ranks(record):
    text = section("learning", record)
    assert text.count("<figure>") == 2
    assert "of 3 networks" in text
    assert "effective rank, of 10 dimensions" in text
    one = make(replicas=1)
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
