import platform

import pytest
import torch

import hotview
from hotview.experiments.environment import device_name, one_thread, pick_device, versions


def test_versions_are_those_that_are_running():
    found = versions()
    assert found["hotview"] == hotview.__version__
    assert found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    found["torch"] = "changed"
    assert versions()["torch"] == torch.__version__


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
