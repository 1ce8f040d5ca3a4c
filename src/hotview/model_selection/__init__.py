"""Cross-validation and parameter search where X is several views, aligned or not."""

from hotview.model_selection.cross_validation import cross_validate
from hotview.model_selection.rows import RowKFold, take_rows
from hotview.model_selection.search import GridSearch, OptunaSearch

__all__ = ["GridSearch", "OptunaSearch", "RowKFold", "cross_validate", "take_rows"]
