"""Whether our own kernels can be used: on an NVIDIA GPU, where Triton is installed, in float32."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

__all__ = ["is_recorded", "kernels_for"]


def kernels_for(x: Tensor) -> ModuleType | None:
    """The module of kernels, where `x` is what they are made for; else None, and torch does it.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot.accelerated import kernels_for
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


def is_recorded(x: Tensor) -> bool:
    """Whether a CUDA graph is recorded, in which nothing may wait for a result.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot.accelerated import is_recorded
    >>> is_recorded(torch.zeros(3))
    False
    """
    return x.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
