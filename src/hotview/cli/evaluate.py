"""``hotview evaluate``: metrics of a model on rows with known labels."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from hotview.cli import options
from hotview.cli.options import flag
from hotview.cli.runner import make_console, print_json, print_notes, print_table

if TYPE_CHECKING:
    from hotview.cli.models import EvaluationRows, OpenModel
    from hotview.evaluation import PermutationImportance
    from hotview.evaluation.scores import Predictions

__all__ = ["evaluate"]

_MAX_CLASSES = 25  # of a confusion matrix that is printed
_MAX_COLUMNS, _BAR = 15, 20  # columns whose importance is printed, and characters of a bar


@options.with_file_options
def evaluate(
    model: options.Model,
    views: options.Views,
    labels: options.Labels = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    ids: options.IdFiles = None,
    match_ids: options.MatchIds = None,
    text: options.FileFormats = None,
    baselines: options.Baselines = True,
    importance: Annotated[
        bool, flag("--importance", "Show which views and columns the predictions rely on.")
    ] = False,
    positive: options.Positive = None,
    cost: options.Cost = None,
    threshold: options.Threshold = None,
    device: options.Device = "auto",
    json: options.Json = False,
    debug: options.Debug = False,
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
    from hotview.cli.models import labeled_rows, open_model, read_evaluation_rows, read_training
    from hotview.evaluation import assess
    from hotview.evaluation.assessment import class_counts
    from hotview.evaluation.scores import score_baselines
    from hotview.report.page.sentences import describe_comparison
    from hotview.training import progress

    columns = {"id_column": id_column, "label_column": label_column}
    id_files = options.files_by_view(ids)
    tables = (*id_files.values(), labels)
    opened = open_model(
        model, device=device, **columns, match_ids=match_ids, text=text, tables=tables
    )
    opened.check_classifies()
    rows = read_evaluation_rows(opened, views, labels, id_files)
    labeled = labeled_rows(rows)
    predictions = _predict(opened, labeled)
    P = predictions.probabilities(labeled.views)
    assert labeled.target is not None
    scores = assess(
        labeled.target,
        P,
        opened.estimator.classes_,
        groups=labeled.ids if labeled.groups is None else labeled.groups,
        prior=class_counts(opened.estimator),
        positive=positive,
        cost=cost,
        threshold=options.parse_threshold(threshold),
    )
    training, notes = read_training(opened) if baselines else (None, [])
    track = partial(progress.track, shown=sys.stderr.isatty())
    compared = score_baselines(predictions, training, track, control=False)
    sentences = [] if rows.seen else describe_comparison(compared)
    notes, n_rows = [*rows.notes, *notes], len(rows.ids)
    if n_unlabeled := n_rows - len(labeled.ids):
        notes.append(f"{n_unlabeled:,} of {n_rows:,} rows have no label and are left out.")
    print_notes(notes)
    relied_on = _measure_importance(opened, labeled) if importance else None
    if json:
        facts = {"views": list(rows.views), "seen": rows.seen, "notes": notes}
        facts |= {"baselines": [asdict(b) for b in compared], "comparison": sentences}
        facts |= {} if relied_on is None else {"importance": relied_on.to_dict()}
        print_json({**scores.to_json(), **facts})
    else:
        _print_metrics(scores, list(rows.views))
        _print_comparison(compared, sentences)
        _print_confusion(scores)
        if relied_on is not None:
            _print_importance(relied_on)


def _measure_importance(model: OpenModel, rows: EvaluationRows) -> PermutationImportance:
    """Return how much the model relies on views and columns for labeled rows."""
    from hotview.evaluation import permutation_importance

    assert rows.target is not None
    return permutation_importance(model.estimator, rows.views, rows.target)


def _print_importance(found: PermutationImportance) -> None:
    """Print views, then the columns of the largest effects, each with a bar."""
    from hotview.report.tables import signed

    console = make_console()
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
            print_table(console, headings, rows, title=f"{what}, {title}", n_text=n_text + 1)
    if (n_left_out := found.n_columns - len(columns)) > 0:
        console.print(
            f"{n_left_out:,} other columns: smaller effects, or not among the candidates."
        )


def _predict(model: OpenModel, rows: EvaluationRows) -> Predictions:
    """Return the model's predictions for labeled rows."""
    from hotview.evaluation.baseline_rows import are_present
    from hotview.evaluation.scores import Predictions, encode_truth

    present = {name: are_present(X) for name, X in rows.views.items()}
    truth = encode_truth(model.estimator, rows.target, len(rows.ids))
    return Predictions(model.estimator, rows.views, present, truth)


def _print_metrics(scores: Any, views: list[str]) -> None:
    from hotview.report.tables import describe_metrics, metric_tables

    console = make_console()
    first, *others = metric_tables(scores)
    title = f"{scores.n:,} rows, views {', '.join(views)}"
    print_table(console, first.headings, first.rows, title=title)
    for table in others:
        rows = table.rows[:_MAX_CLASSES]
        print_table(console, table.headings, rows, title=table.title, n_text=table.n_text)
    if len(scores.by_class) > _MAX_CLASSES:
        console.print(f"All {len(scores.by_class)} classes: see --json.")
    for sentence in describe_metrics(scores):
        console.print(sentence, highlight=False, markup=False)


def _print_confusion(scores: Any) -> None:
    console = make_console()
    classes = [str(name) for name in scores.classes]
    if len(classes) > _MAX_CLASSES:
        console.print(f"Confusion matrix of {len(classes)} classes: see --json.")
        return
    headings = ("true class by row, predicted by column", *classes)
    counts = [
        (name, *(n or "·" for n in row))
        for name, row in zip(classes, scores.confusion, strict=True)
    ]
    print_table(console, headings, counts, title="Confusion matrix")


def _print_comparison(compared: list[Any], sentences: list[str]) -> None:
    """Print the accuracies of simple methods, and whether they are as good as the model."""
    from hotview.report.page.sentences import describe_baseline
    from hotview.report.tables import ABSENT, format_interval, number, signed

    console, rows = make_console(), []
    for b in compared:
        cells = [ABSENT] * 3
        if b.difference is not None:
            accuracy, difference = 100 * b.accuracy.value, 100 * b.difference.value
            cells = [number(accuracy), signed(difference), format_interval(b.difference)]
        rows.append((b.name, describe_baseline(b), *cells))
    if rows:
        headings = ("", "result", "accuracy %", "model minus it", "95 % interval")
        print_table(console, headings, rows, title="Simple methods on the same rows", n_text=2)
    for sentence in sentences:
        console.print(sentence, highlight=False, markup=False)
