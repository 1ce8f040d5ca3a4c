"""HTML page of a record: everything in one file."""

from hotview.report.page.page import write_report

__all__ = ["write_report"]
