"""Cross-validation and parameter search where X is several views, aligned or not."""

from hotview.model_selection.optuna_search import OptunaSearch
from hotview.model_selection.row_splits import RowKFold, take_rows
from hotview.model_selection.search import GridSearch, cross_validate

__all__ = ["GridSearch", "OptunaSearch", "RowKFold", "cross_validate", "take_rows"]
