"""Encoders that begin as principal components instead of at random."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hotview.nn.multiview import MultiViewNetwork

__all__ = ["start_at_components", "start_encoder"]

_OTHERS = 0.1  # what is left, of their size, to the weights that begin at random


def start_at_components(
    network: MultiViewNetwork, s: int, components: Tensor, mean: Tensor, size: float
) -> None:
    """Let view s begin with principal components as its features and as its latents.

    Parameters
    ----------
    network : MultiViewNetwork
        Its encoder of view s must be one of `make_perceptron`.
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
