import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paper import __main__ as main
from paper import command
from paper.__main__ import app
from paper.catalog import EXPERIMENTS, Experiment
from paper.cells import DATASETS, Cell
from paper.command import comparison_table
from paper.records import read_record, record_path
from paper.rows import Row
from paper.runs import read_runs
from paper.schedule import Item
from paper.statistics import Difference, Score
from paper.workers import run_items

ROOT = Path(__file__).parents[2]


def test_the_page_is_written_and_an_existing_one_replaced_only_with_force(monkeypatch, tmp_path):
    pages = []
    monkeypatch.setattr(main, "write_page", lambda results, page: pages.append((results, page)))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report"])
    assert result.output.strip() == "Page written to docs/reproduction.md"
    (tmp_path / "page.md").touch()
    error = CliRunner().invoke(app, ["report", "--out", "page.md"]).exception
    assert isinstance(error, FileExistsError)
    assert "--force" in str(error)
    assert CliRunner().invoke(app, ["report", "--out", "page.md", "--force"]).exit_code == 0
    results = Path("results/paper")
    assert pages == [(results, Path("docs/reproduction.md")), (results, Path("page.md"))]


@pytest.mark.slow
def test_the_module_is_a_command(tmp_path):
    given = ("run", "synthetic", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path))
    command = [sys.executable, "-m", "paper", *given]
    failed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert failed.returncode == 1
    assert "nowhere does not exist" in failed.stderr
    assert "Traceback" not in failed.stderr


FEW = (("max_epochs", 1),)
ENDING = [
    Cell("handwritten", "semi-supervised", "HOT (10) + AE", "robust", overrides=FEW),
    Cell("handwritten", "unsupervised", "HOT (11)", "paper", overrides=FEW),
]
CELLS = [
    Cell("handwritten", "semi-supervised", "no coupling", "paper", overrides=FEW),
    Cell("handwritten", "semi-supervised", "HOT (11)", "robust", overrides=FEW),
    Cell("handwritten", "semi-supervised", "logistic regression", "-"),
]


def make(dataset):
    yield from (cell for cell in CELLS if cell.dataset == dataset)


def run_table(out, *arguments, trials=2):
    """The command, with a table of three small cells."""
    small = Experiment("table2", "A small table", ("handwritten", "msrc"), make)
    given = ["run", "table2", "--out", str(out), "--trials", str(trials), "--jobs", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "EXPERIMENTS", {**EXPERIMENTS, "table2": small})
        return CliRunner().invoke(app, [*given, "--device", "cpu", *arguments])


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """What a run printed, and its folder; not to be changed."""
    out = tmp_path_factory.mktemp("first")
    result = run_table(out)
    assert result.exit_code == 0, result.output
    return result.output, out


@pytest.fixture
def finished(first, tmp_path):
    """A copy of the folder."""
    return Path(shutil.copytree(first[1], tmp_path / "finished"))


def contents(folder):
    return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("trial-*.json")}


def summary_of(folder):
    return json.loads((folder / "paper" / "table2.json").read_text())


def test_records_summary_note_and_table(first):
    printed, out = first
    for part in (
        "6 trainings to run, 0 finished before",
        "6/6 trainings",
        "Skipped: msrc. It is not in the package. Pass --data PATH",
        "A small table, Handwritten",
        "HOT (11), max_epochs=1",
        "over 2 trials",
    ):
        assert part in printed
    assert all(record_path(out, cell, t).exists() for cell in CELLS for t in (0, 1))
    assert summary_of(out)["trainings"] == 4
    assert [Cell.from_json(entry["cell"]) for entry in summary_of(out)["cells"]] == CELLS
    (note,) = read_runs(out)
    assert (note["trainings"], note["controls"], note["failed"], note["jobs"]) == (4, 2, 0, 1)
    assert note["seconds"] > 0


def test_what_is_finished_is_not_run_again_unless_asked(finished):
    before = contents(finished)
    assert "0 trainings to run, 4 finished" in run_table(finished, "--settings", "paper").output
    gone = record_path(finished, CELLS[1], 1)
    gone.unlink()
    assert "1 trainings to run, 5 finished before" in run_table(finished).output
    after = contents(finished)
    assert {path for path in before if before[path] != after[path]} == {gone}
    old, new = (json.loads(files[gone][0]) for files in (before, after))
    assert old["scores"] == pytest.approx(new["scores"], abs=0.01)
    assert "0 trainings to run, 6 finished before" in run_table(finished).output
    assert contents(finished) == after
    again = run_table(finished, "--again", "--settings", "paper")
    assert "4 trainings to run, 4 finished before" in again.output
    assert sum(contents(finished)[path][1] > after[path][1] for path in after) == 4


def test_what_is_in_the_way_is_told_and_left_byte_for_byte(finished):
    half, foreign = record_path(finished, CELLS[0], 0), record_path(finished, CELLS[2], 1)
    half.write_text('{"format": "hotview-rec')
    foreign.write_text('{"format": "another-1"}')
    before = contents(finished)
    for arguments in ((), ("--again",)):
        result = run_table(finished, *arguments)
        assert result.exit_code == 1
        assert "2 problems; the rest is done" in result.output
        for path in (half, foreign):
            assert str(path) in result.output
            assert contents(finished)[path] == before[path]
    assert [entry.get("missing", 0) for entry in summary_of(finished)["cells"]] == [1, 0, 1]


def test_what_fails_is_told_and_the_rest_goes_on(monkeypatch, tmp_path):
    wrong = Cell("handwritten", "semi-supervised", "HOT (11)", "paper", without="nose")
    monkeypatch.setattr(sys.modules[__name__], "CELLS", [wrong, CELLS[2]])
    result = run_table(tmp_path)
    assert result.exit_code == 1
    assert f"{wrong.id} failed: ValueError: handwritten has no view 'nose'" in result.output
    assert [record_path(tmp_path, cell, 1).exists() for cell in CELLS] == [False, True]
    assert read_runs(tmp_path)[0]["failed"] == 1


def test_results_whose_records_are_gone_are_not_replaced_by_fewer(finished):
    path = finished / "paper" / "table2.json"
    before = path.read_bytes()
    shutil.rmtree(finished / "records")
    for arguments, trials in (((), 1), (("--settings", "paper"), 2)):
        error = run_table(finished, *arguments, trials=trials).exception
        assert isinstance(error, ValueError)
        assert "they would be lost. Choose another --out" in str(error)
        assert path.read_bytes() == before


def test_wrong_usage_is_told_and_the_help_names_all_there_is():
    for arguments, message in (
        (("table9",), "Expected experiment to be one of table2, averaged, table3"),
        (("--dataset", "mnist"), "Expected --dataset to be one of handwritten"),
        (("figure3", "--dataset", "msrc"), "figure3 is run on handwritten, not on msrc"),
        (("--trials", "0"), "0 is not in the range"),
    ):
        result = CliRunner().invoke(app, ["run", *arguments])
        assert result.exit_code == 2
        assert message in " ".join(result.output.replace("│", " ").split())
    text = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    for name in (*EXPERIMENTS, "all", *DATASETS, "Examples: python -m paper run table2"):
        assert name in text


def test_data_that_are_asked_for_and_a_folder_for_results_have_to_be_there(tmp_path):
    given = ("--out", str(tmp_path / "out"))
    for arguments, message in (
        (("--dataset", "msrc"), "msrc cannot be loaded"),
        (("--data", str(tmp_path / "nowhere")), "nowhere does not exist"),
        (("table2", "--dataset", "caltech7", "--data", str(tmp_path)), "Caltech101-7"),
    ):
        error = CliRunner().invoke(app, ["run", *arguments, *given]).exception
        assert isinstance(error, FileNotFoundError)
        assert message in str(error)
    assert not (tmp_path / "out").exists()
    for name in ("records", "paper"):
        out = tmp_path / f"no {name}"
        out.mkdir()
        (out / name).write_text("")
        error = CliRunner().invoke(app, ["run", "synthetic", "--out", str(out)]).exception
        assert isinstance(error, NotADirectoryError)
        assert name in str(error)


def test_the_table_shows_paper_ours_and_difference():
    ours = {"paper": Score(89.96, 1.0, 20), "robust": Score(93.0, 1.0, 19)}
    gains = {"paper": Difference(-0.5, -0.8, -0.2, 20), "robust": Difference(1.0, -0.1, 2.1, 19)}
    table = comparison_table([Row("HOT (11)", False, (90.05, 2.62), ours, gains)], "A title")
    _, paper, *found = [next(iter(column.cells)) for column in table.columns]
    assert [paper, found[0]] == ["90.0 ± 2.6", "90.0 ± 1.0"]
    assert found[1] == "[bold]-0.5 (-0.8, -0.2)[/bold]"  # which excludes 0
    assert found[2:] == ["93.0 ± 1.0 (19 trials)", "+1.0 (-0.1, +2.1)"]


# Two cells that end and two that do not; the first are first, though they are shorter.
ENDLESS = """
from hotview.cli.runner import run_command
from paper import command, schedule
from paper.__main__ import app
from paper.catalog import Experiment
from paper.cells import Cell

def make(dataset):
    yield Cell(dataset, "semi-supervised", "HOT (10) + AE", "robust", None, (("max_epochs", 1),))
    for n in (1, 10**6, 10**6 + 1):
        yield Cell(dataset, "unsupervised", "HOT (11)", "paper", None, (("max_epochs", n),))

command.EXPERIMENTS = {"table2": Experiment("table2", "", ("handwritten",), make)}
schedule.make_items = lambda missing, device: [schedule.Item(c, t) for c, t in missing.items()]
run_command(app)
"""


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_ends_all_processes(tmp_path):
    out = tmp_path / "interrupted"
    given = ["run", "table2", "--out", str(out), "--trials", "2", "--jobs", "2", "--device", "cpu"]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    # Ctrl-C ends the process, even where the run of these tests ignores it.
    how["preexec_fn"] = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, *given], **how, text=True)
    try:
        wait_until(lambda: len(contents(out)) == 4)
        time.sleep(0.5)  # the endless trainings have started
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=120)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert "Traceback" not in errors
    assert process.returncode == 130
    assert "Stopped. 4 trainings of this run are kept" in printed
    assert "give the same command again" in printed
    assert len(contents(out)) == 4
    assert read_runs(out)[0]["interrupted"] is True
    wait_until(lambda: not group_lives(process.pid))
    items = [Item(cell, (0, 1)) for cell in ENDING]
    assert not any(done.error for done in run_items(items, tmp_path / "alone", jobs=1))
    for cell, trial in itertools.product(ENDING, (0, 1)):
        # Records do not depend on the number of processes.
        alone, beside = (read_record(tmp_path / x, cell, trial) for x in ("alone", out))
        assert min(alone.pop("seconds"), beside.pop("seconds")) > 0
        assert alone == beside


def wait_until(condition):
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def group_lives(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
