"""What a report needs to know of a fitted model, as plain numbers and text."""

from hotview.evaluation.record.builder import make_record
from hotview.evaluation.record.schema import Record

__all__ = ["Record", "make_record"]
