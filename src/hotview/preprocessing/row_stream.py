"""Functions of many rows, computed chunk by chunk, on a GPU overlapped with copies to and from it.

Arrays are copied to a GPU as they are, and checked and standardized there: threads copy rows to
pinned memory, some chunks ahead of their use, and results from pinned memory, some chunks behind.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from itertools import cycle, islice

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.ot._backend import empty
from hotview.preprocessing.rows import ViewRows
from hotview.preprocessing.table_scan import EXTREME

__all__ = [
    "OutputCollector",
    "RawRows",
    "RowStream",
    "check_rows",
    "find_absent",
    "map_rows",
    "no_view_error",
    "overflow_error",
    "prediction_error",
]

_CHUNK = {"cpu": 4096, "cuda": 131072}  # rows at a time: few for caches, many to fill a GPU
#: devices to which rows are copied as they are, ahead of their use, and from how many rows on
_STREAMED = {"cuda": 2048}
_N_ENTRIES = 2**26  # maximum number of entries of such a chunk, in all views together
_N_AHEAD = 3  # chunks that are read ahead at least, and whose results are still to be written
_N_THREADS = 10  # that copy them
_ORDINARY = EXTREME / 4  # a scale that is subnormal in float32 may be rounded to its double

_Stream = torch.cuda.Stream | None  # None on the CPU
_Loaded = tuple[Tensor, Tensor]  # rows, and whether there is doubt about them


def map_rows(
    compute: Callable[[dict[int, Tensor]], Tensor],
    views: Mapping[int, ViewRows],
    progress: Callable[[int], object] | None = None,
) -> Array:
    """Results of a function of standardized rows, which gets some rows of all views at a time.

    Parameters
    ----------
    compute : callable
        Maps the rows of every view, by its number, to a tensor with one entry per row.
    views : dict of int to ViewRows
        The views, by number; the same number of rows in each.
    progress : callable or None, default=None
        Called with the number of rows of every chunk.

    Returns
    -------
    ndarray
        The results of all rows, which are valid then; else there is an error.
    """
    n_rows = next(iter(views.values())).n_rows
    with (
        torch.inference_mode(),
        ThreadPoolExecutor(_N_THREADS, thread_name_prefix="hotview-rows") as pool,
    ):
        rows = RowStream(views, pool)
        output = OutputCollector(n_rows, pool if rows.is_streamed else None)
        try:
            for Xs in rows:
                part = compute(Xs)
                output.add(part)
                if progress is not None:
                    progress(len(part))
        finally:
            rows.check()  # an error about invalid entries explains any other
        return output.result()


def check_rows(view: ViewRows, check: Callable[[], object]) -> None:
    """Validate the entries of a view: now, or, on a device that can, when they are there.

    Parameters
    ----------
    view : ViewRows
        The rows; without validation now, `map_rows` validates them.
    check : callable
        The exact check, which raises an error for invalid entries.
    """
    if _is_raw(view):
        view.check = check
    else:
        check()


def _is_raw(view: ViewRows) -> bool:
    """Whether rows are copied as they are, instead of standardized on the CPU."""
    is_whole = view.ready is None and len(view.tables) == 1 and view.present[0] is None
    is_dense = is_whole and view.tables[0].is_array and not view.scaler.is_counts
    return is_dense and _is_streamed(view)


def _is_streamed(view: ViewRows) -> bool:
    return view.n_rows >= _STREAMED.get(view.device.type, math.inf)


class RowStream:
    """Iterates over chunks of standardized rows of all views, on their device.

    Parameters
    ----------
    views : dict of int to ViewRows
        The views, by number; the same number of rows in each.
    pool : Executor
        Threads that read rows for a GPU ahead of their use.
    """

    def __init__(self, views: Mapping[int, ViewRows], pool: Executor) -> None:
        self.views, self.pool = views, pool
        first = next(iter(views.values()))
        self.n_rows, self.device = first.n_rows, first.device
        self.is_streamed = _is_streamed(first)
        self.size = _CHUNK.get(self.device.type, _CHUNK["cpu"])
        if self.is_streamed:
            n_entries = 0
            for view in views.values():  # a row while it is read; sparse ones may stay sparse
                widths = (t.n_columns for t in view.tables if not sparse.issparse(t.data))
                n_entries += max(view.n_columns, *widths, 0)
            self.size = max(1, min(self.size, _N_ENTRIES // n_entries))
        self.n_ahead = max(_N_AHEAD, _N_THREADS // len(views))  # every thread has a view to copy
        self.raw = {s: RawRows(view) for s, view in views.items() if _is_raw(view)}
        self._no_doubt = torch.zeros((), dtype=torch.bool, device=self.device)
        self.doubts = dict.fromkeys(self.raw, self._no_doubt)

    def __iter__(self) -> Iterator[dict[int, Tensor]]:
        """Yield chunks in order, the rows of every view by its number."""
        starts = iter(range(0, self.n_rows, self.size))
        if not self.is_streamed:
            for start in starts:
                yield {s: view.part(start, start + self.size) for s, view in self.views.items()}
            return
        # With a stream for every chunk that is read ahead, a copy need not wait for computations.
        streams = cycle(_make_streams(self.n_ahead, self.device))
        ahead = deque(map(self._submit, islice(starts, self.n_ahead), streams))
        while ahead:
            Xs = self._receive(*ahead.popleft())
            ahead.extend(map(self._submit, islice(starts, 1), streams))
            yield Xs

    def check(self) -> None:
        """Raise an error for invalid entries in the chunks so far; the device is waited for."""
        for s, doubt in self.doubts.items():
            check = self.views[s].check
            if check is not None and bool(doubt):
                check()

    def _submit(self, start: int, stream: _Stream) -> tuple[_Stream, dict[int, Future[_Loaded]]]:
        return stream, {s: self.pool.submit(self._load, s, start, stream) for s in self.views}

    def _load(self, s: int, start: int, stream: _Stream) -> _Loaded:
        with torch.cuda.stream(stream):
            if s in self.raw:
                return self.raw[s].load(start, start + self.size)
            return self.views[s].part(start, start + self.size), self._no_doubt

    def _receive(self, stream: _Stream, parts: dict[int, Future[_Loaded]]) -> dict[int, Tensor]:
        """The rows of a chunk, which computations have to wait for, but not this thread."""
        loaded = {s: part.result() for s, part in parts.items()}
        if stream is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(stream)
            for X, doubt in loaded.values():  # memory of one stream that another one uses
                X.record_stream(current)
                doubt.record_stream(current)
        for s in self.raw:
            self.doubts[s] = self.doubts[s] | loaded[s][1]
        return {s: X for s, (X, _) in loaded.items()}


class RawRows:
    """Rows of an array, standardized on a device by the operations of `ColumnScaler.transform`.

    Parameters
    ----------
    view : ViewRows
        The rows, of one table that is an array, perhaps memory-mapped, and not of counts.
    """

    def __init__(self, view: ViewRows) -> None:
        self.data, self.device, self.scaler = view.tables[0].data, view.device, view.scaler
        self.dtype = torch.float32 if self.data.dtype == np.float32 else torch.float64
        self.constants, self.components = self.scaler.constants(self.dtype, self.device), None
        if (components := self.scaler.components) is not None:
            self.components = torch.from_numpy(components).to(self.device, torch.float64)

    def load(self, start: int, stop: int) -> _Loaded:
        """Standardized rows, and whether there is doubt that all of their entries are valid."""
        rows = self.data[start:stop]
        staged = _empty_staged(rows.shape, self.dtype, self.device)
        np.copyto(staged.numpy(), rows)  # other threads run meanwhile
        X = staged.to(self.device, non_blocking=True)
        Z = self.scaler.standardize(X, self.constants)
        low, high = Z.aminmax(dim=1)  # NaN where an entry is NaN
        is_valid = (low >= -_ORDINARY) & (high <= _ORDINARY) | X.isnan().all(1)
        if self.components is not None:
            Z = (Z.double() @ self.components).float()
        return Z, ~is_valid.all()


class OutputCollector:
    """Collects the results of consecutive chunks of rows in one array in host memory.

    Parameters
    ----------
    n_rows : int
        Number of rows of all chunks.
    pool : Executor or None
        Threads that write results of a GPU while it computes others; None writes them at once.
    """

    def __init__(self, n_rows: int, pool: Executor | None) -> None:
        self.n_rows, self.pool, self.n_done = n_rows, pool, 0
        self.array: Array | None = None
        self.pending: deque[Future[None]] = deque()

    def add(self, part: Tensor) -> None:
        """Add the results of the next rows; those of a GPU may still be computed."""
        if self.array is None:
            shape = (self.n_rows, *part.shape[1:])
            self.array = empty(*shape, dtype=part.dtype, device=torch.device("cpu")).numpy()
        rows = self.array[self.n_done : self.n_done + len(part)]
        self.n_done += len(part)
        if self.pool is None:
            rows[...] = part.cpu().numpy()
            return
        staged = _empty_staged(part.shape, part.dtype, part.device)
        staged.copy_(part, non_blocking=True)
        self.pending.append(self.pool.submit(_write, staged, _record_event(part.device), rows))
        if len(self.pending) > _N_AHEAD:
            self.pending.popleft().result()

    def result(self) -> Array:
        """The results of all rows."""
        for written in self.pending:
            written.result()
        return np.empty(0) if self.array is None else self.array


def _write(staged: Tensor, copied: torch.cuda.Event | None, rows: Array) -> None:
    if copied is not None:
        copied.synchronize()
    np.copyto(rows, staged.numpy())


def _empty_staged(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Host memory to copy from or to a device; torch reuses it once these copies are done."""
    return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")


@cache  # torch reuses the memory of a stream for this stream only
def _make_streams(n: int, device: torch.device) -> list[_Stream]:
    if device.type != "cuda":
        return [None] * n
    return [torch.cuda.Stream(device) for _ in range(n)]  # type: ignore[no-untyped-call]


def _record_event(device: torch.device) -> torch.cuda.Event | None:
    """Record what the device has to do so far."""
    if device.type != "cuda":
        return None
    # A thread that waits leaves its core to others.
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event


def find_absent(X: Tensor) -> Tensor:
    """Which standardized rows are absent: their first column is NaN, others were validated."""
    return torch.isnan(X[:, 0])


def prediction_error(
    rows: IntArray, views: Mapping[int, ViewRows], names: Sequence[str]
) -> ValueError:
    """The error about rows whose predictions are NaN: no view has them, or numbers overflow."""
    absent = [find_absent(view.take(rows)).cpu().numpy() for view in views.values()]
    rows = rows[np.logical_and.reduce(absent)]
    return no_view_error(rows, names) if len(rows) > 0 else overflow_error()


def no_view_error(rows: IntArray, names: Sequence[str]) -> ValueError:
    """The error about rows that no view has."""
    return ValueError(
        f"Expected every row to have at least one of the views {list(names)}, but {len(rows)} "
        f"have none, the first being row {rows[0]}. Leave these rows out."
    )


def overflow_error() -> ValueError:
    """The error about outputs that are not finite."""
    return ValueError(
        "Expected finite outputs, but the weights of the model are so large, or not finite, that "
        "they overflow. Check rows for extreme values; else load another model, or fit again."
    )
