"""Arrays back in the container that the user asked for."""

from __future__ import annotations

from typing import Any

from sklearn import get_config

from hotview._types import Array
from hotview._validation import Table, check_choice

__all__ = ["CONTAINERS", "output_container", "wrap_rows"]

CONTAINERS = ("default", "pandas", "polars")


def output_container(estimator: Any) -> str:
    """What `transform` is to return: as set on the estimator, else in scikit-learn's config."""
    own = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    return check_choice("transform_output", own or get_config()["transform_output"], CONTAINERS)


def wrap_rows(container: str, X: Array, names: list[str], table: Table) -> Any:
    """Rows as an array or a data frame; a pandas frame keeps the index that came in."""
    if container == "pandas":
        import pandas as pd

        return pd.DataFrame(X, index=table.index, columns=names, copy=False)
    if container == "polars":
        import polars as pl

        return pl.DataFrame(X, schema=names)
    return X
