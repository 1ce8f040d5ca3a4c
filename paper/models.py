"""The settings and the models of Luo, Xu and Carin (2020), and what ours add, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

__all__ = [
    "CONTROLS",
    "DEFAULT",
    "MODELS",
    "PLAIN",
    "ROBUST",
    "SETTINGS",
    "TRAINED",
    "UNCOUPLED",
    "PaperModel",
]

#: Parameters of the estimators that give the paper's literal objective, with settings of their
#: specifications as in ``set_params``; the classifier needs `PLAIN` and ``head_weight=0``, too.
#: `paper.estimators.constructor_parameters` makes the constructor's parameters of them.
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "encoder_dim": 20,
        "n_components": 10,
        "initialization": "random",
        "coupling__n_references": 3,
        "coupling__n_projections": 3,
        "coupling__projections": "iid",
        "coupling__weight": 0.1,
        "view_regularizer__weight": 0.01,
        "coupling__orthogonality_weight": 0.01,
        "coupling__reg": 0.1,
        "coupling__sinkhorn_max_iter": 20,
        "coupling__cost_decay": 0.0,
        "coupling__reduction": "sum",
        "max_epochs": 100,
        "batch_size": 400,
        "learning_rate": 0.001,
    }
)

#: What turns our classifier into a plain network: rows of the paper's tables are these.
PLAIN: Mapping[str, Any] = MappingProxyType(
    {
        "pseudo_labels": False,
        "fusion": "average",
        "n_estimators": 1,
        "max_epochs": 100,
        "batch_size": 400,
        "learning_rate": 0.001,
    }
)

#: Our robust settings for what the paper varies, by task, so that a point of a figure that changes
#: nothing is known to be a cell of a table.
ROBUST: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        task: MappingProxyType(
            {
                "coupling__n_references": 3,
                "coupling__n_projections": 50,
                "coupling__weight": 0.1,
                "view_regularizer__weight": regularizer_weight,
                "coupling__orthogonality_weight": 0.01,
                "batch_size": 400,
            }
        )
        for task, regularizer_weight in (("semi-supervised", 1.0), ("unsupervised", 0.01))
    }
)


@dataclass(frozen=True)
class PaperModel:
    """One row of the paper's tables.

    Parameters
    ----------
    name : str
        What the paper calls it.
    coupling : str
        R_M.
    view_regularizer : str
        R_S.

    Examples
    --------
    >>> from paper.models import MODELS
    >>> MODELS[-1]
    PaperModel(name='HOT (11) + AE', coupling='hot-reference', view_regularizer='autoencoder')
    """

    name: str
    coupling: str
    view_regularizer: str


#: The rows of the paper's tables, in its order.
MODELS = (
    PaperModel("LSCCA", "lscca", "none"),
    PaperModel("DGCCA", "dgcca", "none"),
    PaperModel("AECCA", "lscca", "autoencoder"),
    PaperModel("SW (8)", "sw-pairwise", "none"),
    PaperModel("SW (9)", "sw-reference", "none"),
    PaperModel("HOT (10)", "hot-pairwise", "none"),
    PaperModel("HOT (11)", "hot-reference", "none"),
    PaperModel("SW (8) + AE", "sw-pairwise", "autoencoder"),
    PaperModel("SW (9) + AE", "sw-reference", "autoencoder"),
    PaperModel("HOT (10) + AE", "hot-pairwise", "autoencoder"),
    PaperModel("HOT (11) + AE", "hot-reference", "autoencoder"),
)

#: The control that the paper leaves out, with and without the autoencoders.
UNCOUPLED = (
    PaperModel("no coupling", "none", "none"),
    PaperModel("no coupling + AE", "none", "autoencoder"),
)

#: All rows that train networks with a coupling and a view regularizer of their own, by name.
TRAINED: Mapping[str, PaperModel] = MappingProxyType({m.name: m for m in (*MODELS, *UNCOUPLED)})

#: Our classifier as it is.
DEFAULT = "hotview default"

#: Plain methods of scikit-learn, which train no networks and have neither task nor settings.
CONTROLS = (
    "logistic regression",
    "PCA + logistic regression",
    "label propagation per view",
    "label propagation, aligned",
    "logistic regression, all labels",
)
