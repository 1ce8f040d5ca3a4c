"""Views from files of arrays: npy, npz, h5ad and h5mu, and `obs` of the latter two."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from scipy.sparse import csr_array, issparse

from hotview._messages import ParameterError, check_known, reading, unknown_error
from hotview._types import Array, LazyRows
from hotview.data.options import File, Options
from hotview.data.table_file import LARGEST_INTEGER, TableFile, as_text
from hotview.tables.reader_process import open_hdf5

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
    check_known(variables or (), known, f"{path} holds no view")
    return known if variables is None else list(variables)


def read_h5ad(file: File, options: Options) -> list[tuple[str, Matrix]]:
    """Read one matrix of an AnnData file, without the rest of it; sparse if it is stored so."""
    read_elem = element_reader(file.path)
    part = (str(file.path), "/", options.for_file(file.name))
    return _read_matrices(file.path, "an h5ad file", {file.name: part}, read_elem)


def read_h5mu(file: File, options: Options) -> list[tuple[str, Matrix]]:
    """Read one matrix of each modality of a MuData file."""
    read_elem = element_reader(file.path)
    with open_hdf5(file.path, "an h5mu file") as opened:
        # HDF5 sorts by name; MuData keeps the order of its modalities in an attribute.
        stored = opened["mod"].attrs.get("mod-order", list(opened["mod"]))
        modalities = [str(name) for name in stored]
    parts = {}
    for name in choose(file.path, modalities, options.variables):
        own = options.for_file(file.name if file.named_by_user else name)
        parts[name] = (f"{file.path}: modality {name!r}", f"mod/{name}", own)
    return _read_matrices(file.path, "an h5mu file", parts, read_elem)


def _read_matrices(
    path: Path,
    kind: str,
    parts: Mapping[str, tuple[str, str, Options]],
    read_elem: Callable[[Any], Any],
) -> list[tuple[str, Matrix]]:
    """Read a matrix of every part: its place in errors, its group, and its options."""
    views = []
    keys = {name: _matrix_key(where, own) for name, (where, _, own) in parts.items()}
    values: dict[str, Any] = {}
    known: dict[str, list[str]] = {}
    with open_hdf5(path, kind, *(key[-1] for key in keys.values())) as opened:
        for name, (_, group, _) in parts.items():
            part, key = opened[group], keys[name]
            # X is read in any case.
            known[name] = [*key] if len(key) == 1 else [str(n) for n in part.get(key[0], {})]
            values[name] = read_elem(part["/".join(key)]) if key[-1] in known[name] else None
    for name, (where, _, _) in parts.items():
        value, key = values[name], keys[name]
        if value is None:
            problem = f"Expected {where} to have {key[0]} {key[-1]!r}, but it has none"
            parameter = "obsm" if key[0] == "obsm" else "layer"
            raise unknown_error(problem, key[-1], known[name], parameter)
        if hasattr(value, "columns"):  # a data frame
            value = value.to_numpy()
        place = where if len(key) == 1 else f"{where}: {'/'.join(key)}"
        views.append((name, as_view(value, place)))
    return views


def _matrix_key(where: str, options: Options) -> tuple[str, ...]:
    """Return the path of a matrix in an AnnData."""
    if options.obsm is not None and options.layer is not None:
        raise ParameterError(
            f"Expected a layer or an entry of obsm for {where}, but got both, {options.layer!r} "
            f"and {options.obsm!r}. ",
            "Pass {obsm} or {layer}.",
        )
    if options.obsm is not None:
        return ("obsm", options.obsm)
    return ("X",) if options.layer is None else ("layers", options.layer)


def element_reader(path: Path) -> Callable[[Any], Any]:
    """Return ``anndata.io.read_elem``, which reads one element of a file."""
    try:
        from anndata.io import read_elem
    except ImportError as error:
        raise ImportError(f'Reading {path} needs anndata: pip install "hotview[omics]"') from error
    return cast(Callable[[Any], Any], read_elem)


class ObsTable(TableFile):
    """The columns of `obs`, as a table of text, row i of which is cell i.

    Parameters
    ----------
    path : Path
        The file.
    columns : dict of str to list of (str or None)
        The columns, None where a cell is missing.
    name : str
        Name of the modality, or of the file.
    styles : dict of str to dict of str to list of str
        Of columns with categories: these in their order and, if there are any, their colors.
    obsm : sequence of str
        Entries of `obsm`.
    cells : list of str
        Names of the cells.

    Examples
    --------
    >>> table = ObsTable(Path("rna.h5ad"), {"kind": ["B", None]}, name="rna")
    >>> table.read_text(["kind"])
    [['B', None]]
    """

    def __init__(
        self,
        path: Path,
        columns: Mapping[str, list[str | None]],
        name: str = "",
        styles: Mapping[str, dict[str, list[str]]] | None = None,
        obsm: Sequence[str] = (),
        cells: Sequence[str | None] = (),
    ) -> None:
        super().__init__(path, list(columns), [], name)
        self._columns, self.styles, self.obsm = columns, styles or {}, tuple(obsm)
        self.cells = cells

    def _read(self, names: list[str]) -> Array | LazyRows:
        raise TypeError(f"Expected columns of {self.path} to be text. Read them by read_text.")

    def _read_text(self, names: list[str]) -> Iterable[list[str | None]]:
        return (self._columns[name] for name in names)

    def find_text(self) -> list[str]:
        """Return the names of all columns."""
        return list(self.names)


def obs_text(values: Any) -> list[str | None]:
    """Return a column of `obs` as text: whole numbers without a decimal, None where missing.

    Parameters
    ----------
    values : pandas Series
        The column.

    Returns
    -------
    list of (str or None)
        Its cells.

    Examples
    --------
    >>> import pandas as pd
    >>> obs_text(pd.Series([1.0, None])), obs_text(pd.Series(["B", None], dtype="category"))
    (['1', None], ['B', None])
    """
    missing = values.isna().tolist()
    return [
        None if gone else as_text(value)
        for value, gone in zip(values.astype(object).tolist(), missing, strict=True)
    ]


def read_obs(path: Path) -> dict[str, ObsTable]:
    """Read the columns of `obs`, by modality.

    Parameters
    ----------
    path : Path
        An AnnData or MuData file.

    Returns
    -------
    dict of str to ObsTable
        A table for every modality; an AnnData file has one, called ``""``. The columns of a MuData
        itself are part of all of them, and fill the gaps of columns of the same name.
    """
    read_elem = element_reader(path)
    with open_hdf5(path, "an h5ad or h5mu file", "obs", "uns") as file:
        is_whole = "mod" in file and "obs" in file
        parts = dict(file["mod"].items()) if "mod" in file else {"": file}
        frames = {str(name): read_elem(part["obs"]) for name, part in parts.items()}
        whole = read_elem(file["obs"]) if is_whole else None
        styles = {name: find_styles(frame, parts[name]) for name, frame in frames.items()}
        shared = find_styles(whole, file) if is_whole else {}
        entries = {name: list(part.get("obsm", ())) for name, part in parts.items()}
    tables = {}
    for name, frame in frames.items():
        columns = {str(column): obs_text(frame[column]) for column in frame}
        if whole is not None:
            _fill_from(whole, frame.index, columns, f"{path}: modality {name!r}")
        own, cells = shared | styles[name], [*map(str, frame.index)]
        tables[name] = ObsTable(path, columns, name, own, entries[name], cells)
    return tables


def find_styles(frame: Any, file: Any) -> dict[str, dict[str, list[str]]]:
    """Return the order of categories of columns of `obs`, and their colors in `uns`.

    Parameters
    ----------
    frame : pandas DataFrame
        The columns.
    file : h5py.Group
        The AnnData or MuData with its `uns`.

    Returns
    -------
    dict of str to dict of str to list of str
        By column, ``categories`` and, if all have one, ``colors``.
    """
    styles, uns = {}, file.get("uns", {})
    for column in frame:
        if not hasattr(frame[column], "cat"):
            continue
        stored = uns.get(f"{column}_colors")
        colors = [] if not hasattr(stored, "asstr") else np.atleast_1d(stored.asstr()[()]).tolist()
        styles[str(column)] = make_style(frame[column], colors)
    return styles


def make_style(column: Any, colors: list[str]) -> dict[str, list[str]]:
    """Return the categories of a column, and their colors if all have one."""
    categories = [str(name) for name in column.cat.categories]
    style = {"categories": categories}
    return style | ({"colors": colors} if len(colors) == len(categories) else {})


def _fill_from(whole: Any, cells: Any, columns: dict[str, list[str | None]], where: str) -> None:
    """Add the columns of a MuData, without those that it has copied from a modality."""
    of_cells = whole.reindex(cells)
    for column in map(str, of_cells):
        texts = obs_text(of_cells[column])
        own = columns.setdefault(column, texts)
        pairs = list(zip(own, texts, strict=True))
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
            raise ValueError(
                f"Expected one value of {column!r} for every cell, but {where} and the whole file "
                "contradict each other. Correct them, or drop the column where it is wrong."
            )
        columns[column] = [text if mine is None else mine for mine, text in pairs]
