"""``hotview report``: a page about a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hotview.cli.evaluate import LabelColumn, LabelTable
from hotview.cli.options import (
    Debug,
    Decimal,
    Delimiter,
    Device,
    Force,
    Header,
    IdColumn,
    IdFiles,
    Json,
    by_view,
    written,
)
from hotview.cli.runner import UsageError, check_new_file, print_json, tell_notes

__all__ = ["report"]


def report(
    model: Annotated[
        Path | None,
        typer.Argument(
            metavar="MODEL",
            help="A model that was saved (.hotview).",
            show_default=False,
        ),
    ] = None,
    views: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[VIEW...]",
            help="Tables to show the model's work on, as name=file or files.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write the page (.html).", show_default=False),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="VIEW", help="The same as VIEW, as an option.", show_default=False),
    ] = None,
    labels: LabelTable = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
    ids: IdFiles = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    baselines: Annotated[
        bool, typer.Option(help="Train simple methods on the same rows, to compare.")
    ] = True,
    umap: Annotated[
        bool, typer.Option(help="Lay the common space out by UMAP too, where it is installed.")
    ] = True,
    device: Device = "auto",
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a page that explains a model: one HTML file, to be opened from disk.

    With tables it also shows how good the model is, what every view adds, and the space that the
    views share.
    """
    if model is None:
        raise UsageError("Say which model, as in hotview report model.hotview -o report.html.")
    if out is None:
        raise UsageError("Say where to write the page, as in -o report.html.")
    from hotview._files import check_output_path
    from hotview.cli.models import open_model
    from hotview.evaluation.record import make_record
    from hotview.report.page import write_report

    check_output_path(out, (".html",))
    check_new_file(out, force=force)
    opened = open_model(
        model,
        device=device,
        id_column=id_column,
        label_column=label_column,
        text=written(header, delimiter, decimal),
    )
    specs = [*(views or ()), *(data or ())]
    arguments: dict[str, Any] = {}
    remarks: list[str] = []
    if specs:
        arguments, remarks = _rows(opened, specs, labels, by_view(ids, "--ids"), baselines)
    tell_notes(remarks)
    record = make_record(opened.estimator, **arguments, umap=umap, verbose=sys.stderr.isatty())
    write_report(record, out)
    if json:
        print_json({"out": str(out), "bytes": out.stat().st_size, "remarks": remarks})
        return
    typer.echo(f"Page written to {out} ({out.stat().st_size / 1e3:.0f} kB): open it in a browser.")


def _rows(
    opened: Any, specs: list[str], labels: str | None, id_files: dict[str, str], baselines: bool
) -> tuple[dict[str, Any], list[str]]:
    """Rows to look at, and those of the fit, as `make_record` takes them."""
    from hotview.cli.evaluation_data import read_judged, training_study
    from hotview.estimators import MultiViewClassifier

    if not isinstance(opened.estimator, MultiViewClassifier):
        rows = opened.read_rows(specs, id_files)
        known = {name: view.ids for name, view in rows.items() if view.ids is not None}
        remarks = [remark for view in rows.values() for remark in view.remarks]
        views = {name: view.X for name, view in rows.items()}
        return {"views": views, "ids": known or None}, remarks
    judged = read_judged(opened, specs, labels, id_files)
    arguments = {"views": judged.views, "y": judged.target, "seen": judged.seen}
    arguments["ids"] = judged.ids.tolist()
    remarks = list(judged.remarks)
    if baselines and judged.target is not None:
        study = training_study(opened)
        if study is None or len(study.ids) == 0:
            remarks.append(
                "Simple methods are not compared: the files of the fit are not where they were, or "
                "no row of them is linked."
            )
        else:
            arguments["training"] = {
                "Xs": study.linked,
                "y": study.target,
                "unaligned": study.unaligned or None,
                "unaligned_y": study.unaligned_target or None,
            }
    return arguments, remarks
