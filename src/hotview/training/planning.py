"""The plan that is reported: one last pass over all rows, with many directions."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hotview.losses import Coupling
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import draw_directions, sliced_cost
from hotview.training.batches import Stream, TrainingRows

__all__ = ["final_cost"]

_ROWS, _ROUNDS = 4096, 16  # at most, of every view in a round
_BASES = 10  # orthogonal bases of directions in a round


def final_cost(
    network: MultiViewNetwork,
    coupling: Coupling,
    data: TrainingRows,
    *,
    scale: str,
    batch_size: int,
    random: np.random.Generator,
    generator: torch.Generator,
) -> Tensor:
    """Sliced costs between the views, or from the views to the references, averaged.

    Costs that are added over rows depend on their number, so they are found in batches of the
    size of training; means are found on as many rows as there are, up to 4,096 at a time.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    coupling : Coupling
        The trained coupling, whose references the views are compared with if it has any.
    data : TrainingRows
        The rows.
    scale : {"mean", "sum"}
        Scale of the costs.
    batch_size : int
        Rows of every view in a batch of training.
    random : numpy Generator
        Order of the rows.
    generator : torch.Generator
        Source of the directions.

    Returns
    -------
    Tensor of shape (S, S) or (S, K)
        The costs, on the CPU.
    """
    size = batch_size if scale == "sum" else _ROWS
    streams = [Stream(len(view), size, random) for view in data.views]
    n_rounds = min(_ROUNDS, math.ceil(max(len(view) for view in data.views) / size))
    references = coupling.clouds() if isinstance(coupling, ReferenceCoupling) else None
    costs = []
    with torch.no_grad():
        for _ in range(n_rounds):
            pairs = zip(data.views, streams, strict=True)
            Zs = network.embed(network.encode([view.take(s.next()) for view, s in pairs]))
            d = Zs[0].shape[1]
            theta = draw_directions(
                _BASES * d, d, generator=generator, dtype=Zs[0].dtype, device=Zs[0].device
            )
            costs.append(sliced_cost(Zs, references, directions=theta, scale=scale))
    return torch.stack(costs).mean(0).cpu()
