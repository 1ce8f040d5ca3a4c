"""Cells of several modalities: their matrices, links, labels and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from hotview._messages import did_you_mean, warn_user
from hotview._types import Array, IntArray
from hotview._validation.containers import container_of, matrix_of
from hotview.datasets import link_rows
from hotview.preprocessing.batch_correction import BatchOffsets, fit_offsets
from hotview.tables.arrays import obs_text

_MAX_ABSENT = 2**28  # NaN of linked cells that a modality lacks


@dataclass(frozen=True)
class Cells:
    """The cells of several modalities, in the form that estimators take.

    Parameters
    ----------
    views : dict of str to AnnData
        All cells of every modality.
    linked : dict of str to AnnData
        Cells of two modalities or more, NaN throughout a modality that lacks them; may be empty.
    target : ndarray of object
        Their labels, NaN where there is none.
    unaligned : dict of str to AnnData
        The other cells, by modality; modalities without any are left out.
    unaligned_target : dict of str to ndarray of object
        Their labels, NaN where there is none.
    complete : ndarray of bool
        Whether all modalities have each linked cell.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> from hotview.omics import read_cells
    >>> names = pd.DataFrame(index=["c1", "c2", "c3"])
    >>> rna = anndata.AnnData(np.zeros((3, 5)), obs=names.assign(kind=["B", "T", None]))
    >>> atac = anndata.AnnData(np.zeros((2, 4)), obs=names[1:])
    >>> cells = read_cells({"rna": rna, "atac": atac}, "kind")
    >>> cells.target.tolist(), cells.unaligned_target["rna"].tolist()
    (['T', nan], ['B'])
    """

    views: dict[str, Any]
    linked: dict[str, Any]
    target: Array
    unaligned: dict[str, Any]
    unaligned_target: dict[str, Array]
    complete: Array

    @property
    def paired(self) -> Cells:
        """The linked cells that all modalities have, and no others."""
        rows = np.flatnonzero(self.complete)
        linked = {name: take_cells(adata, rows) for name, adata in self.linked.items()}
        target, complete = self.target[rows], self.complete[rows]
        return Cells(self.views, linked, target, {}, {}, complete)


def read_cells(
    data: Any,
    label: str | None = None,
    *,
    layer: str | Mapping[str, str] | None = None,
    obsm: str | Mapping[str, str] | None = None,
) -> Cells:
    """Return which cells are linked, and their labels. The data is not changed.

    Parameters
    ----------
    data : MuData or dict of str to AnnData
        The modalities.
    label : str or None, default=None
        Column of labels in the `obs` of the MuData or of any modality.
    layer : str, dict of str to str, or None, default=None
        Layer to use instead of X, for all modalities or by modality.
    obsm : str, dict of str to str, or None, default=None
        Entry of `obsm` to use instead, such as ``"X_pca"``, for all modalities or by modality.

    Returns
    -------
    Cells
        Input of an estimator.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from hotview.omics import read_cells
    >>> rna = anndata.AnnData(np.zeros((3, 5)))
    >>> rna.obsm["X_pca"] = np.ones((3, 2))
    >>> read_cells({"rna": rna}, obsm="X_pca").linked["rna"].shape
    (3, 2)
    """
    choices = read_choices(modalities_of(data), layer, obsm)
    return link_cells(choose_views(data, choices), data, label)


def read_choices(modalities: Mapping[str, Any], layer: Any, obsm: Any) -> dict[str, dict[str, str]]:
    """Return the layers and entries of obsm that were chosen, by modality.

    Examples
    --------
    >>> read_choices({"rna": None, "atac": None}, None, {"rna": "X_pca"})
    {'layer': {}, 'obsm': {'rna': 'X_pca'}}
    """
    choices: dict[str, dict[str, str]] = {}
    for parameter, choice in (("layer", layer), ("obsm", obsm)):
        by_name = choice if isinstance(choice, Mapping) else dict.fromkeys(modalities, choice)
        for name, entry in by_name.items():
            if name not in modalities:
                raise ValueError(
                    f"Expected {parameter} to name modalities, but there is no {name!r}."
                    f"{did_you_mean(str(name), modalities)}"
                )
            if not isinstance(entry, str | None):
                raise TypeError(
                    f"Expected {parameter} to be a name, or a dict of names by modality, but it is "
                    f"{choice!r}. Write {parameter}='counts', say."
                )
        choices[parameter] = {n: entry for n, entry in by_name.items() if entry is not None}
    for name, entry in choices["obsm"].items():
        if name in choices["layer"]:
            raise ValueError(
                f"Expected a layer or an entry of obsm for modality {name!r}, but got both, "
                f"{choices['layer'][name]!r} and {entry!r}. Leave one out, or choose by modality: "
                f"obsm={{{name!r}: {entry!r}}}."
            )
    return choices


def choose_views(data: Any, choices: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return all cells of every modality, with the layer or entry of obsm of `choices` as X."""
    import anndata
    import pandas as pd

    views = modalities_of(data)
    for parameter, attribute in (("layer", "layers"), ("obsm", "obsm")):
        for name, key in choices[parameter].items():
            adata = views[name]
            entries = getattr(adata, attribute)
            if key not in entries:
                raise ValueError(
                    f"Expected modality {name!r} to have {attribute} {key!r}, but it has "
                    f"{sorted(entries) or 'none'}.{did_you_mean(key, entries)}"
                )
            X, var = entries[key], adata.var[[]] if parameter == "layer" else None
            if isinstance(X, pd.DataFrame):
                X, var = X.to_numpy(), pd.DataFrame(index=X.columns.astype(str))
            views[name] = anndata.AnnData(X, obs=adata.obs[[]], var=var)
    return views


def link_cells(views: Mapping[str, Any], data: Any, label: str | None = None) -> Cells:
    """Return which cells of these views are linked, and their labels.

    Parameters
    ----------
    views : dict of str to AnnData
        All cells of every modality, from `choose_views`.
    data : MuData or dict of str to AnnData
        The modalities, with the labels.
    label : str or None, default=None
        As for `read_cells`.

    Returns
    -------
    Cells
        Input of an estimator.
    """
    names = {name: adata.obs_names.to_list() for name, adata in views.items()}
    rows = link_rows(names, at_least=min(2, len(names)))
    absent = {name: int((where < 0).sum()) for name, where in rows.rows.items()}
    if sum(n * views[name].n_vars for name, n in absent.items()) > _MAX_ABSENT:
        warn_user(
            f"Only cells of all modalities are linked: {sum(~rows.complete):,} are in some of "
            "them, and would take too much memory in the others. Reduce these first: "
            "obsm='X_pca', say."
        )
        rows = link_rows(names, at_least=None)
    linked = {n: _take_partial(adata, rows.rows[n], rows.ids) for n, adata in views.items()}
    others = {name: take_cells(views[name], r) for name, r in rows.unaligned.items() if len(r) > 0}
    labels = find_column(data, label)
    target = labels.reindex(rows.ids).to_numpy(dtype=object)
    other_targets = {
        name: labels.reindex(adata.obs_names).to_numpy(dtype=object)
        for name, adata in others.items()
    }
    return Cells(dict(views), linked, target, others, other_targets, rows.complete)


def modalities_of(data: Any) -> dict[str, Any]:
    """Return the modalities of a MuData, or of a dict of AnnData, by name."""
    modalities = data.mod if hasattr(data, "mod") else data
    if not isinstance(modalities, Mapping) or not modalities:
        raise TypeError(
            "Expected a MuData, or a dict of AnnData by the name of their modality, but got "
            f"{type(data).__name__}. Pass, say, {{'rna': rna, 'atac': atac}}."
        )
    for name, adata in modalities.items():
        if container_of(adata) != "anndata":
            raise TypeError(
                f"Expected modality {name!r} to be an AnnData, but it is a {type(adata).__name__}. "
                "Other tables need no hotview.omics: pass them to fit."
            )
    return dict(modalities)


def _take_partial(adata: Any, rows: IntArray, ids: Array) -> Any:
    """Return some cells, NaN throughout for −1, as sparse rows where the matrix is sparse."""
    import anndata
    import pandas as pd

    here = rows >= 0
    if here.all():
        return take_cells(adata, rows)
    kept = adata[rows[here]].to_memory().X
    nan = np.full((1, adata.n_vars), np.nan, dtype=np.float32)
    order = np.where(here, np.cumsum(here) - 1, here.sum())
    is_sparse: bool = sparse.issparse(kept)
    X: Any = sparse.vstack([kept, sparse.csr_array(nan)]) if is_sparse else np.vstack([kept, nan])
    X = (sparse.csr_array(X) if is_sparse else X)[order]
    return anndata.AnnData(X, obs=pd.DataFrame(index=ids.astype(str)), var=adata.var[[]])


def take_cells(adata: Any, rows: IntArray) -> Any:
    """Return some cells; the same object if these are all, so that nothing is read or copied."""
    return adata if np.array_equal(rows, np.arange(adata.n_obs)) else adata[rows]


def find_column(data: Any, label: str | None) -> Any:
    """Return one value of a column of obs per cell that has one, by the name of the cell."""
    import pandas as pd

    modalities = modalities_of(data)
    if label is None:
        return pd.Series(dtype=object)
    frames = [getattr(data, "obs", None), *(adata.obs for adata in modalities.values())]
    columns = [frame[label] for frame in frames if frame is not None and label in frame]
    if not columns:
        known = dict.fromkeys(str(c) for adata in modalities.values() for c in adata.obs)
        raise ValueError(
            f"Expected a column {label!r} in obs, but neither the data nor any modality has one."
            f"{did_you_mean(label, known)} The modalities have {sorted(known) or 'no columns'}."
        )
    labels = pd.concat([column.dropna().astype(object) for column in columns])
    several = labels.groupby(level=0).nunique() > 1
    if several.any():
        cell = several.index[several.argmax()]
        raise ValueError(
            f"Expected every cell to have one {label!r}, but {int(several.sum())} have several: "
            f"cell {cell!r} is {' and '.join(repr(x) for x in labels.loc[cell].unique())}. Correct "
            "them, or drop the column where it is wrong."
        )
    return labels[~labels.index.duplicated()]


def fit_batches(
    views: Mapping[str, Any], data: Any, batch_key: str, label: str | None
) -> dict[str, BatchOffsets | None]:
    """Estimate the offset of every batch in every modality.

    Parameters
    ----------
    views : dict of str to AnnData
        All cells of every modality.
    data : MuData or dict of str to AnnData
        The modalities, with the batches and labels.
    batch_key : str
        Column of batches in obs.
    label : str or None
        Column of labels, which tell differences in composition from those of batches.

    Returns
    -------
    dict of str to (BatchOffsets or None)
        The offsets; None for a modality of one batch, which is left as it is.
    """
    labels, offsets = find_column(data, label), {}
    for name, adata in views.items():
        batches, own = _batches_of(name, data, batch_key), labels.reindex(adata.obs_names)
        offsets[name] = fit_offsets(name, _in_memory(name, adata), batches, own.tolist())
    return offsets


def correct_views(
    views: Mapping[str, Any],
    data: Any,
    batch_key: str,
    offsets: Mapping[str, BatchOffsets | None],
) -> dict[str, Any]:
    """Return views without the offsets of their batches, from `fit_batches`.

    Batches that are not among them are warned of.
    """
    import anndata

    corrected = dict(views)
    for name, adata in views.items():
        if (found := offsets.get(name)) is not None:
            batches = _batches_of(name, data, batch_key)
            X = found.correct(_in_memory(name, adata), batches, name)
            corrected[name] = anndata.AnnData(X, obs=adata.obs[[]])
    return corrected


def _in_memory(name: str, adata: Any) -> Any:
    X = matrix_of(name, adata)
    return X[:] if hasattr(X, "stored") else X


def _batches_of(name: str, data: Any, batch_key: str) -> list[str]:
    """Return the batch of every cell, by the modality itself or else by the rest of the data."""
    adata = modalities_of(data)[name]
    own = adata.obs.get(batch_key)
    own = find_column(data, batch_key).reindex(adata.obs_names) if own is None else own
    if own.isna().any():
        raise ValueError(
            f"Expected every cell of {name!r} to have a batch in {batch_key!r}, but "
            f"{int(own.isna().sum()):,} have none. Fill the column in, or leave these cells out."
        )
    return [str(text) for text in obs_text(own)]
