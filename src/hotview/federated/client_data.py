"""The table of one client, with its linked rows and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._codec import require
from hotview._types import Array, IntArray
from hotview._validation import ViewTable, check_choice, check_tables
from hotview.data.frames import encode_views
from hotview.preprocessing.column_scaler import IMPUTATIONS, ColumnScaler
from hotview.preprocessing.table_scan import scan_tables


@dataclass(frozen=True)
class ClientData:
    """The validated table of one client; its rows never leave the client.

    Parameters
    ----------
    name : str
        Name of the organization, which is also the name of its view.
    table : ViewTable
        Rows of the view.
    columns : ColumnScaler
        Standardization of the columns.
    linked : ndarray of int64
        Rows of the linked individuals, in the order that all organizations share.
    labels : ndarray
        Label of every row, None where it has none.
    digest : str
        SHA-256 of the linked ids.
    preprocessing : dict of str to object, or None, default=None
        How the file was read, so that later files are read alike.
    impute : {None, "mean", "median", "mean+indicator", "median+indicator"}, default=None
        Imputation of missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.federated import ClientData
    >>> data = ClientData.from_table("clinical", np.eye(3), labels=["ill", None, "well"])
    >>> data.classes, data.codes(["ill", "well"])
    (['ill', 'well'], array([ 0, -1,  1]))
    """

    name: str
    table: ViewTable
    columns: ColumnScaler
    linked: IntArray
    labels: Array
    digest: str
    preprocessing: Mapping[str, Any] | None = None
    impute: str | None = None

    @classmethod
    def from_table(
        cls,
        name: str,
        X: Any,
        *,
        ids: Sequence[Any] | None = None,
        linked_ids: Sequence[Any] = (),
        labels: Sequence[Any] | None = None,
        impute: str | None = None,
        preprocessing: Mapping[str, Any] | None = None,
    ) -> ClientData:
        """Validate the table of a client.

        Parameters
        ----------
        name : str
            Name of the view.
        X : 2-D array-like
            Rows, each with at least one value.
        ids : sequence or None, default=None
            Id of every row.
        linked_ids : sequence, default=()
            Ids that all organizations have in common, in the same order everywhere.
        labels : sequence or None, default=None
            Label of every row, None where it has none.
        impute : {None, "mean", "median", "mean+indicator", "median+indicator"}, default=None
            Imputation of missing cells, as of the estimators.
        preprocessing : dict or None, default=None
            How the file was read.

        Returns
        -------
        ClientData
            The data of the client.

        Examples
        --------
        >>> import numpy as np
        >>> from hotview.federated import ClientData
        >>> X = np.arange(6.0).reshape(3, 2)
        >>> ids = ["ann", "bob", "eve"]
        >>> ClientData.from_table("clinical", X, ids=ids, linked_ids=["eve", "ann"]).linked
        array([2, 0])
        """
        if impute is not None:
            check_choice("impute", impute, IMPUTATIONS)
        table = check_tables(*encode_views({name: X}))[name]
        scan = scan_tables(name, [table], preprocessing="standardize", impute=impute)
        if (present := scan.present[0]) is not None:
            problem = f"Expected every row of view {name!r} to have values, but"
            raise ValueError(f"{problem} {table.n_rows - len(present)} have none. Leave them out.")
        known = np.full(table.n_rows, None, dtype=object)
        if labels is not None:
            _check_labels(name, labels, table.n_rows)
            known[:] = list(labels)
        linked = _find_linked(name, ids, linked_ids, table.n_rows)
        digest = hash_ids(linked_ids)
        return cls(name, table, scan.scaler, linked, known, digest, preprocessing, impute)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the number of rows, the linked ids, and statistics of the columns."""
        digest = hashlib.sha256(f"{self.table.n_rows} {self.digest}".encode())
        fill = () if self.columns.fill is None else (self.columns.fill,)
        for numbers in (self.columns.mean, self.columns.scale, *fill):
            digest.update(np.ascontiguousarray(numbers, dtype=np.float64).data)
        return digest.hexdigest()

    @property
    def classes(self) -> list[Any]:
        """Distinct labels, sorted."""
        known = [label for label in self.labels.tolist() if label is not None]
        classes: list[Any] = np.unique(np.array(known)).tolist() if known else []
        return classes

    def codes(self, classes: Sequence[Any]) -> IntArray:
        """Return the class index of every row, −1 where it has no label.

        Parameters
        ----------
        classes : sequence
            All classes.

        Returns
        -------
        ndarray of int64
            One index per row.
        """
        index = {label: j for j, label in enumerate(classes)}
        if unknown := [label for label in self.classes if label not in index]:
            raise ValueError(
                f"Expected the labels of {self.name!r} to be among those of the label holder, "
                f"{list(classes)}, but there is {unknown[0]!r}. Correct it, or leave label_column "
                "out."
            )
        codes = [-1 if label is None else index[label] for label in self.labels.tolist()]
        return np.array(codes, dtype=np.int64)


def hash_ids(ids: Sequence[Any]) -> str:
    """Return the SHA-256 of a list of ids, by which organizations compare their lists.

    Parameters
    ----------
    ids : sequence
        The linked ids, in order.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> from hotview.federated.client_data import hash_ids
    >>> hash_ids(["a", "b"]) == hash_ids(["b", "a"])
    False
    """
    return hashlib.sha256("\n".join(map(str, ids)).encode()).hexdigest()


def _check_labels(name: str, labels: Sequence[Any], n_rows: int) -> None:
    problem = f"Expected a label, or None, for each of the {n_rows} rows of {name!r}, but"
    require(len(labels) == n_rows, f"{problem} {len(labels)} came.")
    known = [x.item() if isinstance(x, np.generic) else x for x in labels if x is not None]
    for x in known:
        fits = isinstance(x, str | bool | int | float) and x == x
        problem = f"Expected the labels of {name!r} to be texts or numbers, and None where there is"
        require(fits, f"{problem} none, but there is {x!r}. Correct it.")
    problem = f"Expected the labels of {name!r} to be all texts or all numbers, but there are both"
    require(len({isinstance(x, str) for x in known}) <= 1, f"{problem}. Write them alike.")


def _find_linked(
    name: str, ids: Sequence[Any] | None, linked_ids: Sequence[Any], n_rows: int
) -> IntArray:
    """Return the row of every linked id."""
    if len(linked_ids) == 0:
        return np.empty(0, dtype=np.int64)
    ids, linked = [*map(str, () if ids is None else ids)], [*map(str, linked_ids)]
    problem = f"Expected an id for each of the {n_rows} rows of {name!r}, because some are linked,"
    require(
        len(ids) == n_rows, f"{problem} but {len(ids)} came. Name the column of ids: id_column."
    )
    row_of = {key: i for i, key in enumerate(ids)}
    problem = f"Expected distinct ids for the rows of {name!r}, but some are equal."
    require(len(row_of) == n_rows, problem)
    require(len({*linked}) == len(linked), "Expected distinct linked ids, but some are equal.")
    if missing := [key for key in linked if key not in row_of]:
        raise ValueError(
            f"Expected all {len(linked)} linked ids among the rows of {name!r}, but {len(missing)} "
            f"are not, the first being {missing[0]!r}. Agree again on ids that all have."
        )
    return np.array([row_of[key] for key in linked], dtype=np.int64)
