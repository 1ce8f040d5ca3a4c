"""Files that a user names, and the options by which they are read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from hotview._messages import ParameterError, did_you_mean, unknown_error
from hotview._validation import check_choice

AnyPath: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = AnyPath | Sequence[AnyPath] | Mapping[str, AnyPath]

#: Orders of day and month in dates such as 03/04/2024.
DATE_ORDERS = ("day-first", "month-first")
#: Options that may differ from file to file.
PER_FILE = (
    *("header", "delimiter", "decimal", "thousands", "encoding", "missing", "dates"),
    *("sheet", "query", "obsm", "layer"),
)
#: Options that are for files of some formats only.
_FORMATS_OF = {
    **dict.fromkeys(("delimiter", "encoding"), (".csv", ".csv.gz", ".tsv", ".tsv.gz")),
    "sheet": (".xlsx",),
    "query": (".duckdb",),
    **dict.fromkeys(("obsm", "layer"), (".h5ad", ".h5mu")),
}


@dataclass(frozen=True)
class Options:
    """The options of `read_views`, and of tables whose columns are not all numbers.

    Those in `PER_FILE` hold for all files, or, as a dict, for files by name, and for the others
    under ``""``. `thousands` is the separator of thousands, and `dates` the order of day and month.
    """

    header: Any = None
    delimiter: Any = None
    decimal: Any = None
    thousands: Any = None
    encoding: Any = None
    missing: Any = None
    dates: Any = None
    sheet: Any = None
    query: Any = None
    obsm: Any = None
    layer: Any = None
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    drop: Sequence[str] = ()
    variables: Sequence[str] | None = None
    mmap: bool = False

    def __post_init__(self) -> None:
        for option in ("columns", "drop", "variables", "missing"):
            if isinstance(value := getattr(self, option), str):
                raise TypeError(f"Expected {option} to be a list. Write {option}=[{value!r}].")
        if named := list(self._named()):
            for name in dict.fromkeys(["", *(name for _, name in named)]):
                self.for_file(name)  # is checked as it is made
            return
        for option in ("delimiter", "decimal", "thousands"):
            value = getattr(self, option)
            if value is not None and len(value) != 1:
                raise ValueError(f"Expected {option} to be one character, but it is {value!r}.")
        for option, choices in (("decimal", (".", ",")), ("dates", DATE_ORDERS)):
            if (value := getattr(self, option)) is not None:
                check_choice(option, value, choices)
        for option in ("delimiter", "thousands"):
            if getattr(self, option) == self.decimal_point:
                raise ValueError(
                    f"The {option} and the decimal point are both {self.decimal_point!r}."
                )
        if not all(isinstance(cell, str) for cell in self.missing or ()):
            raise TypeError(f"Expected missing to be a list of text, but it is {self.missing!r}.")
        try:
            "".encode(self.encoding or "utf-8")  # which also refuses codecs of anything but text
        except LookupError:
            raise ParameterError(
                "Expected the name of an encoding, such as utf-8, latin-1 or cp1252, but it "
                f"is {self.encoding!r}. ",
                "Correct {encoding}.",
            ) from None

    def _named(self) -> Iterator[tuple[str, str]]:
        """Yield the options that differ from file to file, with the names of files."""
        for option in PER_FILE:
            if isinstance(value := getattr(self, option), Mapping):
                yield from ((option, name) for name in value or ("",))

    def for_file(self, name: str) -> Options:
        """Return the options of one file, none of them by name."""
        own = {
            option: value.get(name, value.get(""))
            for option in PER_FILE
            if isinstance(value := getattr(self, option), Mapping)
        }
        for option, value in own.items():
            if isinstance(value, Mapping):
                raise ValueError(
                    f"Expected {option} of a file to be one value, but it is {value!r}. Pass one."
                )
        return replace(self, **own) if own else self

    def check_names(self, names: Sequence[str]) -> None:
        """Raise if an option names a file that is not there."""
        for option, name in self._named():
            if name and name not in names:
                raise unknown_error(f"No file is called {name!r}", name, names, option)

    def check_endings(self, paths: Mapping[str, AnyPath]) -> None:
        """Raise if an option names a file, of these by name, but is for other formats."""
        for option, name in self._named():
            endings = _FORMATS_OF.get(option)
            if endings and name in paths and not os.fspath(paths[name]).lower().endswith(endings):
                remedy = f"{{{option}}} is for {', '.join(endings)}. Leave it out."
                raise ParameterError(f"{paths[name]}: ", remedy)

    @property
    def missing_cells(self) -> tuple[str, ...]:
        """Cells that mean "missing", besides the usual ones: a -999 also as -999.0 and the like."""
        cells = dict.fromkeys(self.missing or ())
        for cell in self.missing or ():
            with suppress(ValueError):
                number = float(cell)
                texts = (f"{number:.{n}f}" for n in range(4))
                cells |= dict.fromkeys(text for text in texts if float(text) == number)
        return tuple(cells)

    @property
    def decimal_point(self) -> str:
        """The decimal point: a comma where points separate thousands."""
        return self.decimal or ("," if self.thousands == "." else ".")


NO_OPTIONS = Options()


class File(NamedTuple):
    """One file of a source.

    Attributes
    ----------
    path : Path
        Path of the file.
    ending : str
        End of its name, which determines the format: ``".csv.gz"``.
    name : str
        Name of its view if it holds a single one.
    named_by_user : bool
        Whether the user chose that name; else it is the file's name without its ending.
    """

    path: Path
    ending: str
    name: str
    named_by_user: bool


def list_files(source: Source, endings: Collection[str]) -> list[File]:
    """Return the files of a source, which must exist and have a known ending.

    Parameters
    ----------
    source : path, sequence of paths, or dict of str to path
        The user's argument.
    endings : collection of str
        Known endings, with their dots.

    Returns
    -------
    list of File
        The files, in the given order.

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
    named = source if isinstance(source, Mapping) else None
    files = [_find_file(Path(path), endings) for path in (named.values() if named else source)]
    if named:
        files = [f._replace(name=n, named_by_user=True) for f, n in zip(files, named, strict=True)]
    for file in files:
        if not isinstance(file.name, str) or not file.name:
            raise TypeError(
                f"Expected the view of {file.path} to have a name that is text, but it is "
                f"{file.name!r}. Name it in a dict: {{'a name': {str(file.path)!r}}}."
            )
    return files


def _find_file(path: Path, endings: Collection[str]) -> File:
    known = ", ".join(endings)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Pass its files, which may be {known}.")
    ending = find_ending(path, endings)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no file {path}, nor a folder {path.parent}.")
    if not path.exists():
        beside = sorted(x.name for x in path.parent.iterdir() if find_ending(x, endings))
        raise FileNotFoundError(f"There is no file {path}.{did_you_mean(path.name, beside)}")
    if not ending:
        hint = " Save it as xlsx or csv." if path.suffix.lower() in (".xls", ".ods") else ""
        raise ValueError(
            f"{path} does not end in any of {known}, so its format is not known.{hint}"
        )
    return File(path, ending, path.name[: -len(ending)], named_by_user=False)


def find_ending(path: Path, endings: Collection[str]) -> str:
    """Return the known ending of a file's name, or an empty string."""
    return next((ending for ending in endings if path.name.lower().endswith(ending)), "")
