"""Networks of one view, their weights drawn from a generator that is passed in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

__all__ = ["make_linear", "make_perceptron"]


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
