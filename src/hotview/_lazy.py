"""Arrays on disk whose rows are put there when they are first asked for."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hotview._types import Array, IntArray

__all__ = ["LazyRows"]


class LazyRows(ABC):
    """A 2-D array that is filled one stretch of rows at a time, when a row of it is asked for.

    Indexing and ``np.asarray`` give rows of the array, read-only where it is, and fill what is
    missing first; a stretch is filled once, by whichever thread comes first.

    Parameters
    ----------
    array : ndarray of shape (rows, columns)
        Where rows will be; nobody else may read from it.
    edges : ndarray of int64
        The first row of every stretch, and the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._lazy import LazyRows
    >>> class Told(LazyRows):
    ...     def fill(self, stretch):
    ...         print("stretch", stretch)
    >>> X = Told(np.zeros((5, 2)), np.array([0, 3, 5]))
    >>> X[3:].shape
    stretch 1
    (2, 2)
    >>> X[4].tolist(), X.shape
    ([0.0, 0.0], (5, 2))
    """

    def __init__(self, array: Array, edges: IntArray) -> None:
        self._array, self._edges = array, edges
        self._is_filled = np.zeros(len(edges) - 1, dtype=bool)
        self._lock = threading.Lock()

    @abstractmethod
    def fill(self, stretch: int) -> None:
        """Put the rows of a stretch into the array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of its numbers."""
        return self._array.dtype

    def __len__(self) -> int:
        return len(self._array)

    def ready(self, rows: Any) -> Array:
        """The array, in which at least these rows are filled.

        Parameters
        ----------
        rows : slice, int, array of int or array of bool
            Which, as numpy counts them.

        Returns
        -------
        ndarray
            All of it; other rows may hold anything.
        """
        if not self._is_filled.all():
            wanted = self._stretches(rows)
            missing = wanted[~self._is_filled[wanted]]
            if len(missing) > 0:
                self._fill(missing)
        return self._array

    def _fill(self, stretches: IntArray) -> None:
        with self._lock:
            for stretch in stretches.tolist():
                if not self._is_filled[stretch]:  # by a thread that was faster
                    self.fill(stretch)
                    self._is_filled[stretch] = True

    def _stretches(self, rows: Any) -> IntArray:
        """Which stretches some rows are in."""
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
        # Whatever is out of range, and so is an error of numpy's, is in some stretch, too.
        where = np.searchsorted(self._edges, numbers.ravel() % n, side="right") - 1
        return np.unique(where)

    def __getitem__(self, key: Any) -> Any:
        rows = key[0] if isinstance(key, tuple) and key else key
        is_plain = isinstance(rows, slice | int | np.integer | np.ndarray | list)
        return self.ready(rows if is_plain else slice(None))[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self.ready(slice(None))
        if copy:
            return np.array(whole, dtype=dtype)
        return np.asarray(whole, dtype=dtype)
