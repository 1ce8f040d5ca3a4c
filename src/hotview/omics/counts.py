"""Raw counts: recognized, said, and not confused with normalized values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from hotview._messages import warn_user
from hotview._validation.containers import container_of, matrix_of
from hotview.training.column_scaler import N_COMPONENTS, WIDE, looks_like_counts

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
    if X.shape[0] == 0 or X.shape[1] < _MIN_COLUMNS:
        return False
    part = _some_rows(X)
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


def _some_rows(X: Any) -> Any:
    """Return evenly spaced rows of a matrix."""
    X = matrix_of("", X) if container_of(X) == "anndata" else X
    return X[np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], _N_ROWS)).astype(int))]


def count_sentence(name: str, X: Any, better: str) -> str:
    """Return what is done to a modality of raw counts, and what could be better.

    Parameters
    ----------
    name : str
        The modality.
    X : AnnData, ndarray or csr_array
        Its counts.
    better : str
        How to choose coordinates of the cells instead.

    Returns
    -------
    str
        One sentence without an end.

    Examples
    --------
    >>> count_sentence("rna", np.eye(2000), "obsm='X_pca'")
    "rna: raw counts, 2,000 columns reduced to 64 components of square roots of their shares; ..."
    >>> count_sentence("rna", np.ones((5, 2000)), "obsm='X_pca'").partition("; ")[0]
    'rna: raw counts, few of them 0, 2,000 columns standardized and reduced to 64 components'
    """
    n_columns = X.shape[1]
    if n_columns <= WIDE:
        done = "standardized column by column"
    elif looks_like_counts(_some_rows(X)):
        done = f"{n_columns:,} columns reduced to {N_COMPONENTS} components of square roots of "
        done += "their shares"
    else:
        done = f"few of them 0, {n_columns:,} columns standardized and reduced to {N_COMPONENTS} "
        done += "components"
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
