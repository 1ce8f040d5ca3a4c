"""The files that a user means, and what their views are called."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from hotview.datasets.readers.errors import did_you_mean

AnyPath: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = AnyPath | Sequence[AnyPath] | Mapping[str, AnyPath]


class File(NamedTuple):
    """One file.

    Attributes
    ----------
    path : Path
        Where it is.
    ending : str
        The end of its name that tells its format: ``".csv.gz"``.
    name : str
        What its view is called if it holds but one.
    named_by_user : bool
        Whether the user chose that name; else it is the file's name without its ending.
    """

    path: Path
    ending: str
    name: str
    named_by_user: bool


def list_files(source: Source, endings: Collection[str]) -> list[File]:
    """List the files of a source, at least one, all of which exist and have a known ending.

    Parameters
    ----------
    source : path, sequence of paths, or dict of str to path
        What the user passed.
    endings : collection of str
        The known ends of files' names, with their dots.

    Returns
    -------
    list of File
        The files, in the order in which they came.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "Blood.CSV.GZ")
    ...     path.touch()
    ...     file = list_files([path], endings=[".csv", ".csv.gz"])[0]
    >>> file.name, file.ending
    ('Blood', '.csv.gz')
    """
    if isinstance(source, str | os.PathLike):
        source = [source]
    if not isinstance(source, Sequence | Mapping):
        raise TypeError(
            f"Expected a path, a list of paths or a dict of names and paths, but got "
            f"{type(source).__name__}."
        )
    if not source:
        raise ValueError("Expected at least one file to read, but there is none.")
    if isinstance(source, Mapping):
        files = [
            _file(Path(path), endings)._replace(name=name, named_by_user=True)
            for name, path in source.items()
        ]
    else:
        files = [_file(Path(path), endings) for path in source]
    for file in files:
        _check_name(file)
    return files


def _file(path: Path, endings: Collection[str]) -> File:
    known = ", ".join(endings)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Pass its files, which may be {known}.")
    ending = _ending(path, endings)
    if not path.exists():
        raise _missing(path, endings)
    if not ending:
        raise ValueError(f"{path} does not end in any of {known}, so its format is not known.")
    return File(path, ending, path.name[: -len(ending)], named_by_user=False)


def _check_name(file: File) -> None:
    if not isinstance(file.name, str) or not file.name:
        raise TypeError(
            f"Expected the view of {file.path} to have a name that is text, but it is "
            f"{file.name!r}. Name it in a dict: {{'a name': {str(file.path)!r}}}."
        )


def _ending(path: Path, endings: Collection[str]) -> str:
    """Return the ending that fits, or nothing."""
    return next((ending for ending in endings if path.name.lower().endswith(ending)), "")


def _missing(path: Path, endings: Collection[str]) -> FileNotFoundError:
    if not path.parent.is_dir():
        return FileNotFoundError(f"There is no file {path}, nor a folder {path.parent}.")
    beside = sorted(entry.name for entry in path.parent.iterdir() if _ending(entry, endings))
    return FileNotFoundError(f"There is no file {path}.{did_you_mean(path.name, beside)}")
