"""Tables and folders that commands write."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotview._files import atomic_write
from hotview.cli.runner import check_new_file
from hotview.datasets.readers.tables import escape_formulas

__all__ = ["make_folder", "write_table"]


def make_folder(folder: Path, names: Sequence[str], *, force: bool) -> list[Path]:
    """Make a folder for files that must not exist yet.

    Parameters
    ----------
    folder : Path
        The folder; its parent has to exist.
    names : sequence of str
        Names of the files.
    force : bool
        Whether files may be replaced.

    Returns
    -------
    list of Path
        The files.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; give the name of a folder.")
    for name in names:
        if os.path.basename(name) != name or name.startswith("."):
            raise ValueError(f"No file can be called {name!r}. Rename that view.")
        check_new_file(folder / name, force=force)
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"the folder {folder.parent} does not exist; make it first."
        ) from None
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"the folder {folder} cannot be written to; choose another.")
    return [folder / name for name in names]


def write_table(columns: Mapping[str, Any], path: Path) -> Path:
    """Write columns as csv, in which spreadsheets run nothing, or as parquet.

    The file is written completely or not at all.

    Parameters
    ----------
    columns : dict of str to sequence or 1-D array
        The columns, of equal lengths.
    path : Path
        The file; its suffix selects the format.

    Returns
    -------
    Path
        The same.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    is_text = path.suffix.lower() != ".parquet"
    columns = escape_formulas(columns) if is_text else columns
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with atomic_write(path) as draft:
        (csv.write_csv if is_text else parquet.write_table)(table, draft)
    return path
