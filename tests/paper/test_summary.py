import json
import subprocess
import sys

import numpy as np
import pytest

from paper.catalog import Experiment
from paper.cells import Cell
from paper.records import record_path, write_record
from paper.summary import read_cell, summarize, summary_path, write_summary

HOT = Cell("handwritten", "semi-supervised", "HOT (11)", "paper")
CONTROLS = [
    Cell("handwritten", task, "logistic regression", "-")
    for task in ("semi-supervised", "unsupervised")
]
OTHER = Cell("msrc", "semi-supervised", "HOT (11)", "paper")
ABOUT = {"label": "Handwritten", "rows": 2000, "views": {"pix": 240}, "classes": 10}


def make(dataset):
    yield from (cell for cell in (HOT, *CONTROLS, OTHER) if cell.dataset == dataset)


EXPERIMENT = Experiment("table2", "A title", ("handwritten", "msrc"), make)


def write(out, cell, trial, test, **more):
    record = {
        "trial": trial,
        "dataset": ABOUT,
        "versions": {"torch": "2.0"},
        "device": "a computer",
        "seconds": 2.0,
        "scores": {"test": test, "validation": 0.5},
        "warnings": {},
    }
    write_record(out, cell, {**record, **more})


def plan(value):
    return {"W": [[0.0, value], [1 - value, 0.0]], "C": [[0.0, value], [value, 0.0]]}


@pytest.fixture
def out(tmp_path):
    for trial in range(3):
        remark = {"warnings": {"UserWarning: careful": 1 / 3}}
        write(tmp_path, HOT, trial, (0.8, 0.81, 0.82)[trial], **plan(trial / 10), **remark)
        write(tmp_path, CONTROLS[0], trial, 0.7)
    return tmp_path


def entry_of(summary, cell):
    return next(e for e in summary["cells"] if e["cell"] == cell.to_json())


def test_scores_stand_in_the_order_of_trials(out):
    entry = entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)
    assert entry["scores"] == {"test": [0.8, 0.81, 0.82], "validation": [0.5] * 3}
    assert entry["seconds"] == 2.0
    assert "missing" not in entry
    assert entry["warnings"] == {"UserWarning: careful": 1.0}


def test_plans_are_averaged_and_kept_where_wanted(out):
    entry = entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)
    np.testing.assert_allclose(entry["W"], [[0.0, 0.1], [0.9, 0.0]])
    std = np.std([0, 0.1, 0.2])
    np.testing.assert_allclose(entry["W_std"], [[0.0, std], [std, 0.0]], atol=1e-6)
    np.testing.assert_allclose(entry["C"], [[0.0, 0.1], [0.1, 0.0]])
    assert "Ws" not in entry
    keeping = Experiment("figure2", "", ("handwritten",), make, keeps_plans=True)
    entry = entry_of(summarize(keeping, out, 3, ()), HOT)
    assert entry["Ws"] == [[[0.0, x], [1 - x, 0.0]] for x in (0.0, 0.1, 0.2)]


def test_what_is_missing_is_stated_and_keeps_its_place(out):
    record_path(out, HOT, 1).unlink()
    entry = entry_of(summarize(EXPERIMENT, out, 4, ()), HOT)
    assert entry["scores"]["test"] == [0.8, None, 0.82, None]
    assert entry["missing"] == 2


def test_cells_without_records_are_there_if_wanted(out):
    assert OTHER.to_json() not in [e["cell"] for e in summarize(EXPERIMENT, out, 3, ())["cells"]]
    summary = summarize(EXPERIMENT, out, 3, {OTHER})
    assert entry_of(summary, OTHER)["scores"] == {"test": [None] * 3}
    assert entry_of(summary, OTHER)["missing"] == 3
    assert summary["datasets"]["msrc"] == {"label": "msrc"}


def test_records_of_earlier_and_larger_runs_stay(out):
    summary = summarize(EXPERIMENT, out, 1, {HOT})
    assert summary["trials"] == 3
    assert len(entry_of(summary, HOT)["scores"]["test"]) == 3


def test_a_control_stands_in_both_tasks_and_counts_once(out):
    summary = summarize(EXPERIMENT, out, 3, ())
    semi, un = (entry_of(summary, cell) for cell in CONTROLS)
    assert semi["scores"] == un["scores"]
    assert summary["trainings"] == 3  # controls train nothing
    assert summary["seconds_of_training"] == 6.0


def test_what_numbers_depend_on_is_kept(out):
    write(out, HOT, 3, 0.9, **plan(0.3), versions={"torch": "2.1"}, device="b")
    summary = summarize(EXPERIMENT, out, 4, ())
    assert summary["datasets"] == {"handwritten": ABOUT}
    assert summary["versions"] == {"torch": "2.0, 2.1"}
    assert summary["devices"] == ["a computer", "b"]


def test_parameters_that_changed_between_trials_are_told(out):
    assert "mixed_parameters" not in entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)
    for trial in (0, 1):
        write(out, HOT, trial, 0.8, **plan(0.1), parameters={"random_state": trial, "reg": 0.1})
    write(out, HOT, 2, 0.8, **plan(0.1), parameters={"random_state": 2, "reg": 0.1})
    assert "mixed_parameters" not in entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)
    write(out, HOT, 2, 0.8, **plan(0.1), parameters={"random_state": 2, "reg": 0.2})
    assert entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)["mixed_parameters"] is True


def test_foreign_files_are_passed_over(out):
    record_path(out, HOT, 1).write_text("{")
    (record_path(out, HOT, 1).parent / "trial-notes.json").write_text("{}")
    assert list(read_cell(out, HOT)) == [0, 2]


def test_the_file_is_the_same_every_time(out):
    summary = write_summary(EXPERIMENT, out, 3, ())
    path = summary_path(out, "table2")
    text = path.read_text()
    assert json.loads(text) == summary
    write_summary(EXPERIMENT, out, 3, ())
    assert path.read_text() == text


def test_reading_results_needs_no_torch():
    modules = ("catalog", "cells", "published", "rows", "runs", "statistics", "summary")
    imports = "; ".join(f"import paper.{name}" for name in modules)
    code = f"{imports}; import sys; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_plans_to_references_are_not_averaged_for_these_have_no_order(tmp_path):
    for trial, W in enumerate(([[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]])):
        write(tmp_path, HOT, trial, 0.8, W=W, C=W)
    kept = Experiment("figure5", "A title", ("handwritten",), make, keeps_plans=True)
    entry = entry_of(summarize(kept, tmp_path, 2, ()), HOT)
    assert "W" not in entry
    assert entry["Ws"] == [[[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]]


def test_records_of_other_data_are_missing(tmp_path):
    for trial, name in enumerate(("a", "b", "a")):
        write(tmp_path, HOT, trial, 0.8, dataset={**ABOUT, "fingerprint": name})
    summary = summarize(EXPERIMENT, tmp_path, 3, (), lambda cell, trial: "a")
    assert entry_of(summary, HOT)["scores"]["test"] == [0.8, None, 0.8]


def test_records_of_different_data_are_never_mixed(tmp_path):
    for trial, name in enumerate("ab"):
        write(tmp_path, HOT, trial, 0.8, dataset={**ABOUT, "fingerprint": name})
    with pytest.raises(ValueError, match="all records of handwritten to be of the same data"):
        summarize(EXPERIMENT, tmp_path, 2, ())


def test_synthetic_data_differ_between_trials(tmp_path):
    for trial, name in enumerate("ab"):
        about = {**ABOUT, "fingerprint": name, "groups": [0, 0]}
        write(tmp_path, HOT, trial, 0.8, dataset=about)
    assert summarize(EXPERIMENT, tmp_path, 2, ())["trainings"] == 2
