"""A page about one model: everything in one HTML file."""

from hotview.report.page.page import write_report

__all__ = ["write_report"]
