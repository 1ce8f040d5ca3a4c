"""``hotview predict`` and ``hotview transform``: what a model says about new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    Model,
    Views,
    by_view,
    written,
)
from hotview.cli.running import check_new_file, print_json, tell_notes

__all__ = ["predict", "transform"]


def predict(
    model: Model,
    views: Views,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Where to write (.csv or .parquet).", show_default=False),
    ],
    id_column: IdColumn = None,
    ids: IdFiles = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    device: Device = "auto",
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Predict the class of everybody who is in at least one of the views.

    The table has their ids, the most probable class, its probability, those of all classes, how
    much the networks disagree, and in how many views they are. Any views may be missing.
    """
    from hotview.cli.counting import RowsBar
    from hotview.cli.models import open_model
    from hotview.cli.tables import prediction_columns
    from hotview.cli.writing import check_table_path, write_table

    check_table_path(out)
    check_new_file(out, force=force)
    opened = open_model(
        model,
        device=device,
        id_column=id_column,
        text=written(header, delimiter, decimal),
    )
    opened.check_classifies()
    read = opened.read_people(views, by_view(ids, "--ids"))
    tell_notes(read.remarks)
    with RowsBar("predicting", len(read.people.ids)) as bar:
        columns = prediction_columns(opened, read.people, bar.advance)
    write_table(columns, out)
    predicted = columns["predicted"]
    counts = {str(c): int((predicted == c).sum()) for c in opened.estimator.classes_}
    if json:
        facts = {"out": str(out), "rows": len(read.people.ids), "predicted": counts}
        print_json({**facts, "views": list(read.people.views), "remarks": read.remarks})
        return
    typer.echo(f"{len(read.people.ids):,} rows written to {out}")
    typer.echo("Predicted: " + ", ".join(f"{name}: {n:,}" for name, n in counts.items()))


def transform(
    model: Model,
    views: Views,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder to write a table per view to.", show_default=False
        ),
    ],
    space: Annotated[
        str, typer.Option(help="features: each view's own; common: the space they share.")
    ] = "features",
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    id_column: IdColumn = None,
    ids: IdFiles = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    device: Device = "auto",
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Encode the rows of every view, in the order of its file, with their ids."""
    from hotview.cli.models import open_model
    from hotview.cli.running import UsageError
    from hotview.cli.tables import feature_columns
    from hotview.cli.writing import make_folder, write_table

    if space not in ("features", "common"):
        raise UsageError(f"Expected --space to be features or common, but it is {space!r}.")
    if format not in ("csv", "parquet"):
        raise UsageError(f"Expected --format to be csv or parquet, but it is {format!r}.")
    opened = open_model(
        model,
        device=device,
        id_column=id_column,
        text=written(header, delimiter, decimal),
    )
    rows = opened.read_rows(views, by_view(ids, "--ids"))
    tell_notes([remark for view in rows.values() for remark in view.remarks])
    tables = {name: feature_columns(opened, name, view, space) for name, view in rows.items()}
    paths = make_folder(out, [f"{name}.{format}" for name in rows], force=force)
    for path, table in zip(paths, tables.values(), strict=True):
        write_table(table, path)
    if json:
        print_json({"out": {name: str(p) for name, p in zip(rows, paths, strict=True)}})
        return
    for path, view in zip(paths, rows.values(), strict=True):
        typer.echo(f"{view.X.shape[0]:,} rows written to {path}")
