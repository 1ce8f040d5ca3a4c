"""Views from files of arrays: npy and npz. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from scipy.sparse import csr_array, issparse

from hotview._lazy import LazyRows
from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.options import File, Options
from hotview.datasets.readers.errors import did_you_mean, reading
from hotview.datasets.readers.tables import LARGEST_INTEGER

Matrix: TypeAlias = "Array | csr_array[Any] | LazyRows"
#: What to do about an array that is no view.
CHOOSE = " Name the arrays of the file that are views in {variables}."


def as_view(value: Any, where: str, remedy: str = "") -> Matrix:
    """Check that the content of a file is a view, and convert its data type.

    Parameters
    ----------
    value : array or scipy sparse array
        Content of a file.
    where : str
        The file and the variable, for errors.
    remedy : str, default=""
        Advice if it is not a view: a sentence with a space before it.

    Returns
    -------
    ndarray or csr_array
        2-D with at least one row and column; float32 if it was, else float64.

    Examples
    --------
    >>> as_view(np.array([[1, 2], [3, 4]], dtype=np.uint8), "a.npy")
    array([[1., 2.],
           [3., 4.]])
    """
    is_sparse = issparse(value)
    stored: Array = value.data if is_sparse else value
    if stored.dtype.kind not in "biuf":
        raise ParameterError(f"{where} holds {stored.dtype}, not real numbers.", remedy)
    if len(value.shape) != 2:
        raise ParameterError(
            f"{where} has shape {value.shape}, but a view is 2-D: a row per individual, a column "
            "per feature.",
            remedy,
        )
    if 0 in value.shape:
        raise ValueError(f"{where} has shape {value.shape}: there is nothing in it.")
    if stored.dtype.kind in "iu" and stored.dtype.itemsize == 8:
        beyond = (stored > LARGEST_INTEGER) | (stored < -LARGEST_INTEGER)
        if beyond.any():
            raise ValueError(
                f"{where} holds the whole number {stored[beyond][0]}, beyond 2**53, which would "
                f"lose digits as a float64. Leave such columns out, or convert them yourself."
            )
    is_single = stored.dtype.newbyteorder("=") == np.float32
    dtype = np.dtype(np.float32 if is_single else np.float64)
    if is_sparse:
        # scipy trusts the indices of a file and would write outside of its memory.
        with reading(where, "a sparse matrix"):
            value.check_format(full_check=True)
        return csr_array(value, dtype=dtype)
    # Not np.asarray: a memory-mapped or lazy array stays one.
    return cast(Matrix, value if value.dtype == dtype else value.astype(dtype))


def read_npy(file: File, options: Options) -> list[tuple[str, Matrix]]:
    """Read the one view of an npy file; float32 and float64 arrays may be mapped into memory."""
    # Not np.load, which ignores the suffix and trusts the first bytes.
    with reading(file.path, "an npy file of numbers"), file.path.open("rb") as stream:
        value = (
            np.lib.format.open_memmap(file.path, mode="r")
            if options.mmap
            else np.lib.format.read_array(stream, allow_pickle=False)
        )
    remedy = " One feature is a column, X.reshape(-1, 1)."
    return [(file.name, as_view(value, str(file.path), remedy))]


def read_npz(file: File, options: Options) -> list[tuple[str, Matrix]]:
    """Read the views of an npz file.

    If it holds ``view_names``, its views are ``view_0``, ``view_1``, … under those names and its
    other arrays are not views; else every array has to be one.
    """
    path = file.path
    with path.open("rb") as stream:  # np.load would leave a damaged file open
        with reading(path, "an npz file"):
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise TypeError("It holds a single array; call it .npy.")
        members = _npz_members(path, archive)
        names = choose(path, list(members), options.variables)
        arrays = {name: _npz_array(path, archive, members[name]) for name in names}
    return [(name, as_view(X, f"{path}: array {name!r}", CHOOSE)) for name, X in arrays.items()]


def _npz_array(path: Path, archive: Any, member: str) -> Array:
    with reading(path, f"an npz file of numbers, at array {member!r},"):
        value = archive[member]
        if not isinstance(value, np.ndarray):
            raise TypeError("It is not an array.")
    return value


def _npz_members(path: Path, archive: Any) -> dict[str, str]:
    """Return the names of the views and their keys in the archive."""
    if "view_names" not in archive:
        return {name: name for name in archive.files}
    names = [str(name) for name in np.atleast_1d(_npz_array(path, archive, "view_names"))]
    members = [f"view_{s}" for s in range(len(names))]
    stored = [name for name in archive.files if name.startswith("view_") and name[5:].isdigit()]
    if set(stored) != set(members) or len(set(names)) < len(names):
        raise ValueError(
            f"{path}: view_names gives the {len(names)} names {names}, which have to be different "
            f"and belong to view_0, view_1, …, but the file holds {sorted(stored)}."
        )
    return dict(zip(names, members, strict=True))


def choose(path: Path, known: list[str], variables: Sequence[str] | None) -> list[str]:
    """Return the views of a file to read; raise if one does not exist."""
    if not known:
        raise ValueError(f"{path} holds no views.")
    for name in variables or ():
        if name not in known:
            raise ValueError(f"{path} holds no view {name!r}.{did_you_mean(name, known)}")
    return known if variables is None else list(variables)
