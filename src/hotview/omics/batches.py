"""Batches of cells, by a column of obs: corrected view by view, in the reduced columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotview._validation.containers import matrix_of
from hotview.datasets.readers.arrays import obs_text
from hotview.estimators.batch_correction import BatchOffsets, fit_offsets
from hotview.omics.cells import find_column, modalities_of

__all__ = ["correct_views", "fit_batches"]


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
    import pandas as pd

    labels = find_column(data, label)
    classes = pd.Series(pd.factorize(labels)[0], index=labels.index, dtype=np.int64)
    offsets: dict[str, BatchOffsets | None] = {}
    for name, adata in views.items():
        own = _batches_of(name, data, batch_key)
        codes = classes.reindex(adata.obs_names, fill_value=-1).to_numpy()
        several = len(set(own)) > 1
        offsets[name] = fit_offsets(name, _matrix(name, adata), own, codes) if several else None
    return offsets


def correct_views(
    views: Mapping[str, Any],
    data: Any,
    batch_key: str,
    offsets: Mapping[str, BatchOffsets | None],
) -> dict[str, Any]:
    """Return views without the offsets of their batches.

    Parameters
    ----------
    views : dict of str to AnnData
        All cells of some modalities.
    data : MuData or dict of str to AnnData
        The modalities, with the batches.
    batch_key : str
        Column of batches in obs.
    offsets : dict of str to (BatchOffsets or None)
        From `fit_batches`; batches that are not among them are warned of.

    Returns
    -------
    dict of str to AnnData
        The corrected views; others are the same objects.
    """
    import anndata

    needed = {name for name in views if offsets.get(name) is not None}
    if not needed:
        return dict(views)
    corrected = dict(views)
    for name in needed:
        adata, found = views[name], offsets[name]
        assert found is not None
        own = _batches_of(name, data, batch_key)
        X = found.correct(_matrix(name, adata), own, name)
        corrected[name] = anndata.AnnData(X, obs=adata.obs[[]])
    return corrected


def _matrix(name: str, adata: Any) -> Any:
    """Return the matrix of a modality in memory."""
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
