"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version

import torch


def machine(*packages: str) -> dict[str, object]:
    """The processor, its threads, and the versions of packages that took part."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        **{name: version(name) for name in ("hotview", "torch", "numpy", *packages)},
    }
