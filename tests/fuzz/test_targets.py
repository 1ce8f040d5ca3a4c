import logging

import pytest
import torch

from fuzz.campaign import run_campaign
from fuzz.targets import TARGETS

SLOW = {"server-messages", "client-messages", "federated-files", "killed-fits"}  # seconds each


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow) if x in SLOW else x for x in TARGETS]
)
def test_the_first_cases_of_every_target_find_nothing(name, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # workers are forked
    try:
        results = run_campaign({name: TARGETS[name]}, seed=0, keep=tmp_path / "keep", cases=2)
    finally:
        torch.set_num_threads(threads)
    assert results[name].problems == []
    assert results[name].cases == 2
