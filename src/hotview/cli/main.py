"""``hotview``: what the commands are and what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotview.cli.evaluate import evaluate
from hotview.cli.export import export
from hotview.cli.federated import federated
from hotview.cli.fit import fit
from hotview.cli.inspect import inspect
from hotview.cli.options import Debug, Force
from hotview.cli.predict import predict, transform
from hotview.cli.report import report
from hotview.cli.runner import check_new_file, run_command

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
    epilog="Examples: [bold]hotview demo --figure plan.svg --model digits.hotview[/bold], "
    "[bold]hotview demo --files digits[/bold]",
)
def demo(
    figure: Annotated[
        Path, typer.Option(help="Where to save the heat map (png, svg or pdf).")
    ] = Path("hotview-demo.png"),
    model: Annotated[Path, typer.Option(help="Where to save the model (.hotview).")] = Path(
        "hotview-demo.hotview"
    ),
    files: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Only write the digits as files to try the other commands on.",
            show_default=False,
        ),
    ] = None,
    random_state: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed of the split and the training.")
    ] = 0,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Learn from six views of digits, 60 rows linked and labeled, all others not."""
    if files is not None:
        from hotview.cli.sample_files import write_sample_files

        written = write_sample_files(files, random_state, force=force)
        typer.echo(f"{len(written)} files written to {files}:")
        for path in written:
            typer.echo(f"  {path}")
        return
    from hotview.cli.demo import run_demo

    for path in (figure, model):
        check_new_file(path, force=force)
    run_demo(figure, model, random_state)


def _example(*lines: str) -> str:
    """An epilog; lines of it keep their own line in the terminal."""
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n\n".join([heading, *(f"[bold]{line}[/bold]" for line in lines)])


def _flow(text: str) -> str:
    """A docstring whose lines end where the terminal's do."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


_FILES = "hotview demo --files digits"
for _command, _lines in (
    (
        fit,
        (
            _FILES,
            "hotview fit digits/views/*.csv --labels digits/labels.csv --label-column digit "
            "--id-column id -o digits.hotview",
        ),
    ),
    (predict, ("hotview predict digits.hotview digits/new/*.csv -o predictions.csv",)),
    (transform, ("hotview transform digits.hotview digits/new/*.csv -o features",)),
    (
        evaluate,
        ("hotview evaluate digits.hotview digits/new/*.csv --labels digits/new-labels.csv",),
    ),
    (
        report,
        (
            "hotview report digits.hotview digits/new/*.csv --labels digits/new-labels.csv "
            "-o report.html",
        ),
    ),
    (inspect, ("hotview inspect digits.hotview",)),
    (export, ("hotview export digits.hotview --onnx digits.onnx",)),
):
    app.command(help=_flow(_command.__doc__ or ""), epilog=_example(*_lines))(_command)

app.add_typer(
    federated,
    name="federated",
    help="Train with other organizations: rows and features stay with whoever owns them.",
    epilog=_example(
        "hotview federated new study --sample",
        "hotview federated simulate study",
        "hotview federated join study/organizations/*/part.hotview -o joint.hotview",
    ),
)


def main() -> None:
    """Run a command; what goes wrong with the user's files or values is told in a line."""
    run_command(app)
