"""Features and class probabilities of new rows, whichever views they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from hotview._threads import existing_threads, threads_for_rows
from hotview._types import Array, IntArray
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing.row_stream import map_rows
from hotview.preprocessing.rows import ViewRows

__all__ = ["encode_rows", "no_view_error", "predict_rows", "prediction_error"]


@existing_threads()
def encode_rows(networks: Sequence[MultiViewNetwork], s: int, rows: ViewRows, space: str) -> Array:
    """Features, or latents in the common space, of all rows of view s; NaN for absent ones.

    Those of several networks are side by side.
    """
    is_finite = []  # looked at in the end: until then, a GPU is not waited for

    def encode_chunk(Xs: Mapping[int, Tensor]) -> Tensor:
        parts = []
        for network in networks:
            Z, absent = encode(network, s, Xs[s], space)
            is_finite.append(Z.isfinite().all())
            # Absent rows are rare; without any, the CPU saves this pass over the output.
            if Z.is_cuda or absent.any():
                Z = Z.masked_fill(absent.unsqueeze(1), torch.nan)
            parts.append(Z)
        return torch.cat(parts, dim=1).float()

    output = map_rows(encode_chunk, {s: rows})
    if is_finite and not bool(torch.stack(is_finite).all()):
        raise overflow_error()
    return output


def encode(network: MultiViewNetwork, s: int, X: Tensor, space: str) -> tuple[Tensor, Tensor]:
    """Features, or latents in the common space, of view s, and which rows are absent."""
    F: Tensor = network.encoders[s](X.nan_to_num())
    out: Tensor = network.maps[s](F) if space == "common" else F
    return out, find_absent(X)


@existing_threads()
def predict_rows(
    predict: Callable[[Mapping[int, Tensor]], Tensor],
    views: Mapping[int, ViewRows],
    reduce: Callable[[Tensor], Tensor],
    progress: Callable[[int], object] | None = None,
) -> Array:
    """Reduce the log-probabilities of all members, some rows at a time.

    Parameters
    ----------
    predict : callable
        Maps standardized rows of some views to log-probabilities (n_members, n_rows, n_classes),
        which are NaN for rows without any view.
    views : dict of int to ViewRows
        The views that are present, by number; the same number of rows in each.
    reduce : callable
        Maps log-probabilities to (n_rows, ...).
    progress : callable or None, default=None
        Called with the number of rows of every part that is done.

    Returns
    -------
    ndarray
        The reduced predictions of all rows.
    """
    first = next(iter(views.values()))
    with threads_for_rows(first.n_rows, first.device), torch.inference_mode():
        return map_rows(lambda Xs: reduce(predict(Xs)), views, progress)


def find_absent(X: Tensor) -> Tensor:
    """Which standardized rows are absent: their first column is NaN, others were validated."""
    return torch.isnan(X[:, 0])


def prediction_error(
    rows: IntArray, views: Mapping[int, ViewRows], names: Sequence[str]
) -> ValueError:
    """The error about rows whose predictions are NaN: no view has them, or numbers overflow."""
    absent = [find_absent(view.take(rows)).cpu().numpy() for view in views.values()]
    rows = rows[np.logical_and.reduce(absent)]
    return no_view_error(rows, names) if len(rows) > 0 else overflow_error()


def no_view_error(rows: IntArray, names: Sequence[str]) -> ValueError:
    """The error about rows that no view has."""
    return ValueError(
        f"Expected every row to have at least one of the views {list(names)}, but {len(rows)} "
        f"have none, the first being row {rows[0]}. Leave these rows out."
    )


def overflow_error() -> ValueError:
    """The error about outputs that are not finite."""
    return ValueError(
        "Expected finite outputs, but the weights of the model are so large, or not finite, that "
        "they overflow. Check rows for extreme values; else load another model, or fit again."
    )
