"""Views from AnnData and MuData files, of which only the matrices are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from hotview.datasets.readers.arrays import as_view, choose
from hotview.datasets.readers.errors import reading
from hotview.datasets.readers.matlab import Matrix


def read_h5ad(path: Path) -> Matrix:
    """Read the matrix ``X`` of an AnnData file, without the rest of it.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    ndarray or csr_array
        The view, cells in rows; sparse if it is stored so.
    """
    import h5py

    read_elem = _element_reader(path)
    with reading(path, "an h5ad file"), h5py.File(path, "r") as file:
        value = read_elem(file["X"])
    return as_view(value, f"{path}: X")


def read_h5mu(path: Path, *, variables: Sequence[str] | None) -> list[tuple[str, Matrix]]:
    """Read the matrix ``X`` of each modality of a MuData file.

    Parameters
    ----------
    path : Path
        The file.
    variables : sequence of str or None
        The modalities to read; None reads them all.

    Returns
    -------
    list of (str, ndarray or csr_array)
        Names and views, cells in rows; sparse where it is stored so.
    """
    import h5py

    read_elem = _element_reader(path)
    with reading(path, "an h5mu file"), h5py.File(path, "r") as file:
        # HDF5 sorts by name; MuData keeps the order of its modalities in an attribute.
        known = [str(name) for name in file["mod"].attrs.get("mod-order", list(file["mod"]))]
    names = choose(path, known, variables)
    with reading(path, "an h5mu file"), h5py.File(path, "r") as file:
        values = {name: read_elem(file["mod"][name]["X"]) for name in names}
    return [(name, as_view(values[name], f"{path}: modality {name!r}")) for name in names]


def read_obs_names(path: Path) -> dict[str, list[str]]:
    """Read the names of the cells, by modality.

    Parameters
    ----------
    path : Path
        An AnnData or MuData file.

    Returns
    -------
    dict of str to list of str
        Names by modality; an AnnData file has one, called ``""``.
    """
    import h5py

    with reading(path, "an h5ad or h5mu file"), h5py.File(path, "r") as file:
        parts = dict(file["mod"].items()) if "mod" in file else {"": file}
        tables = {name: part["obs"] for name, part in parts.items()}
        return {n: obs[obs.attrs["_index"]].asstr()[:].tolist() for n, obs in tables.items()}


def _element_reader(path: Path) -> Callable[[Any], Any]:
    """Return anndata's function that reads one element of a file."""
    try:
        from anndata.io import read_elem
    except ImportError as error:
        raise ImportError(f'Reading {path} needs anndata: pip install "hotview[omics]"') from error
    return cast(Callable[[Any], Any], read_elem)
