"""Training rows of the baselines, and the transformation of a view to standardized columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hotview._types import Array, IntArray, Views
from hotview._validation import ViewTable
from hotview.estimators.inputs import check_tables_of_views
from hotview.estimators.labels import encode_labels
from hotview.ingest.columns import ViewColumns

__all__ = [
    "MAX_CELLS",
    "BaselineRows",
    "ViewTransformer",
    "are_present",
    "have_any",
    "read_matrices",
    "stack_rows",
]

#: Maximum number of cells of a sparse view that is made dense.
MAX_CELLS = 2**26
#: Components of a larger sparse view.
_SVD_COMPONENTS = 100
#: PCA uses a truncated solver if a view has this many times as many rows and columns as components.
_WIDE = 5


@dataclass(frozen=True)
class BaselineRows:
    """Training rows of all views and their class codes.

    Parameters
    ----------
    classes : ndarray
        The classes, sorted.
    columns : dict of str to ViewColumns
        The columns of every view, and how they are encoded.
    linked : dict of str to ndarray or csr_array
        Rows of which row i is one individual in all views; empty if nobody is linked.
    codes : ndarray of int64
        Class codes of the linked rows, −1 without a label.
    unaligned : dict of str to ndarray or csr_array
        Unlinked rows of some or all views.
    unaligned_codes : dict of str to ndarray of int64
        Their class codes.
    """

    classes: Array
    columns: dict[str, ViewColumns]
    linked: dict[str, Any]
    codes: IntArray
    unaligned: dict[str, Any]
    unaligned_codes: dict[str, IntArray]

    @property
    def names(self) -> list[str]:
        """Names of the views."""
        return list(self.linked or self.unaligned)

    @property
    def shares(self) -> Array:
        """Share of each class among the labels."""
        codes = np.concatenate([self.codes, *self.unaligned_codes.values()])
        counts = np.bincount(codes[codes >= 0], minlength=len(self.classes))
        return np.asarray(counts / counts.sum())

    def select(self, names: Iterable[str]) -> BaselineRows:
        """Return the named views."""
        kept = [name for name in self.names if name in set(names)]

        def choose(views: Mapping[str, Any]) -> dict[str, Any]:
            return {name: views[name] for name in kept if name in views}

        parts = (self.linked, self.unaligned, self.unaligned_codes)
        linked, unaligned, unaligned_codes = map(choose, parts)
        return replace(self, linked=linked, unaligned=unaligned, unaligned_codes=unaligned_codes)

    def of_view(self, name: str) -> tuple[Any, IntArray]:
        """Return the rows that a view has, linked ones first, and their codes."""
        tables, codes = [], []
        for part, part_codes in self._parts():
            if name in part:
                present = are_present(part[name])
                tables.append(part[name][present])
                codes.append(part_codes[present])
        return stack_rows(tables), np.concatenate(codes)

    def labeled_views(self) -> list[str]:
        """Return the views in which rows of at least two classes have a label."""
        classes = {name: np.unique(self.of_view(name)[1]) for name in self.names}
        return [name for name, codes in classes.items() if (codes >= 0).sum() > 1]

    def labeled_parts(self) -> Iterator[tuple[dict[str, Any], IntArray]]:
        """Yield the labeled rows, linked ones first, and their codes."""
        for part, codes in self._parts():
            if (known := np.flatnonzero((codes >= 0) & have_any(part))).size:
                yield {name: X[known] for name, X in part.items()}, codes[known]

    def _parts(self) -> Iterator[tuple[dict[str, Any], IntArray]]:
        """Yield the linked rows, then the unlinked rows of each view, with their codes."""
        if self.linked:
            yield self.linked, self.codes
        for name, X in self.unaligned.items():
            yield {name: X}, self.unaligned_codes[name]


class ViewTransformer:
    """Standardized columns of a view, or its principal components; zeros stand for the mean.

    A missing cell gets the mean of its column, and a row that is absent from the view zeros. A
    sparse view is reduced to 100 components by a truncated SVD before anything else.

    Parameters
    ----------
    X : ndarray or csr_array
        Training rows that the view has.
    n_components : int or None, default=None
        Number of principal components; None for all columns as they are.

    Attributes
    ----------
    width : int
        Number of columns of the result.
    scale : float
        Factor that gives components of a view unit total variance; 1 without components.
    """

    def __init__(self, X: Any, n_components: int | None = None) -> None:
        steps: list[Any] = []
        if _is_sparse(X):
            n_kept = max(1, min(_SVD_COMPONENTS, *(n - 1 for n in X.shape)))
            steps += [FunctionTransformer(_fill), TruncatedSVD(n_kept, random_state=0)]
        steps += [StandardScaler(), FunctionTransformer(np.nan_to_num)]
        shape = X.shape if len(steps) == 2 else (X.shape[0], n_kept)
        self.width, self.scale = shape[1], 1.0
        if n_components is not None:
            self.width, self.scale = min(n_components, *shape), 1.0 / np.sqrt(shape[1])
            # As accurate as the full decomposition, and ten times faster for wide views.
            solver = "arpack" if 0 < _WIDE * self.width < min(shape) else "full"
            steps.append(PCA(self.width, svd_solver=solver, random_state=0))
        with np.errstate(invalid="ignore"):  # moments of empty columns, variance of constant ones
            self._pipeline = make_pipeline(*steps).fit(X)

    def transform(self, X: Any) -> Array:
        """Return the transformed rows."""
        Z: Array = np.zeros((X.shape[0], self.width))
        if (present := are_present(X)).any():
            Z[present] = self._pipeline.transform(X[present])
        return Z


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


def _fill(X: Any) -> Any:
    """Return rows with 0, the usual value of a sparse view, in place of NaN."""
    if not _is_sparse(X):
        return np.nan_to_num(X)
    X = X.copy()
    X.data = np.nan_to_num(X.data)
    return X


def have_any(views: Mapping[str, Any]) -> Array:
    """Return which rows have at least one of the views."""
    return np.asarray(np.any([are_present(X) for X in views.values()], axis=0))


def stack_rows(tables: Sequence[Any]) -> Any:
    """Return tables below each other, as a sparse one if one of them is."""
    if any(map(_is_sparse, tables)):
        return sparse.vstack(tables, format="csr")
    return np.vstack(tables)


def are_present(X: Any) -> Array:
    """Return which rows hold a value: a row that is NaN throughout is absent."""
    if _is_sparse(X):
        missing = sparse.csr_array((np.isnan(X.data), X.indices, X.indptr), shape=X.shape)
        return np.asarray(missing.sum(axis=1) < X.shape[1]).ravel()
    return np.asarray(~np.isnan(X).all(axis=1))


def read_rows(
    Xs: Views | None,
    y: npt.ArrayLike | None,
    unaligned: Views | None = None,
    unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    *,
    marker: Any = None,
    max_rows: int | None = None,
) -> BaselineRows:
    """Validate and read the arguments of a classifier's `fit`.

    Parameters
    ----------
    Xs, y, unaligned, unaligned_y
        As for `MultiViewClassifier.fit`, for any number of views.
    marker : object, default=None
        Marker of rows without a label, beside NaN and None.
    max_rows : int or None, default=None
        Maximum number of rows of each table: of a larger one a random sample, in which rows with
        a label have precedence.

    Returns
    -------
    BaselineRows
        The rows, with labels of at least two classes.
    """
    given = check_tables_of_views(Xs, y, unaligned, at_least=1)
    y = np.empty(0) if Xs is None else y
    labels = encode_labels(y, given.n_linked, unaligned_y, given.unaligned, marker)
    chosen = _sample(labels.linked, max_rows)
    others: dict[str, Any] = {}
    other_codes: dict[str, IntArray] = {}
    for name, table in given.unaligned.items():
        own = labels.unaligned.get(name, np.full(table.n_rows, -1, dtype=np.int64))
        rows = _sample(own, max_rows)
        others |= read_matrices({name: table}, rows)
        other_codes[name] = own[rows]
    linked = read_matrices(given.linked, chosen)
    codes = labels.linked[chosen]
    return BaselineRows(labels.classes, given.columns, linked, codes, others, other_codes)


def _sample(codes: IntArray, max_rows: int | None) -> Any:
    """Return all rows, or at random at most `max_rows`, first of those that have a label."""
    if max_rows is None or len(codes) <= max_rows:
        return slice(None)
    order = np.random.default_rng(0).permutation(len(codes))
    labeled_first = order[np.argsort(codes[order] < 0, kind="stable")]
    return np.sort(labeled_first[:max_rows])


def read_matrices(
    tables: Mapping[str, ViewTable], rows: Any = slice(None), *, dense: bool = False
) -> dict[str, Any]:
    """Return rows of tables as float64.

    Parameters
    ----------
    tables : dict of str to ViewTable
        The tables.
    rows : slice or ndarray of int64, default=slice(None)
        Which rows.
    dense : bool, default=False
        Whether to make rows of large sparse tables dense, too.

    Returns
    -------
    dict of str to ndarray or csr_array
        Finite numbers and NaN.
    """
    found = {}
    for name, table in tables.items():
        is_small = table.n_rows * table.n_columns <= MAX_CELLS
        X = table.rows(rows, dense=dense or is_small).astype(np.float64, copy=False)
        if np.isinf(X.data if _is_sparse(X) else X).any():
            raise ValueError(
                f"Expected view {name!r} to hold finite numbers, or NaN where they are missing, "
                "but some are infinite. Replace these by NaN."
            )
        found[name] = X
    return found
