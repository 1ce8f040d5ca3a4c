"""Multi-layer perceptrons whose weights are drawn from a given generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils import skip_init

__all__ = ["encode_float64", "make_linear", "make_mlp"]


def make_linear(
    n_in: int, n_out: int, generator: torch.Generator, *, bias: bool = True
) -> nn.Linear:
    """Make a linear layer with torch's default initialization, drawn from `generator`."""
    # The plain constructor would draw from torch's global generator.
    layer: nn.Linear = skip_init(nn.Linear, n_in, n_out, bias=bias, dtype=torch.float32)  # type: ignore[no-untyped-call]
    bound = 1 / math.sqrt(n_in)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


def make_mlp(
    n_in: int, hidden: Sequence[int], n_out: int, generator: torch.Generator
) -> nn.Sequential:
    """Make a perceptron with a ReLU after every hidden layer; a linear map without any."""
    layers: list[nn.Module] = []
    for a, b in pairwise([n_in, *hidden, n_out]):
        layers += [make_linear(a, b, generator), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def encode_float64(encoder: nn.Module, X: Tensor) -> Tensor:
    """Encode in float64, so that all devices agree; a user's own encoder in its own precision.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.mlp import encode_float64, make_mlp
    >>> encoder = make_mlp(3, (4,), 2, torch.Generator().manual_seed(0))
    >>> encode_float64(encoder, torch.ones(5, 3)).dtype
    torch.float64
    """
    if not all(type(module) in (nn.Sequential, nn.Linear, nn.ReLU) for module in encoder.modules()):
        Y: Tensor = encoder(X.clone())  # a user's encoder may work in place
        return Y.double()
    # Not copy.deepcopy(encoder).double()(X), which takes 400 µs instead of 40 µs for one row; not
    # functional_call, which replaces the module's weights for all threads.
    X = X.double()
    if isinstance(encoder, nn.Sequential):
        for layer in encoder:
            X = encode_float64(layer, X)
    elif isinstance(encoder, nn.Linear):
        bias = None if encoder.bias is None else encoder.bias.double()
        X = linear(X, encoder.weight.double(), bias)
    else:
        X = X.relu()
    return X
