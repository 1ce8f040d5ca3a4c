"""``hotview evaluate``: metrics of a model on rows with known labels."""

from __future__ import annotations

from typing import Any

from hotview.cli import options
from hotview.cli.runner import make_console, print_json, print_notes, print_table

__all__ = ["evaluate"]

_MAX_CLASSES = 25  # of a confusion matrix that is printed


def evaluate(
    model: options.Model,
    views: options.Views,
    labels: options.Labels = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    ids: options.IdFiles = None,
    header: options.Header = None,
    delimiter: options.Delimiter = None,
    decimal: options.Decimal = None,
    device: options.Device = "auto",
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Evaluate a model: accuracy, balanced accuracy, macro-F1, calibration and confusion matrix.

    Rows whose labels the model was trained on are left out, so that the files of the fit give the
    metrics on the rows held out by --hold-out. Without ids, rows are recognized by their file only.
    """
    from hotview.cli.models import labeled_rows, open_model, read_evaluation_rows
    from hotview.evaluation import assess

    text = options.text_format(header, delimiter, decimal)
    columns = {"id_column": id_column, "label_column": label_column}
    opened = open_model(model, device=device, **columns, text=text)
    opened.check_classifies()
    rows = read_evaluation_rows(opened, views, labels, options.files_by_view(ids))
    labeled = labeled_rows(rows)
    P = opened.estimator.predict_proba(labeled.views)
    assert labeled.target is not None
    scores = assess(labeled.target, P, opened.estimator.classes_)
    notes, n_rows = [*rows.notes], len(rows.ids)
    if n_unlabeled := n_rows - len(labeled.ids):
        notes.append(f"{n_unlabeled:,} of {n_rows:,} rows have no label and are left out.")
    print_notes(notes)
    if json:
        facts = {"views": list(rows.views), "seen": rows.seen, "notes": notes}
        print_json({**scores.to_json(), **facts})
    else:
        _print(scores, list(rows.views))


def _print(scores: Any, views: list[str]) -> None:
    console, accuracy = make_console(), scores.accuracy
    interval = f"95 % interval {100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}"
    values = {
        f"accuracy ({interval})": accuracy.value,
        "balanced accuracy": scores.balanced_accuracy,
        "macro-F1": scores.macro_f1,
        "calibration error": scores.calibration_error,
    }
    rows = [(name, f"{100 * value:.1f}") for name, value in values.items()]
    print_table(console, ("", "%"), rows, title=f"{accuracy.n:,} rows, views {', '.join(views)}")
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
