"""Evaluation: the plain methods that every table of ours must carry."""

from hotview.evaluation.baselines import (
    ConcatenatedLabelPropagation,
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)

__all__ = [
    "ConcatenatedLabelPropagation",
    "ConcatenatedLogisticRegression",
    "PCALogisticRegression",
    "PerViewLabelPropagation",
]
