"""The command line. Heavy modules are imported only when a command runs."""

from hotview.cli.main import main

__all__ = ["main"]
