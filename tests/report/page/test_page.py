import base64
import hashlib
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from hotview.evaluation.metrics import Difference, Estimate
from hotview.report.page import page, write_report
from hotview.training.trainer import History
from tests.report.records import MultiViewEncoder, change, with_similarity

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
def test_names_are_escaped(make_one, name, tmp_path):
    record = make_one([f"{name}{s}" for s in range(4)], [f"{name}{k}" for k in range(3)])
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
def test_few_and_many(make_one, n_views, n_classes, replicas):
    views, classes = [f"v{s}" for s in range(n_views)], [f"c{k}" for k in range(n_classes)]
    check(make_one(views=views, classes=classes, replicas=replicas))


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


def test_the_number_of_groups_that_hold(record, make_one):
    def note(groups):
        groups = None if groups is None else np.array(groups)
        return tile_of_views(with_similarity(record, groups=groups))[1]

    assert note([0, 1, 0, 1]) == "2 groups that hold"
    assert note([0, 1, 0, 2]) == "1 group that holds"
    assert note(None) == "no stable groups"
    assert tile_of_views(make_one(views="abc"))[1] == "60 linked rows"
    unlinked = change(record, view_similarity_=None, trained_on_={"linked": 0})
    assert tile_of_views(unlinked)[1] == "no linked rows"
    assert tile_of_views(change(unlinked, trained_on_={})) is None


def test_thousands_of_points_are_small(make_one):
    text = check(make_one(n=600))
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


def test_files_are_written_whole_and_the_same_record_gives_the_same_bytes(
    record, make_one, tmp_path
):
    path = tmp_path / "report.html"
    assert write_report(record, str(path), title="Digits") == path
    assert "<h1>Digits</h1>" in path.read_text(encoding="utf-8")
    first = path.read_bytes()
    assert write_report(make_one(), path, title="Digits").read_bytes() == first
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
