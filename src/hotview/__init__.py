"""Multi-view learning without correspondence, by hierarchical optimal transport.

``hotview.ot`` is the transport core, ``hotview.datasets`` the data. Each is imported when it is
first used, so that ``import hotview`` and ``hotview --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotview import datasets as datasets
    from hotview import ot as ot

__version__ = "0.1.0.dev0"

__all__ = ["__version__", "datasets", "ot"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"hotview.{name}")
    raise AttributeError(f"module 'hotview' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
