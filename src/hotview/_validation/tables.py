"""Views in the caller's memory or on disk: checked, not copied, readable by rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from hotview._lazy import LazyRows
from hotview._types import Array, Views
from hotview._validation.containers import StoredRows, column_names, container_of, matrix_of
from hotview._validation.views import check_aligned, check_numeric, check_view, name_views


@dataclass(eq=False)
class ViewTable:
    """One view, validated but not copied.

    Parameters
    ----------
    data : ndarray, scipy sparse array in CSR format, LazyRows or StoredRows
        The caller's data.
    columns : tuple of str or None
        Column names of a data frame whose names are strings, or of an AnnData.
    index : object or None
        Row labels of a pandas frame or an AnnData.
    container : str
        Container of the view: ``"numpy"``, ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"torch"``
        or ``"anndata"``.
    device : torch.device or None
        Device of a tensor.

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

    def __post_init__(self) -> None:
        self.n_rows, self.n_columns = map(int, self.data.shape)
        self.is_array = isinstance(self.data, np.ndarray)
        self.is_lazy = isinstance(self.data, LazyRows)

    def rows(self, rows: Array | slice) -> Array:
        """Return some rows as a dense array."""
        data = self.data.load(rows) if self.is_lazy else self.data
        is_array = isinstance(data, np.ndarray) and not isinstance(rows, slice)
        if is_array and data.flags.c_contiguous and data.flags.aligned:
            taken: Array = data.take(rows, axis=0)  # faster, but copies any other array completely
            return taken
        part = data[rows]
        dense: Array = part.toarray() if hasattr(part, "toarray") else part
        return dense


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
    named = name_views(views)
    if len(named) < at_least:
        raise ValueError(
            f"Expected at least {at_least} views, but got {len(named)}. Add a view of the same or "
            "of other individuals; for a single table scikit-learn has estimators."
        )
    tables = {name: _check_table(name, view) for name, view in named}
    if aligned:
        check_aligned_tables(tables)
    return tables


def check_aligned_tables(tables: Mapping[str, ViewTable], y: Any = None) -> int:
    """Check that tables are aligned and return their number of rows.

    Parameters
    ----------
    tables : dict of str to ViewTable
        The tables; row i must be the same individual in all of them.
    y : object, default=None
        Labels; the index of a pandas Series must match, too.

    Returns
    -------
    int
        Number of rows.
    """
    check_aligned({name: table.n_rows for name, table in tables.items()})
    indices = {f"view {name!r}": table.index for name, table in tables.items()}
    if hasattr(y, "iloc"):
        indices["y"] = y.index
    # A RangeIndex only counts the rows, it does not identify them.
    labeled = {
        owner: index
        for owner, index in indices.items()
        if index is not None and type(index).__name__ != "RangeIndex"
    }
    first = next(iter(labeled), "")
    for owner, index in labeled.items():
        if not index.equals(labeled[first]):
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
        The present views, in the order of `fit`.
    """
    if isinstance(views, Mapping):
        unknown = [name for name in views if name not in names]
        if unknown:
            raise ValueError(
                f"Expected views among {list(names)}, but got {unknown}. "
                "Leave them out, or rename them."
            )
    elif len(unnamed := name_views(views)) != len(names):
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
    return tables


def _check_table(name: str, view: Any) -> ViewTable:
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
