"""Views from the user's own files, whatever their format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from hotview._messages import ParameterError
from hotview.datasets.readers.arrays import as_view, read_mat_views, read_npy, read_npz
from hotview.datasets.readers.delimited import open_delimited
from hotview.datasets.readers.errors import did_you_mean, listed
from hotview.datasets.readers.matlab import Matrix
from hotview.datasets.readers.omics import read_h5ad, read_h5mu
from hotview.datasets.readers.parquet import open_parquet
from hotview.datasets.readers.sources import File, Source, list_files
from hotview.datasets.readers.tables import Table, select


def read_views(
    source: Source,
    *,
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    drop: Sequence[str] = (),
    variables: Sequence[str] | None = None,
    mmap: bool = False,
) -> dict[str, Matrix]:
    r"""Read views from files, each a table with a row per individual and a column per feature.

    The end of a file's name says how it is read:

    ========================================  ==================================================
    .csv, .tsv, .csv.gz, .tsv.gz              one view; empty cells, NA, NaN, null, … become NaN
    .parquet                                  one view; nulls become NaN, true and false 1 and 0
    .npy                                      one view
    .npz                                      a view per array; with ``view_names`` in the file,
                                              ``view_0``, ``view_1``, … under those names
    .mat (all versions of MATLAB)             a view per matrix; a cell array ``X`` of matrices
                                              is ``X_0``, ``X_1``, …
    .h5ad, .h5mu (need ``hotview[omics]``)    one view, or a view per modality: its matrix ``X``
    ========================================  ==================================================

    Nothing is ever unpickled or executed, no row and no column is left out unless asked for, and
    what cannot be read as numbers is an error that names the file and the column.

    Parameters
    ----------
    source : path, sequence of paths, or dict of str to path
        The files. A dict names the views, and each of its files has to hold one view. Else a
        file of one view is named after the file (``"data/blood.csv"`` is ``"blood"``), and the
        views of a file of several keep their names.
    header : bool or None, default=None
        Text tables: whether the first line holds the names of the columns. None expects names,
        and refuses a first line that holds only numbers. Without names the columns are called
        ``column_0``, ``column_1``, ….
    delimiter : str or None, default=None
        Text tables: what separates cells. None is a comma in csv and a tab in tsv.
    decimal : str, default="."
        Text tables: the decimal point.
    columns : sequence of str, dict of str to sequence of str, or None, default=None
        Text tables and parquet: the columns to keep, in this order. A sequence holds for every
        such file, a dict for the views that it names. None keeps all columns, and refuses a row
        index that pandas saved as a column (of no name, or marked as index in parquet).
    drop : sequence of str, default=()
        Text tables and parquet: columns to leave out, such as identifiers, labels and text.
        Each has to exist in at least one of the files.
    variables : sequence of str or None, default=None
        npz, mat and h5mu: which arrays, variables or modalities are views; the others are not
        looked at. None reads them all, and refuses what cannot be a view: an array that is not
        2-D or not numeric and, in a mat file, a vector.
    mmap : bool, default=False
        Whether views may stay on disk, for those that are larger than memory. npy: map float32
        and float64 arrays into memory, read-only, instead of reading them. parquet: unpack a table
        of more than 256 MB into a temporary file that is mapped, where Python puts such files
        (``TMPDIR``; it must be on a disk), and that is gone when the view is. A row group is
        unpacked when one of its rows is first asked for, and what only its values can tell is
        an error then. Estimators take such a view as any other; ``X[rows]`` and
        ``np.asarray(X)`` are arrays. Other formats are read.

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
    options = Options(header, delimiter, decimal, columns, drop, variables, mmap)
    files = list_files(source, FORMATS)
    _check_options(options, files)
    _check_columns(options, files)
    return _collect(files, options)


@dataclass(frozen=True)
class Options:
    """The options of `read_views`."""

    header: bool | None = None
    delimiter: str | None = None
    decimal: str = "."
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    drop: Sequence[str] = ()
    variables: Sequence[str] | None = None
    mmap: bool = False

    def __post_init__(self) -> None:
        for option in ("columns", "drop", "variables"):
            if isinstance(value := getattr(self, option), str):
                raise TypeError(f"Expected {option} to be a list. Write {option}=[{value!r}].")
        for option in ("delimiter", "decimal"):
            value = getattr(self, option)
            if value is not None and len(value) != 1:
                raise ValueError(f"Expected {option} to be one character, but it is {value!r}.")
        if self.delimiter == self.decimal:
            raise ValueError(f"The delimiter and the decimal point are both {self.decimal!r}.")

    def columns_of(self, view: str) -> Sequence[str] | None:
        """Return the columns to keep in one view."""
        return self.columns.get(view) if isinstance(self.columns, Mapping) else self.columns


_Named: TypeAlias = list[tuple[str, Matrix]]
_Reader: TypeAlias = Callable[[File, Options], _Named]
_Opener: TypeAlias = Callable[[Path, Options], Table]


def _open_text(path: Path, options: Options, *, default_delimiter: str) -> Table:
    return open_delimited(
        path,
        header=options.header,
        delimiter=options.delimiter,
        decimal=options.decimal,
        default_delimiter=default_delimiter,
    )


_open_csv = partial(_open_text, default_delimiter=",")
_open_tsv = partial(_open_text, default_delimiter="\t")

#: Formats whose columns have names; they are opened first and read when all is known to be well.
TABLES: dict[str, _Opener] = {
    ".csv": _open_csv,
    ".csv.gz": _open_csv,
    ".tsv": _open_tsv,
    ".tsv.gz": _open_tsv,
    ".parquet": lambda path, options: open_parquet(path, mmap=options.mmap),
}


def _read_table(file: File, options: Options) -> _Named:
    table = TABLES[file.ending](file.path, options)
    wanted = select(table, options.columns_of(file.name), options.drop)
    return [(file.name, as_view(table.read(wanted), str(file.path)))]


#: Every format, by the end of the file's name.
FORMATS: dict[str, _Reader] = {
    **dict.fromkeys(TABLES, _read_table),
    ".npy": lambda file, options: [(file.name, read_npy(file.path, mmap=options.mmap))],
    ".npz": lambda file, options: read_npz(file.path, variables=options.variables),
    ".mat": lambda file, options: read_mat_views(file.path, variables=options.variables),
    ".h5ad": lambda file, options: [(file.name, read_h5ad(file.path))],
    ".h5mu": lambda file, options: read_h5mu(file.path, variables=options.variables),
}
SEVERAL = (".npz", ".mat", ".h5mu")


def _check_options(options: Options, files: list[File]) -> None:
    """Refuse options that no file can follow."""
    if options.variables is not None and not any(f.ending in SEVERAL for f in files):
        text = f"Expected files of several views, {', '.join(SEVERAL)}, but there are none. "
        raise ParameterError(text, "Leave out {variables}.")


def _check_columns(options: Options, files: list[File]) -> None:
    """Refuse columns and views that are named in options and do not exist."""
    if options.columns is None and not options.drop:
        return
    tables = [file for file in files if file.ending in TABLES]
    if not tables:
        raise ValueError(f"columns= and drop= are for {', '.join(TABLES)}, which name columns.")
    if isinstance(options.columns, Mapping):
        names = [file.name for file in tables]
        _refuse_unknown(options.columns, names, "columns= names a view that is not a table:")
    if options.drop:
        known = [name for file in tables for name in TABLES[file.ending](file.path, options).names]
        paths = ", ".join(str(file.path) for file in tables)
        _refuse_unknown(options.drop, known, f"drop= names a column that is not in {paths}:")


def _refuse_unknown(names: Iterable[str], known: list[str], message: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{message} {name!r}.{did_you_mean(name, dict.fromkeys(known))}")


def _collect(files: list[File], options: Options) -> dict[str, Matrix]:
    """Read the files, one after the other, into views of different names."""
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
    return views


def read_file(file: File, options: Options) -> _Named:
    """Read the views of one file, under the name that the user gave it, if any."""
    pairs = FORMATS[file.ending](file, options)
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
