"""The command line: commands, their help and examples. Heavy modules are imported by a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from hotview.cli import evaluate, federated, fit, inspect, options, predict
from hotview.cli.options import flag, option
from hotview.cli.runner import check_new_file, print_parts, run_command

app = typer.Typer(
    help="Multi-view learning without correspondence, by hierarchical optimal transport.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _print_version(version: bool) -> None:
    if version:
        from hotview import __version__

        typer.echo(f"hotview {__version__}")
        raise typer.Exit


@app.callback()
def _hotview(
    version: Annotated[
        bool, flag("--version", "Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _demo(
    figure: Annotated[
        Path, typer.Option(help="Where to save the heat maps (png, svg or pdf).")
    ] = Path("hotview-demo.png"),
    model: Annotated[Path, typer.Option(help="Where to save the model (.hotview).")] = Path(
        "hotview-demo.hotview"
    ),
    files: Annotated[
        Path | None,
        option("Only write the digits as files for the other commands.", metavar="FOLDER"),
    ] = None,
    random_state: options.RandomState = 0,
    force: options.Force = False,
) -> None:
    """Train on six views of digits, 60 rows linked and labeled, all others not."""
    if files is not None:
        from hotview.cli.demo import write_sample_files

        written = write_sample_files(files, random_state, force=force)
        print_parts(f"{len(written)} files written to {files}:", *(f"  {path}" for path in written))
        return
    check_new_file(figure, ".pdf", ".png", ".svg", force=force)
    check_new_file(model, ".hotview", force=force)
    from hotview.cli.demo import run_demo

    run_demo(figure, model, random_state)


def _examples(*lines: str) -> str:
    """Return an epilog in which every example keeps its own line."""
    heading = "Example:" if len(lines) == 1 else "Examples:"
    return "\n\n".join([heading, *(f"[bold]hotview {line}[/bold]" for line in lines)])


_NEW = "digits.hotview digits/new/*.csv"
_LABELS = "--labels digits/new-labels.csv"
_EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    _demo: ("demo --figure plan.svg --model digits.hotview", "demo --files digits"),
    fit.fit: (
        "demo --files digits",
        "fit digits/views/*.csv --labels digits/labels.csv --label-column digit --id-column id "
        "-o digits.hotview",
    ),
    predict.predict: (f"predict {_NEW} -o predictions.csv",),
    predict.transform: (f"transform {_NEW} -o features",),
    evaluate.evaluate: (f"evaluate {_NEW} {_LABELS}",),
    evaluate.report: (f"report {_NEW} {_LABELS} -o report.html",),
    inspect.inspect: ("inspect digits.hotview",),
    inspect.export: ("export digits.hotview --onnx digits.onnx",),
}
for _command, _lines in _EXAMPLES.items():
    # Paragraphs without line breaks, so that the terminal wraps them.
    _help = "\n\n".join(" ".join(part.split()) for part in (_command.__doc__ or "").split("\n\n"))
    app.command(_command.__name__.strip("_"), help=_help, epilog=_examples(*_lines))(
        options.expand(_command)
    )

app.add_typer(
    federated.federated,
    name="federated",
    help="Train with other organizations: rows and features stay with whoever owns them.",
    epilog=_examples(
        "federated new study --sample",
        "federated simulate study",
        "federated join study/organizations/*/part.hotview -o joint.hotview",
    ),
)


def main() -> None:
    """Run a command; errors about the user's files or values are printed in a line."""
    run_command(app)
