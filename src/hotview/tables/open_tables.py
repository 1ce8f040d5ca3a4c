"""Opening of users' files: tables with named columns, or matrices."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from hotview._messages import ParameterError, unknown_error
from hotview.data.options import File, Options, list_files
from hotview.data.table_file import TableFile
from hotview.tables.arrays import Matrix, ObsTable, read_obs
from hotview.tables.files import FORMATS, TABLES, open_file, read_file

#: Ids of the rows of every view, None for one without ids; None for a missing id.
Ids: TypeAlias = Mapping[str, "list[str | None] | None"]


@dataclass(frozen=True)
class OpenView:
    """A view whose file has been opened.

    Parameters
    ----------
    name : str
        Name of the view.
    path : Path
        Its file.
    table : TableFile or None
        The table, not read yet, for files whose columns have names.
    X : ndarray, csr_array or None
        The matrix, for files whose columns have no names.
    obs : ObsTable or None
        What an AnnData knows of its rows.
    """

    name: str
    path: Path
    table: TableFile | None = None
    X: Matrix | None = None
    obs: ObsTable | None = None

    @property
    def label_table(self) -> TableFile | None:
        """The table that may have columns of labels, groups and batches."""
        return self.obs if self.table is None else self.table


def split_name(spec: str) -> tuple[str | None, str]:
    """Split ``name=file`` into name and file; the name is None for a file alone.

    Examples
    --------
    >>> split_name("blood=data/a.csv"), split_name("data/a=b.csv")
    (('blood', 'data/a.csv'), (None, 'data/a=b.csv'))
    """
    name, mark, path = spec.partition("=")
    if not mark or os.path.exists(spec):
        return None, spec
    if "/" in name or "\\" in name:
        if os.path.exists(path):
            raise ValueError(
                f"Expected a view's name without slashes, but got {name!r}. Rename it."
            )
        return None, spec
    if not name or not path:
        raise ValueError(f"Expected a view as name=file, but got {spec!r}. Write clinical=a.csv.")
    return name, path


def open_views(specs: Sequence[str], options: Options) -> list[OpenView]:
    """Open the files of all views.

    Parameters
    ----------
    specs : sequence of str
        ``name=file``, or files, after which views are named.
    options : Options
        Format of text tables.

    Returns
    -------
    list of OpenView
        The views, with different names.
    """
    views: dict[str, OpenView] = {}
    for spec in specs:
        name, path = split_name(spec)
        [file] = list_files([path] if name is None else {name: path}, FORMATS)
        for view in _open_file(file, options):
            if view.name in views:
                first = views[view.name].path
                raise ValueError(
                    f"Two views are called {view.name!r}, from {first} and {view.path}. Name them: "
                    f"a={first} b={view.path}."
                )
            views[view.name] = view
    return list(views.values())


def _open_file(file: File, options: Options) -> list[OpenView]:
    if file.ending in TABLES:
        return [OpenView(file.name, file.path, open_file(file, options))]
    if file.ending not in (".h5ad", ".h5mu"):
        return [OpenView(name, file.path, X=X) for name, X in read_file(file, options)]
    views, obs = read_file(file, options), read_obs(file.path)
    only = next(iter(options.variables or obs))  # of a view that the user has named
    # Tables of cells are stored by view in an h5mu file, and under "" in an h5ad file.
    keys = {name: only if file.named_by_user or "" in obs else name for name, _ in views}
    return [
        OpenView(name, file.path, X=X, obs=obs.get(keys[name], obs.get(""))) for name, X in views
    ]


def open_table(path: str | Path, options: Options) -> TableFile:
    """Open a file of labels or ids, whose columns must have names.

    Parameters
    ----------
    path : str or Path
        The file.
    options : Options
        Format of text tables.

    Returns
    -------
    TableFile
        The table, not read yet.
    """
    [file] = list_files([path], FORMATS)
    if file.ending not in TABLES:
        raise ValueError(f"Expected {path} to be a table, one of {', '.join(TABLES)}.")
    return open_file(file, options)


def read_batches(view: OpenView, column: str) -> list[str] | None:
    """Return the batch of every row of a view; None if it has no such column.

    Parameters
    ----------
    view : OpenView
        The view.
    column : str
        Column of batches.

    Returns
    -------
    list of str or None
        The batches.
    """
    table = view.label_table
    if table is None or column not in table.names:
        return None
    [cells] = table.read_text([column])
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        raise ParameterError(
            f"Expected every row of view {view.name!r} to have a batch in {column!r}, but "
            f"{len(cells) - len(known):,} have none. ",
            "Fill the column in, or correct {batch_column}.",
        )
    return known


def read_ids(
    views: Collection[OpenView],
    id_column: str | None,
    files: Mapping[str, str],
    options: Options,
) -> dict[str, list[str | None] | None]:
    """Return the ids of the rows of each view, or None for a view without ids.

    Parameters
    ----------
    views : collection of OpenView
        The views.
    id_column : str or None
        Column of ids; None if there are no ids.
    files : dict of str to str
        Tables with the ids of some views, row by row.
    options : Options
        Format of text tables.

    Returns
    -------
    dict of str to (list of (str or None), or None)
        Ids as text, by view; None for a missing one.
    """
    names = [view.name for view in views]
    for name in files:
        if name not in names:
            raise unknown_error(f"No view is called {name!r}", name, names, "ids")
    tables = {name: open_table(path, options) for name, path in files.items()}
    ids: dict[str, list[str | None] | None] = dict.fromkeys(names)
    if id_column is None:
        return ids
    for view in views:
        table = tables.get(view.name, view.table)
        if table is not None:
            table.check_columns([id_column], f" to link view {view.name!r} by")
            [ids[view.name]] = table.read_text([id_column])
        elif view.obs is not None:
            in_obs = id_column in view.obs.names
            ids[view.name] = view.obs.read_text([id_column])[0] if in_obs else [*view.obs.cells]
    return ids
