"""``hotview evaluate``: metrics of a model on rows with known labels."""

from __future__ import annotations

from typing import Any

from hotview.cli import options
from hotview.cli.runner import make_console, print_json, print_notes

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
    from rich.markup import escape
    from rich.table import Table

    console = make_console()
    low, high = 100 * scores.accuracy.low, 100 * scores.accuracy.high
    table = Table("", title=f"{scores.accuracy.n:,} rows, views {escape(', '.join(views))}")
    table.add_column("%", justify="right")
    for name, value in (
        (f"accuracy (95 % interval {low:.1f} to {high:.1f})", scores.accuracy.value),
        ("balanced accuracy", scores.balanced_accuracy),
        ("macro-F1", scores.macro_f1),
        ("calibration error", scores.calibration_error),
    ):
        table.add_row(name, f"{100 * value:.1f}")
    console.print(table)
    if len(scores.classes) > _MAX_CLASSES:
        console.print(f"Confusion matrix of {len(scores.classes)} classes: see --json.")
        return
    confusion = Table("true class by row, predicted by column", title="Confusion matrix")
    for name in scores.classes:
        confusion.add_column(escape(str(name)), justify="right")
    for name, counts in zip(scores.classes, scores.confusion, strict=True):
        confusion.add_row(escape(str(name)), *(str(n) if n else "·" for n in counts))
    console.print(confusion)
