"""What a trained network says about new rows, whichever views they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.rows import ViewRows

__all__ = ["Fusion", "class_log_probabilities", "encode_rows"]

_CHUNK = 4096  # rows at a time


@dataclass(frozen=True)
class Fusion:
    """Which heads to listen to.

    Parameters
    ----------
    joint : bool
        Whether the joint head was trained on every class, and judges complete rows.
    alone : bool
        Whether it does so alone, as in the paper, or as one voice among the heads of the views.
    heads : tuple of int
        Of how many classes every view's head has learned; 0 where it has not been trained.
    log_prior : tuple of float
        What is said of rows that no trained head can see.
    """

    joint: bool
    alone: bool
    heads: tuple[int, ...]
    log_prior: tuple[float, ...]


def encode_rows(network: MultiViewNetwork, s: int, rows: ViewRows, space: str) -> Array:
    """Features, or latents in the common space, of all rows of view s; NaN for absent ones."""
    parts = []
    with torch.inference_mode():
        for X in rows.chunks(_CHUNK):
            F, absent = _encode(network, s, X)
            out = network.maps[s](F) if space == "common" else F
            parts.append(out.masked_fill(absent.unsqueeze(1), torch.nan).float().cpu().numpy())
    return np.concatenate(parts)


def class_log_probabilities(
    network: MultiViewNetwork, views: Mapping[int, ViewRows], fusion: Fusion
) -> Array:
    """Logarithms of class probabilities of aligned rows, (rows, classes), float64.

    The probabilities of all heads that can see a row are averaged geometrically: those of the
    views it has and, if it has all, the joint one; unless that one judges alone. A head that has
    learned of fewer classes than another one is not asked: it would vote against what it never saw.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    views : dict of int to ViewRows
        The views that are present, by number; the same number of rows in each.
    fusion : Fusion
        Which heads to listen to.

    Returns
    -------
    ndarray of float64
        Rows without any view are NaN.
    """
    n = len(next(iter(views.values())))
    parts = []
    with torch.inference_mode():
        for start in range(0, n, _CHUNK):
            rows = np.arange(start, min(start + _CHUNK, n))
            Xs = {s: view.take(rows) for s, view in views.items()}
            parts.append(_judge(network, Xs, fusion).cpu().numpy())
    return np.concatenate(parts)


def _judge(network: MultiViewNetwork, Xs: dict[int, Tensor], fusion: Fusion) -> Tensor:
    encoded = {s: _encode(network, s, X) for s, X in Xs.items()}
    Fs = {s: F for s, (F, _) in encoded.items()}
    has = torch.stack([~absent for _, absent in encoded.values()], dim=1)
    said = [network.view_heads[s](F) for s, F in Fs.items()]
    known = has * torch.tensor([fusion.heads[s] for s in Fs], device=has.device)
    speaks = (known == known.amax(1, keepdim=True)) & (known > 0)
    if fusion.joint and len(Fs) == len(network.encoders):
        said.append(network.score([Fs[s] for s in range(len(Fs))]))
        complete = has.all(1, keepdim=True)
        speaks = torch.cat([speaks & ~(complete & fusion.alone), complete], dim=1)
    scores = _average(torch.stack(said, dim=1).double().log_softmax(2), speaks, fusion)
    return scores.masked_fill(~has.any(1, keepdim=True), torch.nan)


def _average(said: Tensor, speaks: Tensor, fusion: Fusion) -> Tensor:
    """Geometric mean of what is said of every row by those who speak of it, else the prior."""
    prior = torch.tensor(fusion.log_prior, dtype=torch.float64, device=said.device)
    n = speaks.sum(1, keepdim=True)
    mean = (said * speaks.unsqueeze(2)).sum(1) / n.clamp_min(1)
    return torch.where(n > 0, mean.log_softmax(1), prior)


def _encode(network: MultiViewNetwork, s: int, X: Tensor) -> tuple[Tensor, Tensor]:
    """Features of view s, and which rows are absent, that is, NaN throughout."""
    absent = torch.isnan(X).all(1)
    F: Tensor = network.encoders[s](X.masked_fill(absent.unsqueeze(1), 0.0))
    return F, absent


def check_some_view(empty: IntArray, names: Sequence[str]) -> None:
    """Refuse rows that no view has."""
    if len(empty) > 0:
        raise ValueError(
            f"Expected every row to have at least one of the views {list(names)}, but {len(empty)} "
            f"have none, the first being row {empty[0]}. Leave these rows out."
        )
