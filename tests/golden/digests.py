"""Digests of results: equal bits give equal digests."""

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from scipy import sparse
from torch import nn

__all__ = ["digest", "values"]


def digest(result):
    """The first 12 hexadecimal digits of the SHA-256 of a result.

    A result is a number, a text, None, an array, a tensor, a sparse matrix, a module (its state),
    or a list, tuple or dict of these.
    """
    found = hashlib.sha256()
    _add(found, result)
    return found.hexdigest()[:12]


def _add(found, result):
    if isinstance(result, nn.Module):
        result = result.state_dict()
    if isinstance(result, torch.Tensor):
        result = result.detach().cpu().numpy()
    if sparse.issparse(result):
        result = sparse.csr_array(result)
        result = [result.shape, result.indptr, result.indices, result.data]
    if isinstance(result, Mapping):
        result = [x for item in result.items() for x in item]
    if isinstance(result, list | tuple):
        found.update(b"[%d" % len(result))
        for part in result:
            _add(found, part)
    elif isinstance(result, np.ndarray) and result.dtype != object:
        found.update(f"{result.dtype.kind}{result.dtype.itemsize}{result.shape}".encode())
        found.update(np.ascontiguousarray(result).tobytes())
    elif isinstance(result, np.ndarray):
        _add(found, result.tolist())
    elif isinstance(result, str | bool | int | float | np.number | np.bool_ | None):
        found.update(repr(result.item() if isinstance(result, np.generic) else result).encode())
    else:
        raise TypeError(f"Expected numbers, texts or arrays, but got {type(result).__name__}.")


def values(probabilities, n_digits=4):
    """Probabilities as nested lists of rounded numbers, which other machines compare with."""
    return np.round(np.asarray(probabilities, dtype=np.float64), n_digits).tolist()
