import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hotview
from hotview.cli.app import app


def hotview_command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-c", "from hotview.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
    )


def test_version(tmp_path):
    result = hotview_command("--version", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stdout.strip() == f"hotview {hotview.__version__}"


def test_help(tmp_path):
    result = hotview_command("--help", cwd=tmp_path)
    assert result.returncode == 0
    for command in ("demo", "reproduce", "report"):
        assert command in result.stdout


@pytest.mark.parametrize("command", ("demo", "reproduce", "report"))
def test_help_of_a_command_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert re.search(rf"Examples?: hotview {command}", result.output)


def test_demo_prints_and_draws(tmp_path):
    result = hotview_command(
        "demo", "--figure", "plan.png", "--model", "digits.hotview", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    parts = ("pix", "mor", "1140", "accuracy", "label propagation", 'coupling="none"')
    for part in (*parts, "Transport plan", "Groups of views", "digits.hotview", "plan.png"):
        assert part in result.stdout
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits.hotview", "plan.png"]
    assert hotview.load(tmp_path / "digits.hotview").view_names_[0] == "pix"


def test_errors_are_one_line_without_a_traceback(tmp_path):
    result = hotview_command("demo", "--figure", "nowhere/plan.png", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("hotview: the folder nowhere does not exist")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""  # told before the work, not after it
    result = hotview_command("demo", "--model", "model.pkl", cwd=tmp_path)
    assert result.returncode == 1
    assert "must end in .hotview" in result.stderr


def test_wrong_usage_is_exit_code_2(tmp_path):
    assert hotview_command("demo", "--random-state", "x", cwd=tmp_path).returncode == 2
    assert hotview_command("demo", "--random-state", "-1", cwd=tmp_path).returncode == 2
    assert hotview_command("fly", cwd=tmp_path).returncode == 2


def test_report_takes_results_and_says_where_the_page_is(monkeypatch):
    asked = []
    page = "hotview.report.reproduction.write_page"
    monkeypatch.setattr(page, lambda results, page: asked.append((results, page)))
    result = CliRunner().invoke(app, ["report", "--paper"])
    assert result.exit_code == 0, result.output
    assert result.output.strip() == "Page written to docs/reproduction.md"
    CliRunner().invoke(app, ["report", "--paper", "elsewhere/paper", "--out", "page.md"])
    assert asked == [
        (Path("results/paper"), Path("docs/reproduction.md")),
        (Path("elsewhere/paper"), Path("page.md")),
    ]


def test_report_has_to_be_told_which():
    result = CliRunner().invoke(app, ["report"])
    assert result.exit_code == 2
    assert "--paper" in result.output
