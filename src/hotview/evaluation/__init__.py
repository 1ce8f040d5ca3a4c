"""Metrics of classifiers, importance of views and columns, and baselines to compare them with."""

from hotview.evaluation.assessment import Assessment, assess
from hotview.evaluation.baselines import (
    ConcatenatedLabelPropagation,
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.importance import PermutationImportance, permutation_importance
from hotview.evaluation.metrics import expected_calibration_error

__all__ = [
    "Assessment",
    "ConcatenatedLabelPropagation",
    "ConcatenatedLogisticRegression",
    "PCALogisticRegression",
    "PerViewLabelPropagation",
    "PermutationImportance",
    "assess",
    "expected_calibration_error",
    "permutation_importance",
]
