import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hotview.training.ddp import check_no_batch_norm
from hotview.training.trainer import SingleTrainer

SCRIPT = Path(__file__).parent / "shared_steps.py"
CASES = (
    "linked",
    "reference",
    "pairwise",
    "manifold",
    "uncoupled",
    "few rows",
    "soft_labels",
    "soft_labels, decoded",
    "labels",
    "sums",
)


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What two processes found, each with a half of the rows of every batch."""
    folder = tmp_path_factory.mktemp("ranks")
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([*start, str(SCRIPT), str(folder)], env=environment) as job:
        try:
            assert job.wait(timeout=300) == 0
        finally:
            job.terminate()  # which stops the processes, too
    return [dict(np.load(folder / f"rank-{rank}.npz")) for rank in (0, 1)]


@pytest.fixture(scope="module")
def told(processes):
    return [json.loads(str(found["told"])) for found in processes]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_take_the_steps_of_one(processes, script, name):
    whole = script["take_steps"](SingleTrainer(script["CASES"][name](), 0.003))
    assert whole["terms"].shape[0] == 50
    for found in processes:
        np.testing.assert_allclose(found[f"{name}.terms"], whole["terms"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[f"{name}.weights"], whole["weights"], atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_all_processes_have_the_same_bits(processes, name):
    for what in ("terms", "weights"):
        first, second = (found[f"{name}.{what}"] for found in processes)
        np.testing.assert_array_equal(first, second)


def test_processes_see_in_parts_of_tables_what_one_sees_in_the_whole(processes, told, script):
    statistics, present = script["scan"]()
    for found, said in zip(processes, told, strict=True):
        np.testing.assert_allclose(found["scan"], statistics, rtol=1e-12)
        assert said["present"] == [None, present[1].tolist()]


def test_all_ranks_raise_the_error_of_one(told, script):
    assert "infinity in 1 entry, the first in row 8, column 1" in script["refuse"]()
    assert [said["refused"] for said in told] == [script["refuse"]()] * 2


def test_all_stop_after_the_step_in_which_one_heard_ctrl_c(told):
    assert [said["steps"] for said in told] == [[7, 1, True]] * 2


def test_an_error_of_rank_0_is_raised_on_all_ranks(told):
    assert [said["error"] for said in told] == ["no such file"] * 2


def test_results_of_rank_0_are_broadcast(told):
    assert [said["rank"] for said in told] == [0, 1]
    assert [said["first"] for said in told] == [{"größe": float("inf"), "rank": 0}] * 2
    expected = {
        "a": ["torch.bool", [False, True, False]],
        "b": ["torch.float32", 2.5],
        "c": ["torch.float32", []],
        "d": ["torch.int64", [7]],
    }
    assert [said["shared"] for said in told] == [expected] * 2


def test_arrays_of_any_length_are_gathered(told):
    assert [said["collected"] for said in told] == [[[], [0, 1]]] * 2


def test_batch_norm_is_refused():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with pytest.raises(ValueError, match=r"a BatchNorm1d, .* Use torch\.nn\.LayerNorm"):
        check_no_batch_norm(network)
    check_no_batch_norm(torch.nn.Sequential(torch.nn.LayerNorm(2)))
