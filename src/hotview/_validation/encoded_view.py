"""Views that are numbers already, with the columns that these numbers encode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

__all__ = ["EncodedView", "encoded_names"]


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
        The columns, from `hotview.ingest.columns`.
    index : object or None, default=None
        Row labels of the pandas frame that was encoded.
    container : str, default="numpy"
        Library of the frame that was encoded.

    Attributes
    ----------
    names : tuple of str or None
        Names of the encoded columns; see `encoded_names`.
    shape : tuple of int
        Shape of the numbers.
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
        shape: tuple[int, ...] = self.X.shape
        return shape

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: Any) -> EncodedView:
        """Return some rows."""
        index = None if self.index is None else self.index[rows]
        return replace(self, X=self.X[rows], index=index)


def encoded_names(columns: Any) -> tuple[str, ...] | None:
    """Return the names of encoded columns.

    Parameters
    ----------
    columns : ViewColumns
        The columns of a view.

    Returns
    -------
    tuple of str or None
        ``"age"`` for a number, ``"sex = F"`` for a category; None for columns without names.
    """
    if columns.columns is None:
        return None
    names: list[str] = []
    for column in columns.columns:
        if column.categories is None:
            names += [column.name] * column.width
        else:
            names += [f"{column.name} = {category}" for category in column.categories]
    return tuple(names)
