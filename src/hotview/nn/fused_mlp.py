"""The perceptrons of all views as one step of the gradient, in as few calls as it has products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hotview.nn.streams import apply_each
from hotview.nn.thread_pool import share_among_workers

__all__ = ["run_modules"]

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def run_modules(modules: Iterable[nn.Module], Xs: Sequence[Tensor]) -> list[Tensor]:
    """Apply every module to the rows of its view.

    Linear layers with ReLUs between them are a few products, and on the CPU torch takes as long to
    keep track of a small one as to make it. So where all modules are such and a gradient is wanted,
    they are one function with a gradient of its own. Others are called as they are.

    Parameters
    ----------
    modules : iterable of nn.Module
        One per view.
    Xs : sequence of Tensor
        Rows of every view.

    Returns
    -------
    list of Tensor
        What every module makes of its rows.

    Examples
    --------
    >>> import torch
    >>> from hotview.nn.fused_mlp import run_modules
    >>> f = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> [Y.shape for Y in run_modules([f, torch.nn.Identity()], [torch.ones(5, 3), torch.ones(2)])]
    [torch.Size([5, 2]), torch.Size([2])]
    """
    modules = list(modules)
    layers = [_linear_layers(module) for module in modules] if _can_be_joined(Xs) else [[]]
    if len(layers) != len(Xs) or not all(layers):
        return apply_each(modules, Xs)
    depths = [len(linears) for linears in layers]
    weights = [p for linears in layers for linear in linears for p in (linear.weight, linear.bias)]
    return list(_Perceptrons.apply(depths, *Xs, *weights))  # type: ignore[no-untyped-call]


def _can_be_joined(Xs: Sequence[Tensor]) -> bool:
    """Whether a gradient is wanted on the CPU, and nobody else decides how products are made."""
    return (
        torch.is_grad_enabled()
        and all(X.ndim == 2 and X.device.type == "cpu" for X in Xs)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def _linear_layers(module: nn.Module) -> list[Any]:
    """The linear layers of a perceptron that learns; none of what is anything else."""
    # Not its children, which are told once however often they come.
    layers = list(module) if type(module) is nn.Sequential else [module]
    linears, others = layers[::2], layers[1::2]
    is_perceptron = (
        len(linears) == len(others) + 1
        and all(type(layer) is nn.Linear for layer in linears)
        and all(type(layer) is nn.ReLU for layer in others)
        and not any(getattr(layer, name) for layer in (module, *layers) for name in _HOOKS)
        and not any("forward" in vars(layer) for layer in (module, *layers))  # replaced
        and all(layer.weight.requires_grad for layer in linears)
        and all(layer.bias is None or layer.bias.requires_grad for layer in linears)
    )
    return linears if is_perceptron else []


class _Perceptrons(torch.autograd.Function):
    """Y = W₂ max(W₁ X + b₁, 0) + b₂ for every view, with as many layers as each has."""

    @staticmethod
    def forward(ctx: Any, depths: Sequence[int], *tensors: Any) -> tuple[Tensor, ...]:
        Xs, weights = tensors[: len(depths)], iter(tensors[len(depths) :])
        pairs = zip(weights, weights, strict=True)
        layers = [list(islice(pairs, depth)) for depth in depths]
        works = [partial(_forward, X, each) for X, each in zip(Xs, layers, strict=True)]
        ctx.sizes = [
            len(X) * sum(W.numel() for W, _ in each) for X, each in zip(Xs, layers, strict=True)
        ]
        found = share_among_workers(works, ctx.sizes)
        ctx.depths = depths
        inputs = [X for rows, _ in found for X in rows]
        ctx.save_for_backward(*inputs, *tensors[len(depths) :: 2])
        ctx.set_materialize_grads(False)
        return tuple(Y for _, Y in found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        n_views, n_layers = len(ctx.depths), sum(ctx.depths)
        layers = zip(
            ctx.saved_tensors[:n_layers],
            ctx.saved_tensors[n_layers:],
            ctx.needs_input_grad[n_views + 2 :: 2],  # which has no bias needs no gradient
            strict=True,
        )
        wanted = ctx.needs_input_grad[1 : n_views + 1]
        works = [
            partial(_backward, G, list(islice(layers, depth)), wants_X=wants_X)
            for G, depth, wants_X in zip(gradients, ctx.depths, wanted, strict=True)
        ]
        found = share_among_workers(works, ctx.sizes)
        grad_Xs = [grad_X for grad_X, *_ in found]
        return None, *grad_Xs, *(grad for _, *grads in found for grad in grads)


@torch.no_grad()  # which every thread asks for by itself
def _forward(
    Y: Tensor, layers: Sequence[tuple[Tensor, Tensor | None]]
) -> tuple[list[Tensor], Tensor]:
    """What came into every layer of a view, and what came out of the last."""
    inputs = []
    for i, (W, b) in enumerate(layers):
        inputs.append(Y if i == 0 else Y.relu_())
        Y = torch.mm(Y, W.T) if b is None else torch.addmm(b, Y, W.T)
    return inputs, Y


@torch.no_grad()
def _backward(
    G: Tensor | None, layers: Sequence[tuple[Tensor, Tensor, bool]], *, wants_X: bool
) -> list[Tensor | None]:
    """Gradients in the rows of a view and in the weights and biases of its layers, in order.

    A layer is told by what came in, its weights, and whether it has a bias.
    """
    if G is None:  # no loss has seen this view: its weights have no gradient, instead of one of 0
        return [None] * (1 + 2 * len(layers))
    found: list[Tensor | None] = []
    for i, (X, W, has_bias) in reversed(list(enumerate(layers))):
        found += [G.sum(0) if has_bias else None, torch.mm(G.T, X)]
        if i > 0:
            G = torch.mm(G, W)
            # Of the ReLU, in place: nobody else has seen what comes in.
            torch.ops.aten.threshold_backward.grad_input(G, X, 0, grad_input=G)
    return [torch.mm(G, layers[0][1]) if wants_X else None, *reversed(found)]
