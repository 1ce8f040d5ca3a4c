"""View regularizers, R_S: reconstruction of a view, or smoothness over its neighbor graph.

Each is a function of the network, a batch and the features of its rows, and a specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, softmax

from hotview.losses.coupling import Terms
from hotview.losses.objective import Batch, Regularizer
from hotview.losses.specifications import RegularizerSpec
from hotview.nn.multiview import MultiViewNetwork, map_views

__all__ = [
    "AutoencoderSpec",
    "DiffusionSpec",
    "ManifoldSpec",
    "NoRegularizerSpec",
    "reconstruction_error",
    "smoothness_penalty",
]

_FLOOR, _TINY = 1e-3, 1e-30  # relative to the mean variance, and absolute


def reconstruction_error(Xs: Sequence[Tensor], decoded: Sequence[Tensor]) -> Tensor:
    r"""Mean squared error of decoded rows, averaged over entries, summed over views.

    Parameters
    ----------
    Xs : sequence of Tensor
        Rows of each view, (..., rows, columns); leading dimensions are ensemble members.
    decoded : sequence of Tensor
        The same rows, decoded from their features.

    Returns
    -------
    Tensor
        The error, one number per member.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import reconstruction_error
    >>> reconstruction_error([torch.zeros(2, 3)], [torch.full((2, 3), 2.0)])
    tensor(4.)
    """
    return torch.stack(map_views([partial(_mean_squared_error, X) for X in Xs], decoded)).sum(0)


def _mean_squared_error(X: Tensor, Y: Tensor) -> Tensor:
    if X.ndim == 2:  # torch's own mean needs half the passes over memory
        return mse_loss(Y, X)
    return mse_loss(Y, X, reduction="none").mean((-2, -1))


def smoothness_penalty(
    Ys: Sequence[Tensor], neighbors: Sequence[Tensor], *, relative: bool = False
) -> Tensor:
    r"""Mean squared distance between rows and their neighbors, summed over views.

    .. math:: \sum_s \frac{1}{n_s} \sum_i \|y_i - y_{j(i)}\|^2

    Parameters
    ----------
    Ys : sequence of Tensor
        Latents, or class probabilities, of some rows of each view.
    neighbors : sequence of Tensor
        Latents, or class probabilities, of one neighbor of each of these rows.
    relative : bool, default=False
        Divide the squared distance in each direction by that of two random rows (twice the
        variance), and average over directions. No linear map of the latents changes this penalty,
        so neither shrinking nor collapsing them lowers it.

    Returns
    -------
    Tensor
        The penalty, one number per member.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import smoothness_penalty
    >>> Y = torch.tensor([[0.0], [2.0]])
    >>> smoothness_penalty([Y], [Y + 1]), smoothness_penalty([Y], [Y + 1], relative=True)
    (tensor(1.), tensor(0.3996))
    """
    distances = [
        _relative_distance(Y, N) if relative else (Y - N).double().square().sum(-1).mean(-1).to(Y)
        for Y, N in zip(Ys, neighbors, strict=True)
    ]
    return torch.stack(distances).sum(0)


def _relative_distance(Y: Tensor, N: Tensor) -> Tensor:
    difference = (Y - N).double()
    both = torch.cat([Y, N], dim=-2).double()  # their span contains all differences
    centered = both - both.mean(-2, keepdim=True)
    total = centered.mT @ centered
    # A direction without variance contributes 0; the floor keeps the division finite.
    floor = _FLOOR * _diagonal(total).mean(-1).detach() + _TINY
    eye = torch.eye(Y.shape[-1], dtype=torch.float64, device=Y.device)
    between = difference.mT @ difference
    # Not `solve`, whose check of the result would synchronize with the GPU.
    ratio = torch.linalg.solve_ex(total + floor[..., None, None] * eye, between).result
    return _diagonal(ratio).mean(-1).to(Y.dtype)


def _diagonal(M: Tensor) -> Tensor:
    return M.diagonal(dim1=-2, dim2=-1)


class _FunctionSpec(RegularizerSpec):
    """Base of regularizers without parameters: subclasses are a function, `terms`."""

    @staticmethod
    def terms(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
        """Return no terms."""
        return Terms({})

    def build(self) -> Regularizer:
        """Build the regularizer, which is `terms`."""
        return self.terms


class NoRegularizerSpec(_FunctionSpec, name="none"):
    """No view regularizer: ``view_regularizer="none"``.

    Examples
    --------
    >>> from hotview import NoRegularizerSpec
    >>> NoRegularizerSpec().get_params()
    {}
    """

    def __init__(self) -> None:
        self.weight = 0.0


class AutoencoderSpec(_FunctionSpec, name="autoencoder"):
    """The features of a row can be decoded: ``view_regularizer="autoencoder"``.

    Parameters
    ----------
    weight : float or None, default=None
        τ, the weight of the regularizer in the objective; None takes 0.01 in an encoder and 1.0 in
        a classifier.

    Examples
    --------
    >>> from hotview import AutoencoderSpec, MultiViewEncoder
    >>> MultiViewEncoder(view_regularizer=AutoencoderSpec(0.1))
    MultiViewEncoder(view_regularizer=AutoencoderSpec(weight=0.1))
    """

    needs_decoders = True

    @staticmethod
    def terms(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
        """Return the reconstruction error."""
        decoded = network.reconstruct(Fs["rows"])
        rows = batch.split(batch.Xs)["rows"]
        return Terms({"reconstruction": reconstruction_error(rows, decoded)})


class ManifoldSpec(_FunctionSpec, name="manifold"):
    """Neighbors in a view have similar latents: ``view_regularizer="manifold"``.

    Parameters
    ----------
    weight : float or None, default=None
        τ, the weight of the regularizer in the objective; None takes 0.01 in an encoder and 1.0 in
        a classifier.

    Examples
    --------
    >>> from hotview import ManifoldSpec
    >>> ManifoldSpec(0.1)
    ManifoldSpec(weight=0.1)
    """

    needs_neighbors = True

    @staticmethod
    def terms(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
        """Return the roughness over neighbors."""
        both = Fs["rows"], Fs["neighbors"]
        parts = {"smoothness": smoothness_penalty(*map(network.embed, both), relative=True)}
        if len(network.view_heads) > 0:
            probs = [[softmax(logits, dim=-1) for logits in network.score_views(F)] for F in both]
            parts["score_smoothness"] = smoothness_penalty(*probs)
        return Terms(parts)


class DiffusionSpec(_FunctionSpec, name="diffusion"):
    """Features approximate diffusion coordinates of the view: ``view_regularizer="diffusion"``.

    Parameters
    ----------
    weight : float or None, default=None
        τ, the weight of the regularizer in the objective; None takes 0.01 in an encoder and 1.0 in
        a classifier.

    Examples
    --------
    >>> from hotview import DiffusionSpec
    >>> DiffusionSpec(0.1)
    DiffusionSpec(weight=0.1)
    """

    needs_coordinates = True

    @staticmethod
    def terms(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
        """Return the squared error to the coordinates."""
        return Terms({"diffusion": reconstruction_error(batch.coordinates, Fs["rows"])})
