"""Multi-view learning without correspondence, by hierarchical optimal transport.

``MultiViewEncoder`` and ``MultiViewClassifier`` are the estimators, ``hotview.losses`` their losses
for one's own training loop, ``hotview.ot`` the transport core, ``hotview.datasets`` the data. Each
is imported when it is first used, so that ``import hotview`` and ``hotview --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotview import datasets as datasets
    from hotview import estimators as estimators
    from hotview import evaluation as evaluation
    from hotview import export as export
    from hotview import federated as federated
    from hotview import losses as losses
    from hotview import model_selection as model_selection
    from hotview import omics as omics
    from hotview import ot as ot
    from hotview import tracking as tracking
    from hotview.estimators import MultiViewClassifier as MultiViewClassifier
    from hotview.estimators import MultiViewEncoder as MultiViewEncoder
    from hotview.estimators import StackedViews as StackedViews
    from hotview.persistence import load_model as load
    from hotview.persistence import save_model as save

__version__ = "0.1.0.dev0"

__all__ = [
    "MultiViewClassifier",
    "MultiViewEncoder",
    "StackedViews",
    "__version__",
    "datasets",
    "estimators",
    "evaluation",
    "export",
    "federated",
    "load",
    "losses",
    "model_selection",
    "omics",
    "ot",
    "save",
    "tracking",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hotview' has no attribute {name!r}")
    if name in ("load", "save"):
        return getattr(import_module("hotview.persistence"), f"{name}_model")
    if name[0].isupper():
        return getattr(import_module("hotview.estimators"), name)
    return import_module(f"hotview.{name}")


def __dir__() -> list[str]:
    return __all__
