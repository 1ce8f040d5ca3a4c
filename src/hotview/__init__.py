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
    from hotview.losses import AutoencoderSpec as AutoencoderSpec
    from hotview.losses import CouplingSizes as CouplingSizes
    from hotview.losses import CouplingSpec as CouplingSpec
    from hotview.losses import DGCCASpec as DGCCASpec
    from hotview.losses import DiffusionSpec as DiffusionSpec
    from hotview.losses import HOTPairwiseSpec as HOTPairwiseSpec
    from hotview.losses import HOTReferenceSpec as HOTReferenceSpec
    from hotview.losses import LSCCASpec as LSCCASpec
    from hotview.losses import ManifoldSpec as ManifoldSpec
    from hotview.losses import NoCouplingSpec as NoCouplingSpec
    from hotview.losses import NoRegularizerSpec as NoRegularizerSpec
    from hotview.losses import RegularizerSpec as RegularizerSpec
    from hotview.losses import SWPairwiseSpec as SWPairwiseSpec
    from hotview.losses import SWReferenceSpec as SWReferenceSpec
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
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hotview' has no attribute {name!r}")
    if name in ("load", "save"):
        return getattr(import_module("hotview.model.files"), f"{name}_model")
    if name in _OBJECTS or name[0].isupper():  # a specification
        return getattr(import_module(_OBJECTS.get(name, "hotview.losses")), name)
    return import_module(f"hotview.{name}")


def __dir__() -> list[str]:
    return __all__
