import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paper import __main__ as main
from paper.__main__ import app

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pages(monkeypatch, tmp_path):
    """Arguments of the calls of `write_page`, which writes nothing."""
    calls = []
    monkeypatch.setattr(main, "write_page", lambda results, page: calls.append((results, page)))
    monkeypatch.chdir(tmp_path)
    return calls


def test_the_page_is_written_to_docs_from_the_results(pages):
    result = CliRunner().invoke(app, ["report"])
    assert result.output.strip() == "Page written to docs/reproduction.md"
    assert pages == [(Path("results/paper"), Path("docs/reproduction.md"))]


def test_the_page_takes_other_results_and_another_path(pages):
    CliRunner().invoke(app, ["report", "elsewhere/paper", "--out", "page.md"])
    assert pages == [(Path("elsewhere/paper"), Path("page.md"))]


def test_an_existing_page_is_replaced_only_with_force(pages, tmp_path):
    (tmp_path / "page.md").touch()
    error = CliRunner().invoke(app, ["report", "--out", "page.md"]).exception
    assert isinstance(error, FileExistsError)
    assert "--force" in str(error)
    assert pages == []
    assert CliRunner().invoke(app, ["report", "--out", "page.md", "--force"]).exit_code == 0
    assert pages == [(Path("results/paper"), Path("page.md"))]


def test_the_module_is_a_command(tmp_path):
    def paper(*arguments):
        command = [sys.executable, "-m", "paper", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)

    shown = paper("--help")
    assert shown.returncode == 0
    assert "run" in shown.stdout
    assert "report" in shown.stdout
    failed = paper("run", "synthetic", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path))
    assert failed.returncode == 1
    assert "nowhere does not exist" in failed.stderr
    assert "Traceback" not in failed.stderr
