import json
import os
import runpy
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from hotview._processes import (
    ProcessLostError,
    all_gather,
    all_gather_arrays,
    all_reduce_mean,
    broadcast,
    on_rank_zero,
    shard_of_rank,
)
from hotview._threads import catch_interrupt
from hotview.preprocessing.rows import RowShard
from hotview.training.ddp import check_no_batch_norm
from hotview.training.trainer import SingleTrainer

SCRIPT = Path(__file__).parent / "shared_steps.py"
CASES = ("linked", "reference", "pairwise, manifold", "uncoupled", "few rows")
CASES += ("soft_labels, decoded", "labels, sums")


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def processes(tmp_path_factory, started):
    """What two processes found, each with a half of the rows of every batch."""
    folder = tmp_path_factory.mktemp("ranks")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with started(*torchrun, SCRIPT, folder) as job:
        _, err = job.communicate(timeout=300)
    assert job.returncode == 0, err
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


def test_a_single_process_returns_its_arguments():
    x = torch.arange(3.0)
    found = [broadcast({"x": x})["x"], all_reduce_mean(x), on_rank_zero(lambda: x)]
    found += [*all_gather(x, [3]), *all_gather_arrays(x)]
    assert [one is x for one in found] == [True] * 5
    assert ProcessLostError("gone").is_reporter


def test_batch_norm_is_refused():
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with pytest.raises(ValueError, match=r"a BatchNorm1d, .* Use torch\.nn\.LayerNorm"):
        check_no_batch_norm(network)
    check_no_batch_norm(torch.nn.Sequential(torch.nn.LayerNorm(2)))


@pytest.mark.parametrize("size", (1, 3, 8))
def test_every_row_of_every_table_has_one_owner(size):
    sizes, owners = (5, 0, 1, 12, 100), []
    for n in sizes:
        lengths = [len(range(n)[shard_of_rank(n, rank, size)]) for rank in range(size)]
        assert max(lengths) - min(lengths) <= 1
        owners += np.repeat(range(size), lengths).tolist()
    rows, owners = np.random.default_rng(0).permutation(sum(sizes)), np.array(owners)
    for rank in range(size):
        shard = RowShard.of([np.cumsum([0, *sizes])], rank, size)
        np.testing.assert_array_equal(shard.owners(0, rows), owners[rows])
        np.testing.assert_array_equal(shard.select(0, rows), rows[owners[rows] == rank])


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("pythons_own_handler")
def test_the_first_is_remembered_and_the_second_goes_to_whoever_handled_it_before():
    seen = []

    def mine(number, frame):
        seen.append(number)

    signal.signal(signal.SIGINT, mine)
    with catch_interrupt() as interrupt:
        assert not interrupt.requested
        os.kill(os.getpid(), signal.SIGINT)  # from outside
        assert interrupt.requested
        assert seen == []
        press_ctrl_c()
        assert seen == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is mine
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with catch_interrupt():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("pythons_own_handler")
def test_who_ignores_ctrl_c_keeps_ignoring_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with catch_interrupt() as interrupt:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        press_ctrl_c()
        assert not interrupt.requested
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("pythons_own_handler")
def test_outside_the_main_thread_it_does_nothing():
    found = []

    def work():
        with catch_interrupt() as interrupt:
            found.append((interrupt.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]


@pytest.mark.usefixtures("pythons_own_handler")
def test_signals_that_were_named_and_no_others_are_caught_by_the_innermost():
    with catch_interrupt(signal.SIGINT, signal.SIGTERM, agreed=True) as outer:
        with catch_interrupt(signal.SIGTERM) as inner:
            signal.raise_signal(signal.SIGTERM)
        assert inner.requested
        assert not outer.received
        press_ctrl_c()
        assert outer.received  # and counts when all processes agree
        assert not outer.requested
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    with catch_interrupt(signal.SIGTERM), pytest.raises(KeyboardInterrupt):
        press_ctrl_c()
