"""Arrays, frames and other containers of a fit as `Data`."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import replace
from typing import Any

import numpy as np

from hotview._types import Array, IntArray, Views
from hotview._validation import (
    ViewTable,
    check_aligned_tables,
    check_known_tables,
    check_tables,
)
from hotview.data.data import Data, TableRows, Targets
from hotview.data.frames import columns_of, encode_known_views, encode_views, encoded_shapes
from hotview.data.labels import encode_groups, encode_labels, number_labels, read_labels

__all__ = ["data_of_tables", "encoder_data", "labeled_data", "validation_data"]


def data_of_tables(linked: Mapping[str, ViewTable], unaligned: Mapping[str, ViewTable]) -> Data:
    """The rows of all views, without labels.

    Parameters
    ----------
    linked : dict of str to ViewTable
        Tables of all views whose row i is one individual; or none.
    unaligned : dict of str to ViewTable
        Tables of other individuals, of some views, or, without linked rows, of all.
    """
    views = {}
    for name in linked or unaligned:
        tables = tuple(tables[name] for tables in (linked, unaligned) if name in tables)
        encoded = [table for table in tables if table.encoding is not None]
        views[name] = TableRows(tables, columns_of((encoded or tables)[0]))
    for name, (_, columns) in _shapes_of(views).items():
        for table in views[name].tables:
            table.columns = table.columns or columns
    n_linked = next(iter(linked.values())).n_rows if linked else 0
    # The same number in all views: nothing is stored.
    links: IntArray = np.broadcast_to(np.arange(n_linked)[:, None], (n_linked, len(views)))
    return Data(views, links)


def _shapes_of(views: Mapping[str, TableRows]) -> dict[str, tuple[int, tuple[str, ...] | None]]:
    return encoded_shapes({name: rows.columns for name, rows in views.items()})


def read_views(
    Xs: Views | None, y: Any, unaligned: Views | None, *, at_least: int = 2
) -> tuple[dict[str, ViewTable], dict[str, ViewTable]]:
    """Validate linked rows and others: tables of all views, and of those with other rows.

    Parameters
    ----------
    Xs : views or None
        Linked rows; None where there are none.
    y : object
        Their labels, whose index is compared; None without linked rows.
    unaligned : views or None
        Other rows of some views, or, without linked rows, of all.
    at_least : int, default=2
        Minimum number of views.

    Returns
    -------
    linked, unaligned : dict of str to ViewTable
        The tables.
    """
    if isinstance(unaligned, Sized) and len(unaligned) == 0:
        unaligned = None
    if Xs is None:
        if y is not None or unaligned is None:
            raise ValueError(
                "Expected linked rows Xs and their labels y, or None for both and all rows in "
                "unaligned, with labels in unaligned_y; but Xs is None and "
                + ("y is not. " if y is not None else "unaligned is empty. ")
                + "Pass fit(None, None, unaligned=views, unaligned_y={view: labels})."
            )
        [unaligned] = encode_views(unaligned)
        return {}, check_tables(unaligned, at_least=at_least)
    _check_some_linked(Xs)
    Xs, unaligned = encode_views(Xs, unaligned)
    linked = check_tables(Xs, aligned=True, at_least=at_least)
    check_aligned_tables(linked, y)
    if unaligned is None:
        return linked, {}
    shapes = _shapes_of(data_of_tables(linked, {}).views)
    return linked, check_known_tables(unaligned, list(linked), shapes)


def _check_some_linked(Xs: Any) -> None:
    """Explain what linked rows are, before a table without rows is called an empty view."""
    tables = list(Xs.values()) if isinstance(Xs, Mapping) else Xs
    if not isinstance(tables, list | tuple) or not tables:
        return
    if all(getattr(table, "shape", (1,))[:1] == (0,) for table in tables):
        raise ValueError(
            "Expected linked rows, the same individuals in all views, but every view of Xs has 0 "
            "rows. Link some; or, if every view has labels of its own, pass fit(None, None, "
            "unaligned=views, unaligned_y={view: labels})."
        )


def labeled_data(
    Xs: Views | None,
    y: Any,
    *,
    unaligned: Views | None = None,
    unaligned_y: Mapping[str, Any] | None = None,
    groups: Any = None,
    unaligned_groups: Mapping[str, Any] | None = None,
    marker: Any = None,
    at_least: int = 2,
) -> Data:
    """The arguments of a classifier's `fit`, validated.

    Parameters
    ----------
    Xs, y, unaligned, unaligned_y, groups, unaligned_groups
        As for `MultiViewClassifier.fit`.
    marker : object, default=None
        Marker of rows without a label, beside NaN and None.
    at_least : int, default=2
        Minimum number of views.

    Returns
    -------
    Data
        With labels of at least two classes.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.data import labeled_data
    >>> views = {"blood": np.zeros((2, 3)), "genes": np.zeros((2, 5))}
    >>> data = labeled_data(views, ["ill", None], unaligned={"genes": np.ones((1, 5))},
    ...                     unaligned_y={"genes": ["well"]})
    >>> data.known.classes.tolist(), [codes.tolist() for codes in data.codes]
    (['ill', 'well'], [[0, -1], [0, -1, 1]])
    >>> data.links.tolist()
    [[0, 0], [1, 1]]
    """
    linked, others = read_views(Xs, y, unaligned, at_least=at_least)
    return replace(
        data_of_tables(linked, others),
        targets=encode_labels(y, linked, unaligned_y, others, marker),
        groups=encode_groups(groups, linked, unaligned_groups, others),
    )


def encoder_data(Xs: Views, linked: Views | None, *, paired: bool) -> Data:
    """The arguments of an encoder's `fit`, validated.

    Parameters
    ----------
    Xs, linked, paired
        As for `MultiViewEncoder.fit`.
    """
    if not isinstance(paired, bool | np.bool_):
        raise TypeError(
            f"Expected paired to be True or False, but it is {paired!r}. Pass paired=True only "
            "if row i is the same individual in every view."
        )
    if linked is not None and paired:
        raise ValueError(
            "Expected linked rows in linked, or all rows of Xs with paired=True, but both are "
            "given. Leave one of them out."
        )
    if linked is None:
        [Xs] = encode_views(Xs)
        tables = check_tables(Xs, aligned=bool(paired), at_least=2)
        return data_of_tables(tables, {}) if paired else data_of_tables({}, tables)
    are_named = isinstance(Xs, Mapping) and isinstance(linked, Mapping)
    if are_named and (lacking := [name for name in Xs if name not in linked]):
        raise ValueError(
            f"Expected linked to have all views, but it lacks {lacking}. Add them, with "
            "NaN in all rows if nobody in linked is in these views."
        )
    return data_of_tables(*read_views(linked, None, Xs))


def validation_data(validation: Any, data: Data, marker: Any) -> Data:
    """Labeled individuals to score a fit by after every epoch.

    Parameters
    ----------
    validation : (views, labels)
        What was passed to `fit`.
    data : Data
        The data of the fit.
    marker : object
        Marker of rows without a label.

    Returns
    -------
    Data
        Some or all views; the linked individuals are those with a label.
    """
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise TypeError(
            "Expected validation to be views and their labels, but it is a "
            f"{type(validation).__name__}. Pass validation=(Xs, y)."
        )
    Xs, y = validation
    columns = {name: rows.columns for name, rows in data.views.items()}
    Xs = encode_known_views(Xs, columns)
    tables = check_known_tables(Xs, data.names, encoded_shapes(columns))
    n_rows = check_aligned_tables(tables, y)
    found = read_labels("validation's y", y, n_rows, marker)
    if not found.known.any():
        raise ValueError(
            "Expected validation's y to hold labels to score against, but no row has one. "
            "Label some rows, or leave validation out."
        )
    classes: Array = data.known.classes
    codes = np.full(n_rows, -1, dtype=np.int64)
    own = number_labels(found.values, classes)
    codes[found.known] = np.where(own < 0, len(classes), own)
    gaps = {"validation's y": found.text_gaps} if found.text_gaps else {}
    given = data_of_tables(tables, {})
    targets = Targets(classes, (codes,) * len(tables), gaps)
    return replace(given, links=given.links[found.known], targets=targets)
