"""Validation of views: named tables of numbers, in memory or on disk, readable by rows."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from hotview._lazy import LazyRows
from hotview._types import Array, Views
from hotview._validation.containers import (
    NUMERIC_KINDS,
    StoredRows,
    as_array,
    as_numbers,
    check_one_line,
    column_names,
    container_of,
    matrix_of,
    text_columns,
)
from hotview._validation.encoded_view import EncodedView

_MAX_NAME_LENGTH = 1000


@dataclass(eq=False)
class ViewTable:
    """One view, validated but not copied.

    Parameters
    ----------
    data : ndarray, scipy sparse array in CSR format, LazyRows or StoredRows
        The caller's data.
    columns : tuple of str or None
        Column names of a data frame whose names are strings, of an AnnData or of an EncodedView.
    index : object or None
        Row labels of a pandas frame or an AnnData.
    container : str
        Container of the view: ``"numpy"``, ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"torch"``
        or ``"anndata"``.
    device : torch.device or None
        Device of a tensor.
    encoding : ViewColumns or None
        Columns that the numbers of an EncodedView encode.

    Attributes
    ----------
    n_rows, n_columns : int
        Numbers of rows and columns.
    is_array : bool
        Whether the data is an array, perhaps memory-mapped, of which single rows can be read.
    is_lazy : bool
        Whether the data is loaded block by block, on first access.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import check_tables
    >>> check_tables([np.zeros((3, 2))])["view_0"].n_rows
    3
    """

    data: Any
    columns: tuple[str, ...] | None = None
    index: Any = None
    container: str = "numpy"
    device: Any = None
    encoding: Any = None

    def __post_init__(self) -> None:
        self.n_rows, self.n_columns = map(int, self.data.shape)
        self.is_array = isinstance(self.data, np.ndarray)
        self.is_lazy = isinstance(self.data, LazyRows)

    def describe_column(self, j: int) -> str:
        """Return the name of a column, in quotes, or its number where it has none."""
        return str(j) if self.columns is None else repr(self.columns[j])

    def rows(self, rows: Array | slice, *, dense: bool = True) -> Any:
        """Return some rows as an array; with ``dense=False``, sparse ones stay sparse."""
        data = self.data.load(rows) if self.is_lazy else self.data
        is_array = isinstance(data, np.ndarray) and not isinstance(rows, slice)
        if is_array and data.flags.c_contiguous and data.flags.aligned:
            taken: Array = data.take(rows, axis=0)  # faster, but copies any other array completely
            return taken
        part = data[rows]
        return part.toarray() if dense and hasattr(part, "toarray") else part


def check_tables(views: Views, *, aligned: bool = False, at_least: int = 1) -> dict[str, ViewTable]:
    """Validate views without copying them; sparse ones stay sparse.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        One table per view, as in `check_views`.
    aligned : bool, default=False
        Whether all views need the same number of rows.
    at_least : int, default=1
        Minimum number of views.

    Returns
    -------
    dict of str to ViewTable
        The views in the given order.

    Examples
    --------
    >>> import pandas as pd
    >>> from hotview._validation import check_tables
    >>> check_tables({"clinical": pd.DataFrame({"age": [61.0, 48.0]})})["clinical"].columns
    ('age',)
    """
    named = name_views(views, at_least=at_least)
    if len(named) < at_least:
        raise ValueError(
            f"Expected at least {at_least} views, but got {len(named)}. Add a view of the same or "
            "of other individuals; for a single table scikit-learn has estimators."
        )
    tables = {name: _check_table(name, view) for name, view in named}
    if aligned:
        check_aligned_tables(tables)
    return tables


def check_aligned_tables(tables: Mapping[str, ViewTable], y: Any = None, *, what: str = "y") -> int:
    """Check that tables are aligned and return their number of rows.

    Parameters
    ----------
    tables : dict of str to ViewTable
        The tables; row i must be the same individual in all of them.
    y : object, default=None
        Labels; the index of a pandas Series must match, too.
    what : str, default="y"
        Name of the labels, for the error.

    Returns
    -------
    int
        Number of rows.
    """
    check_aligned({name: table.n_rows for name, table in tables.items()})
    indices = {f"view {name!r}": table.index for name, table in tables.items()}
    if hasattr(y, "iloc"):
        indices[what] = y.index
    known = {owner: index for owner, index in indices.items() if index is not None}
    for (first, a), (owner, b) in combinations(known.items(), 2):
        if not a.equals(b) and _identify_rows(a, b):
            raise ValueError(
                f"Expected aligned rows, but the row labels of {first} and of {owner} differ. "
                "Bring them into one order, as in X.loc[ids], or drop them by "
                ".reset_index(drop=True) if row i is the same individual nevertheless."
            )
    return next(iter(tables.values())).n_rows


def _identify_rows(a: Any, b: Any) -> bool:
    """Whether two different indices of pandas tell which rows are the same individuals.

    A RangeIndex that shares no label with the other index only counts rows.
    """
    counts_rows = any(type(index).__name__ == "RangeIndex" for index in (a, b))
    return not counts_rows or len(a.intersection(b)) > 0


def check_known_tables(
    views: Views, names: Sequence[str], shapes: Mapping[str, tuple[int, tuple[str, ...] | None]]
) -> dict[str, ViewTable]:
    """Validate views after `fit`: any subset of the views of `fit`, with the same columns.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        A dict may omit views or map them to None; a list has None for an absent view.
    names : sequence of str
        The names of the views at `fit`, in order.
    shapes : dict of str to (int, tuple of str or None)
        Number of columns of every view at `fit`, and their names if any.

    Returns
    -------
    dict of str to ViewTable
        The present views, in the order of `fit`, with its names of columns.
    """
    if isinstance(views, Mapping):
        unknown = [name for name in views if name not in names]
        if unknown:
            raise ValueError(
                f"Expected views among {list(names)}, but got {unknown}. "
                "Leave them out, or rename them."
            )
    elif len(unnamed := name_views(views, example=names[0])) != len(names):
        raise ValueError(
            f"Expected {len(names)} views, as at fit, but got {len(unnamed)}. Write None in the "
            f"place of an absent view, or pass a dict with some of {list(names)}."
        )
    named = views if isinstance(views, Mapping) else dict(zip(names, views, strict=True))
    present = {name: view for name in names if (view := named.get(name)) is not None}
    if not present:
        raise ValueError(
            f"Expected at least one of the views {list(names)}, but all are absent. Pass one."
        )
    tables = {name: _check_table(name, view) for name, view in present.items()}
    for name, table in tables.items():
        _check_columns(name, table, *shapes[name])
        table.columns = table.columns or shapes[name][1]
    return tables


def _check_table(name: str, view: Any) -> ViewTable:
    if isinstance(view, EncodedView):
        return _check_encoded(name, view)
    container = container_of(view)
    matrix: Any = matrix_of(name, view)
    if sparse.issparse(matrix):
        matrix = sparse.csr_array(matrix)  # type: ignore[call-overload]
    if isinstance(matrix, sparse.csr_array | StoredRows | LazyRows):
        check_numeric(name, matrix, view)
    else:
        matrix = check_view(name, matrix)
    if container == "anndata":
        return ViewTable(matrix, tuple(view.var_names), view.obs_names, container)
    names = column_names(view)
    columns = tuple(names) if names and all(isinstance(column, str) for column in names) else None
    check_one_line(columns or (), lambda j: f"the name of column {j} of view {name!r}")
    index = view.index if container == "pandas" else None
    device = view.device if container == "torch" else None
    return ViewTable(matrix, columns, index, container, device)


def _check_encoded(name: str, view: EncodedView) -> ViewTable:
    table, columns = _check_table(name, view.X), view.columns
    if table.n_columns != columns.n_columns:
        raise ValueError(
            f"Expected the encoded view {name!r} to have {columns.n_columns} columns, but it has "
            f"{table.n_columns}. Encode it by the columns that it comes with."
        )
    origin: dict[str, Any] = {"index": view.index, "container": view.container}
    return replace(table, columns=view.names, encoding=columns, **origin)


def _check_columns(
    name: str, table: ViewTable, n_columns: int, columns: tuple[str, ...] | None
) -> None:
    if table.n_columns != n_columns:
        raise ValueError(
            f"Expected view {name!r} to have {n_columns} columns, as at fit, but it has "
            f"{table.n_columns}. Pass the same columns in the same order."
        )
    if columns is None or table.columns is None or columns == table.columns:
        return
    pairs = enumerate(zip(columns, table.columns, strict=True))
    first = next(j for j, (before, now) in pairs if before != now)
    remedy = (
        "They are the same names in another order: pass X[columns] in the order of fit."
        if sorted(columns) == sorted(table.columns)
        else "Rename them, or pass the columns of fit."
    )
    raise ValueError(
        f"Expected the columns of view {name!r} to be those of fit, in that order, but column "
        f"{first} is {table.columns[first]!r} instead of {columns[first]!r}. {remedy}"
    )


def check_views(views: Views, *, aligned: bool = False) -> dict[str, Array]:
    """Convert a collection of views to a dict of named 2-D numeric arrays.

    Valid arrays are returned without a copy; the caller's data is not changed. Missing values
    (NaN) are kept.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        One table per view, rows are individuals. A dict names its views; the views of a list
        or tuple are called ``view_0``, ``view_1``, ….
    aligned : bool, default=False
        Whether row i must be the same individual in every view, so that all views need the
        same number of rows.

    Returns
    -------
    dict of str to ndarray
        The views in the given order, each of shape (n_rows, n_columns), its dtype kept.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import check_views
    >>> checked = check_views([np.zeros((5, 2)), np.ones((4, 3))])
    >>> {name: X.shape for name, X in checked.items()}
    {'view_0': (5, 2), 'view_1': (4, 3)}
    """
    checked = {name: check_view(name, view) for name, view in name_views(views)}
    if aligned:
        check_aligned({name: len(X) for name, X in checked.items()})
    return checked


def check_aligned(sizes: Mapping[str, int]) -> None:
    """Check that all views have the same number of rows."""
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name!r}: {n}" for name, n in sizes.items())
        raise ValueError(
            "Expected aligned views, where row i is the same individual in every view, but the "
            f"numbers of rows differ ({listed}). Keep the rows that all views share, in one order."
        )


def name_views(
    views: Views, *, at_least: int = 1, example: str = "clinical"
) -> list[tuple[str, Any]]:
    """Return (name, view) pairs; raise if `views` is not a collection of named views.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        One table per view.
    at_least : int, default=1
        Number of views that the caller needs, for the error.
    example : str, default="clinical"
        Name of a view, for the error.

    Returns
    -------
    list of (str, object)
        Names and views.
    """
    if isinstance(views, Mapping):
        pairs = list(views.items())
    elif isinstance(views, Sequence) and not isinstance(views, str | bytes):
        pairs = [(f"view_{s}", view) for s, view in enumerate(views)]
    else:
        several = at_least > 1
        remedy = f"Pass one view of several by its name, as in {{{example!r}: X}}."
        if several:
            remedy = "Pass {'name': X, 'other name': Y}; for one table scikit-learn has estimators."
        if getattr(views, "ndim", 2) == 3:
            remedy = "Turn a stack of views into list(X)."
        raise TypeError(
            f"Expected a dict or list of {'two or more ' * several}tables, one per view, but got a "
            f"single {type(views).__name__}. {remedy}"
        )
    if not pairs:
        number = "one view" if at_least == 1 else f"{at_least} views"
        raise ValueError(
            f"Expected at least {number}, but the collection is empty. Pass {{{example!r}: X, …}}."
        )
    _check_names([name for name, _ in pairs])
    return pairs


def can_be_saved(name: str) -> bool:
    """Whether a name can be stored in files and used as a relative path.

    Examples
    --------
    >>> from hotview._validation.tables import can_be_saved
    >>> can_be_saved("blood/iron"), can_be_saved("../blood")
    (True, False)
    """
    parts = re.split(r"[/\\]", name)
    odd = any(c < " " or "\ud800" <= c <= "\udfff" for c in name)
    return len(name) <= _MAX_NAME_LENGTH and parts[0] != "" and ".." not in parts and not odd


def _check_names(names: list[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"Expected every view's name to be a non-empty string, but one is {name!r} "
                f"({type(name).__name__}). Rename it, as in {{str(name): X}}."
            )
        if not can_be_saved(name):
            raise ValueError(
                "Expected every view's name to be one that files can hold: at most "
                f"{_MAX_NAME_LENGTH} characters, no control character, no leading slash and no "
                f"'..' between slashes; but one is {reprlib.repr(name)}. Rename it."
            )
    # A dict cannot repeat a key, but other mappings (multi-dicts, file readers) can.
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Expected every view to have its own name, but {twice} occur more than once. "
            "Rename the repeated views."
        )


def check_view(name: str, view: Any) -> Array:
    """Validate one view and return it as a dense 2-D numeric array."""
    X = as_array(f"view {name!r}", matrix_of(name, view))
    if X.dtype.kind == "O" and (numbers := as_numbers(view)) is not None:
        X = numbers  # numpy makes objects of nulls, and of numbers beside booleans
    check_numeric(name, X, view)
    return X


def check_numeric(name: str, X: Any, view: Any) -> None:
    """Check that a dense or sparse array is numeric, 2-D and not empty."""
    if X.dtype.kind not in NUMERIC_KINDS:
        raise _not_numeric(name, X, view)
    if X.ndim != 2:
        raise ValueError(
            f"Expected view {name!r} to be 2-D (rows are individuals, columns are features), but "
            f"its shape is {X.shape}. For a single feature use X.reshape(-1, 1); flatten images "
            "with X.reshape(len(X), -1)."
        )
    for count, what in zip(X.shape, ("row", "column"), strict=True):
        if count == 0:
            raise ValueError(
                f"Expected view {name!r} to have at least one {what}, but its shape is {X.shape}. "
                "Leave an empty view out."
            )


def _not_numeric(name: str, X: Any, view: Any) -> TypeError:
    remedy = (
        "Encode text as numbers, then convert with .astype(float); of a data frame, text columns "
        "are encoded."
    )
    if view is None:
        remedy = "It is None: leave the view out, or give it rows."
    elif X.dtype.kind == "c":
        remedy = "Make the real and the imaginary part columns of their own."
    columns = ""
    if column_names(view):
        text = ", ".join(map(repr, text_columns(view)))
        columns = f" (not numeric: {text})" if text else " (mixed columns)"
    return TypeError(
        f"Expected view {name!r} to hold real numbers, but its dtype is {X.dtype}{columns}. "
        f"{remedy}"
    )
