"""Couplings of aligned rows, equations (1) and (2) of the paper, and their specifications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import isinf

import torch
from torch import Tensor

from hotview._validation import check_choice
from hotview.losses.coupling import (
    Coupling,
    Terms,
    check_pairs,
    constrain,
    nearest_orthonormal,
    orthogonality,
)
from hotview.losses.specifications import CouplingSizes, PaperSpec

__all__ = ["DGCCA", "LSCCA", "DGCCASpec", "LSCCASpec"]


class LSCCA(Coupling):
    r"""Least-squares CCA, equation (1): the distance between latents of aligned rows.

    .. math:: \frac{2}{S(S-1)} \sum_{s<t} \|Z_s - Z_t\|_F^2
              + α \Big\|\sum_s Z_s^\top Z_s - I\Big\|_F^2

    Parameters
    ----------
    orthogonality_weight : float, default=0.01
        α, weight of the constraint; infinity meets it exactly in every batch.
    reduction : {"mean", "sum"}, default="mean"
        Whether squared distances are averaged or summed over rows.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import LSCCA
    >>> Z = torch.eye(2)
    >>> LSCCA(0.0)([Z, Z + 1])["agreement"]
    tensor(2.)
    """

    needs_alignment = True

    def __init__(self, orthogonality_weight: float = 0.01, *, reduction: str = "mean") -> None:
        super().__init__()
        self.orthogonality_weight, self.exact = orthogonality_weight, isinf(orthogonality_weight)
        self.reduction = check_choice("reduction", reduction, ("mean", "sum"))

    def compare(self, Zs: Sequence[Tensor], directions: Tensor | None) -> Terms:
        """Mean squared distance between the views' latents of one row, and the constraint."""
        check_pairs(Zs)
        _check_aligned(Zs)
        Zs = constrain(Zs, self.reduction) if self.exact else Zs
        distances = [_squared_norm(Z - other, self.reduction) for Z, other in combinations(Zs, 2)]
        parts = {"agreement": torch.stack(distances).mean(0)}
        if not self.exact:
            parts["orthogonality"] = self.orthogonality_weight * orthogonality(Zs, self.reduction)
        return Terms(parts)


class DGCCA(Coupling):
    r"""Deep generalized CCA, equation (2): the distance of aligned rows from a shared G.

    .. math:: \min_{G^\top G = I} \frac{1}{S} \sum_s \|Z_s - G\|_F^2

    G has a closed form (orthogonal Procrustes), so its constraint holds exactly in every batch. It
    is a constant in the gradient, which is exact because G is optimal.

    Parameters
    ----------
    reduction : {"mean", "sum"}, default="mean"
        Whether the distance and GᵀG are averaged or summed over rows.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import DGCCA
    >>> Z = torch.eye(2) * 2**0.5  # ZᵀZ, as a mean over the two rows, is the identity
    >>> DGCCA()([Z, Z]).total.item() < 1e-10
    True
    """

    needs_alignment = True
    exact = True

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, ("mean", "sum"))

    def n_constrained(self, n_views: int) -> int:
        """One cloud meets the constraint, G.

        Parameters
        ----------
        n_views : int
            Number of views.

        Returns
        -------
        int
            1.
        """
        return 1

    def compare(self, Zs: Sequence[Tensor], directions: Tensor | None) -> Terms:
        """Mean squared distance of the views' latents from the shared G."""
        _check_aligned(Zs)
        mean = torch.stack(list(Zs)).mean(0).detach()
        nearest = partial(nearest_orthonormal, reduction=self.reduction)
        G = nearest(mean) if self.outside is None else self.outside(nearest, mean)
        distances = [_squared_norm(Z - G, self.reduction) for Z in Zs]
        return Terms({"agreement": torch.stack(distances).mean(0)})


def _squared_norm(difference: Tensor, reduction: str) -> Tensor:
    """Squared Frobenius norm, summed or averaged over rows."""
    total = difference.square().sum((-2, -1))
    return total if reduction == "sum" else total / difference.shape[-2]


def _check_aligned(Zs: Sequence[Tensor]) -> None:
    sizes = [Z.shape[-2] for Z in Zs]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"Expected aligned latents, row i of one individual in all, but they have {sizes} "
            "rows. Pass the same rows of every view, or use a coupling that needs no alignment."
        )


@dataclass(repr=False, eq=False, kw_only=True)
class LSCCASpec(PaperSpec, name="lscca"):
    """Least-squares CCA of aligned rows, equation (1): ``coupling="lscca"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of `plan_`: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for `plan_`; up to 100, only plain Sinkhorn iterations are run.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the latents of
        every batch.

    Examples
    --------
    >>> from hotview import LSCCASpec, MultiViewEncoder
    >>> MultiViewEncoder(LSCCASpec(orthogonality_weight=1.0))
    MultiViewEncoder(coupling=LSCCASpec(orthogonality_weight=1.0))
    """

    needs_alignment = True

    orthogonality_weight: float = 0.01

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.LSCCA`."""
        return LSCCA(self.orthogonality_weight, reduction=self.reduction)


@dataclass(repr=False, eq=False, kw_only=True)
class DGCCASpec(PaperSpec, name="dgcca"):
    """Deep generalized CCA of aligned rows, equation (2): ``coupling="dgcca"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of `plan_`: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for `plan_`; up to 100, only plain Sinkhorn iterations are run.

    Examples
    --------
    >>> from hotview import DGCCASpec, MultiViewEncoder
    >>> MultiViewEncoder(DGCCASpec(weight=1.0))
    MultiViewEncoder(coupling=DGCCASpec(weight=1.0))
    """

    needs_alignment = True

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.DGCCA`."""
        return DGCCA(reduction=self.reduction)
