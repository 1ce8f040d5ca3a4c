"""What an estimator says of cells, written where single-cell tools look for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
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
    """Write what a fitted estimator says of all cells into `data`.

    - ``obsm["X_hotview"]`` of every modality: its features;
    - ``uns["hotview"]`` (of the MuData, or of every AnnData of a dict): ``views`` and, where there
      are any, ``plan``, ``costs``, ``groups`` and ``classes``;
    - with a classifier, of every modality and of the MuData: ``obs["hotview_class"]``,
      ``obs["hotview_confidence"]`` (its probability) and ``obsm["hotview_probabilities"]``. A cell
      is judged once, by all modalities that have it.

    Parameters
    ----------
    estimator : MultiViewClassifier, MultiViewEncoder or a search
        Fitted to all of these modalities, and perhaps others; `data` may lack some of its views.
    data : MuData or dict of str to AnnData
        What to annotate: the cells of `fit`, or new ones. What is there under these names is
        replaced, and nothing is written if anything goes wrong before.
    layer : str, dict of str to str, or None, default=None
        As for `fit`.
    obsm : str, dict of str to str, or None, default=None
        As for `fit`.
    space : {"features", "common"}, default="features"
        As in `transform`: each modality's own features, or their image in the common space, where
        cells of different modalities can be compared.
    key : str, default="hotview"
        What the names that are written begin or end with.

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
    _check_own(data, modalities)
    views = read_cells(data, layer=layer, obsm=obsm).views
    model = getattr(estimator, "best_estimator_", estimator)
    features = {name: np.asarray(Z) for name, Z in model.transform(views, space).items()}
    judged = _judge(model, views) if hasattr(model, "predict_proba") else None
    summary = _summarize(model)
    is_mudata = hasattr(data, "mod")
    for name, adata in modalities.items():
        adata.obsm[f"X_{key}"] = features[name]
    for part in [data] if is_mudata else modalities.values():
        part.uns[key] = {name: value.copy() for name, value in summary.items()}
    if judged is not None:
        for part in [*modalities.values(), *([data] if is_mudata else [])]:
            _write_judgments(part, judged, key)


def _check_own(data: Any, modalities: Mapping[str, Any]) -> None:
    parts = {"the data": data} | {f"modality {name!r}": adata for name, adata in modalities.items()}
    for what, part in parts.items():
        if getattr(part, "is_view", False):
            raise ValueError(
                f"Expected {what} to hold its own data, but it is a view of others, which cannot "
                "be written to. Call .copy() first."
            )


def _summarize(model: Any) -> dict[str, Array]:
    """What the estimator found, as arrays, which files can hold."""
    found = {"views": np.array(model.view_names_)}
    if model.plan_ is not None:
        found["plan"] = model.plan_.W
        found["costs"] = model.plan_.C
        found["groups"] = model.view_labels_
    if hasattr(model, "classes_"):
        found["classes"] = np.asarray(model.classes_)
    return found


def _judge(model: Any, views: Mapping[str, Any]) -> Any:
    """Probabilities of the classes, one row per cell, from all modalities that have it."""
    import pandas as pd

    ids, rows = align_rows({name: adata.obs_names.to_list() for name, adata in views.items()})
    probabilities = np.empty((len(ids), len(model.classes_)))
    for cells, present in _by_presence(rows):
        part = {name: take_cells(views[name], rows[name][cells]) for name in present}
        probabilities[cells] = model.predict_proba(part)
    return pd.DataFrame(probabilities, index=ids, columns=model.classes_)


def _by_presence(rows: Mapping[str, IntArray]) -> Iterator[tuple[IntArray, list[str]]]:
    """Cells that the same modalities have, together, so that nothing has to be filled in."""
    has = np.stack([places >= 0 for places in rows.values()], axis=1)
    patterns, of = np.unique(has, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        present = [name for name, is_there in zip(rows, pattern, strict=True) if is_there]
        yield np.flatnonzero(of.ravel() == number), present


def _write_judgments(part: Any, judged: Any, key: str) -> None:
    """Write judgments on the cells of an AnnData or MuData, NaN where there is none."""
    import pandas as pd

    mine = judged.reindex(part.obs_names)
    known = mine.notna().all(axis=1).to_numpy()
    codes = np.where(known, mine.fillna(0).to_numpy().argmax(axis=1), -1)
    part.obs[f"{key}_class"] = pd.Categorical.from_codes(codes, categories=judged.columns)
    part.obs[f"{key}_confidence"] = mine.max(axis=1)
    part.obsm[f"{key}_probabilities"] = mine.rename(columns=str)
