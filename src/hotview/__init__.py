"""Multi-view learning without correspondence, by hierarchical optimal transport.

``MultiViewEncoder`` and ``MultiViewClassifier`` are the estimators, ``HOTReferenceSpec`` and other
specifications the settings of their losses, ``hotview.losses`` these losses for one's own training
loop, ``hotview.ot`` the transport core, ``hotview.similarity`` what views share by linked rows,
``hotview.datasets`` the data. Each is imported when it is first used, so that ``import hotview``
and ``hotview --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotview import datasets as datasets
    from hotview import estimators as estimators
    from hotview import evaluation as evaluation
    from hotview import federated as federated
    from hotview import losses as losses
    from hotview import model as model
    from hotview import model_selection as model_selection
    from hotview import omics as omics
    from hotview import ot as ot
    from hotview import similarity as similarity
    from hotview.datasets import from_frames as from_frames
    from hotview.estimators import MultiViewClassifier, MultiViewEncoder, StackedViews
    from hotview.losses.coupling_specs import DGCCASpec as DGCCASpec
    from hotview.losses.coupling_specs import HOTPairwiseSpec as HOTPairwiseSpec
    from hotview.losses.coupling_specs import HOTReferenceSpec as HOTReferenceSpec
    from hotview.losses.coupling_specs import LSCCASpec as LSCCASpec
    from hotview.losses.coupling_specs import NoCouplingSpec as NoCouplingSpec
    from hotview.losses.coupling_specs import SWPairwiseSpec as SWPairwiseSpec
    from hotview.losses.coupling_specs import SWReferenceSpec as SWReferenceSpec
    from hotview.losses.specifications import AutoencoderSpec as AutoencoderSpec
    from hotview.losses.specifications import CouplingSizes as CouplingSizes
    from hotview.losses.specifications import CouplingSpec as CouplingSpec
    from hotview.losses.specifications import DiffusionSpec as DiffusionSpec
    from hotview.losses.specifications import ManifoldSpec as ManifoldSpec
    from hotview.losses.specifications import NoRegularizerSpec as NoRegularizerSpec
    from hotview.losses.specifications import RegularizerSpec as RegularizerSpec
    from hotview.model import load_model as load
    from hotview.model import save_model as save

__version__ = "0.1.0.dev0"

__all__ = [
    "AutoencoderSpec",
    "CouplingSizes",
    "CouplingSpec",
    "DGCCASpec",
    "DiffusionSpec",
    "HOTPairwiseSpec",
    "HOTReferenceSpec",
    "LSCCASpec",
    "ManifoldSpec",
    "MultiViewClassifier",
    "MultiViewEncoder",
    "NoCouplingSpec",
    "NoRegularizerSpec",
    "RegularizerSpec",
    "SWPairwiseSpec",
    "SWReferenceSpec",
    "StackedViews",
    "__version__",
    "datasets",
    "estimators",
    "evaluation",
    "federated",
    "from_frames",
    "load",
    "losses",
    "model",
    "model_selection",
    "omics",
    "ot",
    "save",
    "similarity",
]


_OBJECTS = {
    "from_frames": "hotview.datasets",
    "MultiViewClassifier": "hotview.estimators",
    "MultiViewEncoder": "hotview.estimators",
    "StackedViews": "hotview.estimators",
    **dict.fromkeys(
        (
            *("DGCCASpec", "HOTPairwiseSpec", "HOTReferenceSpec", "LSCCASpec", "NoCouplingSpec"),
            *("SWPairwiseSpec", "SWReferenceSpec"),
        ),
        "hotview.losses.coupling_specs",
    ),
    **dict.fromkeys(
        (
            *("AutoencoderSpec", "CouplingSizes", "CouplingSpec", "DiffusionSpec", "ManifoldSpec"),
            *("NoRegularizerSpec", "RegularizerSpec"),
        ),
        "hotview.losses.specifications",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hotview' has no attribute {name!r}")
    if name in ("load", "save"):
        return getattr(import_module("hotview.model.files"), f"{name}_model")
    if name in _OBJECTS:
        return getattr(import_module(_OBJECTS[name]), name)
    return import_module(f"hotview.{name}")


def __dir__() -> list[str]:
    return __all__
