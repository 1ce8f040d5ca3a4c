import json
import multiprocessing
import os
import runpy
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.distributed import HashStore

import hotview as hv
from hotview.training.distributed import agree_on_token, under_torchrun

SCRIPT = Path(__file__).parent / "shared_fits.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, script, started):
    """What a script left behind that has started a second process by itself."""
    folder = tmp_path_factory.mktemp("fits")
    began = folder / "began-in-one.checkpoint"
    script["fit_encoder"](4, checkpoint=str(began))
    with started(SCRIPT, folder) as job:
        out, err = job.communicate(timeout=300)
    assert job.returncode == 0, err
    assert out + err == ""  # nobody says hello
    return folder


def models(folder, name):
    return [hv.load(folder / f"{name}-{rank}.hotview") for rank in (0, 1)]


def weights(model):
    return torch.cat([p.detach().reshape(-1) for f in model.networks_ for p in f.parameters()])


def assert_alike(found, expected):
    """Weights to rounding, which Adam makes larger, and so the history."""
    torch.testing.assert_close(weights(found), weights(expected), rtol=1e-3, atol=2e-4)
    pairs = zip(found.histories_, expected.histories_, strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(
            [row["loss"] for row in one], [row["loss"] for row in other], rtol=1e-4
        )


def test_a_script_fits_in_two_processes_what_it_fits_in_one(folder, script):
    expected = script["fit_classifier"]()
    for found in models(folder, "classifier"):
        assert_alike(found, expected)
        linked = script["PEOPLE"].linked
        np.testing.assert_allclose(
            found.predict_proba(linked), expected.predict_proba(linked), atol=1e-3
        )


@pytest.mark.parametrize("name", ("classifier", "watched", "resumed", "free"))
def test_all_processes_end_with_the_same(folder, name):
    first, second = models(folder, name)
    torch.testing.assert_close(weights(first), weights(second), rtol=0, atol=0)
    assert list(first.history_) == list(second.history_)  # seconds and all


def test_the_first_process_scores_and_calls_back_for_all(folder, script):
    seen = []
    expected = script["fit_watched"](seen)
    assert seen == [1, 2, 3]
    for rank, found in enumerate(models(folder, "watched")):
        assert_alike(found, expected)
        assert len(found.history_) == 3
        scores = [[row["validation_score"] for row in one.history_] for one in (found, expected)]
        assert scores[0] == scores[1]
        told = json.loads((folder / f"told-{rank}.json").read_text())
        assert told["seen"] == ([1, 2, 3] if rank == 0 else [])


def test_what_began_in_two_processes_goes_on_in_one(folder, script):
    checkpoint = str(folder / "began-in-two.checkpoint")
    found = script["fit_encoder"](8, checkpoint=checkpoint, resume=True)
    assert len(found.history_) == 8
    assert_alike(found, script["fit_encoder"](8))


def test_what_began_in_one_process_goes_on_in_two(folder, script):
    expected = script["fit_encoder"](8)
    for found in models(folder, "resumed"):
        assert_alike(found, expected)


def test_processes_are_started_once(folder):
    for rank in (0, 1):
        told = json.loads((folder / f"told-{rank}.json").read_text())
        assert "Expected devices=2, as in the first fit" in told["refused"]


def test_a_generator_moves_on_in_all_processes_alike(folder):
    told = [json.loads((folder / f"told-{rank}.json").read_text()) for rank in (0, 1)]
    expected = np.random.default_rng(0)
    expected.integers(2**63)  # the one draw of a fit
    assert [one["generator"] for one in told] == [expected.integers(1000)] * 2
    assert told[0]["loss"] == told[1]["loss"]


def test_this_process_was_not_started_by_torchrun():
    assert not under_torchrun()


def test_without_fabric_the_error_says_what_to_install(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(ImportError, match=r'pip install "hotview\[distributed\]"'):
        script["fit_encoder"](1, devices=2)


def test_a_prompt_cannot_be_run_again(script, monkeypatch):
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)  # xdist's has none
    with pytest.raises(RuntimeError, match="Expected a script"):
        script["fit_encoder"](1, devices=2)
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "<stdin>", raising=False)
    with pytest.raises(RuntimeError, match="Expected a script"):
        script["fit_encoder"](1, devices=2)


def test_a_worker_of_a_search_is_not_the_script(script, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-1")
    with pytest.raises(RuntimeError, match=r"this is LokyProcess-1, a worker of it\. Use n_jobs=1"):
        script["fit_encoder"](1, devices=2)


LONG = """
import hotview as hv
from hotview.datasets import make_views

if __name__ == "__main__":
    views = make_views(60, n_views=2, random_state=0).views
    model = hv.MultiViewEncoder(
        hidden=(8,), max_epochs=10**6, checkpoint="fit.checkpoint", checkpoint_every=1,
        devices=2, device="cpu", random_state=0, verbose=False,
    )
    model.fit(views)
"""


@pytest.mark.slow
def test_a_script_says_which_process_was_killed(tmp_path, started):
    """However soon after the start, when Fabric, too, looks whether all are there."""
    (tmp_path / "long.py").write_text(LONG)
    with started("long.py", cwd=tmp_path) as job:
        while not (tmp_path / "fit.checkpoint").exists():
            assert job.poll() is None
            time.sleep(0.1)
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        _, err = job.communicate(timeout=120)
    assert job.returncode == 1
    assert "ProcessLostError: Expected all processes" in err
    assert "rank 1 of 2 is gone. The checkpoint fit.checkpoint holds epoch" in err


def test_what_processes_drew_for_themselves_is_refused_in_all_of_them(folder, script):
    for rank in (0, 1):
        told = json.loads((folder / f"told-{rank}.json").read_text())
        for name in script["LOOSE"]:
            assert f"rows of view {name!r}" in told["data"]
        assert "rank 1 has other parameter max_epochs than rank 0" in told["length"]


def meet(store, size):
    with ThreadPoolExecutor(size) as threads:
        found = [threads.submit(agree_on_token, store, rank, size, 30.0) for rank in range(size)]
        return [one.result() for one in found]


@pytest.mark.parametrize("size", (1, 2, 5))
def test_all_agree_and_never_on_what_was_before(size):
    store = HashStore()
    names = [meet(store, size) for _ in range(4)]  # the store is not swept between
    assert all(len(set(once)) == 1 for once in names)
    assert len({once[0] for once in names}) == 4


def test_whoever_was_left_behind_by_others_does_not_count():
    store = HashStore()
    with pytest.raises(TimeoutError, match="some did not"):
        agree_on_token(store, 1, 2, 0.1)  # the first never came
    with pytest.raises(TimeoutError, match="some did not"):
        agree_on_token(store, 0, 2, 0.1)  # and finds what it has left behind
    assert len(set(meet(store, 2))) == 1
