"""Fit estimators to single-cell data; warnings of raw counts, other values and chance links."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from hotview._messages import warn_user
from hotview._validation.containers import container_of, matrix_of
from hotview.estimators import MultiViewEncoder
from hotview.omics.cells import (
    Cells,
    choose_views,
    correct_views,
    fit_batches,
    link_cells,
    modalities_of,
    read_choices,
)
from hotview.preprocessing.column_scaler import N_COMPONENTS, WIDE, looks_like_counts
from hotview.tables.arrays import make_style

_N_ROWS = 500  # that are looked at
_MIN_COLUMNS = 8
_COMPONENTS = ("X_pca", "X_lsi", "X_svd", "X_scvi", "X_scVI", "X_harmony", "X_pca_harmony")
_MIN_LINKS, _LEVEL = 30, 0.01


def fit(
    estimator: Any,
    data: Any,
    label: str | None = None,
    *,
    layer: str | Mapping[str, str] | None = None,
    obsm: str | Mapping[str, str] | None = None,
    batch_key: str | None = None,
    paired: bool = False,
) -> Any:
    """Fit an estimator to all cells.

    A classifier, or a search for one, is fitted to linked and unaligned cells and their labels. An
    encoder is fitted to all cells of every modality.

    Parameters
    ----------
    estimator : MultiViewClassifier, MultiViewEncoder or a search
        The estimator.
    data : MuData or dict of str to AnnData
        The modalities; they are not changed.
    label : str or None, default=None
        As for :func:`read_cells`; required by a classifier, not allowed with an encoder.
    layer : str, dict of str to str, or None, default=None
        As for :func:`read_cells`.
    obsm : str, dict of str to str, or None, default=None
        As for :func:`read_cells`.
    batch_key : str or None, default=None
        Column of batches in obs, such as ``"donor"``. Of every modality with several batches, the
        columns (beyond 256, their 64 components) get an offset per batch subtracted, which is
        estimated by least squares beside an effect of every class, or of clusters where classes
        do not connect the batches. Offsets are saved with the model, and :func:`annotate` uses
        them.
    paired : bool, default=False
        Whether to fit to linked cells only; the couplings ``"lscca"`` and ``"dgcca"`` need it.

    Returns
    -------
    object
        The estimator itself.

    Examples
    --------
    >>> import anndata
    >>> from hotview import MultiViewEncoder, omics
    >>> from hotview.datasets import make_views
    >>> views = make_views(100, n_views=3, random_state=0).views
    >>> cells = {name: anndata.AnnData(X) for name, X in views.items()}
    >>> for name, adata in cells.items():
    ...     adata.obs_names = name + "-" + adata.obs_names  # these are different cells
    >>> encoder = omics.fit(MultiViewEncoder(max_epochs=2, random_state=0), cells)
    >>> omics.annotate(encoder, cells)
    >>> cells["view_0"].obsm["X_hotview"].shape
    (100, 20)
    """
    is_encoder = isinstance(estimator, MultiViewEncoder)
    if label is None and not is_encoder:
        raise ValueError(
            "Expected label to name the column of obs that holds the classes, but it is None. Pass "
            "label='cell_type', say, or use MultiViewEncoder, which needs no labels."
        )
    if label is not None and is_encoder:
        raise ValueError(
            f"Expected no label, because an encoder uses none, but it is {label!r}. Leave it out, "
            "or use MultiViewClassifier."
        )
    modalities = modalities_of(data)
    choices = read_choices(modalities, layer, obsm)
    views = choose_views(data, choices)
    counts, offsets, corrected = {n: holds_counts(X) for n, X in views.items()}, None, views
    if batch_key is not None:
        offsets = fit_batches(views, data, batch_key, label)
        corrected = correct_views(views, data, batch_key, offsets)
    cells = link_cells(corrected, data, label)
    _fit_cells(estimator, cells.paired if paired else cells, paired=paired)
    model = getattr(estimator, "best_estimator_", estimator)
    model.model_.batch_offsets = offsets or {}
    remembered = {"counts": counts, "batch_key": batch_key, "label": describe_label(data, label)}
    model.metadata_["omics"] = {**choices, **remembered}
    for name, adata in modalities.items():
        better = f"obsm={{{name!r}: {best_entry(adata.obsm)!r}}}"
        note = describe_counts(name, views[name], better)
        if note is not None and name not in choices["obsm"]:
            model.fit_warnings_.append(note)
            warn_user(note)
    warn_of_chance_links(model)
    return estimator


def _fit_cells(estimator: Any, cells: Cells, *, paired: bool) -> None:
    is_encoder, has_links = isinstance(estimator, MultiViewEncoder), len(cells.target) > 0
    if not has_links and (paired or not is_encoder):
        names = [f"{adata.obs_names[0]!r} in {view!r}" for view, adata in cells.views.items()]
        raise ValueError(
            f"Expected cells that {'all' if paired else 'several'} modalities have, but there are "
            f"none. Cells are linked by obs_names, which begin with {', '.join(names)}: rename "
            "them, or use MultiViewEncoder, which needs no links."
        )
    if not is_encoder:
        more = {"unaligned": cells.unaligned, "unaligned_y": cells.unaligned_target}
        estimator.fit(cells.linked, cells.target, **(more if cells.unaligned else {}))
    elif paired:
        estimator.fit(cells.linked, paired=True)
    else:
        estimator.fit(cells.unaligned or None, linked=cells.linked if has_links else None)


def describe_label(data: Any, label: str | None) -> dict[str, Any]:
    """Return the order and the colors of the categories of a label, where obs and uns have them.

    Parameters
    ----------
    data : MuData or dict of str to AnnData
        The modalities.
    label : str or None
        Column of labels.

    Returns
    -------
    dict of str to list of str
        ``categories`` and, if all have one, ``colors``.
    """
    for part in (data, *modalities_of(data).values()):
        column: Any = getattr(part, "obs", {}).get(label)
        if hasattr(column, "cat"):
            return make_style(column, [str(x) for x in part.uns.get(f"{label}_colors", ())])
    return {}


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
