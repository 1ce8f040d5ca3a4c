"""What plot functions need of a model: its record, and axes to draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotview._types import Views

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hotview.evaluation.record.schema import Record

__all__ = ["as_record", "new_axes"]


def as_record(
    model: Any,
    Xs: Views | None = None,
    y: Any = None,
    *,
    importance: bool = False,
    umap: bool = False,
) -> Record:
    """Return the record of a fitted model and rows, or the record itself.

    Parameters
    ----------
    model : MultiViewClassifier, MultiViewEncoder or Record
        The model, or its record.
    Xs : views or None, default=None
        Rows, of a model.
    y : array-like or None, default=None
        Their classes.
    importance, umap : bool, default=False
        Whether to measure importance, and to compute a UMAP layout.

    Returns
    -------
    Record
        The record.
    """
    from hotview.evaluation.record import Record, make_record  # which import torch

    if not isinstance(model, Record):
        if not hasattr(model, "transform"):
            raise TypeError(
                "Expected a fitted MultiViewClassifier or MultiViewEncoder, or a Record, but got a "
                f"{type(model).__name__}. Pass the model."
            )
        return make_record(model, Xs, y, importance=importance, umap=umap, verbose=False)
    if Xs is not None or y is not None:
        raise ValueError(
            "Expected rows beside a model, but they are beside a record, which has its own. Pass "
            "the model, or leave the rows out."
        )
    return model


def new_axes(height: float = 4.1) -> Axes:
    """Return the axes of a new figure of pyplot, which notebooks show."""
    import matplotlib.pyplot as plt

    axes: Axes = plt.subplots(figsize=(4.8, height), layout="constrained")[1]
    return axes
