"""Linked, unaligned and labeled cells of single-cell data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview._validation.containers import container_of
from hotview.datasets import link_rows
from hotview.datasets.readers.errors import did_you_mean

__all__ = ["Cells", "modalities_of", "read_cells", "take_cells"]


@dataclass(frozen=True)
class Cells:
    """The cells of several modalities, in the form that estimators take.

    Parameters
    ----------
    views : dict of str to AnnData
        All cells of every modality.
    linked : dict of str to AnnData
        Cells of all modalities, in the order of the first; may be empty.
    target : ndarray of object
        Their labels, NaN where there is none.
    unaligned : dict of str to AnnData
        The other cells, by modality; modalities without any are left out.
    unaligned_target : dict of str to ndarray of object
        Their labels, NaN where there is none.

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
    modalities = modalities_of(data)
    views = {name: _matrix_of(name, adata, layer, obsm) for name, adata in modalities.items()}
    names = {name: adata.obs_names.to_list() for name, adata in views.items()}
    rows = link_rows(names, at_least=None)
    linked = {name: take_cells(adata, rows.rows[name]) for name, adata in views.items()}
    others = {name: take_cells(views[name], r) for name, r in rows.unaligned.items() if len(r) > 0}
    labels = _find_labels(data, modalities, label)
    target = labels.reindex(rows.ids).to_numpy(dtype=object)
    other_targets = {
        name: labels.reindex(adata.obs_names).to_numpy(dtype=object)
        for name, adata in others.items()
    }
    return Cells(views, linked, target, others, other_targets)


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


def take_cells(adata: Any, rows: IntArray) -> Any:
    """Return some cells; the same object if these are all, so that nothing is read or copied."""
    return adata if np.array_equal(rows, np.arange(adata.n_obs)) else adata[rows]


def _matrix_of(name: str, adata: Any, layer: Any, obsm: Any) -> Any:
    """Return an AnnData whose X is the chosen layer or entry of `obsm`."""
    import anndata
    import pandas as pd

    layer, obsm = _choice(name, "layer", layer), _choice(name, "obsm", obsm)
    if layer is not None and obsm is not None:
        raise ValueError(
            f"Expected a layer or an entry of obsm for modality {name!r}, but got both, {layer!r} "
            f"and {obsm!r}. Leave one out, or choose by modality: obsm={{{name!r}: {obsm!r}}}."
        )
    if layer is None and obsm is None:
        return adata
    attribute, key = ("layers", layer) if obsm is None else ("obsm", obsm)
    entries = getattr(adata, attribute)
    if key not in entries:
        raise ValueError(
            f"Expected modality {name!r} to have {attribute} {key!r}, but it has "
            f"{sorted(entries) or 'none'}.{did_you_mean(key, entries)}"
        )
    X, var = entries[key], adata.var[[]] if obsm is None else None
    if isinstance(X, pd.DataFrame):
        X, var = X.to_numpy(), pd.DataFrame(index=X.columns.astype(str))
    return anndata.AnnData(X, obs=adata.obs[[]], var=var)


def _choice(name: str, parameter: str, choice: Any) -> str | None:
    """Return the value of `layer` or `obsm` for one modality."""
    chosen = choice.get(name) if isinstance(choice, Mapping) else choice
    if chosen is not None and not isinstance(chosen, str):
        raise TypeError(
            f"Expected {parameter} to be a name, or a dict of names by modality, but it is "
            f"{choice!r}. Write {parameter}='counts', say."
        )
    return chosen


def _find_labels(data: Any, modalities: Mapping[str, Any], label: str | None) -> Any:
    """Return one label per labeled cell, by the name of the cell."""
    import pandas as pd

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
