"""The command line. Nothing heavy is imported until a command runs."""

from hotview.cli.main import main

__all__ = ["main"]
