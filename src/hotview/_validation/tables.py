"""Tables: views as the caller holds them, not copied, with what an estimator asks about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from hotview._lazy import LazyRows
from hotview._types import Array, Views
from hotview._validation.columns import column_names
from hotview._validation.containers import StoredRows, container_of, matrix_of
from hotview._validation.views import check_aligned, check_numeric, check_view, name_views


@dataclass(frozen=True)
class Table:
    """One view, checked but not copied.

    Parameters
    ----------
    data : ndarray, scipy sparse array in CSR format, LazyRows or StoredRows
        The caller's numbers.
    columns : tuple of str or None
        Column names, where the view came as a data frame whose names are text, or as an AnnData.
    index : object or None
        Row labels, where the view came as a pandas frame or an AnnData.
    container : str
        What the view came in: ``"numpy"``, ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"torch"``
        or ``"anndata"``.
    device : torch.device or None
        Where it is, if it came as a tensor.

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

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.data.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.data.shape[1])

    @property
    def is_array(self) -> bool:
        """Whether rows lie in an array, be it in a file, of which each can be read by itself."""
        return isinstance(self.data, np.ndarray)

    @property
    def is_lazy(self) -> bool:
        """Whether rows will lie in an array, but the first one read brings all around it there."""
        return isinstance(self.data, LazyRows)

    def rows(self, rows: Array | slice) -> Array:
        """Return some rows, written out where they are sparse."""
        data = self._ready(rows)
        is_array = isinstance(data, np.ndarray) and not isinstance(rows, slice)
        if is_array and data.flags.c_contiguous and data.flags.aligned:
            taken: Array = data.take(rows, axis=0)  # faster, but copies any other array whole
            return taken
        part = data[rows]
        dense: Array = part.toarray() if hasattr(part, "toarray") else part
        return dense

    def _ready(self, rows: Array | slice) -> Any:
        return self.data.ready(rows) if isinstance(self.data, LazyRows) else self.data


def check_tables(views: Views, *, aligned: bool = False, at_least: int = 1) -> dict[str, Table]:
    """Check a collection of views without copying them; sparse ones stay sparse.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        One table per view, as in `check_views`.
    aligned : bool, default=False
        Whether all views need the same number of rows.
    at_least : int, default=1
        How many views there must be.

    Returns
    -------
    dict of str to Table
        The views in the order they came.

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
            f"Expected at least {at_least} views, but {len(named)} came. Add a view of the same or "
            "of other individuals; for a single table scikit-learn has estimators."
        )
    tables = {name: _check_table(name, view) for name, view in named}
    if aligned:
        check_aligned_tables(tables)
    return tables


def check_aligned_tables(tables: Mapping[str, Table], y: Any = None) -> int:
    """Refuse tables that cannot be aligned; return their number of rows.

    Parameters
    ----------
    tables : dict of str to Table
        The tables, whose row i is to be one individual.
    y : object, default=None
        Labels, whose index is looked at if they are a pandas Series.

    Returns
    -------
    int
        Number of rows.
    """
    check_aligned({name: table.n_rows for name, table in tables.items()})
    indices = {f"view {name!r}": table.index for name, table in tables.items()}
    if hasattr(y, "iloc"):
        indices["y"] = y.index
    # Rows that pandas has merely counted say nothing about who they are.
    named = {what: i for what, i in indices.items() if i is not None and not _is_counted(i)}
    first = next(iter(named), "")
    for what, index in named.items():
        if not index.equals(named[first]):
            raise ValueError(
                f"Expected aligned rows, but the row labels of {first} and of {what} differ. "
                "Bring them into one order, as in X.loc[ids], or drop them by "
                ".reset_index(drop=True) if row i is the same individual nevertheless."
            )
    return next(iter(tables.values())).n_rows


def _is_counted(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex"


def check_known_tables(
    views: Views, names: Sequence[str], shapes: Mapping[str, tuple[int, tuple[str, ...] | None]]
) -> dict[str, Table]:
    """Check views that come after `fit`: any subset of those of then, with the same columns.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        A dict may leave views out or hold None for them; a list holds None for what is absent.
    names : sequence of str
        The names of the views at `fit`, in order.
    shapes : dict of str to (int, tuple of str or None)
        Number of columns of every view at `fit`, and their names where known.

    Returns
    -------
    dict of str to Table
        The views that are present, in the order of `fit`.
    """
    pairs = dict(_pair_with_names(views, names))
    present = {name: view for name in names if (view := pairs.get(name)) is not None}
    if not present:
        raise ValueError(
            f"Expected at least one of the views {list(names)}, but all are absent. Pass one."
        )
    tables = {name: _check_table(name, view) for name, view in present.items()}
    for name, table in tables.items():
        _check_columns(name, table, *shapes[name])
    return tables


def _check_table(name: str, view: Any) -> Table:
    container = container_of(view)
    matrix: Any = matrix_of(name, view)
    if sparse.issparse(matrix):
        matrix = sparse.csr_array(matrix)  # type: ignore[call-overload]
        check_numeric(name, matrix, view)
    elif isinstance(matrix, StoredRows | LazyRows):
        check_numeric(name, matrix, view)
    else:
        matrix = check_view(name, matrix)
    if container == "anndata":
        return Table(matrix, tuple(view.var_names), view.obs_names, container)
    names = column_names(view)
    columns = tuple(names) if names and all(isinstance(each, str) for each in names) else None
    index = view.index if container == "pandas" else None
    device = view.device if container == "torch" else None
    return Table(matrix, columns, index, container, device)


def _pair_with_names(views: Views, names: Sequence[str]) -> list[tuple[str, Any]]:
    if isinstance(views, Mapping):
        unknown = [name for name in views if name not in names]
        if unknown:
            raise ValueError(
                f"Expected views among {list(names)}, but got {unknown}. "
                "Leave them out, or rename them."
            )
        return list(views.items())
    if isinstance(views, Sequence) and not isinstance(views, str | bytes):
        if len(views) != len(names):
            raise ValueError(
                f"Expected {len(names)} views, as at fit, but {len(views)} came. Write None in the "
                f"place of an absent view, or pass a dict with some of {list(names)}."
            )
        return list(zip(names, views, strict=True))
    return name_views(views)  # which says what is wrong with it


def _check_columns(
    name: str, table: Table, n_columns: int, columns: tuple[str, ...] | None
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
