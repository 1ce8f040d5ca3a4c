"""What is known about the rows of all views: tables, links, labels and groups."""

from hotview.data.arrays import encoder_data, labeled_data, validation_data
from hotview.data.data import Data, TableRows, Targets, hold_out, make_folds, split_folds

__all__ = [
    "Data",
    "TableRows",
    "Targets",
    "encoder_data",
    "hold_out",
    "labeled_data",
    "make_folds",
    "split_folds",
    "validation_data",
]
