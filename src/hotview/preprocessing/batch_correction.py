"""Linear correction of batches: an offset of every batch, in the reduced columns of a view."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from hotview._codec import require, require_array
from hotview._messages import listed, warn_user
from hotview._threads import existing_threads
from hotview._types import Array, IntArray
from hotview._validation import check_tables
from hotview.preprocessing.column_scaler import WIDE, ColumnScaler

__all__ = ["BatchOffsets", "estimate_offsets", "fit_offsets"]

_MAX_CELLS = 2000  # of a batch, from which its offset is estimated
_CELLS_PER_CLUSTER, _MAX_CLUSTERS = 40, 16
_CELLS_PER_CENTER = 12  # of centers whose differences are shifts to try
_N_ROUNDS = 10
_LIKELY = 0.75  # share of the largest score from which on a shift is likely
_N_COMPARED = 400  # cells of a batch whose neighbors are compared
_MIN_LABELED = 3  # labeled rows of a class in a batch that tell its offset


@dataclass(frozen=True)
class BatchOffsets:
    """The offset of every batch of one view, and how the view is reduced before.

    Parameters
    ----------
    batches : list of str
        Names of the batches.
    offsets : ndarray of float64, shape (n_batches, n_columns)
        What is subtracted from rows of each batch.
    scaler : ColumnScaler or None
        Reduction of a wide view; None for a view that keeps its columns.
    """

    batches: list[str]
    offsets: Array
    scaler: ColumnScaler | None

    def __post_init__(self) -> None:
        n_batches, scaler = len(self.batches), self.scaler
        require(0 < len(set(self.batches)) == n_batches, "its batches have no different names")
        n_columns = None if scaler is None else scaler.n_outputs
        require_array("offsets", self.offsets, (n_batches, n_columns), "float64")
        fits = scaler is None or (scaler.components is not None and scaler.fill is None)
        require(fits, "its batches have no reduction")

    def correct(self, X: Any, batches: Sequence[str], view: str) -> Array:
        """Return reduced rows without the offset of their batch; 0 for one that is not known.

        Parameters
        ----------
        X : ndarray or csr_array
            Rows of the view.
        batches : sequence of str
            Batch of every row.
        view : str
            Name of the view, for messages.

        Returns
        -------
        ndarray of float32
            The corrected rows.
        """
        codes = _number(batches, self.batches)
        if unknown := sorted(set(batches) - set(self.batches)):
            warn_user(
                f"Expected batches of the fit in view {view!r}, but {listed(unknown)} are new: "
                "they are not corrected, and predictions for them are less reliable. Fit the model "
                "again with cells of these batches; they need no labels."
            )
        width = self.offsets.shape[1]
        n_columns = width if self.scaler is None else self.scaler.n_columns
        if X.shape[1] != n_columns:
            raise ValueError(
                f"Expected view {view!r} to have {n_columns} columns, as at fit, but it has "
                f"{X.shape[1]}. Pass the same columns in the same order."
            )
        offsets = np.concatenate([self.offsets, np.zeros((1, width))])
        return np.asarray(_reduce(X, self.scaler) - offsets[codes], dtype=np.float32)


def _reduce(X: Any, scaler: ColumnScaler | None) -> Array:
    if scaler is not None:
        return scaler.transform(X).numpy().astype(np.float64)
    is_sparse: bool = sparse.issparse(X)
    return np.asarray(X.toarray() if is_sparse else X, dtype=np.float64)


def _number(values: Iterable[Any], known: Iterable[Any]) -> IntArray:
    """Return the place of every value among the known ones, −1 where it is none of them."""
    places = {value: place for place, value in enumerate(known)}
    return np.array([places.get(value, -1) for value in values], dtype=np.int64)


@existing_threads()
def fit_offsets(
    name: str,
    X: Any,
    batches: Sequence[str],
    labels: Sequence[Any] | None = None,
    *,
    reduce: bool = True,
) -> BatchOffsets | None:
    """Reduce a view of more than 256 columns, and estimate the offset of every batch.

    Parameters
    ----------
    name : str
        Name of the view, for errors.
    X : ndarray or csr_array
        All rows of the view.
    batches : sequence of str
        Batch of every row.
    labels : sequence or None, default=None
        Class of every row, None or NaN where it is unknown, which tells differences in composition
        from those of batches.
    reduce : bool, default=True
        Whether a view of more than 256 columns is reduced to 64 components.

    Returns
    -------
    BatchOffsets or None
        The offsets; None for a view of one batch, which is left as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.preprocessing.batch_correction import fit_offsets
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> X[100:] += 5
    >>> found = fit_offsets("rna", X, ["a"] * 100 + ["b"] * 100)
    >>> (found.offsets[1] - found.offsets[0]).round()
    array([5., 5., 5.])
    """
    from hotview.preprocessing.table_scan import scan_tables  # which new rows do not need

    names = sorted(set(batches))
    if len(names) < 2:
        return None
    [table] = check_tables({name: X}).values()
    scan = scan_tables(name, [table], preprocessing="auto", impute=None)
    scaler = scan.scaler if reduce and table.n_columns > WIDE else None
    codes = _number(batches, names)
    given = [None] * len(batches) if labels is None else labels
    known = dict.fromkeys(label for label in given if label is not None and label == label)
    classes = _number(given, known)
    if len(set(codes[classes >= 0])) == len(names) and not _connects(codes, classes, len(names)):
        warn_user(
            f"Batches and classes of view {name!r} cannot be told apart: no classes of several "
            "labeled rows connect all batches. Differences of classes may be removed with those of "
            "batches. Compare with a fit without batches, or label more rows."
        )
    return BatchOffsets(names, estimate_offsets(_reduce(X, scaler), codes, classes), scaler)


def estimate_offsets(Z: Array, batches: IntArray, classes: IntArray) -> Array:
    r"""Estimate the offset of every batch, apart from differences in composition.

    Rows are modeled as :math:`z_i = m_{c(i)} + o_{b(i)} + e_i`. Where classes that batches have in
    common connect all of them, c is the class, of labeled rows alone. Otherwise it is a k-means
    cluster of corrected rows; clusters and least-squares offsets alternate. They begin with the
    smallest shift (none, of the means, or of any two clusters) that brings a batch near to the
    largest one, so that a type that one batch alone has, or has more of, does not move it.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Rows.
    batches : ndarray of int64, shape (n,)
        Batch of every row, from 0 on.
    classes : ndarray of int64, shape (n,)
        Class of every row, −1 where it is unknown.

    Returns
    -------
    ndarray of shape (n_batches, d)
        The offsets, whose mean over rows is 0.
    """
    n_batches, random = int(batches.max()) + 1, np.random.default_rng(0)
    share = np.bincount(batches, minlength=n_batches) / len(batches)
    if n_batches > 1 and _connects(batches, classes, n_batches):
        labeled = classes >= 0
        offsets = _solve(Z[labeled], batches[labeled], classes[labeled], n_batches)
        return np.asarray(offsets - share @ offsets)
    from sklearn.cluster import KMeans

    order = random.permutation(len(Z))
    kept = np.concatenate([order[batches[order] == b][:_MAX_CELLS] for b in range(n_batches)])
    Z, batches = Z[kept], batches[kept]
    largest = int(share.argmax())
    offsets = np.stack([_shift(Z[batches == largest], Z[batches == b]) for b in range(n_batches)])
    offsets -= share @ offsets
    for _ in range(_N_ROUNDS if n_batches > 1 else 0):
        n_clusters = int(np.clip(len(Z) // _CELLS_PER_CLUSTER, 1, _MAX_CLUSTERS))
        clusters = KMeans(n_clusters, n_init=1, random_state=0)
        groups = clusters.fit_predict(Z - offsets[batches]).astype(np.int64)
        updated = _solve(Z, batches, groups, n_batches)
        updated -= share @ updated
        moved, offsets = np.abs(updated - offsets).max(), updated
        if moved < 1e-3 * Z.std():
            break
    return offsets


def _shift(A: Array, B: Array) -> Array:
    """Return the smallest of those shifts of B after which both parts have near neighbors."""
    from sklearn.cluster import KMeans

    shifts = [np.zeros(A.shape[1]), B.mean(axis=0) - A.mean(axis=0)]
    parts = []
    for rows in (A, B):
        n = int(np.clip(len(rows) // _CELLS_PER_CENTER, 1, _MAX_CLUSTERS // 2))
        parts.append(KMeans(n, n_init=1, random_state=0).fit(rows).cluster_centers_)
    shifts += [b - a for a in parts[0] for b in parts[1]]
    A, B = A[:_N_COMPARED], B[:_N_COMPARED]
    within = cdist(A, A)
    np.fill_diagonal(within, np.inf)
    size = np.median(within.min(axis=1)) or 1.0
    scores = []
    for shift in shifts:
        D = cdist(A, B - shift)
        near = np.concatenate([D.min(axis=0), D.min(axis=1)]) / size
        scores.append(np.exp(-0.5 * near**2).mean())
    likely = np.array(scores) >= _LIKELY * max(scores)
    lengths = np.where(likely, np.linalg.norm(shifts, axis=1), np.inf)
    return np.asarray(shifts[int(np.argmin(lengths))])


def _connects(batches: IntArray, classes: IntArray, n_batches: int) -> bool:
    """Return whether classes of several labeled rows in both of two batches connect all batches."""
    labeled = classes >= 0
    counts = np.zeros((n_batches, int(classes.max(initial=-1)) + 1))
    np.add.at(counts, (batches[labeled], classes[labeled]), 1)
    has = (counts >= _MIN_LABELED).astype(int)
    return bool(connected_components(sparse.csr_array(has @ has.T))[0] == 1)


def _solve(Z: Array, batches: IntArray, groups: IntArray, n_batches: int) -> Array:
    """Least-squares offsets of batches, given the group of every row."""
    n_groups = int(groups.max()) + 1
    ones, rows = np.ones(2 * len(Z)), np.tile(np.arange(len(Z)), 2)
    columns = np.concatenate([batches, n_batches + groups])
    design = sparse.csr_array((ones, (rows, columns)), shape=(len(Z), n_batches + n_groups))
    # The minimum-norm solution: the mean of batches that share no group is not determined.
    solution = np.linalg.pinv((design.T @ design).toarray(), hermitian=True) @ (design.T @ Z)
    return np.asarray(solution[:n_batches])
