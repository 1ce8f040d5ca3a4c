"""Several networks of equal shape as one, whose tensors have a leading dimension of members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from hotview.nn.multiview import MultiViewNetwork

__all__ = [
    "BatchedLinear",
    "MemberEncoders",
    "NetworkOutputs",
    "PerMember",
    "batch_networks",
    "copy_weights",
]

_ABSENT = -1e30  # logit of a class that a member does not have: its probability is exactly 0
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class BatchedLinear(nn.Module):
    """Linear layers of several members: (members, rows, n_in) to (members, rows, n_out).

    Parameters
    ----------
    layers : sequence of nn.Linear
        One per member, of equal width. Heads may differ in the number of classes: a class that a
        member lacks gets a constant logit whose probability is 0.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.batched import BatchedLinear
    >>> layers = [torch.nn.Linear(3, 2) for _ in range(5)]
    >>> BatchedLinear(layers)(torch.zeros(5, 7, 3)).shape
    torch.Size([5, 7, 2])
    """

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        n_out = max(layer.out_features for layer in layers)
        weights, biases = [], []
        for layer in layers:
            n_absent = n_out - layer.out_features
            weights.append(pad(layer.weight.detach(), (0, 0, 0, n_absent)))
            if layer.bias is not None:
                biases.append(pad(layer.bias.detach(), (0, n_absent), value=_ABSENT))
        self.weight = nn.Parameter(torch.stack(weights))
        self.bias = nn.Parameter(torch.stack(biases).unsqueeze(1)) if biases else None

    def forward(self, X: Tensor) -> Tensor:
        """Apply each member's layer to its own rows."""
        if self.bias is None:
            return torch.bmm(X, self.weight.mT)
        return torch.baddbmm(self.bias, X, self.weight.mT)


class PerMember(nn.Module):
    """Modules of any kind, applied one after another, each to the rows of its member.

    Parameters
    ----------
    modules : sequence of nn.Module
        One per member; they are used themselves, not copied.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.batched import PerMember
    >>> PerMember([torch.nn.Flatten(), torch.nn.Flatten()])(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 7, 3])
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(modules)

    def forward(self, X: Tensor) -> Tensor:
        """Apply each member's module to its own rows."""
        return torch.stack([f(x) for f, x in zip(self.members, X, strict=True)])


class MemberEncoders:
    """Encoders and heads of one view, those of all members in one product per layer, in float64.

    In float64 all devices agree; encoders of the user's own are applied in their own precision. The
    weights are copied: changes of the modules are not seen.

    Parameters
    ----------
    encoders : sequence of nn.Module
        The encoder of every member.
    heads : sequence of nn.Module
        Its head: a linear layer from features to logits.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.batched import MemberEncoders
    >>> encoders, heads = [torch.nn.Linear(3, 2)] * 2, [torch.nn.Linear(2, 4)] * 2
    >>> features, logits = MemberEncoders(encoders, heads)(torch.zeros(7, 3))
    >>> features.shape, logits.shape
    (torch.Size([7, 4]), torch.Size([2, 7, 4]))
    """

    def __init__(self, encoders: Sequence[nn.Module], heads: Sequence[nn.Module]) -> None:
        self.encoders, self.head = list(encoders), _stack_linear(heads)
        layers = list(map(_plain_layers, encoders))
        self.is_plain = all(layers)
        self.layers = list(map(_stack_linear, zip(*layers, strict=True)))

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Encode rows.

        Parameters
        ----------
        X : Tensor of shape (n_rows, n_columns)
            The rows, in float32 or, exactly the same, in float64.

        Returns
        -------
        features : Tensor of float64, shape (n_rows, n_members * encoder_dim)
            Features by all members, side by side.
        logits : Tensor of float64, shape (n_members, n_rows, n_classes)
            Logits by the heads of all members.
        """
        if self.is_plain:
            (weight, bias), *others = self.layers
            R, _, width = weight.shape  # members have the same rows: one product for all of them
            F = torch.addmm(bias.flatten(), X.double(), weight.transpose(0, 1).flatten(1))
            F = F.view(-1, R, width).transpose(0, 1)
            for weight, bias in others:
                F = torch.baddbmm(bias, F.relu_(), weight)
        else:  # a user's encoder may work in place
            F = torch.stack([f(X.to(torch.float32, copy=True)).double() for f in self.encoders])
        weight, bias = self.head
        return F.transpose(0, 1).flatten(1), torch.baddbmm(bias, F, weight)


class NetworkOutputs:
    """Features and logits of new rows by networks that are used together.

    Parameters
    ----------
    networks : sequence of MultiViewNetwork
        The networks.
    features : sequence of sequence of (ndarray, float), default=()
        From `encode_nodes`, of every network and view, where it was fitted on graphs.
    """

    def __init__(
        self,
        networks: Sequence[MultiViewNetwork],
        features: Sequence[Sequence[tuple[Any, float]]] = (),
    ) -> None:
        self.networks, self.features = list(networks), list(features)
        self._encoders = []
        for s in range(len(self.networks[0].encoders)):
            of_members = [(network.encoders[s], network.view_heads[s]) for network in networks]
            self._encoders.append(MemberEncoders(*zip(*of_members, strict=True)))
        heads = [network.joint_head for network in networks]
        self._joint = None if None in heads else _stack_linear(heads)

    def member(self, i: int) -> NetworkOutputs:
        """Those of one network."""
        return NetworkOutputs([self.networks[i]], self.features[i : i + 1])

    def encode(self, s: int, X: Tensor) -> tuple[Tensor, Tensor]:
        """Features and logits of standardized rows of view s, as `MemberEncoders` returns them."""
        return self._encoders[s](X)

    def joint_logits(self, features: Mapping[int, Tensor]) -> Tensor:
        """Logits by the joint heads, (members, rows, classes), from features of all views."""
        assert self._joint is not None
        weight, bias = self._joint
        size = (len(self.networks), -1)
        by_member = [F.unflatten(1, size) for _, F in sorted(features.items())]  # type: ignore[no-untyped-call]
        return torch.baddbmm(bias, torch.cat(by_member, dim=2).transpose(0, 1), weight)


def _stack_linear(layers: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Weights (members, n_in, n_out) and biases (members, 1, n_out) in float64."""
    weight: Tensor = torch.stack([layer.weight for layer in layers]).detach().double().mT
    if layers[0].bias is None:
        return weight, weight.new_zeros(len(layers), 1, weight.shape[2])
    return weight, torch.stack([layer.bias for layer in layers]).detach().double().unsqueeze(1)


def _plain_layers(encoder: nn.Module) -> list[nn.Module]:
    """The linear layers of a perceptron with a ReLU between each two; none of other modules."""
    layers = list(encoder) if isinstance(encoder, nn.Sequential) else [encoder]
    kinds = [nn.Linear, nn.ReLU] * (len(layers) // 2) + [nn.Linear]
    is_hooked = any(getattr(module, name) for module in encoder.modules() for name in _HOOKS)
    return layers[::2] if [type(layer) for layer in layers] == kinds and not is_hooked else []


def batch_networks(networks: Sequence[MultiViewNetwork]) -> MultiViewNetwork:
    """Make one network of (members, rows, columns) from networks of (rows, columns)."""
    batched: dict[str, list[nn.Module]] = {}
    for name in ("encoders", "maps", "decoders", "view_heads"):
        members = zip(*(getattr(network, name) for network in networks), strict=True)
        batched[name] = [_batch(modules) for modules in members]
    heads = [network.joint_head for network in networks if network.joint_head is not None]
    return MultiViewNetwork(**batched, joint_head=_batch(heads) if heads else None)


def copy_weights(
    batched: MultiViewNetwork, networks: Sequence[MultiViewNetwork], *, to_members: bool
) -> None:
    """Copy the weights of a batched network into those of its members, or back."""
    with torch.no_grad():
        for name, layer in batched.named_modules():
            if not isinstance(layer, BatchedLinear):
                continue
            for m, network in enumerate(networks):
                member: nn.Linear = network.get_submodule(name)  # type: ignore[assignment]
                pairs = [(layer.weight[m, : member.out_features], member.weight)]
                if layer.bias is not None:
                    pairs.append((layer.bias[m, 0, : member.out_features], member.bias))
                for part, own in pairs:
                    own.copy_(part) if to_members else part.copy_(own)


def _batch(modules: Sequence[nn.Module]) -> nn.Module:
    """Batch one module of all members, layer by layer where it consists of plain layers."""
    kind = type(modules[0])
    if kind not in (nn.Linear, nn.ReLU, nn.Sequential) or not all(
        _is_plain(module, kind) for module in modules
    ):
        return PerMember(modules)
    if kind is nn.Linear:
        return BatchedLinear(modules)  # type: ignore[arg-type]
    if kind is nn.ReLU:
        return nn.ReLU()
    layers = [_batch(members) for members in zip(*modules, strict=True)]
    for before, layer in pairwise(layers):
        if isinstance(before, BatchedLinear) and isinstance(layer, nn.ReLU):
            layer.inplace = True  # the backward pass of a linear layer does not need its output
    return nn.Sequential(*layers)


def _is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a module is exactly of a kind, without hooks and without frozen or tied weights."""
    if type(module) is not kind or any(getattr(module, name) for name in _HOOKS):
        return False
    parameters = list(module.parameters())
    n_uses = len(list(module.named_parameters(remove_duplicate=False)))
    return n_uses == len(parameters) and all(p.requires_grad for p in parameters)
