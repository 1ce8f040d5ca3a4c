"""Networks of equal shape as one, whose tensors have a first dimension for the replicas."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from hotview.nn.multiview import MultiViewNetwork

__all__ = [
    "SideBySide",
    "StackedLinear",
    "restack_networks",
    "stack_networks",
    "unstack_networks",
]

_NEVER = -1e30  # score of a class that a replica does not have: its probability is exactly 0


class StackedLinear(nn.Module):
    """Linear layers of several replicas: (replicas, rows, n_in) to (replicas, rows, n_out).

    Parameters
    ----------
    layers : sequence of nn.Linear
        One per replica, of equal width. Heads may differ in the number of classes: what a replica
        lacks gets a score that no loss and no gradient sees.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.batched import StackedLinear
    >>> layers = [torch.nn.Linear(3, 2) for _ in range(5)]
    >>> StackedLinear(layers)(torch.zeros(5, 7, 3)).shape
    torch.Size([5, 7, 2])
    """

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        n_out = max(layer.out_features for layer in layers)
        weights = [
            pad(layer.weight.detach(), (0, 0, 0, n_out - len(layer.weight))) for layer in layers
        ]
        self.weight = nn.Parameter(torch.stack(weights))
        self.bias: nn.Parameter | None = None
        if layers[0].bias is not None:
            biases = [
                pad(layer.bias.detach(), (0, n_out - len(layer.bias)), value=_NEVER)
                for layer in layers
            ]
            self.bias = nn.Parameter(torch.stack(biases).unsqueeze(1))

    def forward(self, X: Tensor) -> Tensor:
        """Apply every replica's layer to its own rows."""
        if self.bias is None:
            return torch.bmm(X, self.weight.mT)
        return torch.baddbmm(self.bias, X, self.weight.mT)

    def read_from(self, layers: Sequence[nn.Linear]) -> None:
        """Take over the weights of the layers that this one was made of."""
        with torch.no_grad():
            for r, layer in enumerate(layers):
                self.weight[r, : len(layer.weight)].copy_(layer.weight)
                if self.bias is not None:
                    self.bias[r, 0, : len(layer.bias)].copy_(layer.bias)

    def write_back(self, layers: Sequence[nn.Linear]) -> None:
        """Copy the weights into the layers that this one was made of."""
        with torch.no_grad():
            for r, layer in enumerate(layers):
                layer.weight.copy_(self.weight[r, : len(layer.weight)])
                if self.bias is not None:
                    layer.bias.copy_(self.bias[r, 0, : len(layer.bias)])


class SideBySide(nn.Module):
    """Modules of any kind, each applied to the rows of its replica: right, but one by one.

    Parameters
    ----------
    modules : sequence of nn.Module
        One per replica; they are used themselves, not copied.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.batched import SideBySide
    >>> SideBySide([torch.nn.Flatten(), torch.nn.Flatten()])(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 7, 3])
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.replicas = nn.ModuleList(modules)

    def forward(self, X: Tensor) -> Tensor:
        """Apply every replica's module to its own rows."""
        return torch.stack([f(x) for f, x in zip(self.replicas, X, strict=True)])


def stack_networks(networks: Sequence[MultiViewNetwork]) -> MultiViewNetwork:
    """One network that does to (replicas, rows, columns) what each does to its (rows, columns)."""
    heads = [network.joint_head for network in networks if network.joint_head is not None]
    lists = ("encoders", "maps", "decoders", "view_heads")
    columns = {name: zip(*(getattr(n, name) for n in networks), strict=True) for name in lists}
    stacked = {name: [_stack(modules) for modules in columns[name]] for name in lists}
    return MultiViewNetwork(**stacked, joint_head=_stack(heads) if heads else None)


def unstack_networks(stacked: MultiViewNetwork, networks: Sequence[MultiViewNetwork]) -> None:
    """Copy what a stacked network has learned into the networks that it was made of."""
    for name, part in stacked.named_modules():
        if isinstance(part, StackedLinear):
            layers = [network.get_submodule(name) for network in networks]
            part.write_back(layers)  # type: ignore[arg-type]


def restack_networks(stacked: MultiViewNetwork, networks: Sequence[MultiViewNetwork]) -> None:
    """Copy what was changed in the networks into the stacked one that was made of them."""
    for name, part in stacked.named_modules():
        if isinstance(part, StackedLinear):
            layers = [network.get_submodule(name) for network in networks]
            part.read_from(layers)  # type: ignore[arg-type]


def _stack(modules: Sequence[nn.Module]) -> nn.Module:
    if all(_is_plain(module, nn.Linear) for module in modules):
        return StackedLinear(modules)  # type: ignore[arg-type]
    if all(_is_plain(module, nn.ReLU) for module in modules):
        return nn.ReLU()
    if all(_is_plain(module, nn.Sequential) for module in modules):
        return _stack_sequences(modules)
    return SideBySide(modules)


def _stack_sequences(sequences: Sequence[Any]) -> nn.Sequential:
    layers = [_stack(layers) for layers in zip(*sequences, strict=True)]
    for before, layer in pairwise(layers):
        if isinstance(before, StackedLinear) and isinstance(layer, nn.ReLU):
            layer.inplace = True  # a linear layer does not need its result again
    return nn.Sequential(*layers)


def _is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether nothing of the user's own happens in a layer."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if type(module) is not kind or any(getattr(module, name) for name in hooks):
        return False
    parameters = list(module.parameters())
    every = list(module.named_parameters(remove_duplicate=False))
    return len(every) == len(parameters) and all(p.requires_grad for p in parameters)  # none tied
