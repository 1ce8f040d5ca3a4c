"""The shapes of what users pass in and what travels between the folders."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

#: Any numeric numpy array; which numbers it holds is checked at run time, in ``_validation``.
Array: TypeAlias = npt.NDArray[Any]

#: Row or individual numbers, and classes counted from 0.
IntArray: TypeAlias = npt.NDArray[np.int64]


class SparseMatrix(Protocol):
    """A scipy sparse matrix or array of any format."""

    def toarray(self) -> Any:
        """Return the same matrix with its zeros written out."""


#: One view: a 2-D table, rows are individuals (numpy, data frame, tensor, nested lists, sparse).
View: TypeAlias = npt.ArrayLike | SparseMatrix

#: Several views, named by a dict, or numbered ``view_0``, … in a list or tuple.
Views: TypeAlias = Mapping[str, View] | Sequence[View]

#: What every ``random_state`` takes: fresh entropy, a seed, or a generator that is moved on.
RandomState: TypeAlias = int | np.random.Generator | None
