"""The README keeps its word: its code runs, its numbers are those of the result files."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", CODE, ids=lambda code: code.splitlines()[0])
def test_python_examples_run(code):
    exec(compile(code, "README.md", "exec"), {})


def test_tables_are_those_of_the_result_files(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    path = ROOT / "benchmarks" / "readme_tables.py"
    spec = importlib.util.spec_from_file_location("readme_tables", path)
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    pages = {page: page.read_text() for page in tables.PAGES}
    for page, text in pages.items():
        assert tables.fill(text) == text, f"{page.name}: run make bench-tables"
    for name in tables.TABLES:
        n = sum(text.count(f"<!-- table:{name} -->") for text in pages.values())
        assert n >= 1, f"no place for the table {name}"


def test_files_that_are_linked_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_two_commands_are_shown_and_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:`|\$ )make ([\w-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "make demo" in README
    assert "make test" in README


def test_no_marker_begins_a_line_of_a_paragraph():
    # Markdown would end the paragraph there.
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for line in re.findall(r"^\s*<!--(?:=| sentence:[\w-]+ -->.).*", page.read_text(), re.M):
            assert line.startswith("<!-- sentence"), f"{page.name}: {line}"
            assert line.endswith("-->"), f"{page.name}: {line}"
