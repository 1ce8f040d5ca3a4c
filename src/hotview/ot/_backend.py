"""Whether our own kernels can be used: on an NVIDIA GPU, where Triton is installed, in float32."""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

__all__ = ["empty", "is_capturing", "kernels_for"]


def kernels_for(x: Tensor) -> ModuleType | None:
    """The module of kernels, where `x` is what they are made for; else None, and torch does it.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot._backend import kernels_for
    >>> kernels_for(torch.zeros(3)) is None  # on the CPU
    True
    """
    return _kernels() if x.device.type == "cuda" and x.dtype == torch.float32 else None


@cache
def _kernels() -> ModuleType | None:
    # AMD's GPUs are called "cuda" by torch, too; nobody has tried ours there.
    if torch.version.cuda is None or find_spec("triton") is None:
        return None
    return import_module("hotview.ot.kernels")


def is_capturing(x: Tensor) -> bool:
    """Whether a CUDA graph is recorded, in which nothing may wait for a result.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot._backend import is_capturing
    >>> is_capturing(torch.zeros(3))
    False
    """
    return x.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


_LARGE = 2**20  # elements; smaller results come from memory that is in use already
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64}


def empty(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """``torch.empty``, except that large CPU tensors are on huge pages where the system has them.

    numpy asks for these and torch does not. Without, the first touch of each 4 kB page is a call
    into the system, which took a quarter of the time of a million points.
    """
    if device.type != "cpu" or dtype not in _NUMPY or math.prod(shape) < _LARGE:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, dtype=_NUMPY[dtype]))
