"""All views: encoders into features, maps into the common space, decoders and heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hotview.nn.fused_mlp import run_modules
from hotview.nn.mlp import make_linear, make_perceptron

__all__ = ["MultiViewNetwork", "make_network"]


class MultiViewNetwork(nn.Module):
    r"""One encoder f_s per view, one linear map U_s into the common space, and what is on top.

    Parameters
    ----------
    encoders : sequence of nn.Module
        f_s: rows of view s to features.
    maps : sequence of nn.Module
        U_s: features of view s to the common space, :math:`Z_s = U_s f_s(X_s)`.
    decoders : sequence of nn.Module
        Features of view s back to its rows; empty without an autoencoder.
    joint_head : nn.Module or None
        g: the concatenated features of all views to class scores.
    view_heads : sequence of nn.Module
        Features of one view to class scores; empty without classes.
    """

    def __init__(
        self,
        encoders: Sequence[nn.Module],
        maps: Sequence[nn.Module],
        decoders: Sequence[nn.Module] = (),
        joint_head: nn.Module | None = None,
        view_heads: Sequence[nn.Module] = (),
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.maps = nn.ModuleList(maps)
        self.decoders = nn.ModuleList(decoders)
        self.joint_head = joint_head
        self.view_heads = nn.ModuleList(view_heads)

    def encode(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Features F_s of the rows of every view."""
        return run_modules(self.encoders, Xs)

    def embed(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Latents Z_s in the common space, from features."""
        return run_modules(self.maps, Fs)

    def reconstruct(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Rows of every view, decoded from features."""
        return run_modules(self.decoders, Fs)

    def score(self, Fs: Sequence[Tensor]) -> Tensor:
        """Class scores of aligned rows, from the features of all views."""
        assert self.joint_head is not None  # classifiers have one
        scores: Tensor = self.joint_head(torch.cat(list(Fs), dim=-1))
        return scores

    def score_views(self, Fs: Sequence[Tensor]) -> list[Tensor]:
        """Class scores of every view's rows on their own."""
        return run_modules(self.view_heads, Fs)


@dataclass(frozen=True)
class Widths:
    """Sizes of a network: of the rows and the hidden layers of every view, and of what they share.

    Parameters
    ----------
    columns : sequence of int
        Columns of every view.
    hidden : sequence of sequences of int
        Hidden layers of every view's encoder.
    encoder_dim : int
        Features of every view.
    n_components : int
        Dimension of the common space.
    n_classes : int
        Classes; 0 without heads.
    decoders : bool
        Whether features are decoded again.
    """

    columns: Sequence[int]
    hidden: Sequence[Sequence[int]]
    encoder_dim: int
    n_components: int
    n_classes: int
    decoders: bool


def make_network(
    widths: Widths,
    generator: torch.Generator,
    encoders: Sequence[nn.Module | None],
    names: Sequence[str],
) -> MultiViewNetwork:
    """Make the network of all views, with the user's own encoders where there are any.

    Parameters
    ----------
    widths : Widths
        Sizes of the parts.
    generator : torch.Generator
        Source of the initial weights.
    encoders : sequence of (nn.Module or None)
        The user's encoder of every view, or None where one is to be made.
    names : sequence of str
        The views, for errors about the user's encoders.

    Returns
    -------
    MultiViewNetwork
        Everything in float32 on the CPU.
    """
    shapes = list(zip(widths.columns, widths.hidden, strict=True))
    made = [
        make_perceptron(D, hidden, widths.encoder_dim, generator) if given is None else given
        for given, (D, hidden) in zip(encoders, shapes, strict=True)
    ]
    encoder_dim = [
        count_features(f, D, name) for f, D, name in zip(made, widths.columns, names, strict=True)
    ]
    return MultiViewNetwork(
        made,
        [make_linear(n, widths.n_components, generator, bias=False) for n in encoder_dim],
        [
            make_perceptron(n, hidden[::-1], D, generator)
            for n, (D, hidden) in zip(encoder_dim, shapes, strict=True)
            if widths.decoders
        ],
        make_linear(sum(encoder_dim), widths.n_classes, generator) if widths.n_classes else None,
        [make_linear(n, widths.n_classes, generator) for n in encoder_dim if widths.n_classes],
    )


def count_features(encoder: nn.Module, n_columns: int, name: str) -> int:
    """Number of features an encoder makes of rows, found by passing two rows of zeros through."""
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
    if not isinstance(F, Tensor) or F.dtype != torch.float32 or not _is_table_of_two(F):
        came = f"{F.dtype} of shape {tuple(F.shape)}" if isinstance(F, Tensor) else type(F).__name__
        raise ValueError(
            f"{expected}, but it gave {came}. Flatten what it returns, and make it float32."
        )
    return F.shape[1]


def _is_table_of_two(F: Tensor) -> bool:
    return F.ndim == 2 and len(F) == 2 and F.shape[1] > 0
