"""``hotview predict`` and ``hotview transform``: classes and features of rows, as tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotview._files import check_output_path
from hotview.cli import options
from hotview.cli.options import option
from hotview.cli.runner import as_usage, check_new_file, print_notes, print_result

if TYPE_CHECKING:
    from hotview.cli.models import OpenModel
    from hotview.ingest.preprocessing import AlignedRows, TableRows

__all__ = ["feature_columns", "predict", "prediction_columns", "transform"]


def prediction_columns(
    model: OpenModel,
    rows: AlignedRows,
    advance: Callable[[int], object] = lambda n: None,
    *,
    alpha: float | None = None,
    abstain_below: float | None = None,
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
    alpha : float or None, default=None
        Share of rows whose prediction set may miss the true class; None makes no sets.
    abstain_below : float or None, default=None
        Probability of the most probable class below which no class is predicted; None predicts
        one for every row.

    Returns
    -------
    dict of str to sequence
        Columns: ids, ``predicted``, ``abstained`` if asked for, ``probability``,
        ``probability_<class>`` for every class, ``set`` and ``n_set`` if asked for,
        ``disagreement``, ``disagreement_percentile`` and ``n_views``.
    """
    estimator = model.estimator
    P, disagreement, groups = estimator._predict_both(rows.views, advance)
    columns: dict[str, Any] = {}
    columns["predicted"] = estimator.classes_[P.argmax(axis=1)]
    if abstain_below is not None:
        abstained = P.max(axis=1) < abstain_below
        pairs = zip(columns["predicted"].tolist(), abstained.tolist(), strict=True)
        columns["predicted"] = [None if left else name for name, left in pairs]
        columns["abstained"] = abstained
    columns["probability"] = P.max(axis=1)
    for j, name in enumerate(estimator.classes_.tolist()):
        columns[f"probability_{name}"] = P[:, j]
    if alpha is not None:
        sets = estimator.model_.predict_sets(P, groups, alpha)
        columns["set"] = ["|".join(map(str, estimator.classes_[s].tolist())) for s in sets]
        columns["n_set"] = sets.sum(axis=1)
    if len(estimator.networks_) > 1:
        columns["disagreement"] = disagreement
        columns["disagreement_percentile"] = estimator.model_.percentiles(disagreement, groups)
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
    out: Annotated[Path, option("Table to write (.csv, .parquet or .h5ad).", "--out", "-o")],
    id_column: options.IdColumn = None,
    ids: options.IdFiles = None,
    match_ids: options.MatchIds = None,
    set_: Annotated[
        float | None,
        option("Add sets of classes that miss the true one in this share of rows.", "--set"),
    ] = None,
    abstain_below: Annotated[
        float | None, option("Predict no class where the largest probability is below this.")
    ] = None,
    text: options.FileFormats = None,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Predict the class of every individual that is in at least one of the views.

    The table has the id, the most probable class, its probability, the probabilities of all
    classes, the disagreement of the networks and the per cent of training rows with less of it, the
    number of views that have the id, and the number of values far outside of those at fit. Views
    may be missing. Notes say which columns differ from those at fit, as by another unit.

    An h5ad file is a copy of the one given, with these columns in obs; of several views, it has a
    row for every cell.

    In csv files, text that begins with = + - or @ gets an apostrophe, so that spreadsheets do not
    run it; hotview reads it without.
    """
    from hotview.cli.models import open_model
    from hotview.cli.output_files import write_table
    from hotview.cli.single_cells import write_cells
    from hotview.training.progress import ProgressBar

    with as_usage():
        _check_shares(set_, abstain_below)
    check_output_path(out, (".csv", ".parquet", ".h5ad"))
    check_new_file(out, force=force)
    id_files = options.files_by_view(ids)
    tables = id_files.values()
    opened = open_model(
        model, device=device, id_column=id_column, match_ids=match_ids, text=text, tables=tables
    )
    opened.check_classifies()
    given = opened.read_input(views, id_files)
    rows = given.aligned
    drift = opened.check_drift(rows.views)
    notes = [*given.notes, *(drift.summary() if drift else ())]
    print_notes(notes)
    with ProgressBar(len(rows.ids), description="predicting", delay=2.0, transient=True) as bar:
        columns = prediction_columns(
            opened, rows, bar.step, alpha=set_, abstain_below=abstain_below
        )
    if drift is not None:
        columns["n_unusual"] = drift.n_unusual
    if out.suffix.lower() == ".h5ad":
        write_cells(opened, given, columns, out, abstain_below)
    else:
        write_table(columns, out)
    names = list(columns["predicted"])
    counts = {str(c): names.count(c) for c in opened.estimator.classes_.tolist()}
    trust = _count_doubts(columns)
    result = {"out": str(out), "rows": len(rows.ids), "predicted": counts, **trust}
    print_result(
        {**result, "views": list(rows.views), "notes": notes},
        f"{len(rows.ids):,} rows written to {out}",
        "Predicted: " + ", ".join(f"{name}: {n:,}" for name, n in counts.items()),
        *_doubt_lines(trust, len(rows.ids), abstain_below),
        as_json=json,
    )


def _check_shares(alpha: float | None, abstain_below: float | None) -> None:
    """Raise an error for options that are no shares."""
    from hotview._validation import check_share
    from hotview.semisupervised.calibration import check_alpha

    if alpha is not None:
        check_alpha(alpha, "--set")
    if abstain_below is not None:
        check_share("--abstain-below", abstain_below)


def _count_doubts(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many rows are to be doubted, by the columns that say so."""
    found: dict[str, Any] = {}
    if "abstained" in columns:
        found["abstained"] = int(columns["abstained"].sum())
    if "n_set" in columns:
        found["one_class_in_set"] = int((columns["n_set"] == 1).sum())
        found["mean_set"] = round(float(columns["n_set"].mean()), 3)
    if "disagreement_percentile" in columns:
        found["disagreement_above_95"] = int((columns["disagreement_percentile"] > 95).sum())
    if "n_unusual" in columns:
        found["unusual"] = int((columns["n_unusual"] > 0).sum())
    return found


def _doubt_lines(found: Mapping[str, Any], n: int, below: float | None) -> Iterator[str]:
    """Yield a sentence for every kind of doubt."""
    if (k := found.get("abstained")) is not None:
        yield f"Abstained: {k:,} of {n:,} rows, whose largest probability is below {below:g}."
    if (k := found.get("one_class_in_set")) is not None:
        yield f"Sets: {k:,} of {n:,} rows have one class, {found['mean_set']:.2f} on average."
    if (k := found.get("disagreement_above_95")) is not None:
        yield f"Disagreement: {k:,} of {n:,} rows have more than 95 % of the training rows."
    if k := found.get("unusual"):
        yield f"Unusual: {k:,} of {n:,} rows have values far outside of those at fit."


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

    id_files = options.files_by_view(ids)
    tables = id_files.values()
    opened = open_model(model, device=device, id_column=id_column, text=text, tables=tables)
    rows = opened.read_rows(views, id_files)
    drift = opened.check_drift({name: view.X for name, view in rows.items()})
    print_notes(note for view in rows.values() for note in view.notes)
    print_notes(drift.summary() if drift else ())
    features = {name: feature_columns(opened, name, view, space) for name, view in rows.items()}
    paths = make_folder(out, [f"{name}.{format}" for name in rows], force=force)
    for path, table in zip(paths, features.values(), strict=True):
        write_table(table, path)
    sizes = [view.X.shape[0] for view in rows.values()]
    lines = [f"{n:,} rows written to {path}" for n, path in zip(sizes, paths, strict=True)]
    result = {"out": {name: str(p) for name, p in zip(rows, paths, strict=True)}}
    print_result(result, *lines, as_json=json)
