"""The files a user names, opened: tables with named columns, or matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotview.datasets.files import FORMATS, TABLES, File, Options, list_files, read_file
from hotview.datasets.readers.arrays import read_obs_names
from hotview.datasets.readers.errors import did_you_mean
from hotview.datasets.readers.matlab import Matrix
from hotview.datasets.readers.tables import TableFile

__all__ = ["OpenView", "open_table", "open_views", "row_ids", "split_name"]

_OMICS = (".h5ad", ".h5mu")


@dataclass(frozen=True)
class OpenView:
    """A view whose file has been opened.

    Parameters
    ----------
    name : str
        What the view is called.
    path : Path
        Its file.
    table : TableFile or None
        Its columns, not read yet, where they have names.
    X : ndarray, csr_array or None
        Its numbers, where its columns have no names.
    own_ids : list of str or None
        Names of its rows that the file itself knows.
    """

    name: str
    path: Path
    table: TableFile | None = None
    X: Matrix | None = None
    own_ids: list[str] | None = None


def split_name(spec: str) -> tuple[str | None, str]:
    """Split ``name=file``; a file alone has no name of the user's.

    Examples
    --------
    >>> split_name("blood=data/a.csv"), split_name("data/a=b.csv")
    (('blood', 'data/a.csv'), (None, 'data/a=b.csv'))
    """
    name, mark, path = spec.partition("=")
    if not mark or _exists(spec):
        return None, spec
    if "/" in name or "\\" in name:
        if _exists(path):
            raise ValueError(
                f"Expected a view's name without slashes, but got {name!r}. Rename it."
            )
        return None, spec
    if not name or not path:
        raise ValueError(f"Expected a view as name=file, but got {spec!r}. Write clinical=a.csv.")
    return name, path


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # too long to be one
        return False


def open_views(specs: Sequence[str], options: Options) -> list[OpenView]:
    """Open the files of all views.

    Parameters
    ----------
    specs : sequence of str
        ``name=file``, or files, which name their views.
    options : Options
        How text tables are written.

    Returns
    -------
    list of OpenView
        The views, each of its own name.
    """
    found: dict[str, OpenView] = {}
    for spec in specs:
        name, path = split_name(spec)
        [file] = list_files([path] if name is None else {name: path}, FORMATS)
        for view in _open(file, options):
            if view.name in found:
                raise ValueError(
                    f"Two views are called {view.name!r}, from {found[view.name].path} and "
                    f"{view.path}. Name them: a={found[view.name].path} b={view.path}."
                )
            found[view.name] = view
    return list(found.values())


def _open(file: File, options: Options) -> list[OpenView]:
    if file.ending in TABLES:
        return [OpenView(file.name, file.path, TABLES[file.ending](file.path, options))]
    pairs = read_file(file, options)
    ids = read_obs_names(file.path) if file.ending in _OMICS else {}
    # The views of an h5mu file go by their own names, the one view of an h5ad file by any.
    known = [ids.get(name, ids.get("")) for name, _ in pairs]
    return [
        OpenView(name, file.path, X=X, own_ids=own)
        for (name, X), own in zip(pairs, known, strict=True)
    ]


def open_table(path: str | Path, options: Options) -> TableFile:
    """Open a file that has to have named columns: labels, or ids.

    Parameters
    ----------
    path : str or Path
        The file.
    options : Options
        How text tables are written.

    Returns
    -------
    TableFile
        The table, not read yet.
    """
    [file] = list_files([path], FORMATS)
    if file.ending not in TABLES:
        raise ValueError(f"Expected {path} to be a table: {', '.join(TABLES)}.")
    return TABLES[file.ending](file.path, options)


def row_ids(
    view: OpenView, id_column: str | None, files: Mapping[str, TableFile]
) -> list[str | None] | None:
    """The id of every row of a view, or None where it has none.

    Parameters
    ----------
    view : OpenView
        The view.
    id_column : str or None
        The column of ids; None if nobody has any.
    files : dict of str to TableFile
        Tables that hold the ids of some views, row by row.

    Returns
    -------
    list of (str or None), or None
        Ids as text; None for a missing one.
    """
    if id_column is None:
        return None
    table = files.get(view.name, view.table)
    if table is None:
        return None if view.own_ids is None else list(view.own_ids)
    if id_column not in table.names:
        raise ValueError(
            f"{table.path} has no column {id_column!r} to link view {view.name!r} by."
            f"{did_you_mean(id_column, table.names)}"
        )
    return table.read_text([id_column])[0]
