"""``hotview evaluate``: how good a model is on rows whose labels are known."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hotview.cli.options import (
    Debug,
    Decimal,
    Delimiter,
    Device,
    Header,
    IdColumn,
    IdFiles,
    Json,
    Model,
    Views,
    by_view,
    written,
)
from hotview.cli.runner import make_console, print_json, tell_notes

__all__ = ["LabelColumn", "LabelTable", "evaluate"]

LabelTable = Annotated[
    str | None,
    typer.Option(help="Table of labels. Default: the views' own tables.", show_default=False),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column of labels. Default: the one of the model.", show_default=False),
]
_MOST_CLASSES = 25  # that a confusion table is printed for


def evaluate(
    model: Model,
    views: Views,
    labels: LabelTable = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
    ids: IdFiles = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    device: Device = "auto",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """ViewPredictors a model: accuracy, balanced accuracy, macro-F1, calibration and confusion.

    Rows whose labels the model was trained on do not count, so that given the files of the fit it
    takes those that --hold-out left out. (Without ids, rows are known by their file only.)
    """
    from hotview.cli.evaluation_data import labeled, read_judged
    from hotview.cli.models import open_model
    from hotview.evaluation import assess

    opened = open_model(
        model,
        device=device,
        id_column=id_column,
        label_column=label_column,
        text=written(header, delimiter, decimal),
    )
    opened.check_classifies()
    judged = read_judged(opened, views, labels, by_view(ids, "--ids"))
    rows, target, _ = labeled(judged)
    found = assess(target, opened.estimator.predict_proba(rows), opened.estimator.classes_)
    remarks = [*judged.remarks]
    if len(target) < len(judged.ids):
        without = len(judged.ids) - len(target)
        remarks.append(f"{without:,} of {len(judged.ids):,} rows have no label and do not count.")
    tell_notes(remarks)
    if json:
        facts = {"views": list(rows), "seen": judged.seen, "remarks": remarks}
        print_json({**found.to_json(), **facts})
        return
    _print(found, list(rows))


def _print(found: Any, views: list[str]) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = make_console()
    low, high = 100 * found.accuracy.low, 100 * found.accuracy.high
    table = Table("", title=f"{found.accuracy.n:,} rows, views {escape(', '.join(views))}")
    table.add_column("%", justify="right")
    table.add_row(
        f"accuracy (95 % interval {low:.1f} to {high:.1f})", _percent(found.accuracy.value)
    )
    table.add_row("balanced accuracy", _percent(found.balanced_accuracy))
    table.add_row("macro-F1", _percent(found.macro_f1))
    table.add_row("calibration error", _percent(found.calibration_error))
    console.print(table)
    if len(found.classes) > _MOST_CLASSES:
        console.print(f"Confusion of {len(found.classes)} classes: --json has it.")
        return
    confusion = Table("truth, by row; predicted, by column", title="Confusion")
    for name in found.classes:
        confusion.add_column(escape(str(name)), justify="right")
    for name, counts in zip(found.classes, found.confusion, strict=True):
        confusion.add_row(escape(str(name)), *(str(n) if n else "·" for n in counts))
    console.print(confusion)


def _percent(x: float) -> str:
    return f"{100 * x:.1f}"
