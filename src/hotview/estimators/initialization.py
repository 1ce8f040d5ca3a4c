"""Where training begins: at principal components, with references among the views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor, nn

from hotview._types import IntArray
from hotview.estimators.randomness import Randomness
from hotview.losses import Planner
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import draw_directions, sliced_cost
from hotview.training.batches import ShuffledIndices, TrainingRows

__all__ = [
    "start_at_components",
    "start_at_principal_components",
    "start_encoder",
    "start_references",
]


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
        rows = [
            ShuffledIndices(len(view), n_points, random.numpy).next_batch() for view in data.views
        ]
        Xs = [view.take_on_all_ranks(r) for view, r in zip(data.views, rows, strict=True)]
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


_OTHERS = 0.1  # what is left, of their size, to the weights that begin at random


def start_at_components(
    network: MultiViewNetwork, s: int, components: Tensor, mean: Tensor, size: float
) -> None:
    """Let view s begin with principal components as its features and as its latents.

    Parameters
    ----------
    network : MultiViewNetwork
        Its encoder of view s must be one of `make_mlp`.
    s : int
        The view.
    components : Tensor of shape (r, columns)
        Linear maps of a row, most important first.
    mean : Tensor of shape (columns,)
        What is subtracted from a row before.
    size : float
        What the features are multiplied by to become latents.
    """
    encoder, U = network.encoders[s], network.maps[s]
    assert isinstance(encoder, nn.Sequential)
    assert isinstance(U, nn.Linear)
    r = start_encoder(encoder, components, mean)
    if r == 0:  # a hidden layer too narrow to carry any: latents of zeros would never move
        return
    with torch.no_grad():
        n = min(r, U.out_features)
        U.weight[:n] = 0.0
        U.weight[range(n), range(n)] = size
        # What no component fills begins near zero, not at it, where nothing would move it.
        U.weight[n:] *= _OTHERS * size


def start_encoder(encoder: nn.Sequential, components: Tensor, mean: Tensor) -> int:
    """Let a perceptron begin as a linear map; return how many features could be set.

    A hidden layer carries a number x as the pair max(x, 0), max(−x, 0), whose difference is x.
    """
    layers = [layer for layer in encoder if isinstance(layer, nn.Linear)]
    r = min(len(components), layers[-1].out_features)
    for layer in layers[:-1]:
        r = min(r, layer.out_features // 2)
    V, shift = components[:r], components[:r] @ mean
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(_OTHERS)
            layer.bias.mul_(_OTHERS)
        if len(layers) == 1:
            layers[0].weight[:r], layers[0].bias[:r] = V, -shift
            return r
        layers[0].weight[: 2 * r] = torch.cat([V, -V])
        layers[0].bias[: 2 * r] = torch.cat([-shift, shift])
        for layer in layers[1:-1]:
            _set_block(layer, torch.eye(2 * r))
        _set_block(layers[-1], torch.cat([torch.eye(r), -torch.eye(r)], dim=1))
    return r


def _set_block(layer: nn.Linear, block: Tensor) -> None:
    """Let the first outputs of a layer depend on its first inputs alone."""
    n_out, n_in = block.shape
    layer.weight[:n_out] = 0.0
    layer.weight[:n_out, :n_in] = block
    layer.bias[:n_out] = 0.0
