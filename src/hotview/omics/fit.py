"""Fit estimators to single-cell data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hotview._messages import warn_user
from hotview.estimators import MultiViewEncoder
from hotview.omics.batches import correct_views, fit_batches
from hotview.omics.cells import Cells, choose_views, link_cells, modalities_of
from hotview.omics.counts import best_entry, count_sentence, known_counts
from hotview.omics.links import chance_links
from hotview.omics.settings import describe_choices, describe_label, save_settings
from hotview.training.column_scaler import WIDE

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
    _check_label(estimator, label)
    views = given = choose_views(data, layer=layer, obsm=obsm)
    counts, offsets = known_counts(views), None
    if batch_key is not None:
        offsets = fit_batches(views, data, batch_key, label)
        views = correct_views(views, data, batch_key, offsets)
    cells = link_cells(views, data, label)
    cells = cells.paired if paired else cells
    if len(cells.target) == 0 and (paired or not isinstance(estimator, MultiViewEncoder)):
        raise _no_links(cells, paired=paired)
    _fit_cells(estimator, cells, paired=paired)
    model = getattr(estimator, "best_estimator_", estimator)
    model.model_.batch_offsets = offsets or {}
    save_settings(
        model,
        **describe_choices(data, layer, obsm),
        counts=counts,
        batch_key=batch_key,
        label=describe_label(data, label),
    )
    for text in (*_count_notes(data, given, counts, layer, obsm), *chance_links(model)):
        model.fit_warnings_.append(text)
        warn_user(text)
    return estimator


def _check_label(estimator: Any, label: str | None) -> None:
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


def _no_links(cells: Cells, *, paired: bool) -> ValueError:
    names = [f"{adata.obs_names[0]!r} in {view!r}" for view, adata in cells.views.items()]
    return ValueError(
        f"Expected cells that {'all' if paired else 'several'} modalities have, but there are "
        f"none. Cells are linked by obs_names, which begin with {', '.join(names)}: rename them, "
        "or use MultiViewEncoder, which needs no links."
    )


def _fit_cells(estimator: Any, cells: Cells, *, paired: bool) -> None:
    is_encoder = isinstance(estimator, MultiViewEncoder)
    if is_encoder:
        if paired or len(cells.target) == 0:
            estimator.fit(cells.linked if paired else cells.views, paired=paired)
        else:
            estimator.fit(cells.unaligned or None, linked=cells.linked)
        return
    more = {"unaligned": cells.unaligned, "unaligned_y": cells.unaligned_target}
    estimator.fit(cells.linked, cells.target, **({} if paired or not cells.unaligned else more))


def _count_notes(
    data: Any, views: Mapping[str, Any], counts: Mapping[str, bool], layer: Any, obsm: Any
) -> Iterator[str]:
    """Yield a sentence for every modality of raw counts that is reduced here."""
    chosen = describe_choices(data, layer, obsm)
    for name, adata in modalities_of(data).items():
        if counts[name] and adata.n_vars > WIDE and name not in chosen["obsm"]:
            entry = best_entry(adata.obsm) or "X_pca"
            better = f"obsm={{{name!r}: {entry!r}}}, your own PCA or LSI"
            yield f"{count_sentence(name, views[name], better)}."
