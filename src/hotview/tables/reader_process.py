"""Files read in a process of their own: one that crashes or stalls a native library is an error.

The process runs this module as a program, and imports nothing else of hotview. It writes arrays of
numbers and text, which are read without unpickling.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

#: MATLAB's numeric classes and their numpy types; 7.3 files store logical as uint8.
DTYPES: dict[str, np.dtype[Any]] = {
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
    "logical": np.dtype(np.bool_),
    **{f"{u}int{bits}": np.dtype(f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)},
}
#: Classes of MATLAB that are read.
READABLE = {*DTYPES, "sparse", "cell"}
_OTHER_CLASSES = {"U": "char", "c": "complex", "O": "a cell array in a cell array"}
_WORKSPACE = "__function_workspace__"
_SECONDS, _BYTES_PER_SECOND = 30.0, 10**6  # that a process may take for a file


def read_in_process(
    path: Path, task: str, names: Sequence[str] = ()
) -> dict[str, np.ndarray[Any, Any]]:
    """Read a file in another process, limited in time and, where the system can, in memory.

    Parameters
    ----------
    path : Path
        The file.
    task : {"mat", "hdf5"}
        What the process does, of `TASKS`.
    names : sequence of str, default=()
        What it reads.

    Returns
    -------
    dict of str to ndarray
        What it wrote; an error if it fails, crashes or takes too long.
    """
    seconds = _SECONDS + path.stat().st_size / _BYTES_PER_SECOND
    paths = os.pathsep.join(filter(None, sys.path))
    with tempfile.TemporaryFile(prefix="hotview-") as output:
        try:
            ended = subprocess.run(
                [sys.executable, "-P", __file__, task, str(path), *names],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
                env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"it takes longer than {seconds:.0f} seconds") from None
        return load_output(output, ended.returncode)


def load_output(output: IO[bytes], code: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return what a process has written before it ended with a code; raise the error if it has."""
    if code != 0:
        reason = signal.Signals(-code).name if code < 0 else f"the code {code}"
        raise ChildProcessError(f"it ends a process that reads it by {reason}")
    size, arrays = output.seek(0, os.SEEK_END), {}
    output.seek(0)
    while output.tell() < size:
        name = str(np.load(output, allow_pickle=False))
        arrays[name] = np.load(output, allow_pickle=False)
    if "error" in arrays:
        kind, text = arrays["error"].tolist()
        raise MemoryError(text) if kind == "MemoryError" else ValueError(text)
    return arrays


@contextmanager
def open_hdf5(path: Path, kind: str, *names: str) -> Iterator[Any]:
    """Open a file that another process has read; any error inside names the file.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        Its format, for the error.
    *names : str
        Groups and datasets, at any depth, that will be read. Attributes always may be.

    Yields
    ------
    h5py.File
        The file, for reading.
    """
    import h5py

    from hotview._messages import reading

    with reading(path, kind):
        stat = path.stat()
        _walk_once(path, names, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
        with h5py.File(path, "r") as file:
            yield file


@lru_cache(maxsize=64)
def _walk_once(path: Path, names: tuple[str, ...], stamp: tuple[int, ...]) -> None:
    """Read a file in another process, once for each of its versions."""
    read_in_process(path, "hdf5", names)


# From here on, the other process.


def _read_mat(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Return names and classes of all variables, and the values of some if these are readable.

    The names of arrays are the number of the variable, that of the cell, and a part.
    """
    import h5py
    from scipy.io import whosmat

    is_hdf5 = h5py.is_hdf5(path)
    file: Any
    with h5py.File(path, "r") if is_hdf5 else nullcontext() as file:
        if is_hdf5:  # "#refs#" and "#subsystem#" hold the insides of cells and objects
            found = [(name, _hdf5_class(file[name])) for name in file if name[0] != "#"]
        else:
            found = [(name, kind) for name, _, kind in whosmat(path) if name != _WORKSPACE]
        classes = dict(found)
        arrays = {"names": [name for name, _ in found], "classes": [kind for _, kind in found]}
        chosen = [*(names or classes)]
        if not chosen or not all(classes.get(name) in READABLE for name in chosen):
            return arrays
        if is_hdf5:
            values = {name: _hdf5_value(file, file[name]) for name in chosen}
        else:
            values = _scipy_values(path, {name: classes[name] for name in chosen})
    for i, name in enumerate(chosen):
        cells = values[name] if isinstance(values[name], list) else [values[name]]
        for j, cell in enumerate(cells):
            parts = cell if isinstance(cell, dict) else {"": cell}
            arrays |= {f"{i} {j} {part}": value for part, value in parts.items()}
    return arrays


def _scipy_values(path: str, classes: dict[str, str]) -> dict[str, Any]:
    """Return variables of versions 4 to 7, in the form of `_hdf5_value`."""
    from scipy.io import loadmat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            values = loadmat(path, variable_names=[*classes], mat_dtype=True)
    except np.exceptions.ComplexWarning:  # the types of classes are those of real numbers
        values = loadmat(path, variable_names=[*classes])

    def convert(value: Any, dtype: Any = None) -> Any:
        if value.dtype.kind not in "biuf":
            return _OTHER_CLASSES.get(value.dtype.kind, "struct")
        if not hasattr(value, "tocsc"):
            return value.astype(dtype or value.dtype, copy=False)
        value = value.tocsc()
        return _sparse_parts(value.data, value.indices, value.indptr, value.shape)

    return {
        name: [convert(cell) for cell in values[name].ravel(order="F")]
        if kind == "cell"
        else convert(values[name], DTYPES.get(kind))
        for name, kind in classes.items()
    }


def _sparse_parts(data: Any, rows: Any, pointers: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"values": data, "rows": rows, "pointers": pointers, "shape": shape}


def _hdf5_class(item: Any) -> str:
    if "MATLAB_sparse" in item.attrs:
        return "sparse"
    name = item.attrs.get("MATLAB_class", b"not written by MATLAB (it has no MATLAB_class)")
    return str(name.decode() if isinstance(name, bytes) else name)


def _hdf5_value(file: Any, item: Any, *, is_cell: bool = False) -> Any:
    """Return a matrix, parts of a sparse one, a list for a cell array, or a class not read."""
    kind = _hdf5_class(item)
    if kind == "sparse":
        pointers = item["jc"][()].astype(np.int64)
        shape = (int(item.attrs["MATLAB_sparse"]), len(pointers) - 1)
        # MATLAB leaves "data" and "ir" out when every entry is zero.
        data = item["data"][()] if "data" in item else np.zeros(0)
        rows = item["ir"][()].astype(np.int64) if "data" in item else np.zeros(0, np.int64)
        return "complex" if data.dtype.names else _sparse_parts(data, rows, pointers, shape)
    if item.attrs.get("MATLAB_empty", 0):
        # The data of an empty matrix is its shape.
        sizes = tuple(int(size) for size in item[()])
        if 0 not in sizes:
            raise ValueError(f"An empty matrix has the shape {sizes}.")
        return [] if kind == "cell" else np.zeros(sizes, DTYPES.get(kind, np.float64))
    if kind == "cell":
        if is_cell:
            return _OTHER_CLASSES["O"]
        # HDF5 lists the axes in reverse, so C order here is MATLAB's column order.
        return [_hdf5_value(file, file[place], is_cell=True) for place in item[()].ravel()]
    if kind not in DTYPES:
        return kind
    value = item[()].T
    # A complex matrix is a compound of "real" and "imag".
    return "complex" if value.dtype.names else value.astype(DTYPES[kind], copy=False)


def _walk_hdf5(path: str, names: Sequence[str]) -> dict[str, Any]:
    """Read all attributes of an HDF5 file, and the data of what is in groups of some names.

    What can only not be read raises an error where it is needed.
    """
    import h5py

    def attempt(read: Callable[..., Any], *arguments: Any) -> Any:
        with suppress(AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError):
            return read(*arguments)

    seen, left = set(), [(attempt(h5py.File, path, "r"), False)]
    while left:
        item, is_needed = left.pop()
        if item is None or (item, is_needed) in seen:
            continue
        seen.add((item, is_needed))
        for name in attempt(list, item.attrs) or ():
            attempt(item.attrs.__getitem__, name)
        if isinstance(item, h5py.Dataset) and is_needed:
            attempt(item.__getitem__, ())
        elif isinstance(item, h5py.Group):
            members = attempt(list, item) or ()
            left += [(attempt(item.get, n), is_needed or n in names) for n in members]
    return {}


#: What the process can be told to do with a path and names.
TASKS = {"mat": _read_mat, "hdf5": _walk_hdf5}


def write_output(output: IO[bytes], task: str, path: str, names: Sequence[str]) -> None:
    """Do a task, write the arrays that it returns or its error, and end this process."""
    arrays: dict[str, Any]
    with suppress(ImportError, OSError, ValueError):  # not every system has limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        former, most = resource.getrlimit(resource.RLIMIT_AS)
        if former == resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_AS, (memory, most))
    try:
        arrays = TASKS[task](path, names)
    except Exception as error:
        arrays = {"error": [type(error).__name__, str(error)]}
    for name, values in arrays.items():
        np.save(output, name)
        np.save(output, values)
    output.flush()
    os._exit(0)  # without the destructors of a library that has read damaged memory


if __name__ == "__main__":
    found = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no part of it
    write_output(found, sys.argv[1], sys.argv[2], sys.argv[3:])
