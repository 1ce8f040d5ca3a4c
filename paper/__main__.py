"""``python -m paper``: run the paper's evaluation, and write the page about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hotview.cli.runner import check_new_file, run_command
from paper.command import Options, check_options, run_experiments
from paper.report import write_page

app = typer.Typer(
    help="The evaluation of Luo, Xu and Carin (2020), run again.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.command(
    epilog="Examples: [bold]python -m paper run table2 --dataset handwritten[/bold], "
    "[bold]python -m paper run --data folder/with/caltech --jobs 8[/bold]. Stopped or run again, "
    "it goes on where it was.",
)
def run(
    experiment: Annotated[
        list[str] | None,
        typer.Argument(
            help="table2, averaged, table3, table4, figure2, figure3, figure4, figure5, claims, "
            "synthetic; several of them, or all.",
            show_default="all",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="handwritten, caltech7, caltech20, msrc or synthetic; can be given several times. "
            "Default: all that are found.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, max=999, help="Splits, one training each.")] = 20,
    device: Annotated[str, typer.Option(help="Where to train: auto, cpu, cuda, …")] = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes. Default: one per core; on a GPU they take turns.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder (or file) with Caltech101-7.mat, Caltech101-20.mat, "
            "caltech101_reextracted.npz, msrc_v1.npz.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    again: Annotated[bool, typer.Option("--again", help="Run finished trials again, too.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            help="paper or robust; can be given several times. Default: both.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the paper's evaluation, with the controls it leaves out."""
    options = Options(
        tuple(experiment or ("all",)),
        tuple(dataset or ()),
        trials,
        device,
        jobs,
        data,
        out,
        again,
        tuple(settings or ()),
    )
    try:
        check_options(options)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    raise typer.Exit(run_experiments(options))


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="Folder of the result files.")] = Path(
        "results/paper"
    ),
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path(
        "docs/reproduction.md"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write the page about the paper's evaluation from its result files."""
    check_new_file(out, force=force)
    write_page(results, out)
    typer.echo(f"Page written to {out}")


if __name__ == "__main__":
    run_command(app)
