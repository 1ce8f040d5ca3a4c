"""Room for large intermediate results."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

__all__ = ["empty"]

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
