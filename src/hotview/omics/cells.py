"""Linked, unaligned and labeled cells of single-cell data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from hotview._messages import warn_user
from hotview._types import Array, IntArray
from hotview._validation.containers import container_of
from hotview.datasets import LinkedRows, link_rows
from hotview.datasets.readers.errors import did_you_mean

__all__ = [
    "Cells",
    "check_choices",
    "choose_views",
    "chosen_for",
    "find_column",
    "link_cells",
    "modalities_of",
    "read_cells",
    "take_cells",
]

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
        """The linked cells that all modalities have."""
        rows = np.flatnonzero(self.complete)
        linked = {name: take_cells(adata, rows) for name, adata in self.linked.items()}
        return replace(self, linked=linked, target=self.target[rows], complete=self.complete[rows])


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
    return link_cells(choose_views(data, layer=layer, obsm=obsm), data, label)


def choose_views(
    data: Any,
    *,
    layer: str | Mapping[str, str] | None = None,
    obsm: str | Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return all cells of every modality, with the chosen matrix as X.

    Parameters
    ----------
    data : MuData or dict of str to AnnData
        The modalities.
    layer, obsm : str, dict of str to str, or None, default=None
        As for `read_cells`.

    Returns
    -------
    dict of str to AnnData
        The cells, by modality.
    """
    modalities = modalities_of(data)
    check_choices("layer", layer, modalities)
    check_choices("obsm", obsm, modalities)
    return {name: _matrix_of(name, adata, layer, obsm) for name, adata in modalities.items()}


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
    rows = _link_cells(views, names)
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


def _link_cells(views: Mapping[str, Any], names: Mapping[str, list[str]]) -> LinkedRows:
    """Link cells of two modalities or more; of all, if absent ones would take too much memory."""
    rows = link_rows(names, at_least=min(2, len(names)))
    absent = {name: int((where < 0).sum()) for name, where in rows.rows.items()}
    if sum(n * views[name].n_vars for name, n in absent.items()) <= _MAX_ABSENT:
        return rows
    warn_user(
        f"Only cells of all modalities are linked: {sum(~rows.complete):,} are in some of them, "
        "and would take too much memory in the others. Reduce these first: obsm='X_pca', say."
    )
    return link_rows(names, at_least=None)


def _take_partial(adata: Any, rows: IntArray, ids: Array) -> Any:
    """Return some cells, NaN throughout for −1, as sparse rows where the matrix is sparse."""
    import anndata
    import pandas as pd

    here = rows >= 0
    if here.all():
        return take_cells(adata, rows)
    kept = adata[rows[here]].to_memory().X
    is_sparse: bool = sparse.issparse(kept)
    if not is_sparse:
        X: Any = np.full(
            (len(rows), adata.n_vars), np.nan, np.promote_types(kept.dtype, np.float32)
        )
        X[here] = kept
    else:
        nan = sparse.csr_array(np.full((1, adata.n_vars), np.nan, dtype=np.float32))
        order = np.where(here, np.cumsum(here) - 1, here.sum())
        X = sparse.csr_array(sparse.vstack([kept, nan]))[order]
    return anndata.AnnData(X, obs=pd.DataFrame(index=ids.astype(str)), var=adata.var[[]])


def take_cells(adata: Any, rows: IntArray) -> Any:
    """Return some cells; the same object if these are all, so that nothing is read or copied."""
    return adata if np.array_equal(rows, np.arange(adata.n_obs)) else adata[rows]


def _matrix_of(name: str, adata: Any, layer: Any, obsm: Any) -> Any:
    """Return an AnnData whose X is the chosen layer or entry of `obsm`."""
    import anndata
    import pandas as pd

    layer, obsm = chosen_for(name, "layer", layer), chosen_for(name, "obsm", obsm)
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


def check_choices(parameter: str, choice: Any, modalities: Mapping[str, Any]) -> None:
    """Raise if a dict by modality names one that does not exist.

    Examples
    --------
    >>> check_choices("obsm", {"RNAs": "X_pca"}, {"rna": None})
    Traceback (most recent call last):
    ...
    ValueError: Expected obsm to name modalities, but there is no 'RNAs'. Did you mean 'rna'?
    """
    for name in choice if isinstance(choice, Mapping) else ():
        if name not in modalities:
            raise ValueError(
                f"Expected {parameter} to name modalities, but there is no {name!r}."
                f"{did_you_mean(str(name), modalities)}"
            )


def chosen_for(name: str, parameter: str, choice: Any) -> str | None:
    """Return the value of `layer` or `obsm` for one modality."""
    chosen = choice.get(name) if isinstance(choice, Mapping) else choice
    if chosen is not None and not isinstance(chosen, str):
        raise TypeError(
            f"Expected {parameter} to be a name, or a dict of names by modality, but it is "
            f"{choice!r}. Write {parameter}='counts', say."
        )
    return chosen


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
