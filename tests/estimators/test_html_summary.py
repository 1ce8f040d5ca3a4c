"""What notebooks show of an estimator."""

import re

import numpy as np
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from hotview.estimators.html_summary import summarize_as_html

DATA = make_views(60, n_views=3, n_groups=1, labeled=1.0, random_state=0)
QUICK = {"max_epochs": 1, "hidden": (4,), "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return MultiViewClassifier(n_estimators=2, **QUICK).fit(DATA.linked, DATA.linked_target)


def cells(html):
    return [re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", html)][1:]


def test_views_with_their_columns_and_accuracies(model):
    html = model._repr_html_()
    scores = model.out_of_fold_
    assert cells(html) == [
        [name, str(X.shape[1]), "0", f"{100 * scores[name]['accuracy']:.1f}"]
        for name, X in DATA.linked.items()
    ]
    assert f"{len(DATA.linked_target)} linked rows" in html
    assert f"{100 * scores['all views']['accuracy']:.1f} %" in html
    n_most = np.bincount(DATA.linked_target).max()
    assert f"Of all labels, {100 * n_most / len(DATA.linked_target):.1f} % are " in html
    assert "linked rows, &#x27;view_0&#x27;" in html  # the sentence about similarity
    assert len(html) < 5000
    assert model._repr_mimebundle_()["text/html"] == html


def test_an_encoder_has_rows_but_no_accuracy():
    views = {"<b>": DATA.linked["view_0"], "b": DATA.linked["view_1"][:50]}
    html = MultiViewEncoder(**QUICK).fit(views)._repr_html_()
    assert cells(html) == [["&lt;b&gt;", "20", "60"], ["b", "20", "50"]]
    assert "<b>" not in html
    assert "ccuracy" not in html


def test_warnings_are_shown_and_escaped(model):
    assert "Warning" not in summarize_as_html(model)
    model.fit_warnings_.append("a < b")
    html = summarize_as_html(model)
    model.fit_warnings_.pop()
    assert "<strong>Warning:</strong> a &lt; b" in html


def test_many_views_are_cut():
    X = np.random.default_rng(0).normal(size=(6, 2))
    model = MultiViewEncoder(coupling="none", **QUICK).fit([X + s for s in range(33)])
    assert cells(model._repr_html_())[-1] == ["and 3 more"]


def test_before_fit_it_is_the_diagram_of_scikit_learn():
    html = MultiViewClassifier()._repr_html_()
    assert "sk-top-container" in html
    assert 'class="hotview"' not in html


def test_report_writes_the_page_of_the_model_and_rows(model, tmp_path):
    few = {name: X[:5] for name, X in DATA.linked.items()}  # too few points for UMAP to compile
    # Warnings are errors here: what the common space of unlinked views warns of is not said again.
    encoder = MultiViewEncoder(**QUICK).fit(DATA.views)
    assert encoder.report(tmp_path / "a.html", few) == tmp_path / "a.html"
    assert "Which views and columns matter" not in (tmp_path / "a.html").read_text()
    model.report(tmp_path / "b.html", few, DATA.linked_target[:5])
    assert "Which views and columns matter" in (tmp_path / "b.html").read_text()
