"""What a model knows of itself, in words and in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import typer

from hotview.cli.options import Debug, Json, Model
from hotview.cli.runner import make_console, print_json
from hotview.evaluation.record.model_summary import describe_settings

__all__ = ["describe_model", "federation_lines", "inspect", "result_lines"]


def describe_model(estimator: Any) -> dict[str, Any]:
    """Everything a model file tells, in plain values.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.

    Returns
    -------
    dict
        That JSON can hold.
    """
    facts: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "views": dict(estimator.n_features_per_view_),
        "replicas": len(estimator.networks_),
        "parameters_of_networks": _n_parameters(estimator),
        "epochs": len(estimator.history_),
        "last_epoch": dict(list(estimator.history_)[-1]) if len(estimator.history_) else {},
        "changed_parameters": {s.name: s.value for s in describe_settings(estimator) if s.changed},
        "trained_on": estimator.trained_on_,
        "remarks": list(estimator.fit_warnings_),
        "notes": estimator.metadata_,
        "plan": None,
    }
    if hasattr(estimator, "classes_"):
        facts["classes"] = estimator.classes_.tolist()
    if (plan := estimator.plan_) is not None:
        facts["plan"] = {
            "W": plan.W.tolist(),
            "C": plan.C.tolist(),
            "groups": estimator.view_labels_.tolist(),
            "p_value": None if plan.null is None else plan.null.p_value,
        }
    return facts


def _n_parameters(estimator: Any) -> int:
    return sum(p.numel() for network in estimator.networks_ for p in network.parameters())


def federation_lines(notes: Mapping[str, Any]) -> list[str]:
    """Of which federation a model is, in a few sentences; none where it is of none.

    Parameters
    ----------
    notes : dict
        Of the model.

    Returns
    -------
    list of str
        Sentences.

    Examples
    --------
    >>> federation_lines({"federated": {"names": ["clinical", "genetic"], "plan": None}})
    ['Trained by a federation of clinical, genetic; this is the part of one of them.']
    >>> federation_lines({})
    []
    """
    if (told := notes.get("federated")) is None:
        return []
    joined = told.get("joined")
    which = "this is the part of one of them" if joined is None else f"joined: {', '.join(joined)}"
    lines = [f"Trained by a federation of {', '.join(told['names'])}; {which}."]
    if (plan := told.get("plan")) is not None:
        W = np.array(plan["W"])
        rows = zip(plan["names"], W / W.sum(1, keepdims=True), strict=True)
        lines.append("Plan W, rows adding up to 1:")
        lines += [f"  {name}: {', '.join(f'{w:.2f}' for w in row)}" for name, row in rows]
    return lines


def result_lines(estimator: Any, found: Any = None) -> list[str]:
    """What came of a fit, in a few sentences.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.
    found : Assessment or None, default=None
        How it did on rows that were held out.

    Returns
    -------
    list of str
        Sentences.
    """
    seconds = estimator.trained_on_.get("seconds")
    n, replicas = len(estimator.history_), len(estimator.networks_)
    several = f"{replicas} networks" if replicas > 1 else "One network"
    took = "" if seconds is None else f", {seconds:.0f} s in all"
    lines = [f"{several}, {n} {'epoch' if n == 1 else 'epochs'}{took}."]
    if estimator.view_labels_ is not None:
        names, labels = np.array(estimator.view_names_), estimator.view_labels_
        groups = [", ".join(names[labels == k]) for k in np.unique(labels)]
        lines.append(f"Groups of views by the plan: {'; '.join(groups)}.")
    if found is not None:
        share = found.accuracy
        lines.append(
            f"OutOfFold-out rows: {100 * share.value:.1f} % of {share.n} right (95 % interval "
            f"{100 * share.low:.0f} to {100 * share.high:.0f} %)."
        )
    return lines


def inspect(model: Model, json: Json = False, debug: Debug = False) -> None:
    """Tell what a model is: views, rows it was trained on, plan, settings, versions."""
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
        W = plan.W * len(names)
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
