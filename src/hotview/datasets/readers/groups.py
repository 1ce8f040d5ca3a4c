"""Parquet files larger than memory: row groups, unpacked into a mapped file when asked for."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from hotview._lazy import LazyRows
from hotview._types import Array
from hotview.datasets.readers.errors import reading

__all__ = ["ParquetRows"]

_TOGETHER = 2**22  # bytes that are unpacked at once
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)  # reserve anything; writing may fail


class ParquetRows(LazyRows):
    """Columns of a parquet file, in a temporary mapped file that is gone when the object is.

    Of a parquet file only whole row groups can be unpacked. Each is when one of its rows is first
    asked for, a few rows at a time, so that who asks for some rows pays for these.

    Parameters
    ----------
    path : Path
        The file.
    names : list of str
        Its columns, all numeric.
    dtype : dtype
        Of the result.
    convert : callable
        Called with an array to write to and as many rows, as a pyarrow record batch of the columns.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> def convert(X, batch):
    ...     X[:, 0] = batch.column("age")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.parquet")
    ...     pq.write_table(pa.table({"age": [31.0, 58.0]}), path)
    ...     rows = ParquetRows(path, ["age"], np.dtype(np.float64), convert)
    ...     rows[1:].tolist()
    [[58.0]]
    """

    def __init__(
        self,
        path: Path,
        names: list[str],
        dtype: np.dtype[Any],
        convert: Callable[[Array, Any], None],
    ) -> None:
        import pyarrow.parquet as pq

        self._path, self._names, self._convert = path, names, convert
        with reading(path, "a parquet file"):
            self._file = pq.ParquetFile(path)
        self._stamp = _stamp(path)
        about = self._file.metadata
        sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        edges = np.cumsum([0, *sizes], dtype=np.int64)
        shape = (int(edges[-1]), len(names))
        # Written as a file, because a full disk under a mapping kills the process.
        self._stream = tempfile.TemporaryFile(prefix="hotview-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, _close, self._stream, self._file)
        _reserve(self._stream, shape[0] * shape[1] * dtype.itemsize, path)
        super().__init__(np.memmap(self._stream, dtype=dtype, mode="r", shape=shape), edges)

    def fill(self, stretch: int) -> None:
        """Unpack a row group."""
        self._check_unchanged()
        start, end = (int(row) for row in self._edges[stretch : stretch + 2])
        width = len(self._names) * self.dtype.itemsize
        part = np.empty((max(1, _TOGETHER // width), len(self._names)), dtype=self.dtype)
        for batch in self._batches(stretch, len(part)):
            here = part[: batch.num_rows]
            self._convert(here, batch)
            _write(self._stream, memoryview(here.data).cast("B"), start * width)
            start += len(here)
        with reading(self._path, "a parquet file"):
            if start != end:
                raise EOFError(f"row group {stretch} ends before row {start}, not {end}")

    def _batches(self, group: int, rows: int) -> Iterator[Any]:
        with reading(self._path, "a parquet file"):
            batches = self._file.iter_batches(
                batch_size=rows, row_groups=[group], columns=self._names
            )
        while True:
            with reading(self._path, "a parquet file"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _check_unchanged(self) -> None:
        """Refuse to read on in a file that somebody has written to."""
        try:
            now = _stamp(self._path)
        except OSError:  # it has no name any more, but is open
            return
        # What was put in its place is another file.
        if now[0] == self._stamp[0] and now != self._stamp:
            raise ValueError(
                f"{self._path} was changed while it was being read, so that its rows do not belong "
                "together. Read it again; a file that is put in its place whole does no harm."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process unpacks what it asks for.
        return _open_again, (self._path, self._names, self.dtype, self._convert, self.shape)


def _open_again(
    path: Path,
    names: list[str],
    dtype: np.dtype[Any],
    convert: Callable[[Array, Any], None],
    shape: tuple[int, int],
) -> ParquetRows:
    rows = ParquetRows(path, names, dtype, convert)
    if rows.shape != shape:
        raise ValueError(
            f"Expected {path} to have {shape[0]} rows, as where it was read first, but it has "
            f"{rows.shape[0]}. Processes that work together need the same files."
        )
    return rows


def _stamp(path: Path) -> tuple[tuple[int, int], int, int]:
    """Which file it is, and what changes with what is in it."""
    about = os.stat(path)
    return (about.st_dev, about.st_ino), about.st_size, about.st_mtime_ns


def _reserve(stream: IO[bytes], n_bytes: int, path: Path) -> None:
    """Make a file as long as it will be and, where the system can, its room on the disk its own."""
    try:
        stream.truncate(n_bytes)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, n_bytes)
    except OSError as error:
        if error.errno in _CANNOT:
            return
        raise OSError(  # without the number, for which others have a text of their own
            f"Expected room for {n_bytes / 1e9:.1f} GB in {tempfile.gettempdir()}, to unpack "
            f"{path} there, but the system says: {error.strerror}. Choose a folder on a larger "
            "disk with the environment variable TMPDIR."
        ) from error


def _write(stream: IO[bytes], data: memoryview, at: int) -> None:
    while data:
        if hasattr(os, "pwrite"):  # does not move the place of writing, which forks share
            n = os.pwrite(stream.fileno(), data, at)
        else:
            stream.seek(at)
            n = stream.write(data)
        data, at = data[n:], at + n


def _close(*files: Any) -> None:
    for file in files:
        file.close()
