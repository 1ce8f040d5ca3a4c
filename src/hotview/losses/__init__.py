"""Losses of multi-view training: couplings of the views, R_M, and view regularizers, R_S."""

from hotview.losses.aligned import DGCCA, LSCCA
from hotview.losses.coupling import Coupling, NoCoupling, Terms
from hotview.losses.hierarchical import HOTPairwise, HOTReference, Planner
from hotview.losses.sliced import SWPairwise, SWReference
from hotview.losses.view_regularizers import reconstruction_error, smoothness_penalty

__all__ = [
    "DGCCA",
    "LSCCA",
    "Coupling",
    "HOTPairwise",
    "HOTReference",
    "NoCoupling",
    "Planner",
    "SWPairwise",
    "SWReference",
    "Terms",
    "reconstruction_error",
    "smoothness_penalty",
]
