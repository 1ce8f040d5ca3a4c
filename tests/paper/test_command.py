import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from joblib import parallel_config
from rich.console import Console
from typer.testing import CliRunner

from paper import command
from paper.__main__ import app
from paper.catalog import EXPERIMENTS, Experiment
from paper.cells import DATASETS, Cell
from paper.command import Options, check_options, comparison_table
from paper.records import read_record, record_path
from paper.rows import Row
from paper.runs import read_runs
from paper.schedule import Item
from paper.statistics import Difference, Score
from paper.workers import run_items

FEW = (("max_epochs", 1),)
CELLS = [
    Cell("handwritten", "semi-supervised", "no coupling", "paper", overrides=FEW),
    Cell("handwritten", "semi-supervised", "HOT (11)", "robust", overrides=FEW),
    Cell("handwritten", "semi-supervised", "logistic regression", "-"),
]


def make(dataset):
    yield from (cell for cell in CELLS if cell.dataset == dataset)


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The command, with a table of three small cells."""
    small = Experiment("table2", "A small table", ("handwritten", "msrc"), make)
    monkeypatch.setattr(command, "EXPERIMENTS", {**EXPERIMENTS, "table2": small})

    def run_table(*arguments, trials=2):
        given = ["table2", "--out", str(tmp_path), "--trials", str(trials), "--jobs", "1"]
        given += ["--device", "cpu"]
        return CliRunner().invoke(app, ["run", *given, *arguments])

    return run_table


def contents(folder):
    return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("trial-*.json")}


def test_records_summary_note_and_table(run, tmp_path):
    result = run()
    assert result.exit_code == 0, result.output
    assert "6 trainings to run, 0 finished before" in result.output
    assert "6/6 trainings" in result.output
    assert "Skipped: msrc. It is not in the package. Pass --data PATH" in result.output
    for part in ("A small table, Handwritten", "HOT (11), max_epochs=1", "over 2 trials"):
        assert part in result.output
    assert all(record_path(tmp_path, cell, t).exists() for cell in CELLS for t in (0, 1))
    summary = json.loads((tmp_path / "paper" / "table2.json").read_text())
    assert summary["trainings"] == 4
    assert [Cell.from_json(entry["cell"]) for entry in summary["cells"]] == CELLS
    (note,) = read_runs(tmp_path)
    assert (note["trainings"], note["controls"], note["failed"], note["jobs"]) == (4, 2, 0, 1)
    assert note["seconds"] > 0


def test_what_is_finished_is_not_run_again_unless_asked(run, tmp_path):
    run()
    before = contents(tmp_path)
    gone = record_path(tmp_path, CELLS[1], 1)
    gone.unlink()
    result = run()
    assert "1 trainings to run, 5 finished before" in result.output
    after = contents(tmp_path)
    assert {p: c for p, c in after.items() if p != gone} == {
        p: c for p, c in before.items() if p != gone
    }
    old, new = (json.loads(files[gone][0]) for files in (before, after))
    assert old["scores"] == pytest.approx(new["scores"], abs=0.01)
    assert "0 trainings to run, 6 finished before" in run().output
    assert contents(tmp_path) == after
    assert "6 trainings to run, 6 finished before" in run("--again").output
    assert all(contents(tmp_path)[path][1] > after[path][1] for path in after)


def test_more_trials_add_to_those_there_are(run):
    run(trials=1)
    result = run(trials=2)
    assert "3 trainings to run, 3 finished before" in result.output


def test_what_is_in_the_way_is_told_and_left_byte_for_byte(run, tmp_path):
    half, foreign = record_path(tmp_path, CELLS[0], 0), record_path(tmp_path, CELLS[2], 1)
    for path, text in ((half, '{"format": "hotview-rec'), (foreign, '{"format": "another-1"}')):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    before = contents(tmp_path)
    for arguments in ((), ("--again",)):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "2 problems; the rest is done" in result.output
        for path in (half, foreign):
            assert str(path) in result.output
            assert contents(tmp_path)[path] == before[path]
    assert len(contents(tmp_path)) == 6
    summary = json.loads((tmp_path / "paper" / "table2.json").read_text())
    assert [entry.get("missing", 0) for entry in summary["cells"]] == [1, 0, 1]


def test_what_fails_is_told_and_the_rest_goes_on(run, monkeypatch, tmp_path):
    wrong = Cell("handwritten", "semi-supervised", "HOT (11)", "paper", without="nose")
    monkeypatch.setattr(sys.modules[__name__], "CELLS", [wrong, CELLS[2]])
    result = run()
    assert result.exit_code == 1
    assert f"{wrong.id} failed: ValueError: handwritten has no view 'nose'" in result.output
    assert record_path(tmp_path, CELLS[1], 1).exists()
    assert read_runs(tmp_path)[0]["failed"] == 1


def test_experiments_without_cells_write_nothing(run, monkeypatch, tmp_path):
    other = Experiment("figure2", "", ("msrc",), make)
    small = {"table2": command.EXPERIMENTS["table2"], "figure2": other}
    monkeypatch.setattr(command, "EXPERIMENTS", small)
    given = ["--out", str(tmp_path), "--trials", "1", "--jobs", "1", "--device", "cpu"]
    assert CliRunner().invoke(app, ["run", "all", *given]).exit_code == 0
    assert {path.name for path in (tmp_path / "paper").iterdir()} == {"table2.json", "runs.jsonl"}


def test_results_whose_records_are_gone_are_not_replaced_by_fewer(run, tmp_path):
    assert run(trials=2).exit_code == 0
    path = tmp_path / "paper" / "table2.json"
    before = path.read_bytes()
    shutil.rmtree(tmp_path / "records")
    for arguments, trials in (((), 1), (("--settings", "paper"), 2)):
        error = run(*arguments, trials=trials).exception
        assert isinstance(error, ValueError)
        assert "they would be lost. Choose another --out" in str(error)
        assert path.read_bytes() == before
    assert run(trials=2).exit_code == 0  # which makes all of them again


def test_settings_choose_cells(run):
    assert "4 trainings to run" in run("--settings", "robust").output
    assert "2 trainings to run, 4 finished" in run().output


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (("table9",), "Expected experiment to be one of table2, averaged, table3"),
        (("--dataset", "mnist"), "Expected --dataset to be one of handwritten"),
        (("--settings", "mine"), "Expected --settings to be one of paper, robust"),
        (("figure3", "--dataset", "msrc"), "figure3 is run on handwritten, not on msrc"),
        (("--trials", "0"), "0 is not in the range"),
        (("--jobs", "0"), "0 is not in the range"),
    ),
)
def test_wrong_usage_is_told(arguments, message):
    result = CliRunner().invoke(app, ["run", *arguments])
    assert result.exit_code == 2
    unframed = " ".join(result.output.replace("│", " ").split())
    assert message in unframed


def test_data_that_are_asked_for_have_to_be_there(tmp_path):
    out = ("--out", str(tmp_path / "out"))
    for arguments, message in (
        (("--dataset", "msrc"), "msrc cannot be loaded"),
        (("--data", str(tmp_path / "nowhere")), "nowhere does not exist"),
        (("table2", "--dataset", "caltech7", "--data", str(tmp_path)), "Caltech101-7"),
    ):
        result = CliRunner().invoke(app, ["run", *arguments, *out])
        assert isinstance(result.exception, FileNotFoundError)
        assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder_for_results(tmp_path):
    (tmp_path / "results").touch()
    given = ["run", "synthetic", "--out", str(tmp_path / "results")]
    assert isinstance(CliRunner().invoke(app, given).exception, NotADirectoryError)


@pytest.mark.parametrize("name", ("records", "paper"))
def test_a_file_in_the_folder_of_results_is_told_before_any_training(tmp_path, name):
    (tmp_path / name).write_text("")
    given = ["run", "synthetic", "--out", str(tmp_path)]
    error = CliRunner().invoke(app, given).exception
    assert isinstance(error, NotADirectoryError)
    assert name in str(error)


def test_several_experiments_are_run_together():
    options = Options(("table3", "table2", "table3"))
    check_options(options)
    assert [experiment.name for experiment in options.experiments] == ["table3", "table2"]


def test_the_help_names_all_there_is():
    text = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    for name in (*EXPERIMENTS, "all", *DATASETS, "Examples: python -m paper run table2"):
        assert name in text


def test_all_is_everything():
    options = Options()
    check_options(options)
    assert [experiment.name for experiment in options.experiments] == list(EXPERIMENTS)
    assert options.possible_datasets == list(DATASETS)


def test_the_table_shows_paper_ours_and_difference():
    rows = [
        Row(
            "HOT (11)",
            False,
            (90.05, 2.62),
            {"paper": Score(89.96, 1.0, 20), "robust": Score(93.0, 1.0, 19)},
            {"paper": Difference(-0.5, -0.8, -0.2, 20), "robust": Difference(1.0, -0.1, 2.1, 19)},
        ),
        Row("logistic regression", True, None, {"-": Score(88.8, 3.0, 20)}),
    ]
    console = Console(width=160, record=True)
    console.print(comparison_table(rows, "A title"))
    text = console.export_text()
    for part in (
        "A title",
        "90.0 ± 2.6",
        "90.0 ± 1.0",
        "-0.5 (-0.8, -0.2)",
        "93.0 ± 1.0 (19 trials)",
        "+1.0 (-0.1, +2.1)",
        "88.8 ± 3.0",
        "over 20 trials",
    ):
        assert part in text
    table = comparison_table(rows, "A title")
    assert list(table.columns[3].cells) == ["[bold]-0.5 (-0.8, -0.2)[/bold]", ""]
    assert list(table.columns[5].cells) == ["+1.0 (-0.1, +2.1)", ""]


def test_where_no_number_of_processes_is_given_joblib_is_asked(run, tmp_path, capsys):
    options = Options(("table2",), trials=1, device="cpu", out=tmp_path)
    with parallel_config("threading", n_jobs=2):
        assert command.run_experiments(options) == 0
    assert "3 trainings to run, 0 finished before; 2 processes" in capsys.readouterr().out
    assert read_runs(tmp_path)[0]["jobs"] == 2
    assert len(contents(tmp_path)) == 3


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
ENDING = [
    Cell("handwritten", "semi-supervised", "HOT (10) + AE", "robust", overrides=FEW),
    Cell("handwritten", "unsupervised", "HOT (11)", "paper", overrides=FEW),
]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run in two processes that was stopped by Ctrl-C: its folder, its output, the process."""
    out = tmp_path_factory.mktemp("interrupted")
    given = ["run", "table2", "--out", str(out), "--trials", "2", "--jobs", "2"]
    command = [sys.executable, "-c", ENDLESS, *given, "--device", "cpu"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, start_new_session=True)
    try:
        wait_until(lambda: len(contents(out)) == 4)
        time.sleep(0.5)  # the endless trainings have started
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert "Traceback" not in errors
    return out, printed, process


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(interrupted):
    out, printed, process = interrupted
    assert process.returncode == 130
    assert "Stopped. 4 trainings of this run are kept" in printed
    assert "give the same command again" in printed
    assert len(contents(out)) == 4
    assert read_runs(out)[0]["interrupted"] is True


def test_ctrl_c_ends_all_processes(interrupted):
    wait_until(lambda: not group_lives(interrupted[2].pid))


@pytest.mark.parametrize("cell", ENDING, ids=lambda cell: cell.id)
def test_records_do_not_depend_on_the_number_of_processes(interrupted, tmp_path, cell):
    (done,) = run_items([Item(cell, (0, 1))], tmp_path, jobs=1)
    assert done.error is None
    for trial in (0, 1):
        alone, beside = (read_record(out, cell, trial) for out in (tmp_path, interrupted[0]))
        assert alone.pop("seconds") > 0
        assert beside.pop("seconds") > 0
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
