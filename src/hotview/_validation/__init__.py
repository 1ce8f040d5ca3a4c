"""Validation of user input: parameters, views and labels.

Every error states what was expected, what was passed (and in which view), and what to do.
"""

from hotview._validation.containers import check_one_line, check_target
from hotview._validation.parameters import (
    Check,
    check_choice,
    check_count,
    check_positive,
    check_share,
    check_switch,
    check_values,
    check_weight,
)
from hotview._validation.tables import (
    EncodedView,
    ViewTable,
    check_aligned_tables,
    check_known_tables,
    check_tables,
    check_views,
    encoded_names,
)

__all__ = [
    "Check",
    "EncodedView",
    "ViewTable",
    "check_aligned_tables",
    "check_choice",
    "check_count",
    "check_known_tables",
    "check_one_line",
    "check_positive",
    "check_share",
    "check_switch",
    "check_tables",
    "check_target",
    "check_values",
    "check_views",
    "check_weight",
    "encoded_names",
]
