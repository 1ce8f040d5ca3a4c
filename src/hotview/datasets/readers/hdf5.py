"""HDF5 files, opened after a check for damage on which the HDF5 library would not return."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hotview.datasets.readers.errors import reading

_HEAP = b"GCOL\x01\x00\x00\x00"  # signature of a heap of texts, its version and reserved bytes
_HEADER = 16  # bytes before the objects of a heap, and before each of them


@contextmanager
def open_hdf5(path: Path, kind: str) -> Iterator[Any]:
    """Open a file; any error inside becomes a ValueError that names it.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        Its format, for the error.

    Yields
    ------
    h5py.File
        The file, for reading.
    """
    import h5py

    with reading(path, kind):
        _check_heaps(path)
        with h5py.File(path, "r") as file:
            yield file


def _check_heaps(path: Path) -> None:
    """Raise an error for an object of a heap without a size: HDF5 would step over it forever."""
    if path.stat().st_size == 0:
        return  # which cannot be mapped
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        heaps, start = [], data.find(_HEAP)
        while start >= 0:
            heaps.append((min(start + _read_size(data, start), len(data)), start))
            start = data.find(_HEAP, start + 1)
        # Heaps that overlap lead to the same objects. The last end comes first, so that what
        # follows an object that was seen has been checked far enough.
        seen: set[int] = set()
        lowest = len(data)
        for end, start in sorted(heaps, reverse=True):
            if end <= lowest:
                seen.clear()
            lowest, position = min(lowest, start), start + _HEADER
            while position + _HEADER <= end and position not in seen:
                seen.add(position)
                n = _read_size(data, position)
                is_free = data[position : position + 2] == b"\0\0"  # its size includes the header
                step = n if is_free else _HEADER + (n + 7) // 8 * 8
                if step < _HEADER:
                    raise ValueError(f"a text at byte {position} has no size")
                position += step


def _read_size(data: mmap.mmap, at: int) -> int:
    return int.from_bytes(data[at + 8 : at + 16], "little")
