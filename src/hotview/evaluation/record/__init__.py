"""What a report needs to know of a fitted model, as plain numbers and text."""

from hotview.evaluation.record.contents import Record
from hotview.evaluation.record.making import make_record

__all__ = ["Record", "make_record"]
