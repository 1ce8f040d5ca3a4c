"""Sinkhorn on a GPU that nobody waits for, so that a whole training step can be recorded."""

from __future__ import annotations

import torch
from torch import Tensor

from hotview.ot._backend import kernels_for
from hotview.ot.plan import Plan
from hotview.ot.sinkhorn import RESOLUTION
from hotview.ot.sinkhorn_iterations import PLAIN

__all__ = ["sinkhorn_cuda", "supports_sinkhorn_cuda"]

_TOL = 1e-6  # as `sinkhorn` has it
_SMALL = 2**12  # entries of a plan that one program holds


def supports_sinkhorn_cuda(C: Tensor, max_iter: int) -> bool:
    """Whether so few iterations are asked for that they are Sinkhorn's alone, and can run there.

    Examples
    --------
    >>> import torch
    >>> from hotview.ot.sinkhorn_cuda import supports_sinkhorn_cuda
    >>> supports_sinkhorn_cuda(torch.zeros(6, 3), 20)  # on the CPU
    False
    """
    small = C.shape[-2] * C.shape[-1] <= _SMALL
    return max_iter <= PLAIN and small and kernels_for(C) is not None


def sinkhorn_cuda(C: Tensor, *, reg: float, relative: bool, max_iter: int, pairwise: bool) -> Plan:
    """`sinkhorn` with equal marginals, where `supports_sinkhorn_cuda`.

    Parameters
    ----------
    C : Tensor of shape (..., S, K)
        Costs, on a GPU.
    reg, relative, max_iter : float, bool, int
        As of `sinkhorn`.
    pairwise : bool
        Whether the diagonal is masked.

    Returns
    -------
    Plan
        The same to rounding, but for `n_iter`, which is what was allowed. Where a recording is
        played again, its tensors hold what was found then. Costs that are not finite make no error
        but a plan that is not finite.
    """
    kernels = kernels_for(C)
    assert kernels is not None  # as was asked before
    found = kernels.balance(
        C,
        reg=reg,
        relative=relative,
        max_iter=max_iter,
        tol=_TOL,
        resolution=RESOLUTION,
        pairwise=pairwise,
    )
    mask = torch.eye(C.shape[-1], dtype=torch.bool, device=C.device) if pairwise else None
    return Plan(
        W=found.W,
        C=C,
        reg=found.reg,
        f=found.f,
        g=found.g,
        mask=mask,
        symmetric=pairwise,
        n_iter=max_iter,
        marginal_error=found.marginal_error,
        tol=_TOL,
    )
