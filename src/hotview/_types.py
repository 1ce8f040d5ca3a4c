"""Types of arrays, views and random states, and arrays whose rows are loaded on first access."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

#: Any numeric numpy array; its data type is checked at run time, in ``_validation``.
Array: TypeAlias = npt.NDArray[Any]

#: Row numbers, ids of individuals, and classes counted from 0.
IntArray: TypeAlias = npt.NDArray[np.int64]


class SparseMatrix(Protocol):
    """A scipy sparse matrix or array of any format."""

    def toarray(self) -> Any:
        """Return the matrix as a dense array."""


#: One view: a 2-D table, rows are individuals (numpy, data frame, tensor, nested lists, sparse).
View: TypeAlias = npt.ArrayLike | SparseMatrix

#: Several views, named by a dict, or numbered ``view_0``, … in a list or tuple.
Views: TypeAlias = Mapping[str, View] | Sequence[View]

#: A ``random_state``: None for fresh entropy, a seed, or a generator that is advanced.
RandomState: TypeAlias = int | np.random.Generator | None


class LazyRows(ABC):
    """A 2-D array that is filled one block of rows at a time, on first access.

    Indexing and ``np.asarray`` fill the blocks that are missing and return rows of the array.
    Every block is filled once, also if several threads access it.

    Parameters
    ----------
    array : ndarray of shape (rows, columns)
        The array to fill; only this object may read it.
    edges : ndarray of int64
        First row of every block, followed by the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._types import LazyRows
    >>> class Printing(LazyRows):
    ...     def fill(self, block):
    ...         print("block", block)
    >>> X = Printing(np.zeros((5, 2)), np.array([0, 3, 5]))
    >>> X[3:].shape
    block 1
    (2, 2)
    >>> X[4].tolist(), X.shape
    ([0.0, 0.0], (5, 2))
    """

    def __init__(self, array: Array, edges: IntArray) -> None:
        self._array, self._edges = array, edges
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype
        self._is_filled = np.zeros(len(edges) - 1, dtype=bool)
        self._lock = threading.Lock()

    @abstractmethod
    def fill(self, block: int) -> None:
        """Write the rows of a block into the array."""

    def __len__(self) -> int:
        return len(self._array)

    def load(self, rows: Any) -> Array:
        """Fill the blocks of some rows and return the whole array.

        Parameters
        ----------
        rows : slice, int, array of int or array of bool
            Row index, as in numpy.

        Returns
        -------
        ndarray
            All rows; the values of rows that are not loaded are arbitrary.
        """
        if not self._is_filled.all():
            blocks = self._blocks_of(rows)
            missing = blocks[~self._is_filled[blocks]]
            if len(missing) > 0:
                with self._lock:
                    for block in missing.tolist():
                        if not self._is_filled[block]:  # another thread may have been faster
                            self.fill(block)
                            self._is_filled[block] = True
        return self._array

    def _blocks_of(self, rows: Any) -> IntArray:
        n = len(self)
        if isinstance(rows, slice):
            chosen = range(n)[rows]
            if len(chosen) == 0:
                return np.empty(0, dtype=np.int64)
            ends = np.sort([chosen[0], chosen[-1]])
            first, last = np.searchsorted(self._edges, ends, side="right") - 1
            return np.arange(first, last + 1)
        numbers = np.asarray(rows)
        if numbers.dtype == bool:
            numbers = np.nonzero(numbers)[0]
        # The modulo maps an index out of range to some block; numpy raises the error afterwards.
        return np.unique(np.searchsorted(self._edges, numbers.ravel() % n, side="right") - 1)

    def __getitem__(self, key: Any) -> Any:
        rows = key[0] if isinstance(key, tuple) and key else key
        selects_rows = isinstance(rows, slice | int | np.integer | np.ndarray | list)
        return self.load(rows if selects_rows else slice(None))[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.load(slice(None))
        return np.array(array, dtype=dtype) if copy else np.asarray(array, dtype=dtype)
