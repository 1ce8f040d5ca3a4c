"""The one gate for what users pass in.

Every error says what was expected, what came (and in which view), and what to do.
"""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from hotview._types import Array, Views

#: numpy's letters for booleans, signed and unsigned integers and floats
_NUMERIC_KINDS = "biuf"


def check_views(views: Views, *, aligned: bool = False) -> dict[str, Array]:
    """Turn a collection of views into a dict of named 2-D numeric arrays, or say what is wrong.

    Arrays that are already fine are passed through without a copy, and nothing that the caller
    owns is changed. Missing values (NaN) are left alone.

    Parameters
    ----------
    views : dict, list or tuple of 2-D array-likes
        One table per view, rows are individuals. A dict names its views; the views of a list
        or tuple are called ``view_0``, ``view_1``, ….
    aligned : bool, default=False
        Whether row i must be the same individual in every view, so that all views need the
        same number of rows.

    Returns
    -------
    dict of str to ndarray
        The views in the order they came, each of shape (n_rows, n_columns), its dtype kept.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import check_views
    >>> checked = check_views([np.zeros((5, 2)), np.ones((4, 3))])
    >>> {name: X.shape for name, X in checked.items()}
    {'view_0': (5, 2), 'view_1': (4, 3)}
    """
    checked = {name: _check_view(name, view) for name, view in _name_views(views)}
    if aligned and len({len(X) for X in checked.values()}) > 1:
        sizes = ", ".join(f"{name!r}: {len(X)}" for name, X in checked.items())
        raise ValueError(
            "Expected aligned views, where row i is the same individual in every view, but the "
            f"numbers of rows differ ({sizes}). Keep the rows that all views share, in one order."
        )
    return checked


def check_target(y: npt.ArrayLike, n_rows: int) -> Array:
    """Turn labels into a 1-D array with one entry per row, or say what is wrong.

    Parameters
    ----------
    y : 1-D array-like
        The labels: numbers or text.
    n_rows : int
        How many labels there must be.

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
    labels = _as_array("y", y)
    if labels.ndim != 1:
        raise ValueError(
            f"Expected y to be 1-D, one label per row, but it has shape {labels.shape}. "
            "Pass a flat array: y.ravel() for a single column, y.argmax(axis=1) for one-hot rows."
        )
    if len(labels) != n_rows:
        raise ValueError(
            f"Expected y to hold one label for each of the {n_rows} rows, but it holds "
            f"{len(labels)}. Pass the labels of exactly these rows, in the same order."
        )
    return labels


def check_share(name: str, share: Any) -> float:
    """Check that a parameter is a share, a number from 0 to 1.

    Parameters
    ----------
    name : str
        What the parameter is called, for the error.
    share : float
        Its value.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from hotview._validation import check_share
    >>> check_share("labeled", 0.05)
    0.05
    """
    if not isinstance(share, Real) or not 0 <= float(share) <= 1:  # not NaN either
        raise ValueError(
            f"Expected {name} to be a share, a number from 0 to 1, but it is {share!r}. "
            f"For five percent write {name}=0.05."
        )
    return float(share)


def check_count(name: str, count: Any, *, at_least: int = 1) -> int:
    """Check that a parameter is a whole number that is large enough.

    Parameters
    ----------
    name : str
        What the parameter is called, for the error.
    count : int
        Its value.
    at_least : int, default=1
        The smallest value that makes sense.

    Returns
    -------
    int
        The number.

    Examples
    --------
    >>> from hotview._validation import check_count
    >>> check_count("n_views", 6)
    6
    """
    if not isinstance(count, Integral) or count < at_least:
        raise ValueError(
            f"Expected {name} to be a whole number of at least {at_least}, but it is {count!r}. "
            f"Pass an int, as in {name}={max(at_least, 1)}."
        )
    return int(count)


def _name_views(views: Views) -> list[tuple[str, Any]]:
    """Pair every view with its name, refusing what is not a collection of named views."""
    if isinstance(views, Mapping):
        pairs = list(views.items())
    elif isinstance(views, Sequence) and not isinstance(views, str | bytes):
        pairs = [(f"view_{s}", view) for s, view in enumerate(views)]
    else:
        raise TypeError(
            "Expected a dict, list or tuple of 2-D arrays, one per view, but got a single "
            f"{type(views).__name__}. Wrap one view as [X]; turn a stack of views into list(X)."
        )
    if not pairs:
        raise ValueError("Expected at least one view, but the collection is empty. Pass one array.")
    _check_names([name for name, _ in pairs])
    return pairs


def _check_names(names: list[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"Expected every view's name to be a non-empty string, but one is {name!r} "
                f"({type(name).__name__}). Rename it, as in {{str(name): X}}."
            )
    # A dict cannot repeat a key, but other mappings (multi-dicts, file readers) can.
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Expected every view to have its own name, but {twice} came more than once. "
            "Rename the repeated views."
        )


def _check_view(name: str, view: Any) -> Array:
    """Check one view: 2-D, numeric, with rows and columns."""
    X = _as_array(f"view {name!r}", view)
    if X.dtype.kind not in _NUMERIC_KINDS:
        raise TypeError(
            f"Expected view {name!r} to hold real numbers, but its dtype is {X.dtype}"
            f"{_text_columns(view)}. Encode text as numbers, then convert with .astype(float)."
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected view {name!r} to be 2-D (rows are individuals, columns are features), but "
            f"its shape is {X.shape}. For a single feature use X.reshape(-1, 1); flatten images "
            "with X.reshape(len(X), -1)."
        )
    for count, what in zip(X.shape, ("row", "column"), strict=True):
        if count == 0:
            raise ValueError(
                f"Expected view {name!r} to have at least one {what}, but its shape is {X.shape}. "
                "Leave an empty view out."
            )
    return X


def _as_array(what: str, values: Any) -> Array:
    """Convert to numpy, without a copy where numpy can look at the same memory."""
    if np.ma.isMaskedArray(values):  # np.asarray would drop the mask without a word
        raise TypeError(
            f"Expected {what} to be a plain array, but it is a masked array. "
            "Write missing values as NaN: X.filled(np.nan)."
        )
    if hasattr(values, "detach"):  # a torch tensor that carries a gradient or lives on a device
        values = values.detach().cpu()
    elif hasattr(values, "toarray"):  # a scipy sparse matrix, which np.asarray would wrap
        values = values.toarray()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {what} to be a rectangular array of one kind, but numpy cannot read it "
            f"({error}). Give every row the same number of entries."
        ) from error


def _text_columns(view: Any) -> str:
    """Name the columns of a data frame that are not numeric, for the error message."""
    if not hasattr(view, "columns"):
        return ""
    names = [c for c in view.columns if np.asarray(view[c]).dtype.kind not in _NUMERIC_KINDS]
    return f" (not numeric: {', '.join(map(repr, names))})" if names else " (mixed columns)"
