"""Validation of views, named 2-D arrays of numbers, and of labels."""

import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from hotview._types import Array, Views
from hotview._validation.columns import (
    NUMERIC_KINDS,
    as_array,
    as_numbers,
    column_names,
    text_columns,
)
from hotview._validation.containers import matrix_of

_MAX_NAME_LENGTH = 1000


def check_views(views: Views, *, aligned: bool = False) -> dict[str, Array]:
    """Convert a collection of views to a dict of named 2-D numeric arrays.

    Valid arrays are returned without a copy; the caller's data is not changed. Missing values
    (NaN) are kept.

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
        The views in the given order, each of shape (n_rows, n_columns), its dtype kept.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._validation import check_views
    >>> checked = check_views([np.zeros((5, 2)), np.ones((4, 3))])
    >>> {name: X.shape for name, X in checked.items()}
    {'view_0': (5, 2), 'view_1': (4, 3)}
    """
    checked = {name: check_view(name, view) for name, view in name_views(views)}
    if aligned:
        check_aligned({name: len(X) for name, X in checked.items()})
    return checked


def check_aligned(sizes: Mapping[str, int]) -> None:
    """Check that all views have the same number of rows."""
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name!r}: {n}" for name, n in sizes.items())
        raise ValueError(
            "Expected aligned views, where row i is the same individual in every view, but the "
            f"numbers of rows differ ({listed}). Keep the rows that all views share, in one order."
        )


def name_views(views: Views) -> list[tuple[str, Any]]:
    """Return (name, view) pairs; raise if `views` is not a collection of named views."""
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


def can_be_saved(name: str) -> bool:
    """Whether a name can be stored in files and used as a relative path.

    Examples
    --------
    >>> from hotview._validation.views import can_be_saved
    >>> can_be_saved("blood/iron"), can_be_saved("../blood")
    (True, False)
    """
    parts = re.split(r"[/\\]", name)
    odd = any(c < " " or "\ud800" <= c <= "\udfff" for c in name)
    return len(name) <= _MAX_NAME_LENGTH and parts[0] != "" and ".." not in parts and not odd


def _check_names(names: list[Any]) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(
                f"Expected every view's name to be a non-empty string, but one is {name!r} "
                f"({type(name).__name__}). Rename it, as in {{str(name): X}}."
            )
        if not can_be_saved(name):
            raise ValueError(
                "Expected every view's name to be one that files can hold: at most "
                f"{_MAX_NAME_LENGTH} characters, no control character, no leading slash and no "
                f"'..' between slashes; but one is {reprlib.repr(name)}. Rename it."
            )
    # A dict cannot repeat a key, but other mappings (multi-dicts, file readers) can.
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Expected every view to have its own name, but {twice} occur more than once. "
            "Rename the repeated views."
        )


def check_view(name: str, view: Any) -> Array:
    """Validate one view and return it as a dense 2-D numeric array."""
    X = as_array(f"view {name!r}", matrix_of(name, view))
    if X.dtype.kind == "O" and (numbers := as_numbers(view)) is not None:
        X = numbers  # numpy makes objects of nulls, and of numbers beside booleans
    check_numeric(name, X, view)
    return X


def check_numeric(name: str, X: Any, view: Any) -> None:
    """Check that a dense or sparse array is numeric, 2-D and not empty."""
    if X.dtype.kind not in NUMERIC_KINDS:
        raise _not_numeric(name, X, view)
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


def _not_numeric(name: str, X: Any, view: Any) -> TypeError:
    remedy = "Encode text as numbers, then convert with .astype(float)."
    if view is None:
        remedy = "It is None: leave the view out, or give it rows."
    elif X.dtype.kind == "c":
        remedy = "Make the real and the imaginary part columns of their own."
    columns = ""
    if column_names(view):
        text = ", ".join(map(repr, text_columns(view)))
        columns = f" (not numeric: {text})" if text else " (mixed columns)"
    return TypeError(
        f"Expected view {name!r} to hold real numbers, but its dtype is {X.dtype}{columns}. "
        f"{remedy}"
    )


def check_target(y: npt.ArrayLike, n_rows: int, *, what: str = "y") -> Array:
    """Convert labels to a 1-D array with one entry per row.

    Parameters
    ----------
    y : 1-D array-like
        The labels: numbers or text.
    n_rows : int
        Expected number of labels.
    what : str, default="y"
        Name of the labels, for the error.

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
