"""What keeps each view itself, R_S: reconstruction, or smoothness over its own neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from hotview.nn.multiview import map_views

__all__ = ["reconstruction_error", "roughness"]

_FLOOR, _TINY = 1e-3, 1e-30  # of the mean variance, and where there is none


def reconstruction_error(Xs: Sequence[Tensor], decoded: Sequence[Tensor]) -> Tensor:
    r"""Mean squared error of decoded rows, averaged over entries, added over views.

    Parameters
    ----------
    Xs : sequence of Tensor
        Rows of every view, (..., rows, columns); leading dimensions are replicas.
    decoded : sequence of Tensor
        The same rows, decoded from their features.

    Returns
    -------
    Tensor
        The error, a number per replica.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import reconstruction_error
    >>> reconstruction_error([torch.zeros(2, 3)], [torch.full((2, 3), 2.0)])
    tensor(4.)
    """
    errors = map_views([partial(_mean_square, X) for X in Xs], decoded)
    return torch.stack(errors).sum(0)


def _mean_square(X: Tensor, Y: Tensor) -> Tensor:
    if X.ndim == 2:  # torch's own mean has half the passes over the rows, there and back
        return mse_loss(Y, X)
    return mse_loss(Y, X, reduction="none").mean((-2, -1))


def roughness(
    Ys: Sequence[Tensor], neighbors: Sequence[Tensor], *, relative: bool = False
) -> Tensor:
    r"""Mean squared distance between rows and their neighbors, added over views.

    .. math:: \sum_s \frac{1}{n_s} \sum_i \|y_i - y_{j(i)}\|^2

    Parameters
    ----------
    Ys : sequence of Tensor
        Latents, or class probabilities, of some rows of every view.
    neighbors : sequence of Tensor
        The same of one neighbor of each of these rows.
    relative : bool, default=False
        Take the distance in every direction as a share of that of any two rows or neighbors (twice
        their variance), and the mean over directions: no linear map of the latents changes it, so
        that neither shrinking them nor giving up directions is smoothness.

    Returns
    -------
    Tensor
        The roughness, a number per replica.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import roughness
    >>> Y = torch.tensor([[0.0], [2.0]])
    >>> roughness([Y], [Y + 1]), roughness([Y], [Y + 1], relative=True)
    (tensor(1.), tensor(0.3996))
    """
    return torch.stack([_distance(Y, N, relative) for Y, N in zip(Ys, neighbors, strict=True)]).sum(
        0
    )


def _distance(Y: Tensor, N: Tensor, relative: bool) -> Tensor:
    difference = (Y - N).double()
    if not relative:
        return difference.square().sum(-1).mean(-1).to(Y.dtype)
    both = torch.cat([Y, N], dim=-2).double()  # of these no difference can leave the span
    centered = both - both.mean(-2, keepdim=True)
    among_all = centered.mT @ centered
    # A direction without variance has no share; it only must not divide by zero.
    floor = _FLOOR * _diagonal(among_all).mean(-1).detach() + _TINY
    eye = torch.eye(Y.shape[-1], dtype=torch.float64, device=Y.device)
    between = difference.mT @ difference
    # Not `solve`, which waits on a GPU to see whether it can: the floor says that it can.
    shares = torch.linalg.solve_ex(among_all + floor[..., None, None] * eye, between).result
    return _diagonal(shares).mean(-1).to(Y.dtype)


def _diagonal(M: Tensor) -> Tensor:
    return M.diagonal(dim1=-2, dim2=-1)
