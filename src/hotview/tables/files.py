"""Files of views in any supported format: read as matrices, or opened as tables of columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from hotview._messages import ParameterError, check_known, listed, within_memory
from hotview._validation import check_one_line
from hotview.data.arrow import read_query, read_sheet
from hotview.data.options import AnyPath, File, Options, Source, find_ending, list_files
from hotview.data.table_file import TableFile, select
from hotview.tables.arrays import (
    Matrix,
    ObsTable,
    as_view,
    read_h5ad,
    read_h5mu,
    read_npy,
    read_npz,
    read_obs,
)
from hotview.tables.delimited import TextTable
from hotview.tables.matlab import read_mat_views
from hotview.tables.parquet import ParquetTable

_T = TypeVar("_T")
PerFile: TypeAlias = _T | Mapping[str, _T] | None
Views: TypeAlias = list[tuple[str, Matrix]]
#: Ids of the rows of every view, None for one without ids; None for a missing id.
Ids: TypeAlias = Mapping[str, "list[str | None] | None"]


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
    given = dict(locals())
    options = Options(**{name: value for name, value in given.items() if name != "source"})
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


def open_file(file: File, options: Options) -> TableFile:
    """Open a file of a table with named columns."""
    return TABLES[file.ending](file.path, file.name, options.for_file(file.name))


def _read_table(file: File, options: Options) -> Views:
    table, columns = open_file(file, options), options.columns
    chosen = columns.get(file.name) if isinstance(columns, Mapping) else columns
    names = select(table, chosen, options.drop)
    return [(file.name, as_view(table.read(names), str(file.path)))]


#: Formats with named columns; they are opened and checked before any of them is read.
TABLES: dict[str, Callable[[Path, str, Options], TableFile]] = {
    **dict.fromkeys((".csv", ".csv.gz", ".tsv", ".tsv.gz"), TextTable),
    ".parquet": ParquetTable,
    ".xlsx": read_sheet,
    ".duckdb": read_query,
}
#: Formats of several views.
SEVERAL: dict[str, Callable[[File, Options], Views]] = {
    ".npz": read_npz,
    ".mat": read_mat_views,
    ".h5mu": read_h5mu,
}
#: Reader of every format, by the end of the file's name.
FORMATS: dict[str, Callable[[File, Options], Views]] = {
    **dict.fromkeys(TABLES, _read_table),
    ".npy": read_npy,
    ".h5ad": read_h5ad,
    **SEVERAL,
}


def _check_columns(options: Options, files: list[File]) -> None:
    """Raise if an option names a column or view that does not exist."""
    if options.columns is None and not options.drop:
        return
    tables = [file for file in files if file.ending in TABLES]
    if not tables:
        raise ValueError(f"columns= and drop= are for {', '.join(TABLES)}, which name columns.")
    named = options.columns if isinstance(options.columns, Mapping) else ()
    views = [file.name for file in tables]
    check_known(named, views, "columns= names a view that is not a table:")
    if options.drop:
        known = [name for file in tables for name in open_file(file, options).names]
        paths = ", ".join(str(file.path) for file in tables)
        check_known(options.drop, known, f"drop= names a column that is not in {paths}:")


def read_file(file: File, options: Options) -> Views:
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


def file_stem(path: AnyPath) -> str:
    """Return the name of a file in options: without its folder and its ending."""
    path = Path(path)
    return path.name[: len(path.name) - len(find_ending(path, FORMATS))]


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
