"""``hotview predict`` and ``hotview transform``: classes and features of rows, as tables."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotview._files import check_output_path
from hotview.cli import options
from hotview.cli.options import option
from hotview.cli.runner import as_usage, check_new_file, print_json, print_notes

if TYPE_CHECKING:
    from hotview.cli.models import OpenModel
    from hotview.ingest.preprocessing import AlignedRows, TableRows

__all__ = ["feature_columns", "predict", "prediction_columns", "transform"]


def prediction_columns(
    model: OpenModel, rows: AlignedRows, advance: Callable[[int], object] = lambda n: None
) -> dict[str, Any]:
    """Predict the class of aligned rows.

    Parameters
    ----------
    model : OpenModel
        A classifier.
    rows : AlignedRows
        The rows.
    advance : callable
        Called with the number of rows of every batch that is done.

    Returns
    -------
    dict of str to sequence
        Columns: ids, ``predicted``, ``probability``, ``probability_<class>`` for every class,
        ``disagreement`` and ``n_views``.
    """
    estimator = model.estimator
    P, disagreement = estimator._predict_both(rows.views, advance)
    columns: dict[str, Any] = {}
    columns["predicted"] = estimator.classes_[P.argmax(axis=1)]
    columns["probability"] = P.max(axis=1)
    for j, name in enumerate(estimator.classes_.tolist()):
        columns[f"probability_{name}"] = P[:, j]
    if len(estimator.networks_) > 1:
        columns["disagreement"] = disagreement
    columns["n_views"] = sum(present.astype(int) for present in rows.present.values())
    return {**_id_column(model, rows.ids.tolist(), columns, from_file=rows.has_ids), **columns}


def feature_columns(model: OpenModel, name: str, view: TableRows, space: str) -> dict[str, Any]:
    """Encode the rows of a view.

    Parameters
    ----------
    model : OpenModel
        The model.
    name : str
        The view.
    view : TableRows
        Its rows.
    space : {"features", "common"}
        Which features.

    Returns
    -------
    dict of str to sequence
        Columns: ids and features.
    """
    Z = model.estimator.transform_view(view.X, name, space)
    ids = view.ids if view.ids is not None else list(range(1, len(Z) + 1))
    columns = {f"{name}_{j}": Z[:, j] for j in range(Z.shape[1])}
    return {**_id_column(model, ids, columns, from_file=view.ids is not None), **columns}


def _id_column(
    model: OpenModel, ids: list[Any], others: Collection[str], *, from_file: bool
) -> dict[str, list[Any]]:
    """Return ids under their column's name, or row numbers."""
    name = (model.preprocessing.id_column or "row") if from_file else "row"
    if name in others:
        raise ValueError(
            f"The column of ids is called {name!r}, as is one of the result. Rename it in your "
            "files, and pass the new name as --id-column."
        )
    return {name: ids}


@options.with_file_options
def predict(
    model: options.Model,
    views: options.Views,
    out: Annotated[Path, option("Table to write (.csv or .parquet).", "--out", "-o")],
    id_column: options.IdColumn = None,
    ids: options.IdFiles = None,
    match_ids: options.MatchIds = None,
    text: options.FileFormats = None,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Predict the class of every individual that is in at least one of the views.

    The table has the id, the most probable class, its probability, the probabilities of all
    classes, the disagreement of the networks, and the number of views that have the id. Views may
    be missing.

    In csv files, text that begins with = + - or @ gets an apostrophe, so that spreadsheets do not
    run it; hotview reads it without.
    """
    from hotview.cli.models import open_model
    from hotview.cli.output_files import write_table
    from hotview.training.progress import ProgressBar

    check_output_path(out, (".csv", ".parquet"))
    check_new_file(out, force=force)
    opened = open_model(
        model,
        device=device,
        id_column=id_column,
        match_ids=match_ids,
        text=text,
        tables=options.files_by_view(ids).values(),
    )
    opened.check_classifies()
    given = opened.read_input(views, options.files_by_view(ids))
    rows = given.aligned
    print_notes(given.notes)
    with ProgressBar(len(rows.ids), description="predicting", delay=2.0, transient=True) as bar:
        columns = prediction_columns(opened, rows, bar.step)
    write_table(columns, out)
    predicted = columns["predicted"]
    counts = {str(c): int((predicted == c).sum()) for c in opened.estimator.classes_}
    if json:
        result = {"out": str(out), "rows": len(rows.ids), "predicted": counts}
        print_json({**result, "views": list(rows.views), "notes": given.notes})
        return
    typer.echo(f"{len(rows.ids):,} rows written to {out}")
    typer.echo("Predicted: " + ", ".join(f"{name}: {n:,}" for name, n in counts.items()))


@options.with_file_options
def transform(
    model: options.Model,
    views: options.Views,
    out: Annotated[Path, option("Folder to write a table per view to.", "--out", "-o")],
    space: Annotated[
        str, typer.Option(help="features: of each view; common: in the common space.")
    ] = "features",
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    id_column: options.IdColumn = None,
    ids: options.IdFiles = None,
    text: options.FileFormats = None,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Encode the rows of every view, in the order of its file, with their ids.

    In csv files, text that begins with = + - or @ gets an apostrophe, so that spreadsheets do not
    run it; hotview reads it without.
    """
    from hotview._validation import check_choice

    with as_usage():
        check_choice("--space", space, ("features", "common"))
        check_choice("--format", format, ("csv", "parquet"))
    from hotview.cli.models import open_model
    from hotview.cli.output_files import make_folder, write_table

    opened = open_model(
        model,
        device=device,
        id_column=id_column,
        text=text,
        tables=options.files_by_view(ids).values(),
    )
    rows = opened.read_rows(views, options.files_by_view(ids))
    print_notes(note for view in rows.values() for note in view.notes)
    tables = {name: feature_columns(opened, name, view, space) for name, view in rows.items()}
    paths = make_folder(out, [f"{name}.{format}" for name in rows], force=force)
    for path, table in zip(paths, tables.values(), strict=True):
        write_table(table, path)
    if json:
        print_json({"out": {name: str(p) for name, p in zip(rows, paths, strict=True)}})
        return
    for path, view in zip(paths, rows.values(), strict=True):
        typer.echo(f"{view.X.shape[0]:,} rows written to {path}")
