"""Arrays back in the container that the view came in, or that the user asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn import get_config

from hotview._types import Array
from hotview._validation import ViewTable, check_choice

__all__ = ["CONTAINERS", "output_container", "wrap_rows"]

CONTAINERS = ("default", "pandas", "polars")


def output_container(estimator: Any) -> str:
    """What `transform` is to return: as set on the estimator, else in scikit-learn's config."""
    own = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    return check_choice("transform_output", own or get_config()["transform_output"], CONTAINERS)


def wrap_rows(container: str, X: Array, names: list[str], table: ViewTable) -> Any:
    """Rows in the container that was asked for, or by default in the one that they came in.

    A pandas frame keeps the index that came in. An AnnData, which could not hold features without
    its genes, becomes a pandas frame with its names of cells.

    Parameters
    ----------
    container : {"default", "pandas", "polars"}
        What was asked for.
    X : ndarray
        The rows.
    names : list of str
        Names of their columns.
    table : ViewTable
        What came in.

    Returns
    -------
    object
        Arrays stay arrays, and are what comes of sparse matrices and lists.
    """
    wanted = table.container if container == "default" else container
    return _WRAP[wanted](X, names, table)


def _as_pandas(X: Array, names: list[str], table: ViewTable) -> Any:
    import pandas as pd

    return pd.DataFrame(X, index=table.index, columns=names, copy=False)


def _as_polars(X: Array, names: list[str], table: ViewTable) -> Any:
    import polars as pl

    return pl.DataFrame(X, schema=names)


def _as_pyarrow(X: Array, names: list[str], table: ViewTable) -> Any:
    import pyarrow as pa

    return pa.table(dict(zip(names, X.T, strict=True)))


def _as_tensor(X: Array, names: list[str], table: ViewTable) -> Any:
    import torch

    return torch.from_numpy(X).to(table.device)


_WRAP: dict[str, Callable[[Array, list[str], ViewTable], Any]] = {
    "numpy": lambda X, names, table: X,
    "pandas": _as_pandas,
    "anndata": _as_pandas,
    "polars": _as_polars,
    "pyarrow": _as_pyarrow,
    "torch": _as_tensor,
}
