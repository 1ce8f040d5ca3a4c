"""Raw counts: recognized, said, and not confused with normalized values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from hotview._messages import warn_user
from hotview._validation.containers import container_of, matrix_of
from hotview.training.column_scaler import N_COMPONENTS, WIDE

__all__ = ["best_entry", "count_sentence", "holds_counts", "known_counts", "warn_of_other_values"]

_N_ROWS = 500  # that are looked at
_MIN_COLUMNS = 8
_COMPONENTS = ("X_pca", "X_lsi", "X_svd", "X_scvi", "X_scVI", "X_harmony", "X_pca_harmony")


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
    X = matrix_of("", X) if container_of(X) == "anndata" else X
    if X.shape[0] == 0 or X.shape[1] < _MIN_COLUMNS:
        return False
    rows = np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], _N_ROWS)).astype(int))
    part = X[rows]
    is_sparse: bool = sparse.issparse(part)
    values = np.asarray(part.data if is_sparse else part)
    values = values[~np.isnan(values)]
    return bool((values > 0).any() and ((values >= 0) & (values % 1 == 0)).all())


def best_entry(entries: Iterable[str]) -> str | None:
    """Return the entry of obsm that represents cells best in place of raw counts, if any.

    Examples
    --------
    >>> best_entry(["X_umap", "X_pca"]), best_entry(["X_umap"])
    ('X_pca', None)
    """
    known = set(entries)
    return next((entry for entry in _COMPONENTS if entry in known), None)


def count_sentence(name: str, n_columns: int, better: str) -> str:
    """Return what is done to a modality of raw counts, and what could be better.

    Parameters
    ----------
    name : str
        The modality.
    n_columns : int
        Number of its columns.
    better : str
        How to choose coordinates of the cells instead.

    Returns
    -------
    str
        One sentence without an end.

    Examples
    --------
    >>> count_sentence("rna", 2000, "obsm='X_pca'")
    "rna: raw counts, 2,000 columns reduced to 64 components of square roots of their shares; ..."
    """
    done = "standardized column by column"
    if n_columns > WIDE:
        done = f"{n_columns:,} columns reduced to {N_COMPONENTS} components of square roots of "
        done += "their shares"
    return f"{name}: raw counts, {done}; often better, and faster: {better}"


def known_counts(views: Mapping[str, Any]) -> dict[str, bool]:
    """Return which views hold raw counts, by name."""
    return {name: holds_counts(X) for name, X in views.items()}


def warn_of_other_values(stored: Mapping[str, Any], views: Mapping[str, Any]) -> list[str]:
    """Warn of raw counts in views that were normalized at fit, and the other way round.

    Parameters
    ----------
    stored : dict of str to bool
        Which views held counts at fit.
    views : dict of str to (AnnData, ndarray or csr_array)
        New rows.

    Returns
    -------
    list of str
        The warnings.
    """
    kinds = {True: "raw counts", False: "values that are not counts (normalized, say)"}
    texts = []
    for name, X in views.items():
        at_fit = stored.get(name)
        if isinstance(at_fit, bool) and holds_counts(X) != at_fit:
            texts.append(
                f"Expected {name!r} to hold {kinds[at_fit]}, as at fit, but it holds "
                f"{kinds[not at_fit]}. Pass the matrix of the fit: another layer, or an entry of "
                "obsm."
            )
            warn_user(texts[-1])
    return texts
