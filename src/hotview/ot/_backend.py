"""Dispatch to our CUDA kernels, and dtype and memory by device."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

__all__ = ["EXACT_DTYPE", "constant", "empty", "kernels_for"]

#: the most exact floating-point type by type of device: float64, except on Apple's GPUs
EXACT_DTYPE = defaultdict(lambda: torch.float64, mps=torch.float32)

_LARGE = 2**20  # elements; smaller tensors reuse allocated memory
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64}


def kernels_for(x: Tensor) -> ModuleType | None:
    """Return the module of CUDA kernels if it supports `x` (float32 on an NVIDIA GPU), else None.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot._backend import kernels_for
    >>> kernels_for(torch.zeros(3)) is None  # on the CPU
    True
    """
    return _import_kernels() if x.device.type == "cuda" and x.dtype == torch.float32 else None


@cache
def _import_kernels() -> ModuleType | None:
    # torch also calls AMD's GPUs "cuda"; the kernels are not tested there.
    if torch.version.cuda is None or find_spec("triton") is None:
        return None
    return import_module("hotview.ot.kernels")


def constant(values: object, device: torch.device, dtype: torch.dtype = torch.float64) -> Tensor:
    """``torch.tensor``, which does not wait for what a GPU is doing.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot._backend import constant
    >>> constant((1.0, 2.0), torch.device("cpu"))
    tensor([1., 2.], dtype=torch.float64)
    """
    if device.type != "cuda":
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.tensor(values, dtype=dtype, pin_memory=True).to(device, non_blocking=True)


def empty(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``torch.empty``, with large CPU tensors on huge pages where the system has them.

    numpy requests huge pages and torch does not. Without them, the first access to each 4 kB page
    is a system call, which took a quarter of the time for a million points.
    """
    if device.type != "cpu" or dtype not in _NUMPY or math.prod(shape) < _LARGE:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, dtype=_NUMPY[dtype]))
