"""``hotview inspect``: what is in a model file."""

from __future__ import annotations

from typing import Any

import typer

from hotview.cli.options import Debug, Json, Model
from hotview.cli.running import make_console, print_json

__all__ = ["inspect"]


def inspect(model: Model, json: Json = False, debug: Debug = False) -> None:
    """Tell what a model is: views, rows it was trained on, plan, settings, versions."""
    from hotview.cli.inspecting import describe_model
    from hotview.cli.models import open_model

    opened = open_model(model, device="cpu")
    facts = {"file": str(model), "bytes": model.stat().st_size}
    facts |= describe_model(opened.estimator)
    if json:
        print_json(facts)
        return
    _print(facts, opened.estimator)


def _print(facts: dict[str, Any], estimator: Any) -> None:
    from rich.markup import escape
    from rich.table import Table

    from hotview.cli.inspecting import federation_lines, result_lines
    from hotview.report.tables import matrix_table

    console = make_console()
    size = facts["bytes"] / 1e6
    typer.echo(f"{facts['estimator']} in {facts['file']} ({size:.1f} MB)")
    trained = facts["trained_on"]
    table = Table("view")
    # Nobody knows the rows of all organizations, so that a model of theirs tells none.
    counted = ("unaligned", "unaligned_labeled") if trained else ()
    for heading in ("columns", "rows not linked", "of these labeled")[: 1 + len(counted)]:
        table.add_column(heading, justify="right")
    for name, n in facts["views"].items():
        more = [trained.get(part, {}).get(name, 0) for part in counted]
        table.add_row(escape(name), *(f"{number:,}" for number in (n, *more)))
    console.print(table)
    for line in (*_lines(facts), *federation_lines(facts["notes"])):
        typer.echo(line)
    for line in result_lines(estimator):
        typer.echo(line)
    if (plan := estimator.plan_) is not None:
        names = estimator.view_names_
        W = (plan.W * len(names)).numpy()
        columns = names if plan.pairwise else [f"group {k}" for k in range(W.shape[1])]
        console.print(matrix_table(W, names, columns, title="Plan W, rows adding up to 1"))
    for remark in facts["remarks"]:
        typer.echo(f"Warning at fit: {remark}")
    if command := facts["notes"].get("command"):
        typer.echo(f"Made by: {command}")


def _lines(facts: dict[str, Any]) -> list[str]:
    trained, lines = facts["trained_on"], []
    if trained:
        lines.append(
            f"Linked rows: {trained['linked']:,}, of which {trained['linked_labeled']:,} have a "
            "label."
        )
    if "classes" in facts:
        known = {str(name): n for name, n in trained.get("classes", ())}
        told = (f"{c}: {known[str(c)]:,}" if str(c) in known else str(c) for c in facts["classes"])
        lines.append(f"Classes: {', '.join(told)}.")
    changed = ", ".join(f"{name}={value}" for name, value in facts["changed_parameters"].items())
    lines.append(f"Parameters that are not the default: {changed or 'none'}.")
    if versions := trained.get("versions"):
        lines.append("Made with " + ", ".join(f"{n} {v}" for n, v in versions.items()) + ".")
    return lines
