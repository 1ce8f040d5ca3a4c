"""In what precision encoders and decoders are trained, where nearly all products are."""

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

#: what turns a tensor of every view into another
Pass = Callable[[Sequence[Tensor]], list[Tensor]]

_lock = threading.RLock()


def used_precision(precision: str, device: torch.device) -> str:
    """What a precision comes to on a device: only CUDA devices know TF32.

    Examples
    --------
    >>> import torch
    >>> from hotview.training.precision import used_precision
    >>> used_precision("tf32", torch.device("cpu")), used_precision("tf32", torch.device("cuda"))
    ('float32', 'tf32')
    """
    return "float32" if precision == "tf32" and device.type != "cuda" else precision


def in_precision(network: MultiViewNetwork, precision: str) -> MultiViewNetwork:
    """The same network and weights, with encoders and decoders that round as they are told.

    What they take and give stays float32, and so do the weights and their gradients: losses, plans
    and the optimizer know of nothing. The maps into the common space and the heads are left as they
    are, because they are small: to round what they see would take longer than their products.

    Parameters
    ----------
    network : MultiViewNetwork
        What is trained; it still computes in float32 itself.
    precision : {"float32", "tf32", "bfloat16"}
        ``"tf32"`` rounds what goes into a product to 11 bits, on a GPU; ``"bfloat16"`` rounds that
        and what comes out to 8.

    Returns
    -------
    MultiViewNetwork
        The network itself where nothing is to be done.

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
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    precision = used_precision(precision, device)
    if precision == "float32":
        return network
    round_pass = _in_tf32 if precision == "tf32" else _in_bfloat16
    return _Rounded(
        network,
        round_pass(network.encode, network.encoders, device),
        round_pass(network.reconstruct, network.decoders, device),
    )


class _Rounded(MultiViewNetwork):
    """A network of the same modules, two passes of which are done in another way."""

    def __init__(self, network: MultiViewNetwork, encode: Pass, reconstruct: Pass) -> None:
        super().__init__(
            list(network.encoders),
            list(network.maps),
            list(network.decoders),
            network.joint_head,
            list(network.view_heads),
        )
        self._encode, self._reconstruct = encode, reconstruct

    def encode(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Features F_s of the rows of every view."""
        return self._encode(Xs)

    def reconstruct(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Rows of every view, decoded from features."""
        return self._reconstruct(Fs)


def _in_bfloat16(run: Pass, modules: nn.Module, device: torch.device) -> Pass:
    def run_rounded(Xs: Sequence[Tensor]) -> list[Tensor]:
        # Every weight is used once, and a recording must not find it rounded already: no cache.
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            return [Y.float() for Y in run(Xs)]

    return run_rounded


def _in_tf32(run: Pass, modules: nn.Module, device: torch.device) -> Pass:
    def run_rounded(Xs: Sequence[Tensor]) -> list[Tensor]:
        weights = [p for p in modules.parameters() if p.requires_grad]
        return list(_InTF32.apply(run, len(Xs), *Xs, *weights))  # type: ignore[no-untyped-call]

    return run_rounded


class _InTF32(torch.autograd.Function):
    """A pass that has TF32 to itself, forward and backward.

    torch knows one setting for all products of a program. Were it changed around a whole step, the
    transport would be rounded, too; were it changed around the pass, its gradient would not.
    """

    @staticmethod
    def forward(ctx: Any, run: Pass, n: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        Xs = [X.detach().requires_grad_(X.requires_grad) for X in tensors[:n]]
        with torch.enable_grad(), _tf32():
            Ys = run(Xs)
        ctx.set_materialize_grads(False)
        ctx.passed = Ys, [*Xs, *tensors[n:]]
        found = tuple(Y.detach() for Y in Ys)
        frozen = [Z for Y, Z in zip(Ys, found, strict=True) if not Y.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        Ys, tensors = ctx.passed
        del ctx.passed  # what lives as long as the loss need not keep all that led to it
        told = [(Y, G) for Y, G in zip(Ys, gradients, strict=True) if G is not None]
        asked = [x for x in tensors if x.requires_grad]
        with _tf32():
            slopes = torch.autograd.grad(
                [Y for Y, _ in told], asked, [G for _, G in told], allow_unused=True
            )
        found = iter(slopes)
        return None, None, *(next(found) if x.requires_grad else None for x in tensors)


@contextmanager
def _tf32() -> Iterator[None]:
    """Let CUDA use TF32 in products of float32, and put the caller's setting back after."""
    setting: Any = torch.backends.cuda.matmul
    name, value = "fp32_precision", "tf32"
    if not hasattr(setting, name):  # torch before 2.9
        name, value = "allow_tf32", True  # type: ignore[assignment]
    with _lock:  # the setting is the whole program's; another fit must not take ours for the user's
        before = getattr(setting, name)
        setattr(setting, name, value)
        try:
            yield
        finally:
            setattr(setting, name, before)
