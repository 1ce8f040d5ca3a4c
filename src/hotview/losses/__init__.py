"""Losses of multi-view training: couplings of the views, R_M, and view regularizers, R_S.

A coupling is a module and its specification, in one file, and a line here.
"""

from hotview.losses.aligned import DGCCA, LSCCA, DGCCASpec, LSCCASpec
from hotview.losses.coupling import Coupling, NoCoupling, Planner, Terms
from hotview.losses.hierarchical import (
    HOTPairwise,
    HOTPairwiseSpec,
    HOTReference,
    HOTReferenceSpec,
)
from hotview.losses.sliced import SWPairwise, SWPairwiseSpec, SWReference, SWReferenceSpec
from hotview.losses.specifications import (
    CouplingSizes,
    CouplingSpec,
    NoCouplingSpec,
    RegularizerSpec,
    Specification,
)
from hotview.losses.view_regularizers import (
    AutoencoderSpec,
    DiffusionSpec,
    ManifoldSpec,
    NoRegularizerSpec,
    reconstruction_error,
    smoothness_penalty,
)

__all__ = [
    "DGCCA",
    "LSCCA",
    "AutoencoderSpec",
    "Coupling",
    "CouplingSizes",
    "CouplingSpec",
    "DGCCASpec",
    "DiffusionSpec",
    "HOTPairwise",
    "HOTPairwiseSpec",
    "HOTReference",
    "HOTReferenceSpec",
    "LSCCASpec",
    "ManifoldSpec",
    "NoCoupling",
    "NoCouplingSpec",
    "NoRegularizerSpec",
    "Planner",
    "RegularizerSpec",
    "SWPairwise",
    "SWPairwiseSpec",
    "SWReference",
    "SWReferenceSpec",
    "Specification",
    "Terms",
    "reconstruction_error",
    "smoothness_penalty",
]
