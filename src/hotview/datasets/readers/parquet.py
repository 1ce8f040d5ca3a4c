"""Parquet files larger than memory: row groups, unpacked into a mapped file when asked for."""

from __future__ import annotations

import errno
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from hotview._lazy import LazyRows
from hotview._types import Array
from hotview.datasets.readers.errors import reading
from hotview.datasets.readers.tables import (
    LARGEST_INTEGER,
    TableFile,
    clean_text,
    integer_error,
    refuse_duplicates,
    text_error,
)

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


_LARGE = 2**28  # bytes of a table that are read at once, also where it may be mapped


def open_parquet(path: Path, *, mmap: bool = False) -> TableFile:
    """Open a parquet file as a table.

    Parameters
    ----------
    path : Path
        The file.
    mmap : bool, default=False
        Whether numbers that would take more than 256 MB are read, a row group at a time and when
        one of its rows is asked for, into a temporary file that is mapped into memory.

    Returns
    -------
    TableFile
        Integer, float, decimal and boolean columns can be read, nulls become NaN.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> people = pa.table({"age": [31, None], "ill": [True, False]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(people, folder + "/a.parquet")
    ...     table = open_parquet(Path(folder, "a.parquet"))
    ...     table.read(["ill", "age"])
    array([[ 1., 31.],
           [ 0., nan]])
    """
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"):
        schema = pq.read_schema(path)
    refuse_duplicates(path, schema.names)
    # An index that is only a range is described by a dict and takes no column.
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    saved = [name for name in index if isinstance(name, str) and name in schema.names]
    return TableFile(
        path,
        schema.names,
        saved,
        lambda names: _read_parquet(path, names, mmap=mmap),
        lambda: [field.name for field in schema if _is_text(field.type)],
        lambda names: _read_parquet_text(path, names),
    )


def _read_columns(path: Path, names: list[str]) -> Any:
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"), pq.ParquetFile(path) as file:
        return file.read(columns=names)


def _read_parquet_text(path: Path, names: list[str]) -> list[list[str | None]]:
    import pyarrow as pa

    table = _read_columns(path, names)
    columns = []
    for name in names:
        column = table.column(name)
        if pa.types.is_boolean(column.type):  # as text tables have them
            columns.append([None if x is None else str(x) for x in column.to_pylist()])
            continue
        with reading(path, "a parquet file"):
            cells = column.cast(pa.string()).to_pylist()
        columns.append([clean_text(cell) for cell in cells])
    return columns


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(getattr(pa.types, test)(kind) for test in ("is_string", "is_large_string"))


def _read_parquet(path: Path, names: list[str], *, mmap: bool) -> Array | LazyRows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path, "a parquet file"):
        n_rows, schema = pq.read_metadata(path).num_rows, pq.read_schema(path)
    kinds = [schema.field(name).type for name in names]
    dtype = np.dtype(np.float32 if all(kind == pa.float32() for kind in kinds) else np.float64)
    is_large = n_rows * len(names) * dtype.itemsize > _LARGE
    if mmap and is_large and all(map(_is_numeric, kinds)):
        return ParquetRows(path, names, dtype, partial(_fill, path, names))
    table = _read_columns(path, names)
    X = np.empty((table.num_rows, len(names)), dtype=dtype)
    _fill(path, names, X, table)
    return X


def _fill(path: Path, names: list[str], X: Array, table: Any) -> None:
    for j, name in enumerate(names):
        X[:, j] = _numbers(path, name, table.column(name))


def _numbers(path: Path, name: str, column: Any) -> Array:
    """Convert one column of a parquet file to float64, nulls to NaN."""
    import pyarrow as pa

    if not _is_numeric(column.type):
        row, value = next(
            ((i, v) for i, v in enumerate(column.to_pylist(), start=1) if v is not None), (1, None)
        )
        raise text_error(path, name, value, f"row {row}", kind=str(column.type))
    try:
        # Safe: refuses an integer that float64 cannot hold.
        values: Array = np.asarray(column.cast(pa.float64()))
    except pa.ArrowInvalid:
        worst = max(column.drop_null().to_pylist(), key=abs)
        raise integer_error(path, name, worst) from None
    if pa.types.is_decimal(column.type) and (np.abs(values) > LARGEST_INTEGER).any():
        raise integer_error(path, name, max(column.drop_null().to_pylist(), key=abs))
    return values


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    tests = ("is_boolean", "is_integer", "is_floating", "is_decimal", "is_null")
    return any(getattr(pa.types, test)(kind) for test in tests)
