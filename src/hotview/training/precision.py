"""Reduced precision of encoders and decoders, which compute nearly all products."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hotview.nn.multiview import MultiViewNetwork

__all__ = ["PRECISIONS", "in_precision", "used_precision"]

PRECISIONS = ("float32", "tf32", "bfloat16")

#: maps a tensor of every view to another
Pass = Callable[[Sequence[Tensor]], list[Tensor]]

_lock = threading.RLock()


def used_precision(precision: str, device: torch.device) -> str:
    """Return the precision that a device supports: only CUDA devices have TF32.

    Examples
    --------
    >>> import torch
    >>> from hotview.training.precision import used_precision
    >>> used_precision("tf32", torch.device("cpu")), used_precision("tf32", torch.device("cuda"))
    ('float32', 'tf32')
    """
    return "float32" if precision == "tf32" and device.type != "cuda" else precision


def in_precision(network: MultiViewNetwork, precision: str) -> MultiViewNetwork:
    """Return a network with the same weights, whose encoders and decoders round their products.

    Their inputs and outputs stay float32, and so do the weights and their gradients: losses, plans
    and the optimizer are not affected. The maps into the common space and the heads stay in
    float32, because they are small: rounding their inputs would take longer than their products.

    Parameters
    ----------
    network : MultiViewNetwork
        Network to train; it still computes in float32 itself.
    precision : {"float32", "tf32", "bfloat16"}
        ``"tf32"`` rounds the factors of a product to 11 bits, on a GPU; ``"bfloat16"`` rounds the
        factors and the result to 8.

    Returns
    -------
    MultiViewNetwork
        The network itself for float32.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.multiview import MultiViewNetwork
    >>> from hotview.training.precision import in_precision
    >>> network = MultiViewNetwork([torch.nn.Linear(1, 1, bias=False)], [torch.nn.Identity()])
    >>> _ = torch.nn.init.ones_(network.encoders[0].weight)
    >>> X = torch.tensor([[1 + 1 / 256]])
    >>> [f.encode([X])[0].item() for f in (network, in_precision(network, "bfloat16"))]
    [1.00390625, 1.0]
    """
    if precision == "float32":
        return network
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    if used_precision(precision, device) == "float32":
        return network
    return _RoundedNetwork(network, precision)


class _RoundedNetwork(MultiViewNetwork):
    """A network of the same modules that encodes and decodes in another precision."""

    def __init__(self, network: MultiViewNetwork, precision: str) -> None:
        heads = network.joint_head, network.view_heads
        super().__init__(network.encoders, network.maps, network.decoders, *heads)
        self._precision = precision

    def encode(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Return the features F_s of the rows of every view."""
        return self._rounded(super().encode, self.encoders, Xs)

    def reconstruct(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Return the rows of every view, decoded from features."""
        return self._rounded(super().reconstruct, self.decoders, Fs)

    def _rounded(self, run: Pass, modules: nn.ModuleList, Xs: Sequence[Tensor]) -> list[Tensor]:
        if self._precision == "tf32":
            weights = [p for p in modules.parameters() if p.requires_grad]
            return list(_InTF32.apply(run, len(Xs), *Xs, *weights))  # type: ignore[no-untyped-call]
        # Every weight is used once, and a CUDA graph must record its rounding: no cache.
        with torch.autocast(Xs[0].device.type, torch.bfloat16, cache_enabled=False):
            return [Y.float() for Y in run(Xs)]


class _InTF32(torch.autograd.Function):
    """A pass with TF32 enabled, forward and backward.

    torch has one setting for all products of a program. Changed around a whole step, it would
    round the transport, too; changed around the forward pass, it would not round the gradient.
    """

    @staticmethod
    def forward(ctx: Any, run: Pass, n: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        Xs = [X.detach().requires_grad_(X.requires_grad) for X in tensors[:n]]
        with torch.enable_grad(), _tf32():
            Ys = run(Xs)
        ctx.set_materialize_grads(False)
        ctx.passed = Ys, [*Xs, *tensors[n:]]
        outputs = tuple(Y.detach() for Y in Ys)
        frozen = [Z for Y, Z in zip(Ys, outputs, strict=True) if not Y.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        Ys, tensors = ctx.passed
        del ctx.passed  # the context lives as long as the loss; its graph need not
        pairs = [(Y, G) for Y, G in zip(Ys, gradients, strict=True) if G is not None]
        inputs = [x for x in tensors if x.requires_grad]
        with _tf32():
            of_inputs = iter(
                torch.autograd.grad(
                    [Y for Y, _ in pairs], inputs, [G for _, G in pairs], allow_unused=True
                )
            )
        return None, None, *(next(of_inputs) if x.requires_grad else None for x in tensors)


@contextmanager
def _tf32() -> Iterator[None]:
    """Enable TF32 for float32 products on CUDA, and restore the caller's setting afterwards."""
    setting: Any = torch.backends.cuda.matmul
    name, value = "fp32_precision", "tf32"
    if not hasattr(setting, name):  # torch before 2.9
        name, value = "allow_tf32", True  # type: ignore[assignment]
    with _lock:  # the setting is global; another fit must not save ours as the user's
        before = getattr(setting, name)
        setattr(setting, name, value)
        try:
            yield
        finally:
            setattr(setting, name, before)
