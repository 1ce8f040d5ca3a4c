"""Records: all data of a report on a fitted model, its own results, numbers and text."""

from hotview.evaluation.record.builder import make_record
from hotview.evaluation.record.schema import Record

__all__ = ["Record", "make_record"]
