"""Features and predictions of an estimator, written into AnnData and MuData objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotview._validation import check_share
from hotview.data.linking import align_rows
from hotview.omics.cells import (
    choose_views,
    correct_views,
    modalities_of,
    read_choices,
    take_cells,
)
from hotview.omics.fit import read_settings, warn_of_other_values

UNASSIGNED, _GRAY = "Unassigned", "#d3d3d3"


def annotate(
    estimator: Any,
    data: Any,
    *,
    layer: str | Mapping[str, str] | None = None,
    obsm: str | Mapping[str, str] | None = None,
    space: str = "features",
    key: str = "hotview",
    unassigned_below: float | None = None,
) -> None:
    """Write features and predictions of a fitted estimator for all cells into `data`.

    - ``obsm["X_hotview"]`` of every modality: its features;
    - ``uns["hotview"]`` (of the MuData, or of every AnnData of a dict): ``views`` and, where there
      are any, ``plan``, ``costs``, ``similarity`` and ``classes``;
    - where held-out linked cells show that modalities can be compared in the common space
      (``estimator.common_space_.is_comparable``): ``obsm["X_hotview_common"]`` of every modality,
      its cells there, and of a MuData, one joint embedding: the mean of the modalities of a cell;
    - with a classifier, of every modality and of the MuData: ``obs["hotview_class"]``,
      ``obs["hotview_confidence"]`` (its probability) and ``obsm["hotview_probabilities"]``; with
      several networks ``obs["hotview_disagreement"]``, as by `predict_disagreement`. A cell is
      predicted once, from all modalities that have it. Classes are in the order of the
      categories at fit, and ``uns["hotview_class_colors"]`` has their colors.

    Parameters
    ----------
    estimator : MultiViewClassifier, MultiViewEncoder or a search
        Fitted estimator; `data` may lack some of its views.
    data : MuData or dict of str to AnnData
        The cells of `fit`, or new ones. Existing entries of these names are replaced; nothing is
        written if a prediction fails.
    layer : str, dict of str to str, or None, default=None
        As for `fit`; without this and `obsm`, those of the fit are used.
    obsm : str, dict of str to str, or None, default=None
        As for `fit`.
    space : {"features", "common"}, default="features"
        What ``obsm["X_hotview"]`` is, as in `transform`: features of each modality, or their image
        in the common space.
    key : str, default="hotview"
        Prefix or suffix of the names of the new entries.
    unassigned_below : float or None, default=None
        Probability below which a cell is ``"Unassigned"`` in place of its most probable class, as
        of a type that no labeled cell has. Its confidence is kept.

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
    import pandas as pd

    modalities = modalities_of(data)
    parts = {"the data": data} | {f"modality {name!r}": part for name, part in modalities.items()}
    for owner, part in parts.items():
        if getattr(part, "is_view", False):
            raise ValueError(
                f"Expected {owner} to hold its own data, but it is a view of other data, which "
                "cannot be written to. Call .copy() first."
            )
    if unassigned_below is not None:
        check_share("unassigned_below", unassigned_below)
    model = getattr(estimator, "best_estimator_", estimator)
    views = _read_views(model, data, layer, obsm)
    features = {name: np.asarray(Z) for name, Z in model.transform(views, space).items()}
    common = model.common_space_
    is_joint = common is not None and common.is_comparable
    latents = model.transform(views, "common") if is_joint else {}
    found = _predict_cells(model, views) if hasattr(model, "predict_proba") else None
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
    for name, Z in latents.items():
        modalities[name].obsm[f"X_{key}_common"] = np.asarray(Z)
    for mdata in containers if latents else ():  # the mean of the modalities that a cell has
        rows = np.vstack([np.asarray(Z, dtype=np.float64) for Z in latents.values()])
        names = [cell for name in latents for cell in modalities[name].obs_names]
        mean = pd.DataFrame(rows, names).dropna().groupby(level=0).mean().reindex(mdata.obs_names)
        mdata.obsm[f"X_{key}_common"] = mean.to_numpy(dtype=np.float32)
    for part in containers or modalities.values():
        part.uns[key] = {name: value.copy() for name, value in summary.items()}
    if found is not None:
        probabilities, disagreement = found
        style = read_settings(model).get("label", {})
        for part in [*modalities.values(), *containers]:
            write_predictions(part, probabilities, key, style, unassigned_below)
            if len(model.networks_) > 1:
                part.obs[f"{key}_disagreement"] = disagreement.reindex(part.obs_names)


def _read_views(model: Any, data: Any, layer: Any, obsm: Any) -> dict[str, Any]:
    """Return the views of a model, from the matrices of its fit and without its batches."""
    modalities, settings = modalities_of(data), read_settings(model)
    if layer is None and obsm is None:
        files = model.metadata_.get("preprocessing")
        stored = files.get("text", {}) if isinstance(files, Mapping) else settings
        choices = [stored.get("layer"), stored.get("obsm")]
        for place, choice in enumerate(choices):
            if isinstance(choice, Mapping):  # of all views of the fit, of which some may be here
                choices[place] = {name: choice.get(name, choice.get("")) for name in modalities}
        layer, obsm = choices
    views = choose_views(data, read_choices(modalities, layer, obsm))
    warn_of_other_values(model, views)
    if not model.model_.batch_offsets:
        return views
    return correct_views(views, data, str(settings["batch_key"]), model.model_.batch_offsets)


def _predict_cells(model: Any, views: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return class probabilities and disagreement of cells, from all modalities that have them."""
    import pandas as pd

    ids, rows = align_rows({name: adata.obs_names.to_list() for name, adata in views.items()})
    probabilities = np.empty((len(ids), len(model.classes_)))
    disagreement = np.empty(len(ids))
    # Cells of the same modalities are predicted together, so that no missing view is imputed.
    presence = np.stack([view_rows >= 0 for view_rows in rows.values()], axis=1)
    patterns, pattern_of = np.unique(presence, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        cells = np.flatnonzero(pattern_of.ravel() == number)
        present = [name for name, is_present in zip(rows, pattern, strict=True) if is_present]
        part = {name: take_cells(views[name], rows[name][cells]) for name in present}
        probabilities[cells], disagreement[cells], _ = model._predict_both(part)
    frame = pd.DataFrame(probabilities, index=ids, columns=model.classes_)
    return frame, pd.Series(disagreement, index=ids)


def write_predictions(
    part: Any,
    probabilities: Any,
    key: str,
    style: Mapping[str, Any],
    unassigned_below: float | None = None,
) -> None:
    """Write predictions for the cells of an AnnData or MuData, NaN where there is none.

    Parameters
    ----------
    part : AnnData or MuData
        Its cells are found by their names.
    probabilities : pandas DataFrame
        Class probabilities by the name of the cell, a column per class.
    key : str
        Prefix of the names of the new entries.
    style : dict of str to list of str
        Order of ``categories`` and their ``colors``, from the fit.
    unassigned_below : float or None, default=None
        Probability below which a cell is ``"Unassigned"``.
    """
    import pandas as pd

    own = probabilities.reindex(part.obs_names)
    is_predicted = own.notna().all(axis=1).to_numpy()
    P = own.fillna(0).to_numpy()
    codes = np.where(is_predicted, P.argmax(axis=1), -1)
    names = own.columns.tolist()
    places = {name: j for j, name in enumerate(style.get("categories", ()))}  # new ones are last
    order = sorted(range(len(names)), key=lambda j: places.get(str(names[j]), len(places)))
    categories = [names[j] for j in order]
    codes = np.where(codes < 0, -1, np.argsort(order)[codes])
    if unassigned_below is not None:
        codes = np.where(is_predicted & (P.max(axis=1) < unassigned_below), len(names), codes)
        categories = [*map(str, categories), UNASSIGNED]
    part.obs[f"{key}_class"] = pd.Categorical.from_codes(codes, categories=categories)
    part.obs[f"{key}_confidence"] = own.max(axis=1)
    part.obsm[f"{key}_probabilities"] = own.rename(columns=str)
    colors = dict(zip(style.get("categories", ()), style.get("colors", ()), strict=False))
    colors[UNASSIGNED] = _GRAY
    if all(str(name) in colors for name in categories):
        part.uns[f"{key}_class_colors"] = np.array([colors[str(name)] for name in categories])
