"""Modules that pytest leaves alone, and what every test begins with."""

from importlib.util import find_spec

import pytest
import torch

collect_ignore = [] if find_spec("triton") else ["src/hotview/ot/kernels.py"]


@pytest.fixture(autouse=True)
def seeded_modules():
    """Modules that a test makes have the same weights whenever and wherever it runs."""
    torch.manual_seed(0)
