"""Synthetic views in files, and how much memory a process takes to learn from them."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

N_VIEWS, N_COLUMNS = 6, 64
_ROWS = 2**15  # written together
_BUFFER = 2**24  # bytes read together


@contextmanager
def folder_with_room(given: Path | None, n_bytes: float) -> Iterator[Path]:
    """A folder for files that are removed afterwards; refused where the disk has no room."""
    with tempfile.TemporaryDirectory(prefix="hotview-bench-", dir=given) as name:
        free = shutil.disk_usage(name).free
        if free < 1.05 * n_bytes:
            raise SystemExit(
                f"The views take {n_bytes / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free "
                "where temporary files are. Name another folder, by --data."
            )
        yield Path(name)


def bytes_of(n_rows: int) -> int:
    """Size of all views."""
    return 4 * n_rows * N_VIEWS * N_COLUMNS


def write_views(folder: Path, n_rows: int) -> list[Path]:
    """Views of ten common dimensions and noise, a npy file each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"view_{s}.npy" for s in range(N_VIEWS)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(lambda s: _write_view(paths[s], s, n_rows), range(N_VIEWS)))
    return paths


def _write_view(path: Path, s: int, n_rows: int) -> None:
    random = np.random.default_rng(s)
    A = random.standard_normal((10, N_COLUMNS), dtype=np.float32)
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n_rows, N_COLUMNS))
    for part in parts(X):
        part[:] = 0.5 * random.standard_normal(part.shape, dtype=np.float32)
        part += random.standard_normal((len(part), 10), dtype=np.float32) @ A
    X.flush()


def write_parquet(paths: list[Path]) -> list[Path]:
    """The same views as parquet, beside them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = []
    names = [f"c{j}" for j in range(N_COLUMNS)]
    for path in paths:
        found.append(path.with_suffix(".parquet"))
        schema = pa.schema([(name, pa.float32()) for name in names])
        with pq.ParquetWriter(found[-1], schema) as writer:
            for part in parts(np.load(path, mmap_mode="r"), 2**17):
                columns = [np.ascontiguousarray(column) for column in part.T]
                writer.write_table(pa.table(columns, schema=schema))
    return found


def parts(X: Any, rows: int = _ROWS) -> Iterator[Any]:
    """A few rows at a time."""
    return (X[start : start + rows] for start in range(0, len(X), rows))


def read_through(paths: list[Path]) -> None:
    """Read files from the beginning to the end, by numpy, and keep nothing."""
    for path in paths:
        with path.open("rb", buffering=0) as stream:
            while len(np.fromfile(stream, dtype=np.uint8, count=_BUFFER)) > 0:
                pass


def forget(paths: list[Path], mapped: Sequence[np.memmap] = ()) -> bool:
    """Let the system forget what it keeps of files in memory; tell whether it can."""
    if not hasattr(os, "posix_fadvise"):
        return False
    for X in mapped:  # what is mapped is not forgotten
        X._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
    for path in paths:
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


class PeakMemory:
    """The most memory of its own that this process has while it is entered, looked at often.

    Pages of mapped files are not its own: the system takes them back when it needs them.
    """

    def __init__(self, every: float = 0.02) -> None:
        self.bytes, self._every, self._over = 0, every, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            self.bytes = max(self.bytes, own_memory())


def own_memory() -> int:
    """Bytes of anonymous memory that this process has; Linux tells."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def alone(work: Callable[..., dict[str, Any]], *args: Any) -> dict[str, Any]:
    """Do some work in a process of its own, which has no memory of anything before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, *args).result()
