import json
import re
from pathlib import Path

import pytest

from paper.catalog import EXPERIMENTS
from paper.report import render_page, write_page
from paper.report.load_results import read_results
from paper.report.overview import opening_part
from paper.report.remarks import remarks_part
from paper.report.results import Results
from paper.report.speed import speed_part

ROOT = Path(__file__).parents[3]
PAGE, RESULTS = ROOT / "docs" / "reproduction.md", ROOT / "results" / "paper"


def test_the_page_in_docs_is_made_from_the_files():
    if not (PAGE.exists() and any(RESULTS.glob("*.json"))):
        pytest.skip("the experiments were not run, or the page not made, yet")
    assert PAGE.read_text(encoding="utf-8") == render_page(RESULTS), (
        "docs/reproduction.md is not what the result files say: run `python -m paper report`"
    )
    for picture in re.findall(r"\]\((reproduction/\S+)\)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / picture).exists()


@pytest.fixture(scope="module")
def text(made_folder):
    return render_page(made_folder)


def test_what_was_not_run_is_said(tmp_path):
    text = render_page(tmp_path)
    assert "Nothing was run yet; `python -m paper run all`" in text
    assert all(f"Not run; `python -m paper run {name}` runs it." in text for name in EXPERIMENTS)


def test_links_lead_to_headings_and_every_number_is_written(text):
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    addresses = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    assert set() < set(re.findall(r"\]\(#([^)]+)\)", text)) <= addresses
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b|\{\w*\}", text)


def test_pictures_and_page_are_written_and_steady(summaries, tmp_path):
    figure = summaries["figure2"]
    figure["cells"] = [e for e in figure["cells"] if e["cell"]["dataset"] == "handwritten"]
    del figure["datasets"]["caltech7"]
    (tmp_path / "figure2.json").write_text(json.dumps(figure))
    written = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        write_page(tmp_path, folder / "page.md")
        files = sorted(folder.rglob("*.*"))
        written.append({file.relative_to(folder).as_posix(): file.read_bytes() for file in files})
    assert written[0] == written[1]
    text = written[0].pop("page.md").decode()
    assert sorted(re.findall(r"\]\((page/\S+)\)", text)) == sorted(written[0])
    assert text == render_page(tmp_path, pictures="page")


def test_a_failure_leaves_the_old_page_and_bad_paths_say_what_to_do(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("old")
    (tmp_path / "table2.json").write_text("{")
    with pytest.raises(ValueError, match=r"table2\.json"):
        write_page(tmp_path, page)
    assert page.read_text() == "old"
    with pytest.raises(FileNotFoundError, match="`python -m paper run all` makes it"):
        render_page(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"must end in \.md"):
        write_page(tmp_path, tmp_path / "page.txt")
    (tmp_path / "table2.json").rename(tmp_path / "table7.json")
    with pytest.raises(ValueError, match=r"table7\.json is none of table2"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("breaking", "says"),
    (
        (lambda s, first: "{", "it is not JSON"),
        (lambda s, first: s.update(format=2), "its format is 2, and 1 can be read"),
        (lambda s, first: s.update(experiment="table3"), "it holds 'table3'"),
        (lambda s, first: first["cell"].update(method="magic"), "Expected method to be one of"),
        (lambda s, first: first["scores"].pop("test"), "has no test scores"),
        (lambda s, first: first["scores"]["test"].pop(), "has 4 test scores of 5 trials"),
        (lambda s, first: first["scores"].update(test=[87.0] * 5), "between 0 and 1, got 87.0"),
        (lambda s, first: first.update(Ws=[1, 2]), "are not matrices"),
        (lambda s, first: s["datasets"].pop("handwritten"), "'handwritten' is missing"),
    ),
)
def test_foreign_and_broken_files_are_named(tmp_path, summaries, breaking, says):
    summary = summaries["table2"]
    broken = breaking(summary, summary["cells"][0])
    text = broken if broken == "{" else json.dumps(summary)
    (tmp_path / "table2.json").write_text(text)
    with pytest.raises(ValueError, match=r"table2\.json is not a result file") as e:
        read_results(tmp_path)
    assert says in str(e.value)


def test_benches_and_runs_lie_beside(tmp_path):
    paper, bench = tmp_path / "paper", tmp_path / "bench"
    paper.mkdir()
    bench.mkdir()
    (paper / "runs.jsonl").write_text('{"jobs": 2}\n')
    (bench / "replicas.json").write_text('{"cases": []}')
    results = read_results(paper)
    assert results.runs == ({"jobs": 2},)
    assert results.benches == {"replicas": {"cases": []}}
    (paper / "runs.jsonl").write_text('{"jobs"\n')
    with pytest.raises(ValueError, match=r"notes of runs in .*paper"):
        read_results(paper)


def test_the_ceiling_with_all_labels_is_no_rival(summaries, change, read):
    change(summaries["table2"], [99] * 5, method="logistic regression, all labels")
    text = opening_part(read(summaries), []).text
    assert "the best plain method" in text
    assert "the best plain method logistic regression, all labels" not in text


def test_warnings_per_training_and_mixed_parameters_are_told(summaries, read):
    for entry in summaries["table3"]["cells"]:
        cell = entry["cell"]
        if cell["settings"] == "paper" and cell["method"] in ("HOT (10)", "HOT (11)"):
            entry["warnings"] = {"UserWarning: The plan W has not converged": 10.0}
    summaries["table2"]["cells"][0]["mixed_parameters"] = True
    text = remarks_part(read(summaries)).text
    kind = "UserWarning: The plan W has not converged…"
    where = "unsupervised | the paper's settings | HOT (10) and HOT (11)"
    assert f"| {kind} | {where} | 2.0 |" in text.splitlines()
    assert "trials of handwritten_semi-supervised_lscca_paper were run with different" in text


def test_runs_that_failed_or_were_interrupted_are_told():
    run = {"command": "hotview reproduce all", "seconds": 3700.0, "failed": 2, "interrupted": True}
    text = speed_part(Results({}, runs=(run, {}))).text
    assert "`hotview reproduce all` (2 failed, interrupted)" in text
    assert "62 min" in text
    assert text.splitlines()[-1].startswith("| `–` | – |")
