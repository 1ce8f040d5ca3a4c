"""What one organization has: its table, who of it is linked, and which labels it knows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview._validation import ViewTable, check_choice, check_tables
from hotview.training.columns import Columns, scan_tables

__all__ = ["Holdings", "digest_of_ids", "hold"]


@dataclass(frozen=True)
class Holdings:
    """The table of one organization; nothing of it leaves.

    Parameters
    ----------
    name : str
        Of the organization, which is that of its view.
    table : ViewTable
        Its rows.
    columns : Columns
        How they are standardized.
    linked : ndarray of int64
        The rows of the linked individuals, in the order that all organizations agreed on.
    labels : ndarray
        The label of every row, None where it has none.
    digest : str
        Of the agreed ids.
    recipe : dict of str to object, or None, default=None
        How the file was read, so that others are read likewise.
    impute : {None, "mean"}, default=None
        What becomes of missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.federated import hold
    >>> own = hold("clinical", np.eye(3), labels=["ill", None, "well"])
    >>> own.classes, own.codes(["ill", "well"])
    (['ill', 'well'], array([ 0, -1,  1]))
    """

    name: str
    table: ViewTable
    columns: Columns
    linked: IntArray
    labels: Array
    digest: str
    recipe: Mapping[str, Any] | None = None
    impute: str | None = None

    @property
    def fingerprint(self) -> str:
        """By which the table is known again: its size, and means and scales of its columns."""
        digest = hashlib.sha256(f"{self.table.n_rows} {self.digest}".encode())
        for numbers in (self.columns.mean, self.columns.scale):
            digest.update(np.ascontiguousarray(numbers, dtype=np.float64).data)
        return digest.hexdigest()

    @property
    def classes(self) -> list[Any]:
        """The labels that occur, sorted."""
        known = [label for label in self.labels.tolist() if label is not None]
        found: list[Any] = np.unique(np.array(known)).tolist() if known else []
        return found

    def codes(self, classes: Sequence[Any]) -> IntArray:
        """Number of the class of every row, −1 where it has no label.

        Parameters
        ----------
        classes : sequence
            All classes.

        Returns
        -------
        ndarray of int64
            One per row.
        """
        number = {label: j for j, label in enumerate(classes)}
        if strange := [label for label in self.classes if label not in number]:
            raise ValueError(
                f"Expected the labels of {self.name!r} to be among those of the label holder, "
                f"{list(classes)}, but there is {strange[0]!r}. Mend it, or leave label_column out."
            )
        return np.array(
            [-1 if label is None else number[label] for label in self.labels.tolist()],
            dtype=np.int64,
        )


def hold(
    name: str,
    X: Any,
    *,
    ids: Sequence[Any] | None = None,
    linked_ids: Sequence[Any] = (),
    labels: Sequence[Any] | None = None,
    impute: str | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> Holdings:
    """Check the table of an organization.

    Parameters
    ----------
    name : str
        Of its view.
    X : 2-D array-like
        The rows, all with values.
    ids : sequence or None, default=None
        Who every row is.
    linked_ids : sequence, default=()
        Who is known to all organizations, in the same order everywhere.
    labels : sequence or None, default=None
        The label of every row, None where it has none.
    impute : {None, "mean"}, default=None
        What to do with missing cells.
    recipe : dict or None, default=None
        How the file was read.

    Returns
    -------
    Holdings
        What it has.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.federated.client_data import hold
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> hold("clinical", X, ids=["ann", "bob", "eve"], linked_ids=["eve", "ann"]).linked
    array([2, 0])
    """
    if impute is not None:
        check_choice("impute", impute, ("mean",))
    table = check_tables({name: X})[name]
    scan = scan_tables(name, [table], standardize=True, impute=impute)
    if scan.present[0] is not None:
        raise ValueError(
            f"Expected every row of view {name!r} to have values, but "
            f"{table.n_rows - len(scan.present[0])} have none. Leave these rows out."
        )
    known = np.full(table.n_rows, None, dtype=object)
    if labels is not None:
        if len(labels) != table.n_rows:
            raise ValueError(
                f"Expected a label, or None, for each of the {table.n_rows} rows of {name!r}, but "
                f"{len(labels)} came."
            )
        known[:] = list(labels)
        _check_labels(name, [label for label in known.tolist() if label is not None])
    rows = _find(name, ids, linked_ids, table.n_rows)
    return Holdings(
        name, table, scan.columns, rows, known, digest_of_ids(linked_ids), recipe, impute
    )


def digest_of_ids(ids: Sequence[Any]) -> str:
    """A digest by which organizations see that they agreed on the same ids in the same order.

    Parameters
    ----------
    ids : sequence
        The linked ids.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> from hotview.federated.client_data import digest_of_ids
    >>> digest_of_ids(["a", "b"]) == digest_of_ids(["b", "a"])
    False
    """
    return hashlib.sha256("\n".join(map(str, ids)).encode()).hexdigest()


def _check_labels(name: str, known: Sequence[Any]) -> None:
    kinds = (str, bool, int, float)  # of which JSON can tell
    plain = [label.item() if isinstance(label, np.generic) else label for label in known]
    if strange := [x for x in plain if not isinstance(x, kinds) or x != x]:
        raise ValueError(
            f"Expected the labels of {name!r} to be texts or numbers, and None where there is "
            f"none, but there is {strange[0]!r}. Mend it."
        )
    if len({isinstance(label, str) for label in plain}) > 1:
        raise ValueError(
            f"Expected the labels of {name!r} to be all texts or all numbers, but there are both. "
            "Write them alike."
        )


def _find(name: str, ids: Sequence[Any] | None, linked_ids: Sequence[Any], n_rows: int) -> IntArray:
    if len(linked_ids) == 0:
        return np.empty(0, dtype=np.int64)
    if ids is None or len(ids) != n_rows:
        came = "none came" if ids is None else f"{len(ids)} came"
        raise ValueError(
            f"Expected an id for each of the {n_rows} rows of {name!r}, because some are linked, "
            f"but {came}. Say which column holds them: id_column."
        )
    place = {str(key): i for i, key in enumerate(ids)}
    if len(place) < n_rows:
        raise ValueError(f"Expected ids that tell the rows of {name!r} apart, but some are equal.")
    agreed = list(map(str, linked_ids))
    if len(set(agreed)) < len(agreed):
        raise ValueError("Expected the agreed ids to be different, but some are equal.")
    if missing := [key for key in agreed if key not in place]:
        raise ValueError(
            f"Expected all {len(agreed)} linked ids among the rows of {name!r}, but {len(missing)} "
            f"are not, the first being {missing[0]!r}. Agree again on ids that all have."
        )
    return np.array([place[key] for key in agreed], dtype=np.int64)
