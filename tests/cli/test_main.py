import glob
import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from hotview import __version__ as hotview_version
from hotview.cli import app

COMMANDS = tuple(get_command(app).commands)
FEDERATED = tuple(get_command(app).commands["federated"].commands)


def test_version(tmp_path):
    command = [sys.executable, "-c", "from hotview.cli import main; main()", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert result.stdout.strip() == f"hotview {hotview_version}"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    (
        (("demo", "--figure", "nowhere/plan.png"), 1, "the folder nowhere does not exist"),
        (("demo", "--model", "model.pkl"), 1, "must end in .hotview"),
        (("report",), 2, "MODEL"),
        (("report", "m.hotview"), 2, "--out"),
        (("report", "m.hotview", "-o", "r.pdf"), 1, "must end in .html"),
        (("report", "m.hotview", "-o", "r.html"), 1, "there is no model at m.hotview"),
    ),
)
def test_errors_are_one_line_before_the_work(hotview, tmp_path, monkeypatch, words, code, message):
    monkeypatch.chdir(tmp_path)
    result = hotview(*words, code=code)
    assert result.out == ""
    assert message in result.err
    assert "Traceback" not in result.err
    assert list(tmp_path.iterdir()) == []


def test_help_of_all_commands_has_examples():
    runner = CliRunner()
    every = runner.invoke(app, ["--help"]).output
    assert all(command in every for command in COMMANDS)
    for words in [[name] for name in COMMANDS] + [["federated", name] for name in FEDERATED]:
        result = runner.invoke(app, [*words, "--help"])
        assert result.exit_code == 0
        assert re.search(rf"Examples?:\s+hotview (demo|{' '.join(words)})", result.output), words


def shrink(folder):
    """Leave a few columns and rows of the sample files."""
    for path in folder.glob("*/*.csv"):
        header, *rows = path.read_text().splitlines()
        rows = [row for row in rows if re.match(r'"(person|new|pix|mor)-00[0-5]', row)]
        few = [",".join(row.split(",")[:6]) for row in (header, *rows)]
        path.write_text("\n".join(few) + "\n")


def test_examples_of_all_commands_work_on_the_embedded_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quick = {"fit": ["--max-epochs", "1", "--n-estimators", "1", "--set", "hidden=8,"]}
    quick["report"] = ["--no-umap", "--no-baselines", "--no-importance"]
    done = set()
    for command in ("fit", "predict", "transform", "evaluate", "report", "inspect"):
        epilog = get_command(app).commands[command].epilog
        for example in re.findall(r"\[bold\]hotview (.*?)\[/bold\]", epilog):
            name, *arguments = [
                word
                for pattern in shlex.split(example)
                for word in (sorted(glob.glob(pattern)) if "*" in pattern else [pattern])
            ]
            result = CliRunner().invoke(app, [name, *arguments, *quick.get(name, ())])
            done.add(name)
            assert result.exit_code == 0, (example, result.output, result.exception)
            if name == "demo":
                shrink(tmp_path / "digits")
    assert done == {"demo", *COMMANDS} - {"federated", "export"}  # which have their own tests
