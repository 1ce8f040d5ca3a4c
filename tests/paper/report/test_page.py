import json
import re
from pathlib import Path

import pytest

from paper.catalog import EXPERIMENTS
from paper.report import render_page, write_page
from paper.report.load_results import read_outcome, read_results
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


def test_a_changed_number_changes_the_page(summaries, written, text):
    folder = written(summaries)
    path = folder / "table2.json"
    first = summaries["table2"]["cells"][0]["scores"]["test"][0]
    path.write_text(path.read_text().replace(f"[{first},", "[0.123,", 1))
    assert render_page(folder) != text


def test_what_was_not_run_is_said(tmp_path):
    text = render_page(tmp_path)
    assert all(f"Not run; `python -m paper run {name}` runs it." in text for name in EXPERIMENTS)


def test_links_lead_to_headings_and_every_number_is_written(text):
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    addresses = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    assert set() < set(re.findall(r"\]\(#([^)]+)\)", text)) <= addresses
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b|\{\w*\}", text)


def test_pictures_and_page_are_written_and_steady(summaries, written, tmp_path):
    figure = summaries["figure2"]
    figure["cells"] = [e for e in figure["cells"] if e["cell"]["dataset"] == "handwritten"]
    del figure["datasets"]["caltech7"]
    folder, written_twice = written({"figure2": figure}), []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write_page(folder, tmp_path / name / "page.md")
        files = sorted((tmp_path / name).rglob("*.*"))
        written_twice.append({str(f.relative_to(tmp_path / name)): f.read_bytes() for f in files})
    assert written_twice[0] == written_twice[1]
    text = written_twice[0].pop("page.md").decode()
    assert sorted(re.findall(r"\]\((page/\S+)\)", text)) == sorted(written_twice[0])
    assert text == render_page(folder, pictures="page")


def test_a_failure_leaves_the_old_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("old")
    (tmp_path / "table2.json").write_text("{")
    with pytest.raises(ValueError, match=r"table2\.json"):
        write_page(tmp_path, page)
    assert page.read_text() == "old"


def test_bad_paths_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="`python -m paper run all` makes it"):
        render_page(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"must end in \.md"):
        write_page(tmp_path, tmp_path / "page.txt")


@pytest.mark.parametrize(
    ("broken", "says"),
    (
        ("{", "it is not JSON"),
        ("{}", "'format' is missing"),
        ('{"format": 2}', "its format is 2, and 1 can be read"),
        ('{"format": 1, "experiment": "table3"}', "it holds 'table3'"),
    ),
)
def test_foreign_files_are_named(tmp_path, broken, says):
    path = tmp_path / "table2.json"
    path.write_text(broken)
    with pytest.raises(ValueError, match=r"table2\.json is not a result file") as e:
        read_results(tmp_path)
    assert says in str(e.value)


def first_entry(summary):
    return summary["cells"][0]


@pytest.mark.parametrize(
    ("breaking", "says"),
    (
        (lambda s: first_entry(s)["cell"].update(method="magic"), "Expected method to be one of"),
        (lambda s: first_entry(s)["scores"].pop("test"), "has no test scores"),
        (lambda s: first_entry(s)["scores"]["test"].pop(), "has 4 test scores of 5 trials"),
        (lambda s: first_entry(s)["scores"].update(test=[87.0] * 5), "between 0 and 1, got 87.0"),
        (lambda s: first_entry(s).update(Ws=[1, 2]), "are not matrices"),
        (lambda s: s["datasets"].pop("handwritten"), "'handwritten' is missing"),
    ),
)
def test_what_is_wrong_inside_is_said(tmp_path, summaries, breaking, says):
    breaking(summaries["table2"])
    path = tmp_path / "table2.json"
    path.write_text(json.dumps(summaries["table2"]))
    with pytest.raises(ValueError, match=r"table2\.json is not a result file") as e:
        read_outcome(path)
    assert says in str(e.value)


def test_a_file_of_another_name_is_not_passed_over(tmp_path):
    (tmp_path / "table7.json").write_text("{}")
    with pytest.raises(ValueError, match=r"table7\.json is none of table2"):
        read_results(tmp_path)


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


def opening(results):
    return opening_part(results, []).text


def test_the_ceiling_with_all_labels_is_no_rival(summaries, change, read):
    change(summaries["table2"], [99] * 5, method="logistic regression, all labels")
    assert "the best plain method logistic regression, all labels" not in opening(read(summaries))


def test_nothing_was_run():
    assert "Nothing was run yet; `python -m paper run all`" in opening(Results({}))


def test_warnings_are_counted_per_training(summaries, read):
    for entry in summaries["table3"]["cells"]:
        cell = entry["cell"]
        if cell["settings"] == "paper" and cell["method"] in ("HOT (10)", "HOT (11)"):
            entry["warnings"] = {"UserWarning: The plan W has not converged": 10.0}
    text = remarks_part(read(summaries)).text
    assert text.splitlines()[-1] == (
        "| UserWarning: The plan W has not converged… | unsupervised | the paper's settings "
        "| HOT (10) and HOT (11) | 2.0 |"
    )


def test_mixed_parameters_are_told(summaries, read):
    summaries["table2"]["cells"][0]["mixed_parameters"] = True
    text = remarks_part(read(summaries)).text
    assert "trials of handwritten_semi-supervised_lscca_paper were run with different" in text


def test_runs_that_failed_or_were_interrupted_are_told():
    run = {"command": "hotview reproduce all", "seconds": 3700.0, "failed": 2, "interrupted": True}
    text = speed_part(Results({}, runs=(run, {}))).text
    assert "`hotview reproduce all` (2 failed, interrupted)" in text
    assert "62 min" in text
    assert text.splitlines()[-1].startswith("| `–` | – |")
