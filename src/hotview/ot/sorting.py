"""Sorting many rows of floats at once, which is where sliced transport spends its time.

On CUDA ``torch.sort`` is the right tool, but for short rows, which a kernel of ours sorts in one
call. On the CPU it is not: it takes some 70 ns per element, and
numpy's vectorized sort is fast on some processors and three times slower on others. Sorting
*integers* by radix is fast everywhere, so floats are sorted as integers of the same order:

- rows of ordinary length in base 65,536, last digit first, by numpy's stable 16-bit argsort;
- very long rows by torch, which has a radix sort for one row of non-negative 32-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotview.ot._backend import empty, kernels_for

__all__ = ["SortedRows", "sort_rows_"]

_SHORT = 512  # rows up to this length: a comparison sort in cache beats passes over digits
_LONG = 2**15  # rows from this length: torch has a radix sort for them, where built with FBGEMM
_BLOCK = 2**16  # elements per block: keys, digits and indices of a block stay in the L2 cache
_WORTH_A_THREAD = 2**19  # elements; starting threads for fewer costs more than it saves
# Longer rows are sorted sooner by torch on a GPU, and so are many of half the length.
_SHORT_ON_DEVICE, _MANY_ON_DEVICE = 1024, 2**19
_INTEGER = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}
_HAS_LONG_RADIX = "fbgemm" in torch.backends.quantized.supported_engines

_Rows = NDArray[Any]  # float32 or float64
_Index = NDArray[np.int64]


class SortedRows(NamedTuple):
    """Sorted values, and where each came from (None when nobody asked)."""

    values: Tensor
    origin: Tensor | None


def sort_rows_(P: Tensor, *, with_origin: bool = True) -> SortedRows:
    """Sort `P` along its last axis, in place on the CPU: ``values = P.gather(-1, origin)``.

    Very long float32 rows come in order to within one unit in the last place.
    """
    if P.device.type != "cpu":
        values, origin = _sort_on_device(P)
        return SortedRows(values, origin if with_origin else None)
    rows = P.view(-1, P.shape[-1]).numpy()
    if not with_origin:
        _each_block(lambda block: rows[block].sort(axis=-1), rows)
        return SortedRows(P, None)
    origin = empty(*P.shape, dtype=torch.int64, device=P.device)
    index = origin.view(rows.shape).numpy()
    if rows.shape[1] >= _LONG and rows.dtype == np.float32 and _HAS_LONG_RADIX:
        for row, out in zip(rows, index, strict=True):  # torch uses its threads by itself
            _sort_long_(row, out)
    else:
        _each_block(lambda block: _sort_block_(rows[block], index[block]), rows)
    return SortedRows(P, origin)


def _sort_on_device(P: Tensor) -> tuple[Tensor, Tensor]:
    n, kernels = P.shape[-1], kernels_for(P)
    is_short = n <= _SHORT_ON_DEVICE // 2 or (n <= _SHORT_ON_DEVICE and P.numel() < _MANY_ON_DEVICE)
    if kernels is not None and is_short:
        found: tuple[Tensor, Tensor] = kernels.sort_short_rows(P)
        return found
    values, origin = torch.sort(P, dim=-1)
    return values, origin


def _each_block(work: Callable[[slice], None], rows: _Rows) -> None:
    """Call `work` on blocks of rows, on as many threads as torch may use."""
    step = max(1, _BLOCK // rows.shape[1])
    blocks = [slice(i, i + step) for i in range(0, len(rows), step)]
    n_threads = min(torch.get_num_threads(), rows.size // _WORTH_A_THREAD, len(blocks))
    if n_threads <= 1:
        for block in blocks:
            work(block)
        return
    # The work is numpy's alone: it lets go of the lock and, unlike torch, starts no threads itself.
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, blocks))


def _sort_block_(rows: _Rows, index: _Index) -> None:
    """Sort `rows` in place and write where each value came from into `index`."""
    first = np.arange(len(rows))[:, None] * rows.shape[1]  # of each row, in the flat array
    if rows.shape[1] <= _SHORT:
        flat = np.argsort(rows, axis=-1)
        index[...] = flat
        flat += first
    else:
        flat = _argsort_by_digits(rows, first)
        np.subtract(flat, first, out=index)
    rows[...] = rows.ravel().take(flat)


def _argsort_by_digits(rows: _Rows, first: _Index) -> _Index:
    """Flat indices that sort each row."""
    flat: _Index | None = None
    for digit in _digits(_ordered_integers(rows)):
        known = digit if flat is None else digit.ravel().take(flat)
        step = np.argsort(known, axis=-1, kind="stable")
        step += first
        flat = step if flat is None else flat.ravel().take(step)
    assert flat is not None
    return flat


def _ordered_integers(rows: _Rows) -> NDArray[Any]:
    """Signed integers that are ordered as the floats are."""
    bits = np.ascontiguousarray(rows).view(_INTEGER[rows.dtype])
    # Negative floats grow in magnitude as their bits grow: flip all of these but the sign.
    key = bits >> (8 * bits.itemsize - 1)  # -1 where negative, else 0
    key &= np.iinfo(bits.dtype).max
    key ^= bits
    return key


def _digits(key: NDArray[Any]) -> list[NDArray[np.uint16]]:
    """Digits in base 65,536, last first; the first one's sign bit is flipped to be unsigned."""
    digits = [(key >> shift).astype(np.uint16) for shift in range(0, 8 * key.itemsize, 16)]
    digits[-1] ^= np.uint16(1 << 15)
    return digits


def _sort_long_(row: _Rows, index: _Index) -> None:
    # Non-negative 32-bit integers have 31 bits: the last bit of the float goes.
    key = _ordered_integers(row)
    key >>= 1
    key += 2**30
    sorted_key = torch.from_numpy(key)
    torch.sort(sorted_key, out=(sorted_key, torch.from_numpy(index)))
    row[...] = row.take(index)
