"""What a model says about rows, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hotview.cli.models import OpenModel
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
from hotview.cli.runner import check_new_file, print_json, tell_notes
from hotview.ingest.preprocessing import AlignedRows, TableRows

__all__ = ["feature_columns", "predict", "prediction_columns", "transform"]


def prediction_columns(
    model: OpenModel, people: AlignedRows, tell: Callable[[int], object] = lambda n: None
) -> dict[str, Any]:
    """Predictions for individuals.

    Parameters
    ----------
    model : OpenModel
        A classifier.
    people : AlignedRows
        The individuals.
    tell : callable
        Called with the number of individuals of every part that is done.

    Returns
    -------
    dict of str to sequence
        Columns: ids, ``predicted``, ``probability``, ``probability_<class>`` for every class,
        ``disagreement`` and ``n_views``.
    """
    estimator = model.estimator
    P, disagreement = estimator._predict_both(people.views, tell)
    columns: dict[str, Any] = {}
    columns["predicted"] = estimator.classes_[P.argmax(axis=1)]
    columns["probability"] = P.max(axis=1)
    for j, name in enumerate(estimator.classes_.tolist()):
        columns[f"probability_{name}"] = P[:, j]
    if len(estimator.networks_) > 1:
        columns["disagreement"] = disagreement
    columns["n_views"] = np.sum(list(people.present.values()), axis=0)
    return {**_id_column(model, people.ids.tolist(), columns, known=people.has_ids), **columns}


def feature_columns(model: OpenModel, name: str, view: TableRows, space: str) -> dict[str, Any]:
    """Features of the rows of a view.

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
    return {**_id_column(model, ids, columns, known=view.ids is not None), **columns}


def _id_column(
    model: OpenModel, ids: list[Any], others: Collection[str], *, known: bool
) -> dict[str, list[Any]]:
    """Ids under the name they came with, or rows counted from 1."""
    name = (model.recipe.id_column or "row") if known else "row"
    if name in others:
        raise ValueError(
            f"The column of ids is called {name!r}, as is one of the result. Rename it in your "
            "files, and say so: --id-column."
        )
    return {name: ids}


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
    from hotview.cli.models import open_model
    from hotview.cli.output_files import check_table_path, write_table
    from hotview.cli.progress import RowsBar

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
    from hotview.cli.output_files import make_folder, write_table
    from hotview.cli.runner import UsageError

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
