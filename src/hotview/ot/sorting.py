"""Sorting many rows of floats at once, which is where sliced transport spends its time.

On CUDA ``torch.sort`` is the right tool. On the CPU it is not: it takes some 70 ns per element, and
numpy's vectorized sort is fast on some processors and three times slower on others. Sorting
*integers* by radix is fast everywhere, so floats are sorted as integers of the same order:

- rows of ordinary length in base 65,536, last digit first, by numpy's stable 16-bit argsort;
- very long rows by torch, which has a radix sort for one row of non-negative 32-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hotview.ot.memory import empty

__all__ = ["SortedRows", "sort_rows_"]

_SHORT = 512  # rows up to this length: a comparison sort in cache beats passes over digits
_LONG = 2**15  # rows from this length: torch has a radix sort for them, where built with FBGEMM
_BLOCK = 2**16  # elements per block: keys, digits and indices of a block stay in the L2 cache
_INTEGER = {torch.float32: torch.int32, torch.float64: torch.int64}
_HAS_LONG_RADIX = "fbgemm" in torch.backends.quantized.supported_engines


class SortedRows(NamedTuple):
    """Sorted values, and where each came from (None when nobody asked)."""

    values: Tensor
    origin: Tensor | None


def sort_rows_(P: Tensor, *, with_origin: bool = True) -> SortedRows:
    """Sort `P` along its last axis, in place on the CPU: ``values = P.gather(-1, origin)``.

    Very long float32 rows come in order to within one unit in the last place.
    """
    if P.device.type != "cpu" or P.dtype not in _INTEGER:
        result = torch.sort(P, dim=-1)
        return SortedRows(result.values, result.indices if with_origin else None)
    rows = P.view(-1, P.shape[-1])
    origin = empty(*rows.shape, dtype=torch.int64, device=P.device) if with_origin else None

    def sort_block(block: slice) -> None:
        if origin is None:
            rows[block].numpy().sort(axis=-1)
        else:
            _argsort(rows[block], out=origin[block])
            rows[block] = _take(rows[block], origin[block])

    _each_block(sort_block, *rows.shape)
    return SortedRows(P, None if origin is None else origin.view(P.shape))


def _each_block(work: Callable[[slice], None], n_rows: int, n_columns: int) -> None:
    """Call `work` on blocks of rows, on as many threads as torch may use."""
    step = max(1, _BLOCK // n_columns)
    blocks = [slice(i, i + step) for i in range(0, n_rows, step)]
    n_threads = min(torch.get_num_threads(), len(blocks))
    if n_threads == 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(n_threads) as pool:  # numpy and torch let go of the lock
        list(pool.map(work, blocks))


def _argsort(rows: Tensor, *, out: Tensor) -> None:
    n = rows.shape[1]
    if n <= _SHORT:
        out.copy_(torch.from_numpy(np.argsort(rows.numpy(), axis=-1)))
    elif n >= _LONG and rows.dtype == torch.float32 and _HAS_LONG_RADIX:
        _argsort_long(rows, out=out)
    else:
        out.copy_(_argsort_by_digits(rows))


def _argsort_by_digits(rows: Tensor) -> Tensor:
    first, *others = _digits(_ordered_integers(rows))
    index = _argsort_digit(first)
    for digit in others:
        index = _take(index, _argsort_digit(_take(digit, index)))
    return index


def _take(rows: Tensor, index: Tensor) -> Tensor:
    """``rows.gather(-1, index)``, which torch does three times faster for a single row."""
    if len(rows) > 1:
        return rows.gather(-1, index)
    return rows[0].index_select(0, index[0]).unsqueeze(0)


def _ordered_integers(rows: Tensor) -> Tensor:
    """Signed integers that are ordered as the floats are."""
    bits = rows.contiguous().view(_INTEGER[rows.dtype])
    # Negative floats grow in magnitude as their bits grow: flip all of these but the sign.
    flip = bits >> (8 * bits.element_size() - 1)  # -1 where negative, else 0
    return flip.bitwise_and_(torch.iinfo(bits.dtype).max).bitwise_xor_(bits)


def _digits(key: Tensor) -> list[Tensor]:
    """Digits in base 65,536, last first; the first one's sign bit flipped to make it unsigned."""
    digits = [(key >> shift).to(torch.int16) for shift in range(0, 8 * key.element_size(), 16)]
    digits[-1].bitwise_xor_(torch.iinfo(torch.int16).min)
    return digits


def _argsort_digit(digit: Tensor) -> Tensor:
    return torch.from_numpy(np.argsort(digit.numpy().view(np.uint16), axis=-1, kind="stable"))


def _argsort_long(rows: Tensor, *, out: Tensor) -> None:
    # Non-negative 32-bit integers have 31 bits: the last bit of the float goes.
    keys = _ordered_integers(rows).bitwise_right_shift_(1).add_(2**30)
    for key, index in zip(keys, out, strict=True):
        torch.sort(key, out=(key, index))
