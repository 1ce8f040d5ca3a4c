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
from hotview._launch import agree_on_token, under_torchrun

SCRIPT = Path(__file__).parent / "shared_fits.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, script, started):
    """What a script left behind that has started a second process by itself."""
    folder = tmp_path_factory.mktemp("fits")
    began = folder / "began-in-one.checkpoint"
    script["fit_encoder"](2, checkpoint=str(began))
    with started(SCRIPT, folder) as job:
        out, err = job.communicate(timeout=300)
    assert job.returncode == 0, err
    assert out + err == ""  # nobody says hello
    return folder


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


def models(folder, name):
    return [hv.load(folder / f"{name}-{rank}.hotview", device="cpu") for rank in (0, 1)]


def told_by(folder):
    return [json.loads((folder / f"told-{rank}.json").read_text()) for rank in (0, 1)]


def test_the_first_process_scores_and_calls_back_for_all(folder, script):
    seen = []
    expected = script["fit_watched"](seen)
    assert seen == [1, 2, 3]
    assert [told["seen"] for told in told_by(folder)] == [[1, 2, 3], []]
    for found in models(folder, "watched"):
        assert_alike(found, expected)
        assert len(found.history_) == 3
        scores = [[row["validation_score"] for row in one.history_] for one in (found, expected)]
        assert scores[0] == scores[1]


def test_what_began_in_two_processes_goes_on_in_one_and_the_other_way_round(folder, script):
    checkpoint, expected = str(folder / "began-in-two.checkpoint"), script["fit_encoder"](4)
    found = script["fit_encoder"](4, checkpoint=checkpoint, resume=True)
    assert len(found.history_) == 4
    for model in (found, *models(folder, "resumed")):
        assert_alike(model, expected)


def test_what_cannot_start_other_processes_says_why(script, monkeypatch):
    def refused(kind, message):
        with pytest.raises(kind, match=message):
            script["fit_encoder"](1, devices=2)

    assert not under_torchrun()
    main = sys.modules["__main__"]  # a prompt cannot be run again
    monkeypatch.delattr(main, "__file__", raising=False)  # xdist's has none
    refused(RuntimeError, "Expected a script")
    monkeypatch.setattr(main, "__file__", "<stdin>", raising=False)
    refused(RuntimeError, "Expected a script")
    monkeypatch.setattr(multiprocessing.current_process(), "name", "LokyProcess-1")
    refused(RuntimeError, r"this is LokyProcess-1, a worker of it\. Use n_jobs=1")
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    refused(ImportError, r'pip install "hotview\[distributed\]"')


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
    told, expected = told_by(folder), np.random.default_rng(0)
    for one in told:
        for name in script["LOOSE"]:
            assert f"rows of view {name!r}" in one["data"]
        assert "rank 1 has other parameter max_epochs than rank 0" in one["length"]
        assert "Expected devices=2, as in the first fit" in one["refused"]
    expected.integers(2**63)  # the one draw of a fit moves on a generator in all processes
    assert [one["generator"] for one in told] == [expected.integers(1000)] * 2
    assert told[0]["loss"] == told[1]["loss"]


def meet(store, size):
    with ThreadPoolExecutor(size) as threads:
        found = [threads.submit(agree_on_token, store, rank, size, 30.0) for rank in range(size)]
        return {one.result() for one in found}


@pytest.mark.parametrize("size", (1, 2, 5))
def test_all_agree_and_never_on_what_was_before(size):
    store = HashStore()
    for rank in (1, 0) if size == 2 else ():  # the first never came, and finds what is left behind
        with pytest.raises(TimeoutError, match="some did not"):
            agree_on_token(store, rank, 2, 0.1)
    names = [meet(store, size) for _ in range(4)]  # the store is not swept between
    assert [len(once) for once in names] == [1] * 4
    assert len(set.union(*names)) == 4


@pytest.mark.slow
def test_of_a_parquet_file_two_processes_unpack_a_half_each(tmp_path, started, script):
    script["write_parquet"](tmp_path)
    with started(SCRIPT, tmp_path, "parquet") as job:
        _, err = job.communicate(timeout=300)
    assert job.returncode == 0, err
    first, second = (json.loads((tmp_path / f"asked-{rank}.json").read_text()) for rank in (0, 1))
    for name, X in script["STORED"].items():
        n = len(X) // script["GROUP"]
        # Three rows are absent, so that the middle of those that are there is in the next group;
        # and by the first rows they see that they have the same.
        assert sorted(first[name]) == list(range(n // 2 + 1))
        assert sorted({*second[name]} - {0}) == list(range(n // 2, n))
    first, second = models(tmp_path, "model")
    torch.testing.assert_close(weights(first), weights(second), rtol=0, atol=0)
    expected, asked = script["fit_parquet"](tmp_path)
    torch.testing.assert_close(weights(first), weights(expected), rtol=1e-3, atol=2e-4)
    np.testing.assert_allclose(first.plan_.W, expected.plan_.W, atol=1e-4)
    np.testing.assert_allclose(first.plan_.null.C, expected.plan_.null.C, rtol=1e-4)
    for name, X in script["STORED"].items():
        assert sorted(asked[name]) == list(range(len(X) // script["GROUP"]))
