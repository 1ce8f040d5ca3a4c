"""Missing cells, told by the names that people gave to columns and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from hotview._types import Array
from hotview.datasets.readers.errors import listed
from hotview.ingest.columns import ViewColumns
from hotview.ingest.preprocessing import AlignedRows, Preprocessing
from hotview.training.process_group import ProcessGroup
from hotview.training.row_sharding import own_rows

__all__ = ["check_cells", "count_missing"]

_ROWS = 100_000  # looked at at once


def count_missing(
    X: Any, columns: ViewColumns, ranks: ProcessGroup | None = None
) -> dict[str, int]:
    """How many cells of every column are missing, in rows that are not missing as a whole.

    Parameters
    ----------
    X : ndarray or csr_array
        Rows of a view.
    columns : ViewColumns
        Its columns.
    ranks : ProcessGroup or None, default=None
        The processes that share the counting, each in its own rows; None is this one alone.

    Returns
    -------
    dict of str to int
        Columns with missing cells.
    """
    ranks, counts = ranks or ProcessGroup(), np.zeros(columns.n_columns, dtype=np.int64)
    own = own_rows(0 if sparse.issparse(X) else X.shape[0], ranks.rank, ranks.size)
    for start in range(own.start, own.stop, _ROWS):
        missing = np.isnan(X[start : min(start + _ROWS, own.stop)])
        counts += missing[~missing.all(axis=1)].sum(axis=0)
    counts = np.sum(ranks.collect(counts), axis=0)
    if columns.columns is None:
        names = [f"column {j + 1}" for j in range(columns.n_columns)]
    else:
        names = [column.name for column in columns.columns for _ in range(column.width)]
    return {name: int(n) for name, n in zip(names, counts, strict=True) if n > 0}


def check_cells(people: AlignedRows, recipe: Preprocessing, impute: str | None) -> None:
    """Refuse people of whom nothing is known, and missing cells that nothing is to fill.

    Parameters
    ----------
    people : AlignedRows
        Individuals.
    recipe : Preprocessing
        What their columns are called.
    impute : str or None
        How missing cells are filled.
    """
    known = np.zeros(len(people.ids), dtype=bool)
    for name, X in people.views.items():
        known |= people.present[name] & ~_is_empty(X)
        if impute is None and (missing := count_missing(X, recipe.views[name])):
            told = listed(missing)
            raise ValueError(
                f"Cells of view {name!r} are missing, in {told}. Fill them in, or fit the model "
                "with --impute mean."
            )
    if not known.all():
        nobody = [str(key) for key in people.ids[~known]]
        raise ValueError(
            f"Nothing is known of {len(nobody)} of {len(people.ids)}: {listed(nobody)} have only "
            "empty cells. Leave these rows out."
        )


def _is_empty(X: Any) -> Array:
    n_rows = X.shape[0]
    if sparse.issparse(X):
        return np.zeros(n_rows, dtype=bool)
    parts = [np.isnan(X[i : i + _ROWS]).all(axis=1) for i in range(0, n_rows, _ROWS)]
    return np.concatenate(parts)
