"""What a fit is given, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview._validation import Table
from hotview.estimators.gathering import Source
from hotview.estimators.inference import Fusion
from hotview.estimators.judging import Judge
from hotview.estimators.labels import Labels
from hotview.estimators.pooling import Held
from hotview.losses import Coupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.columns import Columns
from hotview.training.history import History
from hotview.training.planning import ViewPlan

__all__ = ["Fitted", "Task", "Validation"]


@dataclass(frozen=True)
class Validation:
    """Aligned rows whose score is recorded after every epoch.

    Parameters
    ----------
    tables : dict of str to Table
        Some or all views.
    target : ndarray of int64
        The true classes; −1 for a class that training does not know.
    rows : ndarray of int64 or None, default=None
        Which rows of the tables; None takes all.
    """

    tables: Mapping[str, Table]
    target: IntArray
    rows: IntArray | None = None


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves behind."""

    network: MultiViewNetwork
    coupling: Coupling
    columns: dict[str, Columns]
    history: History
    plan: ViewPlan | None
    batch_size: int
    fusion: Fusion | None
    judge: Judge | None = None
    held: Held | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One fit: checked tables, labels and parameters.

    Parameters
    ----------
    source : Source
        The user's tables.
    labels : Labels or None
        Classes of the rows; None trains encoders alone.
    parameters : dict of str to object
        The estimator's parameters.
    weigh_classes : callable
        Weights of the classes, from the labels that are learned from.
    validation : Validation or None
        Rows to score after every epoch.
    held : ndarray of int64
        Linked rows whose labels this fit does not see, and judges in the end.
    replica : int, default=0
        Which of several fits of one estimator it is.
    """

    source: Source
    labels: Labels | None
    parameters: Mapping[str, Any]
    weigh_classes: Callable[[Labels], Array | None] = lambda labels: None
    validation: Validation | None = None
    held: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    replica: int = 0
