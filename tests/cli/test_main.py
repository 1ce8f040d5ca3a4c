import glob
import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import hotview
from hotview.cli.main import app

COMMANDS = tuple(get_command(app).commands)


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
    for command in COMMANDS:
        assert command in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert re.search(rf"Examples?:\s+hotview (demo|{command})", result.output)


def test_examples_of_all_commands_work_on_the_embedded_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = {"fit": ["--max-epochs", "1", "--n-estimators", "2"], "report": ["--no-umap"]}
    quick["report"].append("--no-baselines")
    done = set()
    for command in ("fit", "predict", "transform", "evaluate", "report", "inspect", "export"):
        epilog = get_command(app).commands[command].epilog
        for example in re.findall(r"\[bold\]hotview (.*?)\[/bold\]", epilog):
            name, *arguments = [
                word
                for pattern in shlex.split(example)
                for word in (sorted(glob.glob(pattern)) if "*" in pattern else [pattern])
            ]
            result = CliRunner().invoke(app, [name, *arguments, *quick.get(name, ())])
            if "needs a newer torch" in str(result.exception):  # to export
                done.add(name)
                continue
            assert result.exit_code == 0, (example, result.output, result.exception)
            done.add(name)
    assert done == {"demo", *COMMANDS} - {"federated"}  # which has its own tests


def test_demo_prints_and_draws(tmp_path):
    result = hotview_command(
        "demo", "--figure", "plan.png", "--model", "digits.hotview", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    parts = ("pix", "mor", "1,140", "accuracy", "label propagation", 'coupling="none"')
    for part in (*parts, "Similarity of views", "The paper's plan W", "digits.hotview", "plan.png"):
        assert part in result.stdout
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits.hotview", "plan.png"]
    assert hotview.load(tmp_path / "digits.hotview").view_names_[0] == "pix"


def test_errors_are_one_line_without_a_traceback(tmp_path):
    result = hotview_command("demo", "--figure", "nowhere/plan.png", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("hotview: the folder nowhere does not exist")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""  # before the work, not after it
    result = hotview_command("demo", "--model", "model.pkl", cwd=tmp_path)
    assert result.returncode == 1
    assert "must end in .hotview" in result.stderr


def test_wrong_usage_is_exit_code_2(tmp_path):
    assert hotview_command("demo", "--random-state", "x", cwd=tmp_path).returncode == 2
    assert hotview_command("demo", "--random-state", "-1", cwd=tmp_path).returncode == 2
    assert hotview_command("fly", cwd=tmp_path).returncode == 2
