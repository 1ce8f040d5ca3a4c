"""Fit estimators to single-cell data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotview._messages import warn_user
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
from hotview.omics.checks import best_entry, describe_counts, holds_counts, warn_of_chance_links

__all__ = ["fit"]


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
            categories = [str(name) for name in column.cat.categories]
            colors = [str(color) for color in part.uns.get(f"{label}_colors", ())]
            style = {"categories": categories}
            return style | ({"colors": colors} if len(colors) == len(categories) else {})
    return {}
