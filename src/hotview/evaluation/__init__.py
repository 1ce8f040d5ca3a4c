"""Metrics of classifiers, and baselines to compare them with."""

from hotview.evaluation.assessment import Assessment, assess
from hotview.evaluation.baselines import (
    ConcatenatedLabelPropagation,
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.metrics import expected_calibration_error

__all__ = [
    "Assessment",
    "ConcatenatedLabelPropagation",
    "ConcatenatedLogisticRegression",
    "PCALogisticRegression",
    "PerViewLabelPropagation",
    "assess",
    "expected_calibration_error",
]
