"""A page about one model: everything in one HTML file."""

from hotview.report.page.writing import write_report

__all__ = ["write_report"]
