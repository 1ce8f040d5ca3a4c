import json
import os
import signal
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from hotview import MultiViewEncoder
from hotview.datasets import load_handwritten, unalign
from paper.cells import Cell
from paper.estimators import constructor_parameters
from paper.models import SETTINGS
from paper.runner import counted_warnings, run_cell

FEW = (("max_epochs", 2),)
CELL = Cell("handwritten", "unsupervised", "HOT (11)", "paper", overrides=FEW)
SEMI = Cell("handwritten", "semi-supervised", "LSCCA", "robust", overrides=FEW)
ALWAYS = ["trial", "seed", "split", "dataset", "versions", "device"]


@pytest.fixture(scope="module")
def records():
    return run_cell(CELL, [0, 1])


def test_a_record_says_all(records):
    for trial, record in enumerate(records):
        assert (record["trial"], record["seed"], record["split"]) == (trial, trial, trial)
        assert record["dataset"]["label"] == "Handwritten"
        assert record["dataset"]["labeled"] == 60
        assert record["parameters"]["max_epochs"] == 2
        assert record["parameters"]["random_state"] == trial
        assert record["seconds"] > 0
        assert np.shape(record["W"]) == np.shape(record["C"]) == (6, 3)
        assert np.sum(record["W"]) == pytest.approx(1, abs=1e-4)
        assert len(record["view_labels"]) == 6
        assert [x for row in record["W"] for x in row] == [
            round(x, 6) for row in record["W"] for x in row
        ]
        json.dumps(record, allow_nan=False)


def test_a_record_sums_the_history_up(records):
    history = records[0]["history"]
    assert history["epochs"] == 2
    assert set(history["first"]) == set(history["last"])
    assert {"loss", "transport", "orthogonality"} <= set(history["last"])
    assert history["first"]["loss"] != history["last"]["loss"]
    assert list(history["effective_ranks"]) == ["pix", "fou", "fac", "zer", "kar", "mor"]


def test_a_trial_is_what_a_user_would_run(records):
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=1)
    rows = {name: np.vstack([X, data.unaligned[name]]) for name, X in data.linked.items()}
    how = {"coupling": "hot-reference", **SETTINGS, "max_epochs": 2, "random_state": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = MultiViewEncoder(
            **constructor_parameters(how), view_regularizer="none", device="cpu"
        ).fit(rows)
    np.testing.assert_allclose(records[1]["W"], encoder.plan_.W, atol=2e-5)
    assert records[1]["history"]["last"]["loss"] == pytest.approx(
        encoder.history_[-1]["loss"], rel=1e-4
    )


def test_trials_differ_and_repeat(records):
    assert records[0]["W"] != records[1]["W"]
    again = run_cell(CELL, [1])[0]
    assert again["scores"] == pytest.approx(records[1]["scores"], abs=0.01)


def test_scores_of_both_tasks(records):
    assert list(records[0]["scores"]) == [
        "test",
        "validation",
        "standardized",
        "unpenalized",
        "labels_20",
        "all_labels",
    ]
    (record,) = run_cell(SEMI, [0])
    assert list(record["scores"]) == ["test", "validation", "linear"]
    assert all(0.1 < score <= 1 for score in record["scores"].values())
    assert np.shape(record["W"]) == (6, 6)


def test_without_a_coupling_there_is_no_plan():
    cell = Cell("handwritten", "unsupervised", "no coupling", "robust", overrides=FEW)
    (record,) = run_cell(cell, [0])
    assert "W" not in record
    assert record["scores"]["all_labels"] > 0.9  # principal components, untrained


def test_a_control_trains_nothing_and_knows_no_task():
    cell = Cell("handwritten", "unsupervised", "logistic regression", "-", without="pix")
    (record,) = run_cell(cell, [2], device="cuda")  # controls never ask for a GPU
    assert record["device"].endswith("cores")
    assert list(record["scores"]) == ["test", "validation"]
    assert "parameters" not in record
    assert "pix" in record["dataset"]["views"]  # what the data have, not what was used


def test_a_fixed_split_is_told():
    fixed = replace(CELL, split=0, method="no coupling")
    first, second = run_cell(fixed, [0, 1])
    assert (second["seed"], second["split"]) == (1, 0)
    assert first["scores"] != second["scores"]  # encoders begin at random


def test_threads_are_as_before(records):
    before = torch.get_num_threads()
    run_cell(replace(CELL, method="no coupling"), [0])
    assert torch.get_num_threads() == before


def test_warnings_are_counted_by_their_first_words():
    with counted_warnings() as counts:
        warnings.warn("The latents of 'pix' (effective rank 1.4) have collapsed", stacklevel=1)
        warnings.warn("The latents of 'fou' (effective rank 1.2) have collapsed", stacklevel=1)
        warnings.warn("2 of the 10 classes have no linked row with a label (3)", stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert counts == {
        "UserWarning: The latents of …": 2,
        "UserWarning: … of the … classes have no linked row wi": 1,
        "DeprecationWarning: old": 1,
    }


def test_records_share_the_warnings_of_their_group():
    collapsing = (*FEW, ("coupling__sinkhorn_max_iter", 1), ("coupling__reg", 1e-4))
    records = run_cell(replace(CELL, overrides=collapsing), [0, 1])
    kind = "ConvergenceWarning: The plan W has not converged"
    assert [record["warnings"][kind] for record in records] == [1.0, 1.0]


def test_half_a_training_is_no_result():
    long = replace(CELL, overrides=(("max_epochs", 100_000),))
    pressed = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    with pytest.raises(KeyboardInterrupt):
        run_cell(long, [0, 1])
    pressed.join()
