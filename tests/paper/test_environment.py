import os
import platform
import threading
import time

import pytest
import torch

import hotview
from paper import environment
from paper.environment import (
    default_jobs,
    device_name,
    gpu_lock,
    one_thread,
    pick_device,
    versions,
)


def test_versions_are_those_that_are_running():
    found = versions()
    assert found["hotview"] == hotview.__version__
    assert found["python"] == platform.python_version()
    assert torch.__version__.startswith(found["torch"])  # which may add the version of CUDA
    found["torch"] = "changed"
    assert torch.__version__.startswith(versions()["torch"])


def test_a_device_that_is_not_there_is_refused():
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") in ("cpu", "cuda")
    with pytest.raises(ValueError, match="Expected device to be 'auto' or"):
        pick_device("abacus")


def test_the_processor_has_a_name():
    name, _, cores = device_name("cpu").rpartition(", ")
    assert name
    assert int(cores.removesuffix(" cores")) >= 1


def test_one_thread_inside_and_as_many_as_before_after():
    torch.set_num_threads(before := 2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == before
        with pytest.raises(RuntimeError), one_thread():
            raise RuntimeError
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(1)


def test_a_job_for_every_core():
    assert 1 <= default_jobs() <= os.cpu_count()


def test_few_train_on_a_gpu_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.tempfile, "gettempdir", lambda: str(tmp_path))
    inside, most, lock = 0, 0, threading.Lock()

    def work():
        nonlocal inside, most
        with gpu_lock("cuda:0"):
            with lock:
                inside += 1
                most = max(most, inside)
            time.sleep(0.05)
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert inside == 0
    assert most == 1


def test_nobody_waits_for_a_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.tempfile, "gettempdir", lambda: str(tmp_path))
    with gpu_lock("cpu"), gpu_lock("cpu"):
        assert list(tmp_path.iterdir()) == []


def test_a_turn_ends_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.tempfile, "gettempdir", lambda: str(tmp_path))
    for _ in range(2):
        with pytest.raises(RuntimeError), gpu_lock("cuda"):
            raise RuntimeError
