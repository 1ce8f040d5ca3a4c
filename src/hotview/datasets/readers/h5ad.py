"""AnnData and MuData files: their matrices, and `obs` with labels, persons and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from hotview._lazy import LazyRows
from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.options import File, Options
from hotview.datasets.readers.arrays import Matrix, as_view, choose
from hotview.datasets.readers.errors import unknown_error
from hotview.datasets.readers.reader_process import open_hdf5
from hotview.datasets.readers.tables import TableFile, as_text


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
        categories = [str(name) for name in frame[column].cat.categories]
        stored = uns.get(f"{column}_colors")
        colors = [] if not hasattr(stored, "asstr") else np.atleast_1d(stored.asstr()[()]).tolist()
        style = {"categories": categories}
        styles[str(column)] = style | ({"colors": colors} if len(colors) == len(categories) else {})
    return styles


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
