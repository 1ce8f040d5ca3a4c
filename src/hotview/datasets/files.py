"""Read views from files of any supported format."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from hotview._messages import ParameterError
from hotview._validation import check_choice, check_one_line
from hotview.datasets.readers.arrays import (
    as_view,
    read_h5ad,
    read_h5mu,
    read_mat_views,
    read_npy,
    read_npz,
)
from hotview.datasets.readers.arrow import read_query
from hotview.datasets.readers.delimited import TextTable
from hotview.datasets.readers.errors import did_you_mean, listed, unknown_error, within_memory
from hotview.datasets.readers.excel import read_sheet
from hotview.datasets.readers.matlab import Matrix
from hotview.datasets.readers.parquet import ParquetTable
from hotview.datasets.readers.tables import TableFile, select

AnyPath: TypeAlias = str | os.PathLike[str]
_T = TypeVar("_T")
PerFile: TypeAlias = _T | Mapping[str, _T] | None
Source: TypeAlias = AnyPath | Sequence[AnyPath] | Mapping[str, AnyPath]


def read_views(
    source: Source,
    *,
    header: PerFile[bool] = None,
    delimiter: PerFile[str] = None,
    decimal: PerFile[str] = None,
    encoding: PerFile[str] = None,
    missing: PerFile[Sequence[str]] = None,
    sheet: PerFile[str] = None,
    query: PerFile[str] = None,
    obsm: PerFile[str] = None,
    layer: PerFile[str] = None,
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    drop: Sequence[str] = (),
    variables: Sequence[str] | None = None,
    mmap: bool = False,
) -> dict[str, Matrix]:
    r"""Read views from files, each a table with a row per individual and a column per feature.

    The end of a file's name determines its format:

    ========================================  ==================================================
    .csv, .tsv, .csv.gz, .tsv.gz              one view; empty cells, NA, NaN, null, … become NaN
    .parquet                                  one view; nulls become NaN, true and false 1 and 0
    .xlsx (needs ``hotview[excel]``)          one view: a sheet, whose first row holds the names
    .duckdb (needs ``hotview[sql]``)          one view: the result of a query
    .npy                                      one view
    .npz                                      a view per array; with ``view_names`` in the file,
                                              ``view_0``, ``view_1``, … under those names
    .mat (all versions of MATLAB)             a view per matrix; a cell array ``X`` of matrices
                                              is ``X_0``, ``X_1``, …
    .h5ad, .h5mu (need ``hotview[omics]``)    one view, or a view per modality: its matrix ``X``
    ========================================  ==================================================

    Nothing is unpickled or executed, all rows and columns are read unless an option excludes them,
    and values that are not numbers raise an error that names the file and the column.

    Parameters
    ----------
    source : path, sequence of paths, or dict of str to path
        The files. A dict names the views, and each of its files has to hold one view. Else a
        file of one view is named after the file (``"data/blood.csv"`` is ``"blood"``), and the
        views of a file of several keep their names.
    header : bool, dict of str to bool, or None, default=None
        Text tables, xlsx: whether the first line holds the names of columns. None expects names,
        and refuses a first line that holds only numbers. Without names the columns are called
        ``column_0``, ``column_1``, …. This and the next options hold for all files, or, as a
        dict, for the views that it names.
    delimiter : str, dict of str to str, or None, default=None
        Text tables: separator of cells. None is a comma in csv and a tab in tsv.
    decimal : str, dict of str to str, or None, default=None
        Text tables: the decimal point; None is a point.
    encoding : str, dict of str to str, or None, default=None
        Text tables: the encoding, such as ``"latin-1"``; None is UTF-8.
    missing : sequence of str, dict of str to sequence of str, or None, default=None
        Tables: cells that mean "missing", besides empty cells, NA and the like.
    sheet : str, dict of str to str, or None, default=None
        xlsx: name of the sheet; None reads a file of one sheet.
    query : str, dict of str to str, or None, default=None
        duckdb: the SQL query whose result is the view; None reads a database of one table.
    obsm : str, dict of str to str, or None, default=None
        h5ad, h5mu: entry of `obsm` to read instead of ``X``, such as ``"X_pca"``.
    layer : str, dict of str to str, or None, default=None
        h5ad, h5mu: layer to read instead of ``X``.
    columns : sequence of str, dict of str to sequence of str, or None, default=None
        Text tables and parquet: the columns to keep, in this order. A sequence holds for every
        such file, a dict for the views that it names. None keeps all columns, and refuses a row
        index that pandas saved as a column (of no name, or marked as index in parquet).
    drop : sequence of str, default=()
        Text tables and parquet: columns to leave out, such as identifiers, labels and text.
        Each has to exist in at least one of the files.
    variables : sequence of str or None, default=None
        npz, mat and h5mu: which arrays, variables or modalities are views; the others are
        ignored. None reads them all, and raises if one cannot be a view: an array that is not
        2-D or not numeric and, in a mat file, a vector.
    mmap : bool, default=False
        Whether views may stay on disk, for views larger than memory. npy: map float32 and float64
        arrays into memory, read-only. parquet: decompress a table of more than 256 MB into a
        memory-mapped temporary file (in ``TMPDIR``, which must be on a disk) that is deleted with
        the view. A row group is decompressed, and its values are checked, on the first access to
        one of its rows. Estimators accept such views; ``X[rows]`` and ``np.asarray(X)`` are
        arrays. Other formats are read into memory.

    Returns
    -------
    dict of str to ndarray or scipy.sparse.csr_array
        The views in the order of the files, 2-D, float32 where that is what is stored and
        float64 otherwise. Sparse matrices of mat, h5ad and h5mu files stay sparse. With
        ``mmap=True`` a large parquet file is an object with ``shape``, ``dtype`` and rows.

    Raises
    ------
    FileNotFoundError
        A file does not exist.
    ValueError
        A file or an option is not as described here; the message says what to do.
    ImportError
        An h5ad or h5mu file, and anndata is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hotview.datasets import read_views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "blood.csv")
    ...     _ = path.write_text("patient,iron,zinc\nanna,15.5,80\nbert,NA,72\n")
    ...     views = read_views([path], drop=["patient"])
    >>> views["blood"]
    array([[15.5, 80. ],
           [ nan, 72. ]])
    """
    options = Options(
        header=header,
        delimiter=delimiter,
        decimal=decimal,
        encoding=encoding,
        missing=missing,
        sheet=sheet,
        query=query,
        obsm=obsm,
        layer=layer,
        columns=columns,
        drop=drop,
        variables=variables,
        mmap=mmap,
    )
    files = list_files(source, FORMATS)
    if all(file.ending != ".h5mu" for file in files):  # whose views have names of their own
        options.check_names([file.name for file in files])
    options.check_endings({file.name: file.path for file in files})
    if variables is not None and not any(file.ending in SEVERAL for file in files):
        text = f"Expected files of several views, {', '.join(SEVERAL)}, but there are none. "
        raise ParameterError(text, "Leave out {variables}.")
    _check_columns(options, files)
    views: dict[str, Matrix] = {}
    origin: dict[str, Path] = {}
    for file in files:
        for name, X in read_file(file, options):
            if name in views:
                raise ValueError(
                    f"Two views are called {name!r}, from {origin[name]} and {file.path}. "
                    f"Give them names in a dict: {{'a name': {str(file.path)!r}, …}}."
                )
            views[name], origin[name] = X, file.path
    options.check_names([*views, *(file.name for file in files)])
    return views


#: Orders of day and month in dates such as 03/04/2024.
DATE_ORDERS = ("day-first", "month-first")


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
        for option in ("columns", "drop", "variables"):
            if isinstance(value := getattr(self, option), str):
                raise TypeError(f"Expected {option} to be a list. Write {option}=[{value!r}].")
        for name in dict.fromkeys(["", *(name for _, name in self._named())]):
            if self.for_file(name) is self:  # else those are checked as they are made
                self._check()

    def _named(self) -> Iterator[tuple[str, str]]:
        """Yield the options that differ from file to file, with the names of files."""
        for option in PER_FILE:
            if isinstance(value := getattr(self, option), Mapping):
                yield from ((option, name) for name in value)

    def for_file(self, name: str) -> Options:
        """Return the options of one file, none of them by name."""
        values = {option: getattr(self, option) for option in PER_FILE}
        own = {
            option: value.get(name, value.get(""))
            for option, value in values.items()
            if isinstance(value, Mapping)
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
            if endings and name in paths and _ending(Path(paths[name]), FORMATS) not in endings:
                remedy = f"{{{option}}} is for {', '.join(endings)}. Leave it out."
                raise ParameterError(f"{paths[name]}: ", remedy)

    def columns_of(self, view: str) -> Sequence[str] | None:
        """Return the columns to keep in one view."""
        return self.columns.get(view) if isinstance(self.columns, Mapping) else self.columns

    @property
    def matrix(self) -> tuple[str | None, str | None]:
        """The entry of obsm and the layer to read as a view, instead of X."""
        return self.obsm, self.layer

    @property
    def decimal_point(self) -> str:
        """The decimal point: a comma where points separate thousands."""
        return self.decimal or ("," if self.thousands == "." else ".")

    def _check(self) -> None:
        """Raise if an option has a value that is not possible."""
        for option in ("delimiter", "decimal", "thousands"):
            value = getattr(self, option)
            if value is not None and len(value) != 1:
                raise ValueError(f"Expected {option} to be one character, but it is {value!r}.")
        if self.decimal is not None:
            check_choice("decimal", self.decimal, (".", ","))
        for option in ("delimiter", "thousands"):
            if getattr(self, option) == self.decimal_point:
                raise ValueError(
                    f"The {option} and the decimal point are both {self.decimal_point!r}."
                )
        if isinstance(self.missing, str):
            raise TypeError(f"Expected missing to be a list. Write missing=[{self.missing!r}].")
        if not all(isinstance(cell, str) for cell in self.missing or ()):
            raise TypeError(f"Expected missing to be a list of text, but it is {self.missing!r}.")
        if self.dates is not None:
            check_choice("dates", self.dates, DATE_ORDERS)
        if self.encoding is not None:
            try:
                "".encode(self.encoding)  # which also refuses codecs of anything but text
            except LookupError:
                raise ParameterError(
                    "Expected the name of an encoding, such as utf-8, latin-1 or cp1252, but it "
                    f"is {self.encoding!r}. ",
                    "Correct {encoding}.",
                ) from None


_Named: TypeAlias = list[tuple[str, Matrix]]


def _open_text(file: File, options: Options, default_delimiter: str = ",") -> TableFile:
    return TextTable(
        file.path,
        name=file.name,
        header=options.header,
        delimiter=options.delimiter,
        decimal=options.decimal_point,
        encoding=options.encoding,
        missing=options.missing or (),
        default_delimiter=default_delimiter,
    )


#: Formats with named columns; they are opened and checked before any of them is read.
TABLES: dict[str, Callable[[File, Options], TableFile]] = {
    **dict.fromkeys((".csv", ".csv.gz"), _open_text),
    **dict.fromkeys((".tsv", ".tsv.gz"), partial(_open_text, default_delimiter="\t")),
    ".parquet": lambda file, options: ParquetTable(file.path, mmap=options.mmap),
    ".xlsx": lambda file, options: read_sheet(
        file.path, file.name, sheet=options.sheet, header=options.header
    ),
    ".duckdb": lambda file, options: read_query(file.path, file.name, query=options.query),
}


def open_file(file: File, options: Options) -> TableFile:
    """Open a file of a table with named columns."""
    own = options.for_file(file.name)
    table = TABLES[file.ending](file, own)
    table.name, table.dates, table.missing = file.name, own.dates, own.missing or ()
    table.decimal, table.thousands = own.decimal, own.thousands
    return table


def _read_table(file: File, options: Options) -> _Named:
    table = open_file(file, options)
    names = select(table, options.columns_of(file.name), options.drop)
    return [(file.name, as_view(table.read(names), str(file.path)))]


#: Reader of every format, by the end of the file's name.
FORMATS: dict[str, Callable[[File, Options], _Named]] = {
    **dict.fromkeys(TABLES, _read_table),
    ".npy": lambda file, options: [(file.name, read_npy(file.path, mmap=options.mmap))],
    ".npz": lambda file, options: read_npz(file.path, variables=options.variables),
    ".mat": lambda file, options: read_mat_views(file.path, variables=options.variables),
    ".h5ad": lambda file, options: [
        (file.name, read_h5ad(file.path, *options.for_file(file.name).matrix))
    ],
    ".h5mu": lambda file, options: read_h5mu(
        file.path,
        variables=options.variables,
        choice=lambda name: options.for_file(file.name if file.named_by_user else name).matrix,
    ),
}
#: Formats of several views.
SEVERAL = (".npz", ".mat", ".h5mu")


def _check_columns(options: Options, files: list[File]) -> None:
    """Raise if an option names a column or view that does not exist."""
    if options.columns is None and not options.drop:
        return
    tables = [file for file in files if file.ending in TABLES]
    if not tables:
        raise ValueError(f"columns= and drop= are for {', '.join(TABLES)}, which name columns.")
    if isinstance(options.columns, Mapping):
        names = [file.name for file in tables]
        _refuse_unknown(options.columns, names, "columns= names a view that is not a table:")
    if options.drop:
        known = [name for file in tables for name in open_file(file, options).names]
        paths = ", ".join(str(file.path) for file in tables)
        _refuse_unknown(options.drop, known, f"drop= names a column that is not in {paths}:")


def _refuse_unknown(names: Iterable[str], known: list[str], message: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{message} {name!r}.{did_you_mean(name, dict.fromkeys(known))}")


def read_file(file: File, options: Options) -> _Named:
    """Read the views of one file, under the user's name if it has one."""
    with within_memory(file.path):
        pairs = FORMATS[file.ending](file, options)
    check_one_line((name for name, _ in pairs), lambda i: f"the name of a view in {file.path}")
    if not pairs:
        raise ValueError(f"{file.path} holds no views.")
    if not file.named_by_user:
        return pairs
    if len(pairs) > 1:
        raise ParameterError(
            f"{file.path} is named as the one view {file.name!r} but holds {len(pairs)}: "
            f"{listed(name for name, _ in pairs)}. ",
            "Pass it without a name, or choose one view of it with {variables}.",
        )
    return [(file.name, pairs[0][1])]


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
    ending = _ending(path, endings)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no file {path}, nor a folder {path.parent}.")
    if not path.exists():
        beside = sorted(entry.name for entry in path.parent.iterdir() if _ending(entry, endings))
        raise FileNotFoundError(f"There is no file {path}.{did_you_mean(path.name, beside)}")
    if not ending:
        hint = " Save it as xlsx or csv." if path.suffix.lower() in (".xls", ".ods") else ""
        raise ValueError(
            f"{path} does not end in any of {known}, so its format is not known.{hint}"
        )
    return File(path, ending, path.name[: -len(ending)], named_by_user=False)


def file_stem(path: AnyPath) -> str:
    """Return the name of a file in options: without its folder and its ending."""
    path = Path(path)
    return path.name[: len(path.name) - len(_ending(path, FORMATS))]


def _ending(path: Path, endings: Collection[str]) -> str:
    """Return the known ending of a file's name, or an empty string."""
    return next((ending for ending in endings if path.name.lower().endswith(ending)), "")
