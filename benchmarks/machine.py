"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

import hotview


def machine(*packages: str, device: str = "cpu") -> dict[str, object]:
    """The processor, its threads, and the versions of packages that took part."""
    on_gpu = device == "cuda"
    return {
        "processor": torch.cuda.get_device_name() if on_gpu else _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "hotview": hotview.__version__,  # which may run from its source, without an install
        **{name: _version(name) for name in ("torch", "numpy", *packages)},
    }


def _processor() -> str:
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # carried along as files
        return None
