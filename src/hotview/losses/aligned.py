"""Couplings of aligned rows, equations (1) and (2) of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from math import isinf

import torch
from torch import Tensor

from hotview._validation import check_choice
from hotview.losses.coupling import Coupling, Generators, Terms, check_pairs
from hotview.losses.orthogonality import constrain, nearest_orthonormal, orthogonality

__all__ = ["DGCCA", "LSCCA", "alignment_error"]


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

    def forward(
        self,
        Zs: Sequence[Tensor],
        *,
        generator: Generators = None,
        directions: Tensor | None = None,
    ) -> Terms:
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

    def forward(
        self,
        Zs: Sequence[Tensor],
        *,
        generator: Generators = None,
        directions: Tensor | None = None,
    ) -> Terms:
        """Mean squared distance of the views' latents from the shared G."""
        _check_aligned(Zs)
        mean = torch.stack(list(Zs)).mean(0).detach()
        nearest = partial(nearest_orthonormal, reduction=self.reduction)
        G = nearest(mean) if self.outside is None else self.outside(nearest, mean)
        distances = [_squared_norm(Z - G, self.reduction) for Z in Zs]
        return Terms({"agreement": torch.stack(distances).mean(0)})


def alignment_error(Zs: Sequence[Tensor], present: Tensor) -> Tensor:
    r"""Mean squared distance between views' latents of one individual, who may lack views.

    .. math:: \frac{1}{d} \operatorname{mean}_{i,\, s<t} \|z_{is} - z_{it}\|^2

    over all individuals and the pairs of views that they have: LSCCA for partial rows, per column.

    Parameters
    ----------
    Zs : sequence of Tensor of shape (..., n, d)
        Latents of the same individuals in every view; any value where a view is absent.
    present : Tensor of bool, shape (..., n, S)
        Which views every individual has.

    Returns
    -------
    Tensor
        The mean, one number per member.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses.aligned import alignment_error
    >>> Zs = [torch.zeros(2, 3), torch.ones(2, 3), torch.full((2, 3), 9.0)]
    >>> alignment_error(Zs, torch.tensor([[True, True, False], [True, True, False]]))
    tensor(1.)
    """
    Z = torch.stack(list(Zs), dim=-2)  # (..., n, S, d)
    has = present.unsqueeze(-1).to(Z.dtype)
    n = has.sum(-2, keepdim=True)
    mean = (Z * has).sum(-2, keepdim=True) / n.clamp_min(1)
    # The sum over pairs of m points is m times their squared distances from the mean.
    total = (n.squeeze(-1) * ((Z - mean) * has).square().sum(-1)).sum((-2, -1))
    n_pairs = (n * (n - 1) / 2).sum((-3, -2, -1))
    return total / (Z.shape[-1] * n_pairs.clamp_min(1))


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
