"""``hotview``: what the commands are and what they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app", "main"]

app = typer.Typer(
    help="Multi-view learning without correspondence, by hierarchical optimal transport.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(asked: bool) -> None:
    if asked:
        from hotview import __version__

        typer.echo(f"hotview {__version__}")
        raise typer.Exit


@app.callback()
def _hotview(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    pass


@app.command(
    epilog="Example: [bold]hotview demo --figure plan.svg --model digits.hotview[/bold]",
)
def demo(
    figure: Annotated[
        Path, typer.Option(help="Where to save the heat map (png, svg or pdf).")
    ] = Path("hotview-demo.png"),
    model: Annotated[Path, typer.Option(help="Where to save the model (.hotview).")] = Path(
        "hotview-demo.hotview"
    ),
    random_state: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed of the split and the training.")
    ] = 0,
) -> None:
    """Learn from six views of digits, 60 rows linked and labeled, all others not."""
    from hotview.cli.demo import run_demo

    run_demo(figure, model, random_state)


def main() -> None:
    """Run a command; what goes wrong with the user's files or values is told in a line."""
    try:
        app()
    except (OSError, ValueError) as error:
        print(f"hotview: {error}", file=sys.stderr)
        sys.exit(1)
