"""The network of all views: encoders, maps into the common space, decoders and heads.

Encoders and decoders, which compute nearly all products, can be trained in reduced precision.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = [
    "PRECISIONS",
    "MultiViewNetwork",
    "Widths",
    "count_features",
    "in_precision",
    "make_linear",
    "make_mlp",
    "make_network",
    "map_views",
    "used_precision",
]

PRECISIONS = ("float32", "tf32", "bfloat16")

#: maps a tensor of every view to another
Pass = Callable[[Sequence[Tensor]], list[Tensor]]

_lock = threading.RLock()


def map_views(
    functions: Iterable[Callable[[Tensor], Tensor]], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """Apply each view's function to its input.

    One view's network is too small to fill a GPU. While a CUDA graph is captured, each view runs on
    its own stream, forward and backward, so that the graph replays them in parallel.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.multiview import map_views
    >>> map_views([torch.neg, torch.abs], [torch.tensor(1.0), torch.tensor(-2.0)])
    [tensor(-1.), tensor(2.)]
    """
    pairs = zip(functions, inputs, strict=True)
    if not (inputs and inputs[0].is_cuda and torch.cuda.is_current_stream_capturing()):
        return [function(x) for function, x in pairs]
    main, outputs = torch.cuda.current_stream(), []
    streams = _cuda_streams(len(inputs), inputs[0].device)
    for stream, (function, x) in zip(streams, pairs, strict=True):
        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            outputs.append(function(x))
    for stream, output in zip(streams, outputs, strict=True):
        main.wait_stream(stream)
        output.record_stream(main)  # keeps its memory from being reused before `main` is done
    return outputs


@cache
def _cuda_streams(n: int, device: torch.device) -> list[torch.cuda.Stream]:
    return [torch.cuda.Stream(device) for _ in range(n)]  # type: ignore[no-untyped-call]


class MultiViewNetwork(nn.Module):
    r"""One encoder f_s and one linear map U_s into the common space per view, decoders and heads.

    Parameters
    ----------
    encoders : iterable of nn.Module
        f_s: rows of view s to features.
    maps : iterable of nn.Module
        U_s: features of view s to the common space, :math:`Z_s = U_s f_s(X_s)`.
    decoders : iterable of nn.Module
        Features of view s back to its rows; empty without an autoencoder.
    joint_head : nn.Module or None
        g: the concatenated features of all views to logits.
    view_heads : iterable of nn.Module
        Features of one view to logits; empty without classes.
    """

    def __init__(
        self,
        encoders: Iterable[nn.Module],
        maps: Iterable[nn.Module],
        decoders: Iterable[nn.Module] = (),
        joint_head: nn.Module | None = None,
        view_heads: Iterable[nn.Module] = (),
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.maps = nn.ModuleList(maps)
        self.decoders = nn.ModuleList(decoders)
        self.joint_head = joint_head
        self.view_heads = nn.ModuleList(view_heads)

    def encode(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Features F_s of the rows of each view."""
        return map_views(self.encoders, Xs)

    def embed(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Latents Z_s in the common space, from features."""
        return map_views(self.maps, Fs)

    def latents(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Latents Z_s of the rows of each view."""
        return self.embed(self.encode(Xs))

    def reconstruct(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Decoded rows of each view, from features."""
        return map_views(self.decoders, Fs)

    def score(self, Fs: Sequence[Tensor]) -> Tensor:
        """Logits of linked rows, from the features of all views."""
        assert self.joint_head is not None  # classifiers have one
        scores: Tensor = self.joint_head(torch.cat(list(Fs), dim=-1))
        return scores

    def score_views(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Logits of each view's rows, from the features of that view alone."""
        return map_views(self.view_heads, Fs)


@dataclass(frozen=True)
class Widths:
    """Sizes of a multi-view network.

    Parameters
    ----------
    columns : sequence of int
        Number of columns of each view.
    hidden : sequence of sequences of int
        Widths of the hidden layers of each view's encoder.
    encoder_dim : int
        Number of features of each view.
    n_components : int
        Dimension of the common space.
    n_classes : int
        Number of classes; 0 without heads.
    decoders : bool
        Whether each view has a decoder.
    """

    columns: Sequence[int]
    hidden: Sequence[Sequence[int]]
    encoder_dim: int
    n_components: int
    n_classes: int
    decoders: bool


def make_network(
    widths: Widths,
    generator: torch.Generator | None,
    encoders: Sequence[nn.Module | None],
    names: Sequence[str],
) -> MultiViewNetwork:
    """Make the network of all views, with the user's own encoders where given.

    Parameters
    ----------
    widths : Widths
        Sizes of the network.
    generator : torch.Generator or None
        Source of the initial weights; None makes layers without any, on the meta device.
    encoders : sequence of (nn.Module or None)
        The user's encoder of each view; None makes a perceptron.
    names : sequence of str
        Names of the views, for error messages.

    Returns
    -------
    MultiViewNetwork
        The network, in float32 on the CPU.
    """
    made, dims = list[nn.Module](), list[int]()
    for own, D, hidden, name in zip(encoders, widths.columns, widths.hidden, names, strict=True):
        made.append(make_mlp(D, hidden, widths.encoder_dim, generator) if own is None else own)
        dims.append(widths.encoder_dim if own is None else count_features(own, D, name))
    maps = [make_linear(n, widths.n_components, generator, bias=False) for n in dims]
    decoders, joint_head, view_heads = [], None, []
    if widths.decoders:
        shapes = zip(dims, widths.hidden, widths.columns, strict=True)
        decoders = [make_mlp(n, hidden[::-1], D, generator) for n, hidden, D in shapes]
    if widths.n_classes:
        joint_head = make_linear(sum(dims), widths.n_classes, generator)
        view_heads = [make_linear(n, widths.n_classes, generator) for n in dims]
    return MultiViewNetwork(made, maps, decoders, joint_head, view_heads)


def count_features(encoder: nn.Module, n_columns: int, name: str) -> int:
    """Return the width of an encoder's output, found by encoding two rows of zeros."""
    training = encoder.training
    encoder.eval()
    expected = (
        f"Expected the encoder of view {name!r} to turn float32 rows of shape (2, {n_columns}) "
        "into float32 of shape (2, encoder_dim)"
    )
    try:
        with torch.no_grad():
            F = encoder(torch.zeros(2, n_columns, dtype=torch.float32))
    except Exception as error:
        raise ValueError(
            f"{expected}, but it failed: {type(error).__name__}: {error}. Try it on such rows."
        ) from error
    finally:
        encoder.train(training)
    is_table = isinstance(F, Tensor) and F.ndim == 2 and len(F) == 2 and F.shape[1] > 0
    if not is_table or F.dtype != torch.float32:
        came = f"{F.dtype} of shape {tuple(F.shape)}" if isinstance(F, Tensor) else type(F).__name__
        raise ValueError(
            f"{expected}, but it gave {came}. Flatten what it returns, and make it float32."
        )
    return int(F.shape[1])


def make_linear(
    n_in: int, n_out: int, generator: torch.Generator | None, *, bias: bool = True
) -> nn.Linear:
    """Make a linear layer with torch's default initialization, drawn from `generator` if given."""
    # The plain constructor would draw from torch's global generator; `skip_init` imports sympy.
    layer = nn.Linear(n_in, n_out, bias=bias, device="meta")
    if generator is None:
        return layer
    bound = 1 / math.sqrt(n_in)
    for name, parameter in list(layer.named_parameters()):
        drawn = torch.empty(parameter.shape, dtype=torch.float32, device="cpu")
        setattr(layer, name, nn.Parameter(drawn.uniform_(-bound, bound, generator=generator)))
    return layer


def make_mlp(
    n_in: int, hidden: Sequence[int], n_out: int, generator: torch.Generator | None
) -> nn.Sequential:
    """Make a perceptron with a ReLU after every hidden layer; a linear map without any."""
    layers: list[nn.Module] = []
    for a, b in pairwise([n_in, *hidden, n_out]):
        layers += [make_linear(a, b, generator), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def used_precision(precision: str, device: torch.device) -> str:
    """Return the precision that a device supports: only CUDA devices have TF32.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.multiview import used_precision
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
    >>> from hotview.nn.multiview import MultiViewNetwork, in_precision
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
