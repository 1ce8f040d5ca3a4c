"""Random directions, projections of clouds on them, their sort, and gradients back.

Clouds of equal size are projected together. Small ones are one batched product, because calls cost
more than arithmetic; large ones are projected one by one on the CPU, where memory costs more than
calls.

Sliced transport spends most of its time on sorting. CUDA has ``torch.sort``. On the CPU
``torch.sort`` takes 70 ns per element, and numpy's vectorized sort is fast on some processors and
three times slower on others. A radix sort of *integers* is fast everywhere, so floats are sorted as
integers of the same order:

- rows of ordinary length in base 65,536, last digit first, by numpy's stable 16-bit argsort;
- very long rows by torch, which has a radix sort for one row of non-negative 32-bit integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotview._validation import Check, check_choice, check_count, check_values
from hotview.ot._backend import EXACT_DTYPE, empty

__all__ = ["SortedRows", "draw_directions", "project", "sort_rows_", "unproject"]

_check_kind = partial(check_choice, choices=("orthogonal", "iid", "qmc"))
_CHECKS: Mapping[str, Check] = {"n": check_count, "d": check_count, "kind": _check_kind}
_HALF_CELL = 2.0**-31  # Sobol points are multiples of 2⁻³⁰: half a cell avoids 0 and 1

_LARGE = 2**15  # points of a cloud
_SHORT = 512  # rows up to this length: a comparison sort in cache beats passes over digits
_LONG = 2**15  # rows from this length: torch has a radix sort for them, where built with FBGEMM
_BLOCK = 2**16  # elements per block: keys, digits and indices of a block stay in the L2 cache
_WORTH_A_THREAD = 2**19  # elements; starting threads for fewer costs more than it saves
_INTEGER = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}
_HAS_LONG_RADIX = "fbgemm" in torch.backends.quantized.supported_engines

_Rows = NDArray[Any]  # float32 or float64
_Index = NDArray[np.int64]


def draw_directions(
    n: int,
    d: int,
    *,
    kind: str = "orthogonal",
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Draw ``n`` unit vectors of dimension ``d``, each uniform on the sphere.

    Parameters
    ----------
    n : int
        Number of directions.
    d : int
        Dimension of the space.
    kind : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        ``"orthogonal"`` draws the rows of Haar-distributed orthogonal matrices, in independent
        blocks of ``d``: at equal cost its sliced distances have the smallest error when ``n`` is a
        multiple of ``d``. ``"iid"`` draws independent directions. ``"qmc"`` maps
        scrambled Sobol points to the sphere.
    generator : torch.Generator, sequence of these, or None, default=None
        Source of randomness; None uses torch's global generator. The same state gives the same
        directions, whatever the `dtype`. Several generators must be on one device; each draws its
        own directions.
    dtype : torch.dtype or None, default=None
        Type of the result; None uses torch's default.
    device : torch.device, str or None, default=None
        Device of the result; None uses the generator's device, else the CPU.

    Returns
    -------
    Tensor of shape (n, d) or (generators, n, d)
        One direction per row.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot import draw_directions
    >>> theta = draw_directions(3, 3, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(theta @ theta.T, torch.eye(3), atol=1e-6)
    True
    """
    check_values({"n": n, "d": d, "kind": kind}, _CHECKS)
    dtype = dtype or torch.get_default_dtype()
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be floating-point, got {dtype}.")
    generators: Sequence[torch.Generator | None]
    if is_single := generator is None or isinstance(generator, torch.Generator):
        generators = [generator]
    else:
        generators = generator
    if kind == "qmc":
        draws = torch.stack([_sobol(n, d, source) for source in generators])
    else:
        shape = (math.ceil(n / d), d, min(n, d)) if kind == "orthogonal" else (n, d)
        on = torch.device("cpu") if generators[0] is None else generators[0].device
        # The most exact type, so that every result type rounds the same draw.
        how: Any = {"dtype": EXACT_DTYPE[on.type], "device": on}
        draws = torch.stack([torch.randn(shape, generator=one, **how) for one in generators])
    if kind == "orthogonal":
        Q, R = torch.linalg.qr(draws)
        # QR is unique, and Q Haar-distributed, only if the diagonal of R is positive.
        Q *= R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        theta: Tensor = Q.mT.flatten(-3, -2)[:, :n]
    else:
        theta = torch.nn.functional.normalize(draws, dim=-1)
    return (theta[0] if is_single else theta).to(dtype=dtype, device=device or theta.device)


def _sobol(n: int, d: int, generator: torch.Generator | None) -> Tensor:
    """Gaussian vectors from scrambled Sobol points."""
    if d > torch.quasirandom.SobolEngine.MAXDIM:
        raise ValueError(
            f"kind='qmc' reaches dimension {torch.quasirandom.SobolEngine.MAXDIM}, got d={d}; "
            "use kind='orthogonal'."
        )
    device = torch.device("cpu") if generator is None else generator.device
    seed = int(torch.randint(2**31 - 1, (), generator=generator, device=device))
    engine = torch.quasirandom.SobolEngine(d, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    uniform = engine.draw(n, dtype=torch.float64) + _HALF_CELL
    gaussian: Tensor = torch.special.ndtri(uniform).to(device)
    return gaussian


def project(theta: Tensor, clouds: Sequence[Tensor], shift: Tensor) -> Tensor:
    """``theta @ (Z - shift).T`` for clouds Z of n points each: (…, clouds, directions, n).

    A common shift changes no cost; near the origin, projections lose fewer digits.
    """
    n = clouds[0].shape[-2]
    if _fits_one_product(n, theta):
        moved = torch.stack(list(clouds), dim=-3).sub_(shift.unsqueeze(-3))
        return theta.unsqueeze(-3) @ moved.mT
    P = empty(len(clouds), len(theta), n, dtype=theta.dtype, device=theta.device)
    for out, Z in zip(P, clouds, strict=True):
        for i in range(0, n, _LARGE):
            out[:, i : i + _LARGE] = theta @ (Z[i : i + _LARGE] - shift).T
    return P


def unproject(grad: Tensor, origin: Tensor, theta: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Gradients in the projections and in the clouds, from those in the sorted projections.

    `grad` and `origin` are (…, clouds, directions, n). Yields, per cloud, a tensor (…, directions,
    n), which is overwritten in the next iteration, and one (…, n, d).
    """
    if _fits_one_product(grad.shape[-1], theta):
        grad_P = torch.empty_like(grad).scatter_(-1, origin, grad)
        # Transposed, because BLAS is three times slower on tall and thin matrices.
        grad_Z = (theta.mT.unsqueeze(-3) @ grad_P).mT.contiguous()
        yield from zip(grad_P.unbind(-3), grad_Z.unbind(-3), strict=True)
        return
    grad_P = empty(*grad.shape[1:], dtype=grad.dtype, device=grad.device)
    for g, index in zip(grad, origin, strict=True):
        grad_P.scatter_(-1, index, g)
        grad_Z = empty(grad.shape[-1], theta.shape[1], dtype=grad.dtype, device=grad.device)
        yield grad_P, torch.mm(grad_P.T, theta, out=grad_Z)


def _fits_one_product(n: int, theta: Tensor) -> bool:
    return n <= _LARGE or theta.device.type != "cpu" or theta.ndim > 2


class SortedRows(NamedTuple):
    """Sorted values, and the index each had before (None if not requested)."""

    values: Tensor
    origin: Tensor | None


def sort_rows_(P: Tensor, *, with_origin: bool = True) -> SortedRows:
    """Sort `P` along its last axis, in place on the CPU: ``values = P.gather(-1, origin)``.

    Very long float32 rows are sorted to within one unit in the last place.
    """
    if P.device.type != "cpu":
        values, origin = torch.sort(P, dim=-1)
        return SortedRows(values, origin if with_origin else None)
    rows = P.view(-1, P.shape[-1]).numpy()
    if not with_origin:
        _for_each_block(np.ndarray.sort, rows)
        return SortedRows(P, None)
    origin = empty(*P.shape, dtype=torch.int64, device=P.device)
    index = origin.view(rows.shape).numpy()
    if rows.shape[1] >= _LONG and rows.dtype == np.float32 and _HAS_LONG_RADIX:
        for row, out in zip(rows, index, strict=True):  # torch uses several threads by itself
            _sort_long_row_(row, out)
    else:
        _for_each_block(_sort_block_, rows, index)
    return SortedRows(P, origin)


def _for_each_block(work: Callable[..., None], *arrays: _Rows) -> None:
    """Call `work` on blocks of rows of all arrays, on as many threads as torch may use."""
    n_rows, n_columns = arrays[0].shape
    n_blocks = math.ceil(n_rows / max(1, _BLOCK // n_columns))
    blocks = [np.array_split(x, n_blocks) for x in arrays]
    n_threads = min(torch.get_num_threads(), arrays[0].size // _WORTH_A_THREAD, n_blocks)
    if n_threads <= 1:
        list(map(work, *blocks))
        return
    # numpy releases the GIL here and, unlike torch, starts no threads itself.
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, *blocks))


def _sort_block_(rows: _Rows, index: _Index) -> None:
    """Sort `rows` in place and write the index that each value had into `index`."""
    first = np.arange(len(rows))[:, None] * rows.shape[1]  # flat index of the start of each row
    if rows.shape[1] <= _SHORT:
        flat = np.argsort(rows, axis=-1)
        index[...] = flat
        flat += first
    else:
        flat = _radix_argsort(rows, first)
        np.subtract(flat, first, out=index)
    rows[...] = rows.ravel().take(flat)


def _radix_argsort(rows: _Rows, first: _Index) -> _Index:
    """Flat indices that sort each row, by digits in base 65,536, last digit first."""
    key = _ordered_integers(rows)
    digits = [(key >> shift).astype(np.uint16) for shift in range(0, 8 * key.itemsize, 16)]
    digits[-1] ^= np.uint16(1 << 15)  # the sign bit: signed to unsigned order
    flat: _Index = np.argsort(digits[0], axis=-1, kind="stable")
    flat += first
    for digit in digits[1:]:
        step = np.argsort(digit.ravel().take(flat), axis=-1, kind="stable")
        step += first
        flat = flat.ravel().take(step)
    return flat


def _ordered_integers(rows: _Rows) -> NDArray[Any]:
    """Signed integers of the same order as the floats."""
    bits = np.ascontiguousarray(rows).view(_INTEGER[rows.dtype])
    # Negative floats grow in magnitude as their bits grow: flip all of their bits but the sign.
    key = bits >> (8 * bits.itemsize - 1)  # -1 where negative, else 0
    key &= np.iinfo(bits.dtype).max
    key ^= bits
    return key


def _sort_long_row_(row: _Rows, index: _Index) -> None:
    # Non-negative 32-bit integers have 31 bits: the last bit of the float is dropped.
    key = _ordered_integers(row)
    key >>= 1
    key += 2**30
    sorted_key = torch.from_numpy(key)
    torch.sort(sorted_key, out=(sorted_key, torch.from_numpy(index)))
    row[...] = row.take(index)
