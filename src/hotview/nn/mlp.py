"""Networks of one view, their weights drawn from a generator that is passed in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

__all__ = ["encode_exactly", "make_linear", "make_perceptron"]


def make_linear(
    n_in: int, n_out: int, generator: torch.Generator, *, bias: bool = True
) -> nn.Linear:
    """Make a linear layer whose weights are drawn from `generator` as torch draws its own."""
    # Without its constructor, which would draw from torch's global generator.
    layer = nn.Linear.__new__(nn.Linear)
    nn.Module.__init__(layer)
    layer.in_features, layer.out_features = n_in, n_out
    bound = 1 / math.sqrt(n_in)

    def draw(*shape: int) -> nn.Parameter:
        values = torch.empty(shape, dtype=torch.float32, device="cpu")
        return nn.Parameter(values.uniform_(-bound, bound, generator=generator))

    layer.weight = draw(n_out, n_in)
    layer.register_parameter("bias", draw(n_out) if bias else None)
    return layer


def make_perceptron(
    n_in: int, hidden: Sequence[int], n_out: int, generator: torch.Generator
) -> nn.Sequential:
    """Make a perceptron: a ReLU after every hidden layer, and none after the last.

    Without hidden layers it is one linear map.
    """
    widths = [n_in, *hidden, n_out]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [make_linear(a, b, generator), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def encode_exactly(encoder: nn.Module, X: Tensor) -> Tensor:
    """Encode in float64, so that all devices agree; encoders of other makes as they do it.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.mlp import encode_exactly, make_perceptron
    >>> encoder = make_perceptron(3, (4,), 2, torch.Generator().manual_seed(0))
    >>> encode_exactly(encoder, torch.ones(5, 3)).dtype
    torch.float64
    """
    ours = (nn.Sequential, nn.Linear, nn.ReLU)
    if not all(type(module) in ours for module in encoder.modules()):
        Y: Tensor = encoder(X.clone())  # which it may change, and voters look at after
        return Y.double()
    return _in_float64(encoder, X.double())


def _in_float64(module: nn.Module, X: Tensor) -> Tensor:
    """Layer by layer: functional_call would put its weights into the module, for all threads."""
    if isinstance(module, nn.Sequential):
        for layer in module:
            X = _in_float64(layer, X)
        return X
    if isinstance(module, nn.Linear):
        bias = None if module.bias is None else module.bias.double()
        return linear(X, module.weight.double(), bias)
    return X.relu()
