"""All targets by name."""

from __future__ import annotations

from collections.abc import Mapping

from fuzz.campaign import Target
from fuzz.inputs import FitInputs, PredictInputs
from fuzz.interruptions import FullDisks, KilledFits
from fuzz.messages import ClientMessages, FederatedFiles, ServerMessages
from fuzz.models import Checkpoints, Models
from fuzz.tables import Tables

__all__ = ["TARGETS"]

TARGETS: Mapping[str, Target] = {
    "models": Models(),
    "checkpoints": Checkpoints(),
    "tables": Tables(),
    "client-messages": ClientMessages(),
    "server-messages": ServerMessages(),
    "federated-files": FederatedFiles(),
    "fit-inputs": FitInputs(),
    "predict-inputs": PredictInputs(),
    "killed-fits": KilledFits(),
    "full-disks": FullDisks(),
}
