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
CASES = ("linked", "reference", "pairwise, manifold", "uncoupled", "few rows")
CASES += ("soft_labels, decoded", "labels, sums")


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
def test_two_processes_take_the_steps_of_one_and_have_the_same_bits(processes, script, name):
    assert list(script["CASES"]) == list(CASES)
    whole = script["take_steps"](SingleTrainer(script["CASES"][name](), 0.003))
    for what, rtol, atol in (("terms", 1e-9, 1e-12), ("weights", 0, 1e-9)):
        first, second = (found[f"{name}.{what}"] for found in processes)
        np.testing.assert_allclose(first, whole[what], rtol=rtol, atol=atol)
        np.testing.assert_array_equal(first, second)


def test_processes_see_in_parts_of_tables_what_one_sees_in_the_whole(processes, told, script):
    statistics, present = script["scan"]()
    for found, said in zip(processes, told, strict=True):
        np.testing.assert_allclose(found["scan"], statistics, rtol=1e-12)
        assert said["present"] == [None, present[1].tolist()]


def test_errors_interrupts_and_results_are_the_same_on_all_ranks(told, script):
    assert "infinity in 1 entry, the first in row 8, column 1" in script["refuse"]()
    expected = {
        "refused": script["refuse"](),
        "steps": [7, 1, True],  # all stop after the step in which one heard Ctrl-C
        "error": "no such file",
        "first": {"größe": float("inf"), "rank": 0},
        "collected": [[], [0, 1]],
        "shared": {
            "a": ["torch.bool", [False, True, False]],
            "b": ["torch.float32", 2.5],
            "c": ["torch.float32", []],
            "d": ["torch.int64", [7]],
        },
    }
    for said in told:
        assert {name: said[name] for name in expected} == expected


def test_batch_norm_is_refused():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with pytest.raises(ValueError, match=r"a BatchNorm1d, .* Use torch\.nn\.LayerNorm"):
        check_no_batch_norm(network)
    check_no_batch_norm(torch.nn.Sequential(torch.nn.LayerNorm(2)))
