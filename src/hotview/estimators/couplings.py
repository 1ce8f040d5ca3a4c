"""Couplings by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hotview.losses import (
    DGCCA,
    LSCCA,
    Coupling,
    HOTPairwise,
    HOTReference,
    NoCoupling,
    Planner,
    SWPairwise,
    SWReference,
)

__all__ = ["COUPLINGS", "CouplingSettings", "make_coupling"]


@dataclass(frozen=True)
class CouplingSettings:
    """Everything that any coupling may want to know."""

    n_components: int
    n_references: int
    n_points: int
    n_projections: int
    projections: str
    orthogonality_weight: float
    reduction: str
    planner: Planner
    generator: torch.Generator


def _sliced(s: CouplingSettings) -> dict[str, Any]:
    return {
        "n_projections": s.n_projections,
        "projections": s.projections,
        "reduction": s.reduction,
    }


def _references(s: CouplingSettings) -> dict[str, Any]:
    return {**_sliced(s), "n_points": s.n_points, "generator": s.generator}


#: R_M by name
COUPLINGS: dict[str, Callable[[CouplingSettings], Coupling]] = {
    "none": lambda s: NoCoupling(),
    "lscca": lambda s: LSCCA(s.orthogonality_weight, reduction=s.reduction),
    "dgcca": lambda s: DGCCA(reduction=s.reduction),
    "sw-pairwise": lambda s: SWPairwise(s.orthogonality_weight, **_sliced(s)),
    "sw-reference": lambda s: SWReference(s.n_components, s.orthogonality_weight, **_references(s)),
    "hot-pairwise": lambda s: HOTPairwise(s.orthogonality_weight, s.planner, **_sliced(s)),
    "hot-reference": lambda s: HOTReference(
        s.n_components, s.n_references, s.orthogonality_weight, s.planner, **_references(s)
    ),
}


def make_coupling(name: str, settings: CouplingSettings) -> Coupling:
    """Make a coupling, `name` being one of `COUPLINGS`."""
    return COUPLINGS[name](settings)
