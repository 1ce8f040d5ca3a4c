"""Where training begins: at principal components, with references among the views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from hotview._types import IntArray
from hotview.estimators.randomness import Randomness
from hotview.losses import Planner
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.initialization import start_at_components
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import draw_directions, sliced_cost
from hotview.training.batches import Stream, TrainingRows

__all__ = ["start_at_principal_components", "start_references"]


def start_at_principal_components(
    network: MultiViewNetwork, s: int, pca: PCA, n_components: int, variance: float
) -> None:
    """Let view s begin with its principal components.

    Features begin with a mean variance of 1, and latents with the mean variance that their
    constraint asks for. Beyond a common factor nothing is rescaled: the shape of the cloud of rows
    is kept, so that views of the same shape look alike before anything is learned.

    Parameters
    ----------
    network : MultiViewNetwork
        The network.
    s : int
        The view.
    pca : PCA
        Its principal components.
    n_components : int
        Dimension of the common space.
    variance : float
        Mean variance of the latents' columns.
    """
    spread = np.maximum(pca.explained_variance_, 0).astype(np.float64)
    if spread.sum() == 0:  # rows that are all alike have no components to begin with
        return
    to_features = np.sqrt(len(spread) / spread.sum())
    leading = (spread * to_features**2)[:n_components].sum()
    start_at_components(
        network,
        s,
        torch.as_tensor(pca.components_ * to_features, dtype=torch.float32),
        torch.as_tensor(pca.mean_, dtype=torch.float32),
        float(np.sqrt(n_components * variance / leading)),
    )


def start_references(
    network: MultiViewNetwork, coupling: ReferenceCoupling, data: TrainingRows, random: Randomness
) -> None:
    """Let every reference begin as a sample of the latents of one group of similar views.

    References that begin alike are pulled to the same place, and no plan can tell them apart.
    """
    n_references, n_points, _ = coupling.references.shape
    network.eval()  # the user's own encoders must not learn from this
    with torch.no_grad():
        rows = [Stream(len(view), n_points, random.numpy).next() for view in data.views]
        Xs = [view.take_together(r) for view, r in zip(data.views, rows, strict=True)]
        Zs = network.embed(network.encode(Xs))
        groups = _group(Zs, min(n_references, len(Zs)), random)
        for k in range(n_references):
            members = [
                Z for Z, group in zip(Zs, groups, strict=True) if group == k % (groups.max() + 1)
            ]
            pool = torch.cat(members)
            points = torch.from_numpy(random.numpy.integers(len(pool), size=n_points))
            coupling.references[k] = pool[points.to(pool.device)]


def _group(Zs: Sequence[Tensor], n_groups: int, random: Randomness) -> IntArray:
    d, like = Zs[0].shape[1], Zs[0]
    theta = draw_directions(5 * d, d, generator=random.torch, dtype=like.dtype, device=like.device)
    plan = Planner().solve(sliced_cost(Zs, directions=theta), pairwise=True)
    labels: IntArray = plan.view_labels(n_groups).labels
    return labels
