"""MATLAB files, old (4 to 7, through scipy) and new (7.3, which is HDF5), read alike."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hotview._lazy import LazyRows
from hotview._types import Array
from hotview.datasets.readers.errors import did_you_mean, reading

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Matrix: TypeAlias = "Array | csr_array[Any] | LazyRows"

# MATLAB's numeric classes and their numpy types; 7.3 files store logical as uint8.
DTYPES = {
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
    "logical": np.dtype(np.bool_),
    **{f"{u}int{bits}": np.dtype(f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)},
}
READABLE = {*DTYPES, "sparse", "cell"}


def read_mat(
    path: str | os.PathLike[str], *, names: Sequence[str] | None = None
) -> dict[str, Matrix | list[Matrix]]:
    """Read the numeric variables of a MATLAB file, whichever version wrote it.

    A matrix comes back as MATLAB shows it (a vector is ``n × 1`` or ``1 × n``, a 7.3 file is
    transposed back) and in the type of its MATLAB class. A sparse matrix becomes a
    ``scipy.sparse.csr_array`` of float64. A cell array of matrices becomes a list, in MATLAB's
    order (down the columns). Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like
        A MAT-file of version 4, 5, 6, 7 or 7.3.
    names : sequence of str or None, default=None
        The variables to read, in this order; the others are not looked at. None reads them
        all, in the file's order, and refuses a file that also holds something which is not
        numeric (char, struct, function, object, complex, a cell array of those), so that
        nothing is left out without the caller having said so.

    Returns
    -------
    dict of str to array, csr_array or a list of those
        One entry per variable.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        Not a MAT-file, a damaged one, one without variables, an unknown name in ``names``,
        or a variable that is not numeric. The message names the file and the variable.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from scipy.io import savemat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.mat")
    ...     cells = np.empty(2, dtype=object)
    ...     cells[:] = [np.eye(3), np.ones((3, 5))]
    ...     savemat(path, {"X": cells, "Y": np.array([[1], [2], [2]])})
    ...     content = read_mat(path)
    >>> [view.shape for view in content["X"]], content["Y"].shape
    ([(3, 3), (3, 5)], (3, 1))
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    reader = _HDF5 if _is_hdf5(path) else _LEVEL5
    with reading(path, "a MAT-file"):
        classes = reader.classes(path)
    wanted = _choose(path, classes, names)
    with reading(path, "a MAT-file"):
        values = reader.values(path, wanted)
    return {name: _checked(values[name], path, name) for name in wanted}


def _choose(path: Path, classes: dict[str, str], names: Sequence[str] | None) -> list[str]:
    """Return the names to read, all of them present and of a class that can be read."""
    if not classes:
        raise ValueError(f"{path} holds no variables.")
    wanted = list(classes) if names is None else list(names)
    for name in wanted:
        if name not in classes:
            hint = did_you_mean(name, classes)
            raise ValueError(f"{path} holds no variable {name!r}.{hint}")
        if classes[name] not in READABLE:
            raise _not_numeric(path, name, classes[name])
    return wanted


def _not_numeric(path: Path, name: str, kind: str) -> ValueError:
    return ValueError(
        f"{path}: variable {name!r} is {kind}, not a real matrix or a cell array of them. "
        f"Name the variables to read, without this one."
    )


def _checked(value: Any, path: Path, name: str) -> Matrix | list[Matrix]:
    if isinstance(value, list):
        return [_matrix(cell, path, f"{name}{{{i}}}") for i, cell in enumerate(value, start=1)]
    return _matrix(value, path, name)


def _matrix(value: Any, path: Path, name: str) -> Matrix:
    """Return a real matrix in this machine's byte order, or raise."""
    from scipy.sparse import issparse

    if isinstance(value, list):
        raise _not_numeric(path, name, "a cell array in a cell array")
    if getattr(value, "dtype", np.dtype(object)).kind not in "biuf":
        raise _not_numeric(path, name, _kind(value))
    if issparse(value):
        return _sparse(value, path)
    return np.asarray(value, dtype=value.dtype.newbyteorder("="))


def _sparse(value: Any, path: Path) -> csr_array[Any]:
    from scipy.sparse import csr_array

    with reading(path, "a MAT-file"):
        # scipy trusts the indices that a file gives and would write outside of its memory
        # (version 4 comes as coo, which has been checked already).
        if value.format != "coo":
            value.check_format(full_check=True)
        return csr_array(value, dtype=np.float64)


def _kind(value: Any) -> str:
    """Say in MATLAB's words what a value is that is not a real matrix."""
    words = {"U": "char", "S": "char", "V": "struct", "c": "complex"}
    if isinstance(value, str):  # what the readers return for a class they do not read
        return value
    return words.get(value.dtype.kind, type(value).__name__)


class _Reader(NamedTuple):
    """How one family of MAT-files is read."""

    classes: Callable[[Path], dict[str, str]]
    values: Callable[[Path, list[str]], dict[str, Any]]


def _level5_classes(path: Path) -> dict[str, str]:
    from scipy.io import whosmat

    return {name: kind for name, _, kind in whosmat(path)}


def _level5_values(path: Path, names: list[str]) -> dict[str, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", MatReadWarning)
        # mat_dtype undoes MATLAB's packing of small doubles into uint8, but also drops
        # imaginary parts with no more than a warning: keep them, to be refused by name.
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            content = loadmat(path, mat_dtype=True, variable_names=names)
        except np.exceptions.ComplexWarning:
            content = loadmat(path, mat_dtype=False, variable_names=names)
    return {name: _cells_to_list(content[name]) for name in names}


def _cells_to_list(value: Any) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "O":
        return value
    return [_cells_to_list(cell) for cell in value.ravel(order="F")]


def _is_hdf5(path: Path) -> bool:
    import h5py

    return bool(h5py.is_hdf5(path))


def _hdf5_classes(path: Path) -> dict[str, str]:
    import h5py

    with h5py.File(path, "r") as file:
        # "#refs#" and "#subsystem#" hold the insides of cells and objects.
        return {name: _hdf5_class(file[name]) for name in file if not name.startswith("#")}


def _hdf5_class(item: Any) -> str:
    if "MATLAB_sparse" in item.attrs:
        return "sparse"
    name = item.attrs.get("MATLAB_class", b"not written by MATLAB (it has no MATLAB_class)")
    return str(name.decode() if isinstance(name, bytes) else name)


def _hdf5_values(path: Path, names: list[str]) -> dict[str, Any]:
    import h5py

    with h5py.File(path, "r") as file:
        return {name: _hdf5_value(file, file[name]) for name in names}


def _hdf5_value(file: Any, item: Any) -> Any:
    """Return a matrix, a list for a cell array, or the name of a class that is not read."""
    kind = _hdf5_class(item)
    if kind == "sparse":
        return _hdf5_sparse(item)
    if item.attrs.get("MATLAB_empty", 0):
        # The data of an empty matrix is its shape.
        shape = tuple(int(size) for size in item[()])
        return [] if kind == "cell" else np.zeros(shape, DTYPES.get(kind, np.float64))
    if kind == "cell":
        # HDF5 lists the axes in reverse, so C order here is MATLAB's column order.
        return [_hdf5_value(file, file[reference]) for reference in item[()].ravel()]
    if kind not in DTYPES:
        return kind
    value = item[()].T
    # A complex matrix is a compound of "real" and "imag".
    return "complex" if value.dtype.names else value.astype(DTYPES[kind], copy=False)


def _hdf5_sparse(item: Any) -> Any:
    from scipy.sparse import csc_array

    pointers = item["jc"][()].astype(np.int64)
    shape = (int(item.attrs["MATLAB_sparse"]), len(pointers) - 1)
    # MATLAB leaves "data" and "ir" out when every entry is zero.
    if "data" not in item:
        return csc_array(shape, dtype=np.float64)
    data = item["data"][()]
    if data.dtype.names:
        return "complex"
    return csc_array((data, item["ir"][()].astype(np.int64), pointers), shape=shape)


_LEVEL5 = _Reader(_level5_classes, _level5_values)
_HDF5 = _Reader(_hdf5_classes, _hdf5_values)
