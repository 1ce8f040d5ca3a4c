"""Specifications of the couplings of the paper, R_M."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any

from hotview.losses.aligned import DGCCA, LSCCA
from hotview.losses.coupling import Coupling, NoCoupling
from hotview.losses.hierarchical import HOTPairwise, HOTReference
from hotview.losses.sliced import SWPairwise, SWReference
from hotview.losses.specifications import CouplingSizes, CouplingSpec

__all__ = [
    "COUPLINGS",
    "DGCCASpec",
    "HOTPairwiseSpec",
    "HOTReferenceSpec",
    "LSCCASpec",
    "NoCouplingSpec",
    "SWPairwiseSpec",
    "SWReferenceSpec",
]


@dataclass(repr=False, eq=False, kw_only=True)
class NoCouplingSpec(CouplingSpec, name="none"):
    """No coupling, the control: ``coupling="none"``.

    Parameters
    ----------
    reduction : {"mean", "sum"}, default="mean"
        Whether the loss of labels is a mean or, as in the paper, a sum over rows.

    Examples
    --------
    >>> from hotview import NoCouplingSpec
    >>> NoCouplingSpec().get_params()
    {'reduction': 'mean'}
    """

    reduction: str = "mean"

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.NoCoupling`."""
        return NoCoupling()


@dataclass(repr=False, eq=False)
class _PaperSpec(CouplingSpec):
    """Settings of all couplings of the paper."""

    weight: float = 0.1
    _: KW_ONLY
    reduction: str = "mean"
    reg: float = 0.1
    sinkhorn_max_iter: int = 1000


@dataclass(repr=False, eq=False, kw_only=True)
class _SlicedSpec(_PaperSpec):
    """Settings of the sliced couplings."""

    n_projections: int = 50
    projections: str = "orthogonal"
    orthogonality_weight: float = 0.01

    def _build(self, coupling: Callable[..., Coupling], **arguments: Any) -> Coupling:
        return coupling(
            orthogonality_weight=self.orthogonality_weight,
            n_projections=self.n_projections,
            projections=self.projections,
            reduction=self.reduction,
            **arguments,
        )


@dataclass(repr=False, eq=False, kw_only=True)
class LSCCASpec(_PaperSpec, name="lscca"):
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
class DGCCASpec(_PaperSpec, name="dgcca"):
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


@dataclass(repr=False, eq=False, kw_only=True)
class SWPairwiseSpec(_SlicedSpec, name="sw-pairwise"):
    """Sliced Wasserstein distances between all views, equation (8): ``coupling="sw-pairwise"``.

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
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the latents of
        every batch.

    Examples
    --------
    >>> from hotview import MultiViewEncoder, SWPairwiseSpec
    >>> MultiViewEncoder(SWPairwiseSpec(n_projections=20))
    MultiViewEncoder(coupling=SWPairwiseSpec(n_projections=20))
    """

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.SWPairwise`."""
        return self._build(SWPairwise)


class SWReferenceSpec(_SlicedSpec, name="sw-reference"):
    """Sliced Wasserstein distances to one reference, equation (9): ``coupling="sw-reference"``.

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
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the reference.

    Examples
    --------
    >>> from hotview import MultiViewEncoder, SWReferenceSpec
    >>> MultiViewEncoder(SWReferenceSpec(projections="qmc"))
    MultiViewEncoder(coupling=SWReferenceSpec(projections='qmc'))
    """

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.SWReference`."""
        return self._build(
            SWReference,
            n_components=sizes.n_components,
            n_points=sizes.n_points,
            generator=sizes.generator,
        )


@dataclass(repr=False, eq=False, kw_only=True)
class HOTPairwiseSpec(_SlicedSpec, name="hot-pairwise"):
    """Hierarchical transport between views, equation (10): ``coupling="hot-pairwise"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of the plan: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for the plan; up to 100, only plain Sinkhorn iterations are
        run.
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the latents of
        every batch.
    cost_decay : float, default=0.9
        Decay of the average of costs over steps, for which the plan is solved; 0 uses the costs of
        each step alone.

    Examples
    --------
    >>> from hotview import HOTPairwiseSpec, MultiViewEncoder
    >>> MultiViewEncoder(HOTPairwiseSpec(reg=0.05))
    MultiViewEncoder(coupling=HOTPairwiseSpec(reg=0.05))
    """

    cost_decay: float = 0.9

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.HOTPairwise`."""
        return self._build(HOTPairwise, planner=self.planner)


@dataclass(repr=False, eq=False, kw_only=True)
class HOTReferenceSpec(_SlicedSpec, name="hot-reference"):
    """Hierarchical transport to references, equation (11): ``coupling="hot-reference"``.

    Parameters
    ----------
    weight : float, default=0.1
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}, default="mean"
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg : float, default=0.1
        β, the entropic regularization of the plan: relative to the mean cost, or absolute with
        ``reduction="sum"``.
    sinkhorn_max_iter : int, default=1000
        Maximum number of iterations for the plan; up to 100, only plain Sinkhorn iterations are
        run.
    n_projections : int, default=50
        M, the number of directions drawn in every step; multiples of `n_components` are best.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint; ``inf`` meets it exactly, by a linear map of the
        references.
    n_references : int or None, default=None
        K, the number of reference clouds; None takes one for every two views, at least 1 and, as in
        the paper, at most 3.
    cost_decay : float, default=0.9
        Decay of the average of costs over steps, for which the plan is solved; 0 uses the costs of
        each step alone.

    Examples
    --------
    >>> from hotview import HOTReferenceSpec, MultiViewEncoder
    >>> encoder = MultiViewEncoder(HOTReferenceSpec(n_references=2))
    >>> encoder.set_params(coupling__n_projections=20)
    MultiViewEncoder(coupling=HOTReferenceSpec(n_projections=20, n_references=2))
    """

    n_references: int | None = None
    cost_decay: float = 0.9

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.HOTReference`."""
        n_references = self.n_references
        if n_references is None:
            n_references = min(3, max(1, sizes.n_views // 2))
        return self._build(
            HOTReference,
            n_references=n_references,
            planner=self.planner,
            n_components=sizes.n_components,
            n_points=sizes.n_points,
            generator=sizes.generator,
        )


#: specifications of R_M by name
COUPLINGS: Mapping[str, type[CouplingSpec]] = MappingProxyType(CouplingSpec.built_in)

#: the specification of a coupling that is given by name or as a specification
as_coupling = CouplingSpec.resolve
