"""Choosing models where X is several views, whose rows need not correspond."""

from hotview.model_selection.cross_validation import cross_validate
from hotview.model_selection.grid import GridSearch
from hotview.model_selection.optuna_search import OptunaSearch
from hotview.model_selection.row_splits import RowKFold, take_rows

__all__ = ["GridSearch", "OptunaSearch", "RowKFold", "cross_validate", "take_rows"]
