"""The page on the paper: what it reports, what we found, and which of its claims hold."""

from paper.report.page import render_page, write_page

__all__ = ["render_page", "write_page"]
