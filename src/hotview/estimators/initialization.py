"""Initial weights: encoders at principal components, references at samples of latents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor, nn

from hotview.estimators.randomness import Generators, Randomness
from hotview.estimators.rows import Graphs
from hotview.losses import Coupling, Planner
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot.sliced import random_sliced_cost
from hotview.semisupervised.ridge import thin_rows
from hotview.training.batches import ShuffledIndices, TrainingRows, embed_rows

__all__ = [
    "start_at_components",
    "start_at_principal_components",
    "start_at_targets",
    "start_encoder",
    "start_network",
    "start_references",
]


_OTHERS = 0.1  # factor of the weights that stay random
_N_REGRESSED, _RIDGE = 10_000, 1e-3  # rows of a regression, and its relative penalty
_BASES = 5  # orthogonal bases of directions on which views are compared


def start_network(
    network: MultiViewNetwork,
    coupling: Coupling,
    graphs: Graphs,
    rows: TrainingRows,
    encoders: Sequence[nn.Module | None],
    p: Mapping[str, Any],
    variance: float,
    random: Randomness,
) -> None:
    """Set encoders to principal components, latents to targets, references to samples."""
    for s, (pca, given) in enumerate(zip(graphs.components, encoders, strict=True)):
        if given is None:
            start_at_principal_components(network, s, pca, p["n_components"], variance)
        if rows.link_targets:
            start_at_targets(network, s, rows, is_own=given is not None)
    if coupling.reference_based:
        start_references(network, coupling, rows, random.stage("references"))


def start_at_principal_components(
    network: MultiViewNetwork, s: int, pca: PCA, n_components: int, variance: float
) -> None:
    """Initialize view s with its principal components.

    Features start with a mean variance of 1, and latents with the mean variance that their
    constraint requires. Only a common factor is applied: views whose clouds of rows have the same
    shape start with similar latents.

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
    if spread.sum() == 0:  # equal rows have no components
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


def start_at_targets(
    network: MultiViewNetwork, s: int, data: TrainingRows, *, is_own: bool
) -> None:
    """Set the latents of view s to the ridge regression of their targets on its features.

    Parameters
    ----------
    network : MultiViewNetwork
        The network.
    s : int
        The view.
    data : TrainingRows
        Its rows and their targets.
    is_own : bool
        Whether the encoder is the user's own, whose weights are left alone.
    """
    encoder, U, targets = network.encoders[s], network.maps[s], data.link_targets[s]
    rows = thin_rows(np.arange(data.views[s].n_rows), _N_REGRESSED)
    network.eval()
    with torch.no_grad():
        F = encoder(data.views[s].take_on_all_ranks(rows)).double()
        T = targets[torch.from_numpy(rows).to(targets.device)].double()
        shift, center = F.mean(0), T.mean(0)
        gram = (F - shift).mT @ (F - shift)
        ridge = _RIDGE * gram.diagonal().mean().clamp_min(_RIDGE)
        eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        W = torch.linalg.solve(gram + ridge * eye, (F - shift).mT @ (T - center))
        assert isinstance(U, nn.Linear)
        U.weight.copy_(W.mT)
        if not is_own:  # U has no offset: the last layer of the encoder takes it
            assert isinstance(encoder, nn.Sequential)
            last = encoder[-1]
            assert isinstance(last, nn.Linear)
            # Features of a lower rank than the targets would need an offset without bounds.
            inverse = torch.linalg.pinv(W.mT, rtol=_RIDGE)
            last.bias.add_((inverse @ (center - shift @ W)).float())


def start_references(
    network: MultiViewNetwork, coupling: Coupling, data: TrainingRows, random: Generators
) -> None:
    """Initialize every reference with a sample of the latents of one group of similar views.

    References that start alike would stay alike, and no plan could distinguish them.
    """
    n_references, n_points, _ = coupling.references.shape
    network.eval()  # the state of the user's own encoders must not change
    with torch.no_grad():
        rows = [
            ShuffledIndices(view.n_rows, n_points, random.numpy).next_batch() for view in data.views
        ]
        Zs = embed_rows(network, data.views, rows)
        C = random_sliced_cost(Zs, n_bases=_BASES, generator=random.torch)
        plan = Planner().solve(C, pairwise=True)
        groups = plan.view_labels(min(n_references, len(Zs))).labels
        for k in range(n_references):
            members = np.flatnonzero(groups == k % (groups.max() + 1))
            pool = torch.cat([Zs[s] for s in members])
            # Points are repeated only where there are too few: ties would be broken by rounding.
            points = torch.from_numpy(np.resize(random.numpy.permutation(len(pool)), n_points))
            coupling.references[k] = pool[points.to(pool.device)]


def start_at_components(
    network: MultiViewNetwork, s: int, components: Tensor, mean: Tensor, size: float
) -> None:
    """Set the features and latents of view s to principal components.

    Parameters
    ----------
    network : MultiViewNetwork
        Its encoder of view s must be one of `make_mlp`.
    s : int
        The view.
    components : Tensor of shape (r, columns)
        Linear maps of a row, most important first.
    mean : Tensor of shape (columns,)
        Subtracted from a row before.
    size : float
        Factor from features to latents.
    """
    encoder, U = network.encoders[s], network.maps[s]
    assert isinstance(encoder, nn.Sequential)
    assert isinstance(U, nn.Linear)
    r = start_encoder(encoder, components, mean)
    if r == 0:  # hidden layers too narrow: latents of zeros would have no gradient
        return
    with torch.no_grad():
        n = min(r, U.out_features)
        U.weight[:n] = 0.0
        U.weight[range(n), range(n)] = size
        # Other latents start near zero, not at zero, where there is no gradient.
        U.weight[n:] *= _OTHERS * size


def start_encoder(encoder: nn.Sequential, components: Tensor, mean: Tensor) -> int:
    """Initialize a perceptron as a linear map; return the number of features that were set.

    A hidden layer represents x by the pair max(x, 0), max(−x, 0), whose difference is x.
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
    """Set the first outputs of a layer to a linear map of its first inputs."""
    n_out, n_in = block.shape
    layer.weight[:n_out] = 0.0
    layer.weight[:n_out, :n_in] = block
    layer.bias[:n_out] = 0.0
