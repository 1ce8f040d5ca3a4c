"""Every example runs, here with a tiny setting."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs an example like a command, in this process, and returns what it printed."""
    n_threads = torch.get_num_threads()

    def run_example(name, *options):
        monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
        with torch.random.fork_rng():
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    yield run_example
    torch.set_num_threads(n_threads)


def test_missing_views(run):
    lines = run("missing_views.py", "--max-epochs", 1).splitlines()
    assert [line.split("accuracy")[0].strip() for line in lines[:3]] == [
        "all views",
        "pix alone",
        "fou alone",
    ]
    assert len(lines) == 1 + 6 + 6


@pytest.mark.parametrize("coupling", ("HOTPairwise", "HOTReference", "SWPairwise"))
def test_own_training_loop(run, coupling):
    printed = run("own_training_loop.py", "--steps", 3, "--coupling", coupling)
    assert "'transport'" in printed
    assert ("groups as planted" in printed) == coupling.startswith("HOT")


def test_search(run):
    printed = run("search.py", "--folds", 2, "--max-epochs", 1, "--views", "fou", "mor")
    assert printed.count("pseudo_labels") == 4
    assert "best on test rows" in printed


def test_many_machines(run):
    printed = run("many_machines.py", "--folds", 2, "--max-epochs", 1, "--views", "fou", "mor")
    assert printed.splitlines()[-1] == "the same to the last bit"


def test_single_cell(run):
    printed = run("single_cell.py", "--cells", 60, "--max-epochs", 2)
    assert "atac: mean confidence" in printed
    assert printed.count("of the types are right") == 2


def test_every_example_is_here_and_on_the_page():
    page = (EXAMPLES.parent / "docs" / "guides" / "examples.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"def test_{path.stem}(" in Path(__file__).read_text(), f"{path.name} is not run"
        assert f'--8<-- "examples/{path.name}"' in page, f"{path.name} is not shown"
