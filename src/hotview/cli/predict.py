"""``hotview predict`` and ``hotview transform``: classes and features of rows, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from hotview.cli import options
from hotview.cli.options import option
from hotview.cli.runner import (
    as_usage,
    check_new_file,
    make_folder,
    print_notes,
    print_result,
    write_table,
)

if TYPE_CHECKING:
    from hotview.cli.models import ModelInput, OpenModel
    from hotview.tables.preprocessing import AlignedRows


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
    return _with_ids(model, rows.ids.tolist(), columns, from_file=rows.has_ids)


def _with_ids(
    model: OpenModel, ids: Sequence[Any], columns: dict[str, Any], *, from_file: bool
) -> dict[str, Any]:
    """Return columns after one of ids under its name, or of row numbers."""
    name = (model.preprocessing.id_column or "row") if from_file else "row"
    if name in columns:
        raise ValueError(
            f"The column of ids is called {name!r}, as is one of the result. Rename it in your "
            "files, and pass the new name as --id-column."
        )
    return {name: ids, **columns}


def predict(
    model: options.Model,
    views: options.Views,
    out: Annotated[Path, option("Table to write (.csv, .parquet or .h5ad).", "--out", "-o")],
    files: options.ModelFiles,
    set_: Annotated[
        float | None,
        option("Add sets of classes that miss the true one in this share of rows.", "--set"),
    ] = None,
    abstain_below: Annotated[
        float | None, option("Predict no class where the largest probability is below this.")
    ] = None,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
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
    from hotview._validation import check_share
    from hotview.semisupervised.calibration import check_alpha

    with as_usage():
        if set_ is not None:
            check_alpha(set_, "--set")
        if abstain_below is not None:
            check_share("--abstain-below", abstain_below)
    check_new_file(out, ".csv", ".parquet", ".h5ad", force=force)
    from hotview.cli.models import open_model
    from hotview.training.progress import ProgressBar

    opened = open_model(model, files, device=device)
    opened.check_classifies()
    given = opened.read_input(views)
    rows, notes, n = given.aligned, given.notes, len(given.aligned.ids)
    print_notes(notes)
    with ProgressBar(n, description="predicting", delay=2.0, transient=True) as bar:
        columns = prediction_columns(
            opened, rows, bar.step, alpha=set_, abstain_below=abstain_below
        )
    if given.drift is not None:
        columns["n_unusual"] = given.drift.n_unusual
    if out.suffix.lower() == ".h5ad":
        write_cells(opened, given, columns, out, abstain_below)
    else:
        write_table(columns, out)
    names = list(columns["predicted"])
    counts = {str(c): names.count(c) for c in opened.estimator.classes_.tolist()}
    doubts, lines = _describe_doubts(columns, n, abstain_below)
    print_result(
        {"out": str(out), "rows": n, "predicted": counts, **doubts}
        | {"views": list(rows.views), "notes": notes},
        f"{n:,} rows written to {out}",
        "Predicted: " + ", ".join(f"{name}: {k:,}" for name, k in counts.items()),
        *lines,
        as_json=json,
    )


def _describe_doubts(
    columns: Mapping[str, Any], n: int, below: float | None
) -> tuple[dict[str, Any], list[str]]:
    """Return how many rows are to be doubted, by the columns that say so, and sentences on it."""
    facts: dict[str, Any] = {}
    lines = []
    if "abstained" in columns:
        facts["abstained"] = k = int(columns["abstained"].sum())
        text = f"Abstained: {k:,} of {n:,} rows, whose largest probability is below {below:g}."
        lines.append(text)
    if "n_set" in columns:
        facts["one_class_in_set"] = k = int((columns["n_set"] == 1).sum())
        facts["mean_set"] = mean = round(float(columns["n_set"].mean()), 3)
        lines.append(f"Sets: {k:,} of {n:,} rows have one class, {mean:.2f} on average.")
    if "disagreement_percentile" in columns:
        facts["disagreement_above_95"] = k = int((columns["disagreement_percentile"] > 95).sum())
        lines.append(f"Disagreement: {k:,} of {n:,} rows have more than 95 % of the training rows.")
    if "n_unusual" in columns:
        facts["unusual"] = k = int((columns["n_unusual"] > 0).sum())
        if k > 0:
            lines.append(f"Unusual: {k:,} of {n:,} rows have values far outside of those at fit.")
    return facts, lines


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
) -> None:
    """Encode the rows of every view, in the order of its file, with their ids.

    In csv files, text that begins with = + - or @ gets an apostrophe, so that spreadsheets do not
    run it; hotview reads it without.
    """
    from hotview._validation import check_choice

    with as_usage():
        check_choice("--space", space, ("features", "common"))
        check_choice("--format", format, ("csv", "parquet"))
    from hotview.cli.models import list_notes, open_model

    opened = open_model(model, options.ModelFiles(id_column, ids, None, text), device=device)
    rows = opened.read_rows(views)
    print_notes(list_notes(rows, opened.check_drift({n: view.X for n, view in rows.items()})))
    tables = []
    for name, view in rows.items():
        Z = opened.estimator.transform_view(view.X, name, space)
        ids_of_rows = range(1, len(Z) + 1) if view.ids is None else view.ids
        columns = {f"{name}_{j}": Z[:, j] for j in range(Z.shape[1])}
        tables.append(_with_ids(opened, ids_of_rows, columns, from_file=view.ids is not None))
    paths = make_folder(out, [f"{name}.{format}" for name in rows], force=force)
    for table, path in zip(tables, paths, strict=True):
        write_table(table, path)
    written = dict(zip(rows, map(str, paths), strict=True))
    lines = [f"{rows[name].X.shape[0]:,} rows written to {path}" for name, path in written.items()]
    print_result({"out": written}, *lines, as_json=json)


def write_cells(
    model: OpenModel,
    given: ModelInput,
    columns: Mapping[str, Any],
    path: Path,
    abstain_below: float | None = None,
) -> None:
    """Write predictions into a copy of the given h5ad file, or into one of all cells.

    With one view, from an h5ad file, the copy has everything that this file has. With several, the
    file has a row for every cell of any of them, and no matrix.

    Parameters
    ----------
    model : OpenModel
        The model.
    given : ModelInput
        The rows that were predicted.
    columns : dict of str to sequence
        From `prediction_columns`.
    path : Path
        The file.
    abstain_below : float or None, default=None
        Probability below which a cell is ``"Unassigned"``.
    """
    import anndata
    import pandas as pd

    from hotview._files import atomic_write
    from hotview.omics.annotation import write_predictions
    from hotview.omics.fit import read_settings

    ids = pd.Index([str(key) for key in given.aligned.ids])
    views = [rows.view for rows in given.rows.values() if rows.view is not None]
    if len(views) == 1 and views[0].path.suffix.lower() == ".h5ad":
        cells = anndata.read_h5ad(views[0].path)
        names = pd.Index(next(iter(given.rows.values())).ids or ids)  # row by row, as in the file
    else:
        cells, names = anndata.AnnData(obs=pd.DataFrame(index=ids)), ids
    order = ids.get_indexer(names.astype(str))
    classes = model.estimator.classes_
    P = np.stack([columns[f"probability_{name}"] for name in classes.tolist()], axis=1)[order]
    frame = pd.DataFrame(P, index=cells.obs_names, columns=classes)
    style = read_settings(model.estimator).get("label", {})
    write_predictions(cells, frame, "hotview", style, abstain_below)
    done = {f"probability_{name}" for name in classes.tolist()}
    done |= {"predicted", "probability", "abstained"}
    for name in list(columns)[1:]:  # the first one has the ids
        if name not in done:
            cells.obs[f"hotview_{name}"] = pd.Series(list(columns[name])).to_numpy()[order]
    with atomic_write(path) as draft:
        cells.write_h5ad(draft)
