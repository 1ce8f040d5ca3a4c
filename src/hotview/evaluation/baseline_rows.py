"""Rows of the baselines, and the transformation of a view to standardized columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from hotview._types import Array, IntArray, Views
from hotview._validation import ViewTable, check_aligned_tables, check_known_tables
from hotview.data import labeled_data
from hotview.data.columns import ViewColumns
from hotview.data.frames import encode_known_views, encoded_shapes

__all__ = ["BaselineRows", "ViewTransformer", "are_present", "read_blocks", "read_rows"]

#: Maximum number of cells of a sparse view that is made dense.
MAX_CELLS = 2**26
#: Components of a larger sparse view.
_SVD_COMPONENTS = 100
#: PCA uses a truncated solver if a view has this many times as many rows and columns as components.
_WIDE = 5


@dataclass(frozen=True)
class BaselineRows:
    """Rows of several views, each of which is of one individual.

    Parameters
    ----------
    views : dict of str to ndarray or csr_array
        The rows that every view has.
    individuals : dict of str to ndarray of int64
        Number of the individual of each of these rows.
    codes : ndarray of int64
        Class of each individual, −1 without a label.
    classes : ndarray
        The classes, sorted; empty for rows to predict, as `columns`.
    columns : dict of str to ViewColumns
        The columns of every view, and how they are encoded.
    """

    views: dict[str, Any]
    individuals: dict[str, IntArray]
    codes: IntArray
    classes: Array = field(default_factory=lambda: np.empty(0))
    columns: dict[str, ViewColumns] = field(default_factory=dict)

    @property
    def shares(self) -> Array:
        """Share of each class among the labels."""
        counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.classes))
        return np.asarray(counts / counts.sum())

    @property
    def present(self) -> Array:
        """Whether each individual has at least one of the views."""
        present = np.zeros(len(self.codes), dtype=bool)
        for numbers in self.individuals.values():
            present[numbers] = True
        return present

    def labels(self, name: str) -> IntArray:
        """Return the class of each row of a view."""
        return self.codes[self.individuals[name]]

    def labeled_views(self) -> list[str]:
        """Return the views in which rows of at least two classes have a label."""
        return [s for s in self.views if len(np.setdiff1d(self.labels(s), [-1])) > 1]

    def select(self, names: Collection[str]) -> BaselineRows:
        """Return the named views, and the labels of individuals that have one of them."""
        views = {name: X for name, X in self.views.items() if name in names}
        chosen = replace(self, views=views, individuals={n: self.individuals[n] for n in views})
        return replace(chosen, codes=np.where(chosen.present, self.codes, -1))

    def take(self, chosen: Array) -> BaselineRows:
        """Return some individuals, by a mask."""
        numbers, views, individuals = np.cumsum(chosen) - 1, {}, {}
        for name, X in self.views.items():
            if (kept := chosen[self.individuals[name]]).any():
                views[name], individuals[name] = X[kept], numbers[self.individuals[name][kept]]
        return replace(self, views=views, individuals=individuals, codes=self.codes[chosen])


def read_rows(
    Xs: Views | None,
    y: npt.ArrayLike | None,
    unaligned: Views | None = None,
    unaligned_y: Mapping[str, npt.ArrayLike] | None = None,
    *,
    paired: bool = False,
    marker: Any = None,
    max_rows: int | None = None,
) -> BaselineRows:
    """Validate and read the arguments of a classifier's `fit`.

    Parameters
    ----------
    Xs, y, unaligned, unaligned_y
        As for `MultiViewClassifier.fit`, for any number of views.
    paired : bool, default=False
        Whether row i of `unaligned` is the same individual in all views, which it then must hold.
    marker : object, default=None
        Marker of rows without a label, beside NaN and None.
    max_rows : int or None, default=None
        Maximum number of rows of each table: of a larger one a random sample, in which rows with
        a label have precedence.

    Returns
    -------
    BaselineRows
        The rows, with labels of at least two classes; linked individuals come first.
    """
    data = labeled_data(
        Xs, y, unaligned=unaligned, unaligned_y=unaligned_y, marker=marker, at_least=1
    )
    n_linked = len(data.links)
    others = {
        name: (rows.tables[-1], data.codes[s][n_linked:])
        for s, (name, rows) in enumerate(data.views.items())
        if rows.n_rows > n_linked
    }
    blocks: list[tuple[dict[str, ViewTable], IntArray]] = []
    if n_linked > 0:
        blocks.append(({name: rows.tables[0] for name, rows in data.views.items()}, data.target))
    if paired and others:
        if len(others) < len(data.views):
            raise ValueError(
                f"Expected paired to hold all of the views {data.names}, but got {list(others)}. "
                "Pass the rows of every view."
            )
        tables = {name: table for name, (table, _) in others.items()}
        blocks.append((tables, _unlabeled(check_aligned_tables(tables))))
    else:
        blocks += [({name: table}, codes) for name, (table, codes) in others.items()]
    parts: dict[str, list[tuple[Any, IntArray]]] = {name: [] for name in data.names}
    found = np.empty(0, dtype=np.int64)
    for tables, codes in blocks:
        chosen = _sample(codes, max_rows)
        for name, X in read_matrices(tables, chosen).items():
            present = np.flatnonzero(are_present(X))
            parts[name].append((X[present], len(found) + present))
        found = np.concatenate([found, codes[chosen]])
    views, individuals = {}, {}
    for name, own in parts.items():
        matrices, numbers = zip(*own, strict=True)
        is_sparse = any(map(_is_sparse, matrices))
        views[name] = sparse.vstack(matrices, format="csr") if is_sparse else np.vstack(matrices)
        individuals[name] = np.concatenate(numbers)
    columns = {name: rows.columns for name, rows in data.views.items()}
    return BaselineRows(views, individuals, found, data.known.classes, columns)


def _unlabeled(n: int) -> IntArray:
    return np.full(n, -1, dtype=np.int64)


def _sample(codes: IntArray, max_rows: int | None) -> Any:
    """Return all rows, or at random at most `max_rows`, first of those that have a label."""
    if max_rows is None or len(codes) <= max_rows:
        return slice(None)
    order = np.random.default_rng(0).permutation(len(codes))
    labeled_first = order[np.argsort(codes[order] < 0, kind="stable")]
    return np.sort(labeled_first[:max_rows])


def read_blocks(Xs: Views, columns: Mapping[str, ViewColumns]) -> Iterator[BaselineRows]:
    """Validate aligned rows to predict, and read some of them at a time.

    Parameters
    ----------
    Xs : dict, list or tuple of 2-D array-likes
        Some or all views of the fit.
    columns : dict of str to ViewColumns
        Columns of the fit.

    Yields
    ------
    BaselineRows
        Consecutive rows, without labels.
    """
    Xs = encode_known_views(Xs, columns)
    tables = check_known_tables(Xs, list(columns), encoded_shapes(columns))
    n = check_aligned_tables(tables)
    size = max(1, MAX_CELLS // sum(table.n_columns for table in tables.values()))
    for start in range(0, n, size):
        block = slice(start, min(start + size, n))
        views = read_matrices(tables, block, dense=True)
        individuals = {name: np.flatnonzero(are_present(X)) for name, X in views.items()}
        views = {name: views[name][numbers] for name, numbers in individuals.items()}
        yield BaselineRows(views, individuals, _unlabeled(block.stop - start))


def read_matrices(
    tables: Mapping[str, ViewTable], rows: Any = slice(None), *, dense: bool = False
) -> dict[str, Any]:
    """Return rows of tables as float64; those of large sparse tables stay sparse, or `dense`."""
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


def are_present(X: Any) -> Array:
    """Return which rows hold a value: a row that is NaN throughout is absent."""
    if _is_sparse(X):
        missing = sparse.csr_array((np.isnan(X.data), X.indices, X.indptr), shape=X.shape)
        return np.asarray(missing.sum(axis=1) < X.shape[1]).ravel()
    return np.asarray(~np.isnan(X).all(axis=1))


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


class ViewTransformer:
    """Standardized columns of a view, or its principal components.

    A missing cell gets the mean of its column. A sparse view is reduced to 100 components by a
    truncated SVD before anything else.

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
        steps: list[Any] = [StandardScaler(), FunctionTransformer(np.nan_to_num)]
        shape = X.shape
        if _is_sparse(X):
            n_kept = max(1, min(_SVD_COMPONENTS, *(n - 1 for n in shape)))
            svd = TruncatedSVD(n_kept, random_state=0)
            steps, shape = [FunctionTransformer(_fill), svd, *steps], (shape[0], n_kept)
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
        Z: Array = self._pipeline.transform(X)
        return Z


def _fill(X: Any) -> Any:
    """Return rows with 0, the usual value of a sparse view, in place of NaN."""
    if not _is_sparse(X):
        return np.nan_to_num(X)
    X = X.copy()
    X.data = np.nan_to_num(X.data)
    return X
