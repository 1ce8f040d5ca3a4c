import signal
import sys
import time

import pytest
from dask.distributed import Client, LocalCluster
from joblib import parallel_config

from paper import workers
from paper.cells import Cell
from paper.environment import default_jobs
from paper.records import read_record
from paper.schedule import Item
from paper.workers import count_workers, run_item, run_items

CONTROL = Cell("handwritten", "-", "logistic regression", "-")
FEW = Cell("handwritten", "unsupervised", "HOT (11)", "paper", overrides=(("max_epochs", 1),))


def test_one_training_that_diverges_does_not_cost_the_others_theirs(tmp_path, monkeypatch):
    def run(cell, trials, device, data):
        if 1 in trials:
            raise FloatingPointError("The loss is no longer finite")
        return [{"trial": trial, "scores": {"test": 0.5}} for trial in trials]

    monkeypatch.setattr(workers, "run_cell", run)
    done = run_item(Item(FEW, (0, 1, 2)), tmp_path)
    assert done.error == "trial 1: The loss is no longer finite"
    assert [read_record(tmp_path, FEW, t) is not None for t in range(3)] == [True, False, True]


ITEMS = [Item(CONTROL, (trial,)) for trial in range(4)]


@pytest.fixture
def most(monkeypatch):
    """What is trained, in place of training, with how many trained at the same time."""
    running, heard = [], {}

    def run(cell, trials, device, data):
        running.append(trials)
        time.sleep(0.02)
        heard[trials] = len(running)
        running.remove(trials)
        return [{"trial": trial, "scores": {"test": 0.5}} for trial in trials]

    monkeypatch.setattr(workers, "run_cell", run)
    return heard


@pytest.mark.slow
def test_records_come_back_from_other_machines_the_same(tmp_path):
    both = [Item(FEW, (0,)), Item(CONTROL, (0, 1))]
    assert all(done.error is None for done in run_items(both, tmp_path / "here"))
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    )
    with cluster, Client(cluster) as client, parallel_config("dask"):
        assert count_workers() == 2
        assert {d.item for d in run_items(both, tmp_path / "there")} == set(both)
        used = client.run(lambda: "paper.runner" in sys.modules)
    assert any(used.values())
    for cell, trial in ((FEW, 0), (CONTROL, 0), (CONTROL, 1)):
        here, there = (read_record(tmp_path / name, cell, trial) for name in ("here", "there"))
        assert here.pop("seconds") > 0
        assert there.pop("seconds") > 0
        assert here == there


def test_workers_are_as_many_as_joblib_is_told():
    assert count_workers() == default_jobs()
    assert count_workers(3) == 3
    with parallel_config("threading", n_jobs=5):
        assert count_workers() == 5
        assert count_workers(2) == 2
    with parallel_config("sequential"):
        assert count_workers() == 1


@pytest.mark.parametrize(("n_jobs", "jobs"), ((None, None), (None, 1), (2, None)))
def test_items_run_where_joblib_is_told_and_threads_of_a_process_take_turns(
    n_jobs, jobs, most, tmp_path
):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with parallel_config("threading", n_jobs=n_jobs):
            done = list(run_items(ITEMS, tmp_path, jobs=jobs))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(d.item.trials for d in done) == [(0,), (1,), (2,), (3,)]
    assert most == dict.fromkeys([(0,), (1,), (2,), (3,)], 1)


def test_records_that_cannot_be_written_are_told(most, tmp_path):
    out = tmp_path / "file"
    out.write_text("")
    (done,) = run_items(ITEMS[:1], out)
    assert "Error" in done.error
    assert str(out) in done.error
