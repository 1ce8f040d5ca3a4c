"""Type aliases of arrays, views and random states."""

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
