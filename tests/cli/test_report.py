import json

import pytest


def test_a_model_alone_makes_a_page(hotview, model, tmp_path):
    page = tmp_path / "r.html"
    result = hotview("report", model, "-o", page)
    assert str(page) in result.out
    text = page.read_text()
    assert "blood" in text
    assert "hotview fit" in text  # how to make it again


def test_new_rows_evaluate_the_model_beside_baselines(hotview, model, study, new_files, tmp_path):
    page = tmp_path / "r.html"
    data = [word for path in new_files for word in ("--data", path)]
    labels = ("--labels", study / "new-labels.csv")
    result = hotview("report", model, *data, *labels, "-o", page, "--no-umap", "--json")
    assert json.loads(result.out)["bytes"] == page.stat().st_size < 2e6
    text = page.read_text()
    assert "label propagation in each view" in text
    assert "n19" in text  # rows have their ids


def test_the_page_has_the_metrics_of_evaluate(hotview, model, study, new_files, tmp_path):
    page, labels = tmp_path / "r.html", ("--labels", study / "new-labels.csv", "--no-baselines")
    chosen = (*labels, "--positive", "ill", "--cost", "3")
    hotview("report", model, *new_files, *chosen, "-o", page, "--no-umap")
    facts = json.loads(hotview("evaluate", model, *new_files, *chosen, "--json").out)
    text = page.read_text()
    assert "Positive class ill (given)" in text
    point = facts["binary"]["chosen"]
    low, high = point["sensitivity_interval"]
    interval = f"<small>({100 * low:.1f}–{100 * high:.1f})</small>"
    assert f"{100 * point['sensitivity']:.1f} {interval}" in text
    assert f"{point['cost']:.3f} <small>(" in text
    assert f"{100 * facts['majority']:.1f}" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    (
        ((), 2, "MODEL"),
        (("m.hotview",), 2, "--out"),
        (("m.hotview", "-o", "r.pdf"), 1, "must end in .html"),
        (("m.hotview", "-o", "r.html"), 1, "there is no model at m.hotview"),
    ),
)
def test_errors_are_printed(hotview, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    result = hotview("report", *arguments, code=code)
    assert message in result.err
