"""``hotview report``: an HTML page about a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotview.cli import options
from hotview.cli.options import option
from hotview.cli.runner import check_new_file, print_notes, print_result

if TYPE_CHECKING:
    from hotview.cli.models import OpenModel

__all__ = ["report"]


@options.with_file_options
def report(
    model: options.Model,
    out: Annotated[Path, option("Page to write (.html).", "--out", "-o")],
    views: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VIEW...]",
            help="Tables to evaluate the model on, as name=file or files.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None, option("The same as VIEW, as an option.", metavar="VIEW")
    ] = None,
    labels: options.Labels = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    ids: options.IdFiles = None,
    match_ids: options.MatchIds = None,
    text: options.FileFormats = None,
    baselines: options.Baselines = True,
    positive: options.Positive = None,
    cost: options.Cost = None,
    threshold: options.Threshold = None,
    umap: Annotated[
        bool, typer.Option(help="Embed the common space by UMAP too, if it is installed.")
    ] = True,
    importance: Annotated[
        bool, typer.Option(help="Measure which views and columns the predictions rely on.")
    ] = True,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Write a page that explains a model: one HTML file, to be opened from disk.

    With tables, it also shows the metrics of the model, the contribution of every view, the columns
    that predictions rely on, and the common space.
    """
    from hotview._files import check_output_path
    from hotview.cli.models import open_model
    from hotview.evaluation.record import make_record
    from hotview.report.page import write_report

    check_output_path(out, (".html",))
    check_new_file(out, force=force)
    columns = {"id_column": id_column, "label_column": label_column}
    specs, id_files = [*(views or ()), *(data or ())], options.files_by_view(ids)
    tables = (*id_files.values(), labels)
    opened = open_model(
        model, device=device, **columns, match_ids=match_ids, text=text, tables=tables
    )
    arguments: dict[str, Any] = {}
    notes: list[str] = []
    if specs and hasattr(opened.estimator, "classes_"):
        arguments, notes = _evaluation_arguments(opened, specs, labels, id_files, baselines)
        limit = options.parse_threshold(threshold)
        arguments |= {"positive": positive, "cost": cost, "threshold": limit}
    elif specs:
        rows = opened.read_rows(specs, id_files)
        ids_by_view = {name: view.ids for name, view in rows.items() if view.ids is not None}
        arguments = {"views": {n: view.X for n, view in rows.items()}, "ids": ids_by_view or None}
        notes = [note for view in rows.values() for note in view.notes]
        drift = opened.check_drift(arguments["views"])
        notes += drift.summary() if drift else ()
    print_notes(notes)
    arguments |= {"umap": umap, "importance": importance, "verbose": sys.stderr.isatty()}
    record = make_record(opened.estimator, **arguments)
    write_report(record, out)
    size = out.stat().st_size
    line = f"Page written to {out} ({size / 1e3:.0f} kB): open it in a browser."
    print_result({"out": str(out), "bytes": size, "notes": notes}, line, as_json=json)


def _evaluation_arguments(
    opened: OpenModel,
    specs: list[str],
    labels: str | None,
    id_files: dict[str, str],
    baselines: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Return evaluation rows and training rows as arguments of `make_record`, and notes."""
    from hotview.cli.models import read_evaluation_rows, read_training

    rows = read_evaluation_rows(opened, specs, labels, id_files)
    arguments = {"views": rows.views, "y": rows.target, "seen": rows.seen}
    arguments |= {"ids": rows.ids.tolist(), "groups": rows.groups}
    if not baselines or rows.target is None:
        return arguments, rows.notes
    arguments["training"], notes = read_training(opened)
    return arguments, [*rows.notes, *notes]
