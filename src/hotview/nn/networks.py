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
    layer = nn.Linear(n_in, n_out, bias=bias, device="meta", dtype=torch.float32).to_empty(
        device="cpu"
    )
    bound = 1 / math.sqrt(n_in)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
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
