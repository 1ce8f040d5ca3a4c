"""The tutorial notebooks run, and the outputs that they store are those of the code."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def _load_tool():
    path = ROOT / "docs" / "_theme" / "notebooks.py"
    spec = importlib.util.spec_from_file_location("docs_notebooks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _load_tool()


def texts(outputs):
    """What a cell prints or shows as text."""
    parts = (o.get("text", o.get("data", {}).get("text/plain", "")) for o in outputs)
    return "".join("".join(part) for part in parts)


def stored(notebook):
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def check_same(now, then):
    """Compare words exactly, and numbers as closely as different machines allow."""
    assert len(now.split()) == len(then.split()), now
    for word, old in zip(now.split(), then.split(), strict=True):
        number = r"-?\d+(?:\.\d+)?"
        assert re.sub(number, "#", word) == re.sub(number, "#", old), (word, old)
        values, before = ([float(x) for x in re.findall(number, text)] for text in (word, old))
        near = 0.06 if "." in old else 2  # rows that are counted
        assert values == pytest.approx(before, 0.2, near)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_print_what_they_store(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = tool.read_notebook(path)
    found = tool.run_notebook(notebook)
    assert any(texts(outputs) for outputs in found)
    for now, then in zip(found, stored(notebook), strict=True):
        assert [o["output_type"] for o in now] == [o["output_type"] for o in then]
        check_same(texts(now), texts(then))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_tell_nothing_of_the_machine(path):
    said = "".join(texts(outputs) for outputs in stored(tool.read_notebook(path)))
    assert not re.findall(r"(?:/(?:home|root|work|tmp|Users)/|0x[0-9a-f]{6}|Warning:)", said)


def test_a_cell_shows_what_it_prints_its_last_value_and_its_figures():
    source = "import matplotlib.pyplot as plt\nplt.plot([0, 1])\nprint('a')\n1 + 1"
    cells = [{"cell_type": "markdown", "source": ["# T"]}, {"cell_type": "code", "source": source}]
    (outputs,) = tool.run_notebook({"cells": cells})
    assert texts(outputs) == "a\n2"
    assert set(outputs[-1]["data"]) == {"image/png"}
    cells[1]["outputs"] = outputs
    page = tool.to_markdown({"cells": cells})
    code = f"```python\n{source}\n```"
    printed, shown = ("```{.text .output}\n" + text + "\n```" for text in ("a", "2"))
    assert page.startswith("\n\n".join(("# T", code, printed, shown, "![")))
    (silent,) = tool.run_notebook({"cells": [{"cell_type": "code", "source": "1 + 1;"}]})
    assert silent == []


def test_tutorials_are_pages_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for path in NOTEBOOKS:
        assert f"tutorials/{path.stem}.md" in navigation
        page = tool.to_markdown(tool.read_notebook(path))
        text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
        assert text.startswith("# ")
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, "one title"
    style = (ROOT / "docs" / "_css" / "site.css").read_text()
    assert ".output pre > code {\n  white-space: pre-wrap;" in style, "long lines are wrapped"
