"""``hotview evaluate`` and ``hotview report``: metrics on rows with known labels, and a page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotview.cli import options
from hotview.cli.options import flag, option
from hotview.cli.runner import check_new_file, make_table, print_notes, print_result

if TYPE_CHECKING:
    from rich.table import Table

    from hotview.evaluation import PermutationImportance

_MAX_CLASSES = 25  # of a confusion matrix that is printed
_MAX_COLUMNS, _BAR = 15, 20  # columns whose importance is printed, and characters of a bar


def evaluate(
    model: options.Model,
    views: options.Views,
    files: options.ModelFiles,
    scoring: options.Scoring,
    importance: Annotated[
        bool, flag("--importance", "Show which views and columns the predictions rely on.")
    ] = False,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Evaluate a model: metrics with 95 % intervals, beside always predicting one class.

    Rows whose labels the model was trained on are left out, so that the files of the fit give the
    metrics on the rows held out by --hold-out. Without ids, rows are recognized by their file only.

    Of two classes, also AUC, average precision, sensitivity and specificity of the positive class:
    where the most probable class is predicted, and at a threshold by --cost or --threshold.

    Beside the model are the accuracies of the most frequent class and, while the files of the fit
    are unchanged, of logistic regression and label propagation on the same rows.

    --importance permutes every view, and every column, among these rows, and shows how much the
    log loss rises.
    """
    from hotview.cli.models import open_model, read_evaluation_rows, read_training
    from hotview.evaluation import assess, permutation_importance
    from hotview.evaluation.assessment import class_counts
    from hotview.evaluation.baseline_rows import are_present
    from hotview.evaluation.scores import Predictions, encode_truth, score_baselines
    from hotview.report.page.sentences import describe_comparison
    from hotview.training import progress

    opened = open_model(model, files, scoring, device=device)
    opened.check_classifies()
    estimator, rows = opened.estimator, read_evaluation_rows(opened, views, scoring.labels)
    labeled = rows.take_labeled()
    assert labeled.target is not None
    present = {name: are_present(X) for name, X in labeled.views.items()}
    truth = encode_truth(estimator, labeled.target, len(labeled.ids))
    predictions = Predictions(estimator, labeled.views, present, truth)
    scores = assess(
        labeled.target,
        predictions.probabilities(labeled.views),
        estimator.classes_,
        groups=labeled.ids if labeled.groups is None else labeled.groups,
        prior=class_counts(estimator),
        **scoring.point,
    )
    training, notes = read_training(opened) if scoring.baselines else (None, [])
    track = partial(progress.track, shown=sys.stderr.isatty())
    compared = score_baselines(predictions, training, track, control=False)
    sentences = [] if rows.seen else describe_comparison(compared)
    notes, n_rows = [*rows.notes, *notes], len(rows.ids)
    if n_unlabeled := n_rows - len(labeled.ids):
        notes.append(f"{n_unlabeled:,} of {n_rows:,} rows have no label and are left out.")
    print_notes(notes)
    facts = {**scores.to_json(), "views": list(rows.views), "seen": rows.seen, "notes": notes}
    facts |= {"baselines": [asdict(b) for b in compared], "comparison": sentences}
    parts = [*_metrics(scores, list(rows.views)), *_comparison(compared), *sentences]
    parts += _confusion(scores)
    if importance:
        relied_on = permutation_importance(estimator, labeled.views, labeled.target)
        facts["importance"] = relied_on.to_dict()
        parts += _importance(relied_on)
    print_result(facts, *parts, as_json=json)


def _metrics(scores: Any, views: list[str]) -> Iterator[str | Table]:
    from hotview.report.tables import describe_metrics, metric_tables

    tables = metric_tables(scores)
    titles = [f"{scores.n:,} rows, views {', '.join(views)}", *(x.title for x in tables[1:])]
    for table, title in zip(tables, titles, strict=True):
        rows = table.rows[:_MAX_CLASSES]
        yield make_table(table.headings, rows, title=title, n_text=table.n_text)
    if len(scores.by_class) > _MAX_CLASSES:
        yield f"All {len(scores.by_class)} classes: see --json."
    yield from describe_metrics(scores)


def _comparison(compared: list[Any]) -> Iterator[Table]:
    """Accuracies of simple methods, if there are any."""
    from hotview.report.page.sentences import describe_baseline
    from hotview.report.tables import ABSENT, format_interval, number, signed

    rows = []
    for b in compared:
        cells = [ABSENT] * 3
        if b.difference is not None:
            accuracy, difference = 100 * b.accuracy.value, 100 * b.difference.value
            cells = [number(accuracy), signed(difference), format_interval(b.difference)]
        rows.append((b.name, describe_baseline(b), *cells))
    if rows:
        headings = ("", "result", "accuracy %", "model minus it", "95 % interval")
        yield make_table(headings, rows, title="Simple methods on the same rows", n_text=2)


def _confusion(scores: Any) -> Iterator[str | Table]:
    classes = [str(name) for name in scores.classes]
    if len(classes) > _MAX_CLASSES:
        yield f"Confusion matrix of {len(classes)} classes: see --json."
        return
    headings = ("true class by row, predicted by column", *classes)
    counts = [
        (name, *(n or "·" for n in row))
        for name, row in zip(classes, scores.confusion, strict=True)
    ]
    yield make_table(headings, counts, title="Confusion matrix")


def _importance(found: PermutationImportance) -> Iterator[str | Table]:
    """Views, then the columns of the largest effects, each with a bar."""
    from hotview.report.tables import signed

    title = f"permuted in {found.n_rows:,} rows, whose log loss is {found.log_loss:.3f}"
    columns = found.columns.to_dicts()[:_MAX_COLUMNS]
    for what, effects, n_text in (("Views", found.views.to_dicts(), 1), ("Columns", columns, 2)):
        names = ("view", "column")[:n_text]
        largest = max((effect["loss_increase"] for effect in effects), default=0.0)
        rows = [
            (
                *(effect[name] for name in names),
                "█" * round(_BAR * max(effect["loss_increase"], 0.0) / largest if largest else 0),
                signed(effect["loss_increase"], 3),
                f"{signed(effect['loss_low'], 3)} to {signed(effect['loss_high'], 3)}",
                signed(100 * effect["accuracy_drop"]),
            )
            for effect in effects
        ]
        headings = (*names, "", "log loss rises by", "95 % interval", "accuracy drops by (points)")
        if rows:
            yield make_table(headings, rows, title=f"{what}, {title}", n_text=n_text + 1)
    if (n_left_out := found.n_columns - len(columns)) > 0:
        yield f"{n_left_out:,} other columns: smaller effects, or not among the candidates."


def report(
    model: options.Model,
    out: Annotated[Path, option("Page to write (.html).", "--out", "-o")],
    files: options.ModelFiles,
    scoring: options.Scoring,
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
    umap: Annotated[
        bool, typer.Option(help="Embed the common space by UMAP too, if it is installed.")
    ] = True,
    importance: Annotated[
        bool, typer.Option(help="Measure which views and columns the predictions rely on.")
    ] = True,
    device: options.Device = "auto",
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write a page that explains a model: one HTML file, to be opened from disk.

    With tables, it also shows the metrics of the model, the contribution of every view, the columns
    that predictions rely on, and the common space.
    """
    check_new_file(out, ".html", force=force)
    from hotview.cli.models import list_notes, open_model, read_evaluation_rows, read_training
    from hotview.evaluation.record import make_record
    from hotview.report.page import write_report

    specs = [*(views or ()), *(data or ())]
    opened = open_model(model, files, scoring, device=device)
    arguments: dict[str, Any] = {}
    notes: list[str] = []
    if specs and hasattr(opened.estimator, "classes_"):
        rows = read_evaluation_rows(opened, specs, scoring.labels)
        arguments = {"views": rows.views, "y": rows.target, "seen": rows.seen}
        arguments |= {"ids": rows.ids.tolist(), "groups": rows.groups, **scoring.point}
        notes = rows.notes
        if scoring.baselines and rows.target is not None:
            arguments["training"], more = read_training(opened)
            notes += more
    elif specs:
        by_view = opened.read_rows(specs)
        ids = {name: view.ids for name, view in by_view.items() if view.ids is not None}
        arguments = {"views": {n: view.X for n, view in by_view.items()}, "ids": ids or None}
        notes = list_notes(by_view, opened.check_drift(arguments["views"]))
    print_notes(notes)
    arguments |= {"umap": umap, "importance": importance, "verbose": sys.stderr.isatty()}
    write_report(make_record(opened.estimator, **arguments), out)
    size = out.stat().st_size
    line = f"Page written to {out} ({size / 1e3:.0f} kB): open it in a browser."
    print_result({"out": str(out), "bytes": size, "notes": notes}, line, as_json=json)
