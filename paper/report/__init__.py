"""The page about the paper: its results, ours, and which of its claims hold."""

from paper.report.page import render_page, write_page

__all__ = ["render_page", "write_page"]
