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

from hotview._types import Array, LazyRows, Views
from hotview._validation.containers import (
    StoredRows,
    check_numeric,
    check_one_line,
    check_view,
    column_names,
    container_of,
    matrix_of,
)

_MAX_NAME_LENGTH = 1000


@dataclass(frozen=True, eq=False)
class EncodedView:
    """A view of encoded columns, in the place of an array.

    Estimators accept it as they accept the array alone, which is not copied, and learn the names
    and categories of its columns.

    Parameters
    ----------
    X : ndarray, csr_array or LazyRows of shape (rows, encoded columns)
        The numbers.
    columns : ViewColumns
        The columns, from `hotview.data.columns`.
    index : object or None, default=None
        Row labels of the pandas frame that was encoded.
    container : str, default="numpy"
        Library of the frame that was encoded.
    """

    X: Any
    columns: Any
    index: Any = None
    container: str = "numpy"

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the encoded columns, if they have any."""
        return encoded_names(self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the numbers."""
        return tuple(self.X.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: Any) -> EncodedView:
        """Return some rows."""
        index = None if self.index is None else self.index[rows]
        return replace(self, X=self.X[rows], index=index)


def encoded_names(columns: Any) -> tuple[str, ...] | None:
    """Return the names of encoded columns: ``"age"``, ``"sex = F"``; None if they have none."""
    if columns.columns is None:
        return None
    names: list[str] = []
    for column in columns.columns:
        if column.categories is None:
            names += [column.name] * column.width
        else:
            names += [f"{column.name} = {category}" for category in column.categories]
    return tuple(names)


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
            # Faster, but copies any other array completely.
            return data.take(rows, axis=0)
        part = data[rows]
        return part.toarray() if dense and hasattr(part, "toarray") else part

    def wrap(self, X: Array, names: list[str], container: str) -> Any:
        """Rows in a container, by default in that of this table.

        An AnnData, which could not hold features without its genes, becomes a pandas frame.
        """
        container = self.container if container == "default" else container
        if container in ("pandas", "anndata"):
            import pandas as pd

            return pd.DataFrame(X, index=self.index, columns=names, copy=False)
        if container == "polars":
            import polars as pl

            return pl.DataFrame(X, schema=names)
        if container == "pyarrow":
            import pyarrow as pa

            return pa.table(dict(zip(names, X.T, strict=True)))
        if container == "torch":
            import torch

            return torch.from_numpy(X).to(self.device)
        return X


def check_tables(views: Views, *, aligned: bool = False, at_least: int = 1) -> dict[str, ViewTable]:
    """Validate views without copying them; sparse ones stay sparse.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        One table per view, rows are individuals. The views of a list or tuple are called
        ``view_0``, ``view_1``, ….
    aligned : bool, default=False
        Whether row i must be the same individual in every view.
    at_least : int, default=1
        Minimum number of views.

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
    """Return the number of rows of tables; raise unless row i is one individual in all of them.

    The index of labels `y`, a pandas Series, must match, too; `what` is their name for errors.
    """
    check_aligned({name: table.n_rows for name, table in tables.items()})
    indices = {f"view {name!r}": table.index for name, table in tables.items()}
    if hasattr(y, "iloc"):
        indices[what] = y.index
    known = {owner: index for owner, index in indices.items() if index is not None}
    for (first, a), (owner, b) in combinations(known.items(), 2):
        # A RangeIndex that shares no label with the other index only counts rows.
        counts_rows = any(type(index).__name__ == "RangeIndex" for index in (a, b))
        if not a.equals(b) and (not counts_rows or len(a.intersection(b)) > 0):
            raise ValueError(
                f"Expected aligned rows, but the row labels of {first} and of {owner} differ. "
                "Bring them into one order, as in X.loc[ids], or drop them by "
                ".reset_index(drop=True) if row i is the same individual nevertheless."
            )
    return next(iter(tables.values())).n_rows


def check_known_tables(
    views: Views, names: Sequence[str], shapes: Mapping[str, tuple[int, tuple[str, ...] | None]]
) -> dict[str, ViewTable]:
    """Validate views after `fit`: any subset of the views of `fit`, with the same columns.

    `shapes` has, by view, the number of columns at `fit`, and their names if any. Returned are the
    present views in the order of `names`, that of `fit`. A dict may omit views or map them to None;
    a list has None for an absent view.
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
        table, encoding = _check_table(name, view.X), view.columns
        if table.n_columns != encoding.n_columns:
            raise ValueError(
                f"Expected the encoded view {name!r} to have {encoding.n_columns} columns, but it "
                f"has {table.n_columns}. Encode it by the columns that it comes with."
            )
        return ViewTable(table.data, view.names, view.index, view.container, encoding=encoding)
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
    """Convert views to 2-D numeric arrays, without a copy of valid ones; NaN is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import check_views
    >>> {name: X.shape for name, X in check_views([np.zeros((5, 2)), np.ones((4, 3))]).items()}
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

    Errors say that the caller needs `at_least` views, and name one of them `example`.
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
    names = [name for name, _ in pairs]
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
