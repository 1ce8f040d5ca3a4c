"""Parquet files; large ones are decompressed on access into a memory-mapped file."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from hotview._messages import reading
from hotview._types import Array, LazyRows
from hotview._validation.containers import is_numeric_arrow
from hotview.data.arrow import ArrowColumns, fill_numbers, number_dtype
from hotview.data.options import NO_OPTIONS, Options

_BATCH_BYTES = 2**22  # decompressed at once
_LARGE = 2**28  # bytes; smaller tables are read into memory also if they may be mapped
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class ParquetRows(LazyRows):
    """Columns of a parquet file in a temporary memory-mapped file, deleted with the object.

    A row group is decompressed, a few rows at a time, on the first access to one of its rows.

    Parameters
    ----------
    path : Path
        The file.
    names : list of str
        Its columns, all numeric.
    dtype : dtype
        Data type of the array.
    convert : callable
        Called with an array to fill and a pyarrow record batch of as many rows.

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
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        edges = np.cumsum([0, *sizes], dtype=np.int64)
        shape = (int(edges[-1]), len(names))
        # Written by write(), because a full disk under a writable mapping kills the process.
        self._stream = tempfile.TemporaryFile(prefix="hotview-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._stream.close)
        weakref.finalize(self, self._file.close)
        _reserve(self._stream, shape[0] * shape[1] * dtype.itemsize, path)
        super().__init__(np.memmap(self._stream, dtype=dtype, mode="r", shape=shape), edges)

    def fill(self, block: int) -> None:
        """Decompress a row group."""
        self._check_unchanged()
        start, end = (int(row) for row in self._edges[block : block + 2])
        row_bytes = len(self._names) * self.dtype.itemsize
        buffer = np.empty((max(1, _BATCH_BYTES // row_bytes), len(self._names)), dtype=self.dtype)
        with reading(self._path, "a parquet file"):
            batches = self._file.iter_batches(
                batch_size=len(buffer), row_groups=[block], columns=self._names
            )
        while True:
            with reading(self._path, "a parquet file"):
                batch = next(batches, None)
                if batch is None and start != end:
                    raise EOFError(f"row group {block} ends before row {start}, not {end}")
            if batch is None:
                return
            rows = buffer[: batch.num_rows]
            self._convert(rows, batch)
            data, at = memoryview(rows.data).cast("B"), start * row_bytes
            while data:
                if hasattr(os, "pwrite"):  # does not move the file position, which forks share
                    n = os.pwrite(self._stream.fileno(), data, at)
                else:
                    self._stream.seek(at)
                    n = self._stream.write(data)
                data, at = data[n:], at + n
            start += len(rows)

    def _check_unchanged(self) -> None:
        """Raise if the file was modified after it was opened."""
        try:
            now = _stamp(self._path)
        except OSError:  # deleted, but still open here
            return
        # A file that replaced it has another inode, and the old one is still open here.
        if now[0] == self._stamp[0] and now != self._stamp:
            raise ValueError(
                f"{self._path} was changed while it was being read, so that its rows do not belong "
                "together. Read it again; replacing the file as a whole does no harm."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process decompresses the rows that it reads itself.
        return _reopen, (self.shape, self._path, self._names, self.dtype, self._convert)


def _reopen(shape: tuple[int, int], *arguments: Any) -> ParquetRows:
    rows = ParquetRows(*arguments)
    if rows.shape != shape:
        raise ValueError(
            f"Expected {rows._path} to have {shape[0]} rows, as where it was read first, but it "
            f"has {rows.shape[0]}. Processes that work together need the same files."
        )
    return rows


def _stamp(path: Path) -> tuple[tuple[int, int], int, int]:
    """Return the identity of a file, its size and its time of modification."""
    stat = os.stat(path)
    return (stat.st_dev, stat.st_ino), stat.st_size, stat.st_mtime_ns


def _reserve(stream: IO[bytes], n_bytes: int, path: Path) -> None:
    """Set the length of a file and, where the system can, reserve its space on disk."""
    try:
        stream.truncate(n_bytes)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(stream.fileno(), 0, n_bytes)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return
        raise OSError(  # without errno, whose text would replace this one
            f"Expected room for {n_bytes / 1e9:.1f} GB in {tempfile.gettempdir()}, to unpack "
            f"{path} there, but the system reports: {error.strerror}. Choose a folder on a larger "
            "disk with the environment variable TMPDIR."
        ) from error


class ParquetTable(ArrowColumns):
    """A parquet file of integer, float, decimal, boolean and text columns; nulls become NaN.

    Parameters
    ----------
    path : Path
        The file.
    name, options : str and Options
        As of `TableFile`. With `mmap`, more than 256 MB of numbers are decompressed, a row group
        at a time and on access, into a temporary file that is mapped into memory.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> people = pa.table({"age": [31, None], "ill": [True, False]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(people, folder + "/a.parquet")
    ...     ParquetTable(Path(folder, "a.parquet")).read(["ill", "age"])
    array([[ 1., 31.],
           [ 0., nan]])
    """

    _kind = "a parquet file"

    def __init__(self, path: Path, name: str = "", options: Options = NO_OPTIONS) -> None:
        import pyarrow.parquet as pq

        with reading(path, self._kind):
            metadata = pq.read_metadata(path)
            schema = metadata.schema.to_arrow_schema()
        self._n_rows = metadata.num_rows
        super().__init__(path, schema, name, options)

    def _read(self, names: list[str]) -> Array | LazyRows:
        types = [self._schema.field(name).type for name in names]
        dtype = number_dtype(types)
        is_large = self._n_rows * len(names) * dtype.itemsize > _LARGE
        if self.options.mmap and is_large and all(map(is_numeric_arrow, types)):
            missing = self.options.missing_cells
            convert = partial(fill_numbers, self.path, names, missing=missing)
            return ParquetRows(self.path, names, dtype, convert)
        return super()._read(names)

    def _select(self, names: list[str]) -> Any:
        import pyarrow.parquet as pq

        with reading(self.path, self._kind), pq.ParquetFile(self.path) as file:
            table = file.read(columns=names)
            if table.num_rows != self._n_rows:
                raise EOFError(f"Expected {self._n_rows} rows, but there are {table.num_rows}.")
            return table
