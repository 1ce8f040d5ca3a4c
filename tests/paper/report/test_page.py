import re
import subprocess
import sys
from pathlib import Path

import pytest

from paper.catalog import EXPERIMENTS
from paper.report import render_page, write_page

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


def test_text_depends_on_the_files_alone(written, made, text):
    assert render_page(written(made)) == text


def test_a_changed_number_changes_the_page(summaries, written, text):
    folder = written(summaries)
    path = folder / "table2.json"
    first = summaries["table2"]["cells"][0]["scores"]["test"][0]
    path.write_text(path.read_text().replace(f"[{first},", "[0.123,", 1))
    assert render_page(folder) != text


def test_what_was_not_run_is_said(tmp_path):
    text = render_page(tmp_path)
    assert all(f"Not run; `python -m paper run {name}` runs it." in text for name in EXPERIMENTS)


@pytest.mark.parametrize("name", ("table3", "figure5"))
def test_one_experiment_is_missing(summaries, written, name):
    del summaries[name]
    text = render_page(written(summaries))
    assert f"Not run; `python -m paper run {name}` runs it." in text
    assert "Not run; `python -m paper run table2` runs it." not in text


def test_no_number_is_left_unwritten(text):
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b|\{\w*\}", text)


def test_headings_that_are_linked_exist(text):
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    addresses = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert links
    assert set(links) <= addresses


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


def test_the_report_does_without_torch():
    code = "import sys, paper.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
