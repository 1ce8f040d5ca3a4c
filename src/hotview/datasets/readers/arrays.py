"""Views from files of arrays: npy, npz, mat, h5ad and h5mu. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array, issparse

from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.readers.errors import did_you_mean, reading, unknown_error
from hotview.datasets.readers.matlab import Matrix, read_mat
from hotview.datasets.readers.reader_process import open_hdf5
from hotview.datasets.readers.tables import LARGEST_INTEGER

_CHOOSE = " Name the arrays of the file that are views in {variables}."


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


def read_npy(path: Path, *, mmap: bool) -> Matrix:
    """Read the one view of an npy file.

    Parameters
    ----------
    path : Path
        The file.
    mmap : bool
        Whether to map a float32 or float64 array into memory instead of reading it.

    Returns
    -------
    ndarray
        The view, an ``np.memmap`` if mapped.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/a.npy", np.eye(2, dtype=np.float32))
    ...     read_npy(Path(folder, "a.npy"), mmap=False)
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    # Not np.load, which ignores the suffix and trusts the first bytes.
    with reading(path, "an npy file of numbers"), path.open("rb") as stream:
        value = (
            np.lib.format.open_memmap(path, mode="r")
            if mmap
            else np.lib.format.read_array(stream, allow_pickle=False)
        )
    return as_view(value, str(path), " One feature is a column, X.reshape(-1, 1).")


def read_npz(path: Path, *, variables: Sequence[str] | None) -> list[tuple[str, Matrix]]:
    """Read the views of an npz file.

    Parameters
    ----------
    path : Path
        The file. If it holds ``view_names``, its views are ``view_0``, ``view_1``, … under those
        names and its other arrays are not views; else every array has to be one.
    variables : sequence of str or None
        The names of the views to read; None reads them all.

    Returns
    -------
    list of (str, ndarray)
        Names and views.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(folder + "/a.npz", view_0=np.eye(2), view_names=["pixels"], y=[0, 1])
    ...     [name for name, X in read_npz(Path(folder, "a.npz"), variables=None)]
    ['pixels']
    """
    with path.open("rb") as stream:  # np.load would leave a damaged file open
        with reading(path, "an npz file"):
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise TypeError("It holds a single array; call it .npy.")
        members = _npz_members(path, archive)
        names = choose(path, list(members), variables)
        arrays = {name: _npz_array(path, archive, members[name]) for name in names}
    return [(name, as_view(X, f"{path}: array {name!r}", _CHOOSE)) for name, X in arrays.items()]


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


def read_mat_views(path: Path, *, variables: Sequence[str] | None) -> list[tuple[str, Matrix]]:
    """Read the views of a MATLAB file.

    Parameters
    ----------
    path : Path
        The file. A matrix is a view; a cell array ``X`` of matrices is the views ``X_0``,
        ``X_1``, …
    variables : sequence of str or None
        The MATLAB variables to read. None reads them all, and refuses a file that also holds
        a vector (perhaps labels) or a variable that is not numeric.

    Returns
    -------
    list of (str, ndarray or csr_array)
        Names and views.

    Examples
    --------
    >>> import tempfile
    >>> from scipy.io import savemat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     savemat(folder + "/a.mat", {"A": np.eye(3), "Y": np.ones((3, 1))})
    ...     [name for name, X in read_mat_views(Path(folder, "a.mat"), variables=["A"])]
    ['A']
    """
    content = read_mat(path, names=variables)
    for name, value in content.items():
        if variables is None and not isinstance(value, list) and 1 in value.shape:
            shape = " × ".join(map(str, value.shape))
            text = f"{path}: variable {name!r} is {shape}: these may be labels rather than a view."
            raise ParameterError(text, _CHOOSE)
    views = []
    for name, value in content.items():
        if not isinstance(value, list):
            views.append((name, as_view(value, f"{path}: variable {name!r}", _CHOOSE)))
            continue
        for s, cell in enumerate(value):
            where = f"{path}: variable '{name}{{{s + 1}}}'"  # as MATLAB writes it
            views.append((f"{name}_{s}", as_view(cell, where, _CHOOSE)))
    return views


def read_h5ad(path: Path, obsm: str | None = None, layer: str | None = None) -> Matrix:
    """Read one matrix of an AnnData file, without the rest of it.

    Parameters
    ----------
    path : Path
        The file.
    obsm, layer : str or None, default=None
        Entry of ``obsm``, or layer, to read instead of ``X``; at most one of them.

    Returns
    -------
    ndarray or csr_array
        The view, cells in rows; sparse if it is stored so.
    """
    read_elem = element_reader(path)
    where = matrix_key(str(path), obsm, layer)
    with open_hdf5(path, "an h5ad file", where[-1]) as file:
        known = _entries(file, where)
        value = read_elem(file["/".join(where)]) if where[-1] in known else None
    return _as_matrix(value, where, known, str(path))


def read_h5mu(
    path: Path,
    *,
    variables: Sequence[str] | None,
    choice: Callable[[str], tuple[str | None, str | None]] = lambda name: (None, None),
) -> list[tuple[str, Matrix]]:
    """Read one matrix of each modality of a MuData file.

    Parameters
    ----------
    path : Path
        The file.
    variables : sequence of str or None
        The modalities to read; None reads them all.
    choice : callable
        Returns, for a modality, the entry of ``obsm`` and the layer to read instead of ``X``, or
        None.

    Returns
    -------
    list of (str, ndarray or csr_array)
        Names and views, cells in rows; sparse where it is stored so.
    """
    read_elem = element_reader(path)
    with open_hdf5(path, "an h5mu file") as file:
        # HDF5 sorts by name; MuData keeps the order of its modalities in an attribute.
        known = [str(name) for name in file["mod"].attrs.get("mod-order", list(file["mod"]))]
    names = choose(path, known, variables)
    places = {name: f"{path}: modality {name!r}" for name in names}
    keys = {name: matrix_key(places[name], *choice(name)) for name in names}
    with open_hdf5(path, "an h5mu file", *(key[-1] for key in keys.values())) as file:
        entries = {name: _entries(file["mod"][name], key) for name, key in keys.items()}
        values = {
            name: read_elem(file["mod"][name]["/".join(key)])
            for name, key in keys.items()
            if key[-1] in entries[name]
        }
    return [
        (name, _as_matrix(values.get(name), key, entries[name], places[name]))
        for name, key in keys.items()
    ]


def matrix_key(where: str, obsm: str | None, layer: str | None) -> tuple[str, ...]:
    """Return the path of a matrix in an AnnData.

    Examples
    --------
    >>> matrix_key("rna.h5ad", "X_pca", None)
    ('obsm', 'X_pca')
    """
    if obsm is not None and layer is not None:
        raise ParameterError(
            f"Expected a layer or an entry of obsm for {where}, but got both, {layer!r} and "
            f"{obsm!r}. ",
            "Pass {obsm} or {layer}.",
        )
    return ("obsm", obsm) if obsm is not None else ("X",) if layer is None else ("layers", layer)


def _entries(group: Any, key: tuple[str, ...]) -> list[str]:
    """Return the names beside a matrix; of X alone, which is read in any case."""
    return list(key) if len(key) == 1 else [str(name) for name in group.get(key[0], {})]


def _as_matrix(value: Any, key: tuple[str, ...], known: list[str], where: str) -> Matrix:
    if value is None:
        problem = f"Expected {where} to have {key[0]} {key[-1]!r}, but it has none"
        raise unknown_error(problem, key[-1], known, "obsm" if key[0] == "obsm" else "layer")
    if hasattr(value, "columns"):  # a data frame
        value = value.to_numpy()
    return as_view(value, where if len(key) == 1 else f"{where}: {'/'.join(key)}")


def element_reader(path: Path) -> Callable[[Any], Any]:
    """Return ``anndata.io.read_elem``, which reads one element of a file."""
    try:
        from anndata.io import read_elem
    except ImportError as error:
        raise ImportError(f'Reading {path} needs anndata: pip install "hotview[omics]"') from error
    return cast(Callable[[Any], Any], read_elem)
