"""Features and predictions of an estimator, written into AnnData and MuData objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotview.datasets.linking import align_rows
from hotview.omics.cells import modalities_of, read_cells, take_cells

__all__ = ["annotate"]


def annotate(
    estimator: Any,
    data: Any,
    *,
    layer: str | Mapping[str, str] | None = None,
    obsm: str | Mapping[str, str] | None = None,
    space: str = "features",
    key: str = "hotview",
) -> None:
    """Write features and predictions of a fitted estimator for all cells into `data`.

    - ``obsm["X_hotview"]`` of every modality: its features;
    - ``uns["hotview"]`` (of the MuData, or of every AnnData of a dict): ``views`` and, where there
      are any, ``plan``, ``costs``, ``similarity`` and ``classes``;
    - with a classifier, of every modality and of the MuData: ``obs["hotview_class"]``,
      ``obs["hotview_confidence"]`` (its probability) and ``obsm["hotview_probabilities"]``. A cell
      is predicted once, from all modalities that have it.

    Parameters
    ----------
    estimator : MultiViewClassifier, MultiViewEncoder or a search
        Fitted estimator; `data` may lack some of its views.
    data : MuData or dict of str to AnnData
        The cells of `fit`, or new ones. Existing entries of these names are replaced; nothing is
        written if a prediction fails.
    layer : str, dict of str to str, or None, default=None
        As for `fit`.
    obsm : str, dict of str to str, or None, default=None
        As for `fit`.
    space : {"features", "common"}, default="features"
        As in `transform`: features of each modality, or their image in the common space, where
        cells of different modalities are comparable.
    key : str, default="hotview"
        Prefix or suffix of the names of the new entries.

    Examples
    --------
    >>> import anndata
    >>> from hotview import MultiViewClassifier, omics
    >>> from hotview.datasets import make_views
    >>> data = make_views(60, n_views=2, n_groups=1, labeled=1.0, random_state=0)
    >>> cells = {name: anndata.AnnData(X) for name, X in data.linked.items()}
    >>> cells["view_0"].obs["kind"] = data.linked_target
    >>> model = MultiViewClassifier(max_epochs=2, n_estimators=1, random_state=0)
    >>> omics.annotate(omics.fit(model, cells, "kind"), cells)
    >>> sorted(cells["view_1"].obs)
    ['hotview_class', 'hotview_confidence']
    """
    modalities = modalities_of(data)
    parts = {"the data": data} | {f"modality {name!r}": part for name, part in modalities.items()}
    for owner, part in parts.items():
        if getattr(part, "is_view", False):
            raise ValueError(
                f"Expected {owner} to hold its own data, but it is a view of other data, which "
                "cannot be written to. Call .copy() first."
            )
    views = read_cells(data, layer=layer, obsm=obsm).views
    model = getattr(estimator, "best_estimator_", estimator)
    features = {name: np.asarray(Z) for name, Z in model.transform(views, space).items()}
    probabilities = _predict_cells(model, views) if hasattr(model, "predict_proba") else None
    summary = {"views": np.array(model.view_names_)}
    if model.plan_ is not None:
        summary |= {"plan": model.plan_.W, "costs": model.plan_.C}
    if model.view_similarity_ is not None:
        summary["similarity"] = model.view_similarity_.value
    if hasattr(model, "classes_"):
        summary["classes"] = np.asarray(model.classes_)
    containers = [data] if hasattr(data, "mod") else []
    for name, adata in modalities.items():
        adata.obsm[f"X_{key}"] = features[name]
    for part in containers or modalities.values():
        part.uns[key] = {name: value.copy() for name, value in summary.items()}
    if probabilities is not None:
        for part in [*modalities.values(), *containers]:
            _write_predictions(part, probabilities, key)


def _predict_cells(model: Any, views: Mapping[str, Any]) -> Any:
    """Return class probabilities, one row per cell, from all modalities that have it."""
    import pandas as pd

    ids, rows = align_rows({name: adata.obs_names.to_list() for name, adata in views.items()})
    probabilities = np.empty((len(ids), len(model.classes_)))
    # Cells of the same modalities are predicted together, so that no missing view is imputed.
    presence = np.stack([view_rows >= 0 for view_rows in rows.values()], axis=1)
    patterns, pattern_of = np.unique(presence, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        cells = np.flatnonzero(pattern_of.ravel() == number)
        present = [name for name, is_present in zip(rows, pattern, strict=True) if is_present]
        part = {name: take_cells(views[name], rows[name][cells]) for name in present}
        probabilities[cells] = model.predict_proba(part)
    return pd.DataFrame(probabilities, index=ids, columns=model.classes_)


def _write_predictions(part: Any, probabilities: Any, key: str) -> None:
    """Write predictions for the cells of an AnnData or MuData, NaN where there is none."""
    import pandas as pd

    own = probabilities.reindex(part.obs_names)
    is_predicted = own.notna().all(axis=1).to_numpy()
    codes = np.where(is_predicted, own.fillna(0).to_numpy().argmax(axis=1), -1)
    part.obs[f"{key}_class"] = pd.Categorical.from_codes(codes, categories=own.columns)
    part.obs[f"{key}_confidence"] = own.max(axis=1)
    part.obsm[f"{key}_probabilities"] = own.rename(columns=str)
