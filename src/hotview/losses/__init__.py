"""Losses for anyone's own training loop: what couples views, and what keeps each view itself."""

from hotview.losses.aligned import DGCCA, LSCCA
from hotview.losses.coupling import Coupling, NoCoupling, Terms
from hotview.losses.hierarchical import HOTPairwise, HOTReference, Planner
from hotview.losses.sliced import SWPairwise, SWReference
from hotview.losses.view_regularizers import reconstruction_error, roughness

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
    "roughness",
]
