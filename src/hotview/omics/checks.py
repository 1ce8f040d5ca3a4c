"""What a fit to cells warns of: raw counts, values of another kind, and links by chance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from hotview._messages import warn_user
from hotview._validation.containers import container_of, matrix_of
from hotview.preprocessing.column_scaler import N_COMPONENTS, WIDE, looks_like_counts

__all__ = [
    "best_entry",
    "describe_counts",
    "holds_counts",
    "read_settings",
    "warn_of_chance_links",
    "warn_of_other_values",
]

_N_ROWS = 500  # that are looked at
_MIN_COLUMNS = 8
_COMPONENTS = ("X_pca", "X_lsi", "X_svd", "X_scvi", "X_scVI", "X_harmony", "X_pca_harmony")
_MIN_LINKS, _LEVEL = 30, 0.01


def holds_counts(X: Any) -> bool:
    """Return whether a matrix looks like raw counts: whole numbers from 0 on, in many columns.

    Parameters
    ----------
    X : AnnData, ndarray or csr_array
        The matrix; NaN is left out. Some rows of it are read.

    Returns
    -------
    bool
        False for fewer than 8 columns.

    Examples
    --------
    >>> holds_counts(np.eye(9)), holds_counts(np.log1p(np.eye(9)))
    (True, False)
    """
    if X.shape[0] == 0 or X.shape[1] < _MIN_COLUMNS:
        return False
    part = _some_rows(X)
    is_sparse: bool = sparse.issparse(part)
    values = np.asarray(part.data if is_sparse else part)
    values = values[~np.isnan(values)]
    return bool((values > 0).any() and ((values >= 0) & (values % 1 == 0)).all())


def _some_rows(X: Any) -> Any:
    """Return evenly spaced rows of a matrix."""
    X = matrix_of("", X) if container_of(X) == "anndata" else X
    return X[np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], _N_ROWS)).astype(int))]


def describe_counts(name: str, X: Any, better: str) -> str | None:
    """Return what is done to a modality of raw counts that is reduced, and what could be better.

    Parameters
    ----------
    name : str
        The modality.
    X : AnnData, ndarray or csr_array
        Its matrix.
    better : str
        How to choose coordinates of the cells instead.

    Returns
    -------
    str or None
        None for other values, and for few columns.

    Examples
    --------
    >>> describe_counts("rna", np.eye(2000), "obsm='X_pca'")
    "rna: raw counts, 2,000 columns reduced to 64 components of square roots of their shares; ..."
    >>> describe_counts("rna", np.ones((5, 2000)), "obsm='X_pca'").partition("; ")[0]
    'rna: raw counts, few of them 0, 2,000 columns standardized and reduced to 64 components'
    """
    n_columns = X.shape[1]
    if n_columns <= WIDE or not holds_counts(X):
        return None
    if looks_like_counts(_some_rows(X)):
        done = f"{n_columns:,} columns reduced to {N_COMPONENTS} components of square roots of "
        done += "their shares"
    else:
        done = f"few of them 0, {n_columns:,} columns standardized and reduced to {N_COMPONENTS} "
        done += "components"
    better = f"often better, and faster: {better}, your own PCA or LSI"
    return f"{name}: raw counts, {done}; {better}."


def best_entry(entries: Collection[str]) -> str:
    """Return the entry of obsm that represents cells best in place of raw counts.

    Examples
    --------
    >>> best_entry(["X_umap", "X_lsi"]), best_entry(["X_umap"])
    ('X_lsi', 'X_pca')
    """
    return next((entry for entry in _COMPONENTS if entry in entries), "X_pca")


def read_settings(model: Any) -> dict[str, Any]:
    """Return what a model remembers of its fit to cells, also of one on the command line.

    Parameters
    ----------
    model : MultiViewClassifier or MultiViewEncoder
        The model.

    Returns
    -------
    dict of str to object
        Plain values; empty for a model of other data.
    """
    stored = model.metadata_.get("omics")
    return dict(stored) if isinstance(stored, Mapping) else {}


def warn_of_other_values(model: Any, views: Mapping[str, Any]) -> None:
    """Warn of raw counts in views that were normalized at fit, and the other way round.

    Parameters
    ----------
    model : MultiViewClassifier or MultiViewEncoder
        The model.
    views : dict of str to (AnnData, ndarray or csr_array)
        New rows.
    """
    kinds = {True: "raw counts", False: "values that are not counts (normalized, say)"}
    stored = read_settings(model).get("counts", {})
    for name, X in views.items():
        at_fit = stored.get(name)
        if isinstance(at_fit, bool) and holds_counts(X) != at_fit:
            warn_user(
                f"Expected {name!r} to hold {kinds[at_fit]}, as at fit, but it holds "
                f"{kinds[not at_fit]}. Pass the matrix of the fit: another layer, or an entry of "
                "obsm."
            )


def warn_of_chance_links(model: Any) -> None:
    """Warn of pairs of views whose linked rows, 30 or more, agree no more than by chance.

    The agreement is `view_similarity_`, whose p-value compares it with permuted links. Warnings
    are added to those of the fit.
    """
    found = model.view_similarity_
    for a, b in combinations(range(len(model.view_names_) if found is not None else 0), 2):
        n, p = int(found.n_rows[a, b]), float(found.p_value[a, b])
        if n >= _MIN_LINKS and p > _LEVEL:
            pair = " and ".join(repr(model.view_names_[s]) for s in (a, b))
            model.fit_warnings_.append(
                f"Expected linked cells of {pair} to agree, but {n} of them agree no more than "
                f"cells that are linked at random (similarity {found.value[a, b]:.2f}, "
                f"p = {p:.2g}). If barcodes of different experiments collide, make the names of "
                "cells unique, as by adding the name of the library."
            )
            warn_user(model.fit_warnings_[-1])
