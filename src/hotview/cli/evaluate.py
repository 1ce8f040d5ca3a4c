"""``hotview evaluate``: metrics of a model on rows with known labels."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from hotview.cli import options
from hotview.cli.runner import make_console, print_json, print_notes, print_table

if TYPE_CHECKING:
    from hotview.cli.models import EvaluationRows, OpenModel
    from hotview.evaluation.record.scores import Predictions

__all__ = ["evaluate"]

_MAX_CLASSES = 25  # of a confusion matrix that is printed


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
    device: options.Device = "auto",
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Evaluate a model: accuracy, balanced accuracy, macro-F1, calibration and confusion matrix.

    Rows whose labels the model was trained on are left out, so that the files of the fit give the
    metrics on the rows held out by --hold-out. Without ids, rows are recognized by their file only.

    Beside the model are the accuracies of the most frequent class and, while the files of the fit
    are unchanged, of logistic regression and label propagation on the same rows.
    """
    from hotview.cli.models import labeled_rows, open_model, read_evaluation_rows, read_training
    from hotview.evaluation import assess
    from hotview.evaluation.record.comparison import score_baselines
    from hotview.report.page.sentences import describe_comparison
    from hotview.training import progress

    columns = {"id_column": id_column, "label_column": label_column}
    opened = open_model(
        model,
        device=device,
        **columns,
        match_ids=match_ids,
        text=text,
        tables=[*options.files_by_view(ids).values(), *filter(None, [labels])],
    )
    opened.check_classifies()
    rows = read_evaluation_rows(opened, views, labels, options.files_by_view(ids))
    labeled = labeled_rows(rows)
    predictions = _predict(opened, labeled)
    P = predictions.probabilities(labeled.views)
    assert labeled.target is not None
    scores = assess(labeled.target, P, opened.estimator.classes_)
    training, notes = read_training(opened) if baselines else (None, [])
    track = partial(progress.track, shown=sys.stderr.isatty())
    compared = score_baselines(predictions, training, track, control=False)
    sentences = [] if rows.seen else describe_comparison(compared)
    notes, n_rows = [*rows.notes, *notes], len(rows.ids)
    if n_unlabeled := n_rows - len(labeled.ids):
        notes.append(f"{n_unlabeled:,} of {n_rows:,} rows have no label and are left out.")
    print_notes(notes)
    if json:
        facts = {"views": list(rows.views), "seen": rows.seen, "notes": notes}
        facts |= {"baselines": [asdict(b) for b in compared], "comparison": sentences}
        print_json({**scores.to_json(), **facts})
    else:
        _print_metrics(scores, list(rows.views))
        _print_comparison(compared, sentences)
        _print_confusion(scores)


def _predict(model: OpenModel, rows: EvaluationRows) -> Predictions:
    """Return the model's predictions for labeled rows."""
    from hotview.evaluation.baseline_rows import are_present
    from hotview.evaluation.record.scores import Predictions, encode_truth

    present = {name: are_present(X) for name, X in rows.views.items()}
    truth = encode_truth(model.estimator, rows.target, len(rows.ids))
    return Predictions(model.estimator, rows.views, present, truth)


def _print_metrics(scores: Any, views: list[str]) -> None:
    accuracy = scores.accuracy
    interval = f"95 % interval {100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}"
    values = {
        f"accuracy ({interval})": accuracy.value,
        "balanced accuracy": scores.balanced_accuracy,
        "macro-F1": scores.macro_f1,
        "calibration error": scores.calibration_error,
    }
    rows = [(name, f"{100 * value:.1f}") for name, value in values.items()]
    title = f"{accuracy.n:,} rows, views {', '.join(views)}"
    print_table(make_console(), ("", "%"), rows, title=title)


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
    from hotview.report.page.sentences import describe_baseline, format_interval
    from hotview.report.tables import ABSENT, number, signed

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
