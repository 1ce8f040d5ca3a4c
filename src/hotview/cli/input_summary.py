"""What was understood of the user's files, for people and for scripts."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hotview.cli.missing import count_missing
from hotview.ingest.columns import RULE
from hotview.ingest.dataset import TableDataset
from hotview.ingest.holdout import HoldoutSplit
from hotview.ingest.tables import OpenView
from hotview.training.process_group import ProcessGroup

__all__ = ["check_missing", "describe_study", "print_study"]

_LISTED = 4


def describe_study(
    study: TableDataset,
    estimator: str,
    held: HoldoutSplit | None,
    ranks: ProcessGroup | None = None,
) -> dict[str, Any]:
    """Everything that was understood, in plain values.

    Parameters
    ----------
    study : TableDataset
        What will be learned from.
    estimator : str
        What will learn.
    held : HoldoutSplit or None
        Rows that will judge it.
    ranks : ProcessGroup or None, default=None
        The processes that will learn together; None is this one alone.

    Returns
    -------
    dict
        That JSON can hold.
    """
    counts = study.label_counts
    return {
        "estimator": estimator,
        "views": [_describe_view(view, study, ranks) for view in study.opened],
        "linked_rows": len(study.ids),
        "linked_rows_with_label": sum(label is not None for label in study.target),
        "rows_held_out": 0 if held is None else len(held.ids),
        "labels": [[label, counts[label]] for label in sorted(counts, key=_order)],
        "remarks": study.remarks,
        "recipe": study.recipe.to_json(),
    }


def _order(label: Any) -> tuple[bool, Any]:
    return isinstance(label, str), label


def _describe_view(
    view: OpenView, study: TableDataset, ranks: ProcessGroup | None
) -> dict[str, Any]:
    columns = study.recipe.views[view.name]
    used = [column.name for column in columns.columns or ()]
    names = [] if view.table is None else view.table.names
    unaligned = study.unaligned.get(view.name)
    target = study.unaligned_target.get(view.name, ())
    return {
        "name": view.name,
        "file": str(view.path),
        "rows": int(study.rows[view.name].shape[0]),
        "columns": columns.n_columns,
        "categorical": {c.name: list(c.categories or ()) for c in columns.categorical},
        "left_out": [name for name in names if name not in used],
        "missing": count_missing(study.rows[view.name], columns, ranks),
        "unaligned_rows": 0 if unaligned is None else int(unaligned.shape[0]),
        "unaligned_rows_with_label": sum(label is not None for label in target),
    }


def check_missing(facts: dict[str, Any], impute: str | None) -> None:
    """Refuse missing cells that nothing is to fill.

    Parameters
    ----------
    facts : dict
        What `describe_study` returned.
    impute : str or None
        How missing cells are filled.
    """
    for view in facts["views"]:
        if view["missing"] and impute is None:
            told = _some([f"{name!r} ({n})" for name, n in view["missing"].items()])
            raise ValueError(
                f"{view['file']}: cells are missing in {told}. Fill them with the mean of their "
                "column: --impute mean; or leave columns out: --drop."
            )


def print_study(facts: dict[str, Any], console: Console) -> None:
    """Print what was understood.

    Parameters
    ----------
    facts : dict
        What `describe_study` returned.
    console : Console
        Where to.
    """
    console.print(_table(facts), soft_wrap=False)
    for line in _lines(facts):
        console.print(line, highlight=False, markup=False)
    for remark in facts["remarks"]:
        console.print(f"Note: {escape(remark)}", style="yellow", highlight=False)


def _table(facts: dict[str, Any]) -> Table:
    table = Table("view", title="What was understood", title_justify="left", title_style="bold")
    table.add_column("file", overflow="fold")
    for heading in ("rows", "columns", "linked", "not linked", "labeled of these"):
        table.add_column(heading, justify="right")
    for view in facts["views"]:
        linked = view["rows"] - view["unaligned_rows"] - facts["rows_held_out"]
        numbers = (view["rows"], view["columns"], max(linked, 0), view["unaligned_rows"])
        cells = [f"{n:,}" for n in (*numbers, view["unaligned_rows_with_label"])]
        table.add_row(escape(view["name"]), escape(view["file"]), *cells)
    return table


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [
        f"Linked rows: {facts['linked_rows']:,}, of which {facts['linked_rows_with_label']:,} have "
        "a label."
    ]
    if facts["rows_held_out"]:
        lines.append(f"OutOfFold out to judge the model: {facts['rows_held_out']:,} more.")
    if facts["labels"]:
        told = ", ".join(f"{label}: {n:,}" for label, n in facts["labels"])
        lines.append(f"Labels: {told}.")
    else:
        lines.append("No labels: the views are encoded, and nothing is predicted.")
    missing = {v["name"]: v["missing"] for v in facts["views"] if v["missing"]}
    if missing:
        told = "; ".join(f"{name}: {_counted(columns)}" for name, columns in missing.items())
        lines.append(f"Missing cells: {told}.")
    left_out = {v["name"]: v["left_out"] for v in facts["views"] if v["left_out"]}
    if left_out:
        told = "; ".join(f"{name}: {_some(columns)}" for name, columns in left_out.items())
        lines.append(f"Columns left out: {told}.")
    categories = [
        f"{view['name']}: {name} ({len(values)}: {_some(values)})"
        for view in facts["views"]
        for name, values in view["categorical"].items()
    ]
    if categories:
        lines += [f"Categories: {'; '.join(categories)}.", RULE]
    return lines


def _counted(columns: dict[str, int]) -> str:
    return _some([f"{name} ({n:,})" for name, n in columns.items()])


def _some(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
