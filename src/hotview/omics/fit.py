"""Fit estimators to single-cell data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hotview.estimators import MultiViewEncoder
from hotview.omics.cells import read_cells

__all__ = ["fit"]


def fit(
    estimator: Any,
    data: Any,
    label: str | None = None,
    *,
    layer: str | Mapping[str, str] | None = None,
    obsm: str | Mapping[str, str] | None = None,
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
    cells = read_cells(data, label, layer=layer, obsm=obsm)
    if len(cells.target) == 0 and (paired or not is_encoder):
        names = [f"{adata.obs_names[0]!r} in {view!r}" for view, adata in cells.views.items()]
        raise ValueError(
            "Expected cells that all modalities have, but there are none. Cells are linked by "
            f"obs_names, which begin with {', '.join(names)}: rename them, or use "
            "MultiViewEncoder, which needs no links."
        )
    if is_encoder:
        if paired or len(cells.target) == 0:
            return estimator.fit(cells.linked if paired else cells.views, paired=paired)
        return estimator.fit(cells.unaligned or None, linked=cells.linked)
    more = {"unaligned": cells.unaligned, "unaligned_y": cells.unaligned_target}
    return estimator.fit(
        cells.linked, cells.target, **({} if paired or not cells.unaligned else more)
    )
