"""Evaluation: choosing and judging models, and the plain methods that every table must carry."""

from hotview.evaluation.baselines import (
    ConcatenatedLabelPropagation,
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.metrics import expected_calibration_error
from hotview.evaluation.model_selection import GridSearch, cross_validate
from hotview.evaluation.splitting import RowKFold, take_rows

__all__ = [
    "ConcatenatedLabelPropagation",
    "ConcatenatedLogisticRegression",
    "GridSearch",
    "PCALogisticRegression",
    "PerViewLabelPropagation",
    "RowKFold",
    "cross_validate",
    "expected_calibration_error",
    "take_rows",
]
