"""The command line. Nothing heavy is imported until a command runs."""

from hotview.cli.app import main

__all__ = ["main"]
