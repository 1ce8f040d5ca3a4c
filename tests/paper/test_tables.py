import json
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from paper.catalog import Experiment
from paper.cells import Cell
from paper.markdown import percent, table
from paper.plans import closest, correlations, most_alike, row_entropy, similarity, stands_alone
from paper.records import record_path, write_record
from paper.rows import table_rows
from paper.statistics import paired_difference
from paper.summary import summarize, summary_path, write_summary

HOT = Cell("handwritten", "semi-supervised", "HOT (11)", "paper")
CONTROLS = [
    Cell("handwritten", task, "logistic regression", "-")
    for task in ("semi-supervised", "unsupervised")
]
OTHER = Cell("msrc", "semi-supervised", "HOT (11)", "paper")
TASK = "semi-supervised"
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
    summary = write_summary(EXPERIMENT, out, 3, ())
    text = summary_path(out, "table2").read_text()
    assert json.loads(text) == summary
    write_summary(EXPERIMENT, out, 3, ())
    assert summary_path(out, "table2").read_text() == text
    semi, un = (entry_of(summary, cell) for cell in CONTROLS)  # run once for both tasks
    assert semi["scores"] == un["scores"]
    assert (summary["trainings"], summary["seconds_of_training"]) == (3, 6.0)
    entry = entry_of(summary, HOT)
    assert entry["scores"] == {"test": [0.8, 0.81, 0.82], "validation": [0.5] * 3}
    assert entry["seconds"] == 2.0
    assert "missing" not in entry
    assert entry["warnings"] == {"UserWarning: careful": 1.0}


KEEPING = Experiment("figure2", "", ("handwritten",), make, keeps_plans=True)


def test_plans_are_averaged_and_kept_where_wanted(out):
    entry = entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)
    np.testing.assert_allclose(entry["W"], [[0.0, 0.1], [0.9, 0.0]])
    std = np.std([0, 0.1, 0.2])
    np.testing.assert_allclose(entry["W_std"], [[0.0, std], [std, 0.0]], atol=1e-6)
    np.testing.assert_allclose(entry["C"], [[0.0, 0.1], [0.1, 0.0]])
    assert "Ws" not in entry
    entry = entry_of(summarize(KEEPING, out, 3, ()), HOT)
    assert entry["Ws"] == [[[0.0, x], [1 - x, 0.0]] for x in (0.0, 0.1, 0.2)]
    plans = [[[0.5, 0.0], [0.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]]
    for trial, W in enumerate(plans):  # to references, which have no order: not averaged
        write(out, HOT, trial, 0.8, W=W, C=W)
    record_path(out, HOT, 2).unlink()
    entry = entry_of(summarize(KEEPING, out, 2, ()), HOT)
    assert "W" not in entry
    assert entry["Ws"] == plans


def test_what_is_missing_keeps_its_place_and_what_numbers_depend_on_is_told(out):
    record_path(out, HOT, 1).unlink()
    write(out, HOT, 3, 0.9, **plan(0.3), versions={"torch": "2.1"}, device="b")
    summary = summarize(EXPERIMENT, out, 5, {OTHER})
    entry = entry_of(summary, HOT)
    assert entry["scores"]["test"] == [0.8, None, 0.82, 0.9, None]
    assert entry["missing"] == 2
    assert entry_of(summary, OTHER)["scores"] == {"test": [None] * 5}
    assert summary["datasets"] == {"handwritten": ABOUT, "msrc": {"label": "msrc"}}
    assert summary["versions"] == {"torch": "2.0, 2.1"}
    assert summary["devices"] == ["a computer", "b"]
    cells = summarize(EXPERIMENT, out, 5, ())["cells"]  # those without records if wanted only
    assert OTHER.to_json() not in [entry["cell"] for entry in cells]


def test_parameters_that_changed_are_told_and_different_data_never_mixed(out):
    def write_all(*regs, **more):
        for trial, reg in enumerate(regs):
            given = {"random_state": trial, "reg": reg}
            write(out, HOT, trial, 0.8, **plan(0.1), parameters=given, **more)

    write_all(0.1, 0.1, 0.1)
    assert "mixed_parameters" not in entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)
    write_all(0.1, 0.1, 0.2)
    assert entry_of(summarize(EXPERIMENT, out, 3, ()), HOT)["mixed_parameters"] is True
    for regs, name in (((0.1, 0.1), "one"), ((0.1,), "another")):
        write_all(*regs, dataset={**ABOUT, "fingerprint": name})
    with pytest.raises(ValueError, match="all records of handwritten to be of the same data"):
        summarize(EXPERIMENT, out, 3, ())


def test_reading_results_needs_no_torch():
    modules = ("catalog", "cells", "published", "rows", "runs", "statistics", "summary", "report")
    imports = "; ".join(f"import paper.{name}" for name in modules)
    code = f"{imports}; import sys; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def entry(test, method, settings, dataset="handwritten", **more):
    cell = Cell(dataset, TASK, method, settings, **more)
    return {"cell": cell.to_json(), "scores": {"test": test}}


def test_only_synthetic_views_share_no_rows_between_trials():
    widths = {}
    for dataset in ("handwritten", "synthetic"):
        cells = [entry([0.9, 0.94], "HOT (11)", "paper", dataset)]
        cells.append(entry([0.85, 0.87], "no coupling", "paper", dataset))
        row, _ = table_rows({"cells": cells}, dataset, TASK)
        widths[dataset] = row.differences["paper"].high - row.differences["paper"].low
    wider = ((1 / 2 + 1 / 3) * 2) ** 0.5
    assert widths["handwritten"] == pytest.approx(wider * widths["synthetic"])


def test_the_interval_is_that_of_a_paired_test_widened_as_nadeau_and_bengio_say():
    rng = np.random.default_rng(0)
    ours, control = rng.normal(0.9, 0.02, 20), rng.normal(0.88, 0.02, 20)
    low, high = stats.ttest_rel(ours, control).confidence_interval(0.95)
    found = paired_difference(ours.tolist(), control.tolist(), test_to_train=0.0)
    assert (found.mean, found.low, found.high) == pytest.approx(((low + high) / 2, low, high))
    found = paired_difference(ours.tolist(), control.tolist())  # the paper's protocol
    wider = math.sqrt((1 / 20 + 1 / 3) / (1 / 20))
    assert found.high - found.mean == pytest.approx(wider * (high - low) / 2)


def test_pairs_are_of_the_same_trial():
    # Unpaired, the mean of what is there would say otherwise.
    difference = paired_difference([0.9, None, 0.7, 0.8], [0.8, 0.1, 0.6, None])
    assert difference.n == 2
    assert difference.mean == pytest.approx(0.1)
    with pytest.raises(ValueError, match="longer"):
        paired_difference([0.9], [0.8, 0.7])
    alone = paired_difference([0.9], [0.8])  # says nothing for certain
    assert (alone.low, alone.high, alone.n) == (-math.inf, math.inf, 1)


# Views 0 and 1 go to the first reference, 2 and 3 to the second, 4 and 5 to the third.
PAIRS = np.kron(np.eye(3), np.ones((2, 1))) / 6
EVEN = np.full((6, 3), 1 / 18)
ROUNDED = EVEN + 5e-5 * np.random.default_rng(0).uniform(-1, 1, EVEN.shape)  # as of files


def test_planted_pairs_are_closest_and_ties_give_no_closest_view():
    S = similarity(PAIRS, pairwise=False)
    assert [closest(S, s) for s in range(6)] == [1, 0, 3, 2, 5, 4]
    assert not most_alike(S, {0, 1})  # two other pairs are as much alike
    for even in (EVEN, ROUNDED):
        S = similarity(even, pairwise=False)
        assert closest(S, 0) is None
        assert not most_alike(S, {0, 1, 2})
        assert not any(stands_alone(S, s) for s in range(6))


def test_entropy_runs_from_0_to_1():
    assert row_entropy(PAIRS, pairwise=False) == 0
    assert row_entropy(EVEN, pairwise=False) == pytest.approx(1)
    assert row_entropy((1 - np.eye(6)) / 30, pairwise=True) == pytest.approx(1)
    assert row_entropy(np.full((6, 1), 1 / 6), pairwise=False) == 0  # K = 1 leaves no choice


def test_correlations_are_those_of_numpy_and_zero_with_a_uniform_plan():
    plans = np.random.default_rng(0).random((3, 6, 6)) * (1 - np.eye(6))
    upper = np.triu_indices(6, k=1)
    flat = [(W + W.T)[upper] for W in plans]
    found = correlations(list(plans), pairwise=True)
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(found[off], np.corrcoef(flat)[off])
    found = correlations([PAIRS, EVEN, ROUNDED, ROUNDED], pairwise=False)
    assert np.nansum(np.abs(found)) == 0


def test_similarity_of_references_is_the_gram_matrix_and_permutation_invariant():
    W = np.random.default_rng(0).random((6, 3))
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(similarity(W, pairwise=False)[off], (36 * W @ W.T)[off])
    shuffled = similarity(W[:, [2, 0, 1]], pairwise=False)
    np.testing.assert_allclose(shuffled[off], similarity(W, pairwise=False)[off])
    assert np.isnan(np.diag(shuffled)).all()


def test_a_table_escapes_bars():
    assert percent(math.nan) == "–"
    laid = table(["a", "b", "c"], [["x|y", "z", "1"]], words=2)
    assert laid.splitlines() == ["| a | b | c |", "|---|---|--:|", r"| x\|y | z | 1 |"]
    with pytest.raises(ValueError, match=r"must have 2 cells, got \['x'\]"):
        table(["a", "b"], [["x"]])
