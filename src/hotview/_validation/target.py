"""Labels: one per row."""

import numpy.typing as npt

from hotview._types import Array
from hotview._validation.arrays import as_array


def check_target(y: npt.ArrayLike, n_rows: int, *, what: str = "y") -> Array:
    """Turn labels into a 1-D array with one entry per row, or say what is wrong.

    Parameters
    ----------
    y : 1-D array-like
        The labels: numbers or text.
    n_rows : int
        How many labels there must be.
    what : str, default="y"
        What they are called, for the error.

    Returns
    -------
    ndarray of shape (n_rows,)
        The labels, their dtype kept, without a copy where none is needed.

    Examples
    --------
    >>> from hotview._validation import check_target
    >>> check_target([0, 1, 1], 3)
    array([0, 1, 1])
    """
    labels = as_array(what, y)
    if labels.ndim != 1:
        raise ValueError(
            f"Expected {what} to be 1-D, one label per row, but it has shape {labels.shape}. "
            "Pass a flat array: y.ravel() for a single column, y.argmax(axis=1) for one-hot rows."
        )
    if len(labels) != n_rows:
        raise ValueError(
            f"Expected {what} to hold one label for each of the {n_rows} rows, but it holds "
            f"{len(labels)}. Pass the labels of exactly these rows, in the same order."
        )
    return labels
