"""Modules that pytest leaves alone, and what every test begins with."""

from importlib.util import find_spec

import pytest
import torch
from hypothesis import settings

collect_ignore = []
if not find_spec("triton"):
    collect_ignore += [f"src/hotview/{part}/kernels.py" for part in ("ot", "semisupervised")]
settings.register_profile("untimed", deadline=None)  # a machine may be busy
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def seeded_modules():
    """Modules that a test makes have the same weights whenever and wherever it runs."""
    torch.manual_seed(0)
