"""``hotview inspect``: contents of a model file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from hotview.cli import options
from hotview.cli.runner import make_console, print_json, print_table

__all__ = ["describe_model", "federation_lines", "inspect", "result_lines", "similarity_table"]


def describe_model(estimator: Any) -> dict[str, Any]:
    """Describe a model in plain values.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.

    Returns
    -------
    dict
        Values for JSON.
    """
    from hotview.evaluation.record import describe_settings

    history, plan = list(estimator.history_), estimator.plan_
    parameters = [p for network in estimator.networks_ for p in network.parameters()]
    facts: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "views": dict(estimator.n_features_per_view_),
        "preprocessing": estimator.preprocessing_,
        "networks": len(estimator.networks_),
        "parameters_of_networks": sum(p.numel() for p in parameters),
        "epochs": len(history),
        "last_epoch": dict(history[-1]) if history else {},
        "changed_parameters": {s.name: s.value for s in describe_settings(estimator) if s.changed},
        "trained_on": estimator.trained_on_,
        "warnings": list(estimator.fit_warnings_),
        "metadata": estimator.metadata_,
        "plan": None,
        "view_similarity": None,
        "common_space": None,
    }
    if hasattr(estimator, "classes_"):
        facts["classes"] = estimator.classes_.tolist()
    if plan is not None:
        facts["plan"] = {
            "W": plan.W.tolist(),
            "C": plan.C.tolist(),
        }
    if (similarity := estimator.view_similarity_) is not None:
        within = similarity.within_classes
        values = dict(vars(similarity))
        values["within_classes"] = None if within is None else within.value
        facts["view_similarity"] = {
            name.removesuffix("_classes"): _without_nan(x) for name, x in values.items()
        }
    if (common := estimator.common_space_) is not None:
        facts["common_space"] = {name: _without_nan(x) for name, x in vars(common).items()}
    return facts


def _without_nan(value: Any) -> Any:
    """Return arrays as lists, and None in the place of NaN, which JSON does not have."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def federation_lines(path: Path, estimator: Any) -> list[str]:
    """Describe the federation that trained a model; no lines if none did.

    Parameters
    ----------
    path : Path
        The model file, for errors.
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.

    Returns
    -------
    list of str
        Sentences.
    """
    if estimator.metadata_.get("federated") is None:
        return []
    from hotview.federated.partial_models import read_federation

    try:
        federation = read_federation(estimator)
    except ValueError as error:
        raise ValueError(
            f"Expected {path} to describe the federation that trained it, but {error}"
        ) from error
    joined, plan = federation.joined, federation.plan
    part = "this is the part of one of them" if joined is None else f"joined: {', '.join(joined)}"
    lines = [f"Trained by a federation of {', '.join(federation.names)}; {part}."]
    if plan is not None:
        lines.append("Plan W, rows adding up to 1:")
        for name, row in zip(plan.names, plan.W, strict=True):
            lines.append(f"  {name}: {', '.join(f'{w / sum(row):.2f}' for w in row)}")
    return lines


def result_lines(estimator: Any, scores: Any = None) -> list[str]:
    """Describe the result of a fit in a few sentences.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.
    scores : Assessment or None, default=None
        Its metrics on held-out rows.

    Returns
    -------
    list of str
        Sentences.
    """
    from hotview.evaluation.record import describe_views
    from hotview.training.column_scaler import KINDS

    seconds = estimator.trained_on_.get("seconds")
    n_epochs, n_networks = len(estimator.history_), len(estimator.networks_)
    time = "" if seconds is None else f"; {seconds:.0f} s in total"
    lines = [f"Networks: {n_networks}; epochs: {n_epochs}{time}."]
    for name, text in estimator.preprocessing_.items():
        if text not in (KINDS["standardize"], KINDS["none"]):
            lines.append(f"View {name!r}: {text}.")
    lines += describe_views(estimator)
    lines += _out_of_fold_lines(getattr(estimator, "out_of_fold_", {}))
    if scores is not None:
        accuracy = scores.accuracy
        lines.append(
            f"Accuracy on {accuracy.n} held-out rows: {100 * accuracy.value:.1f} % (95 % interval "
            f"{100 * accuracy.low:.0f} to {100 * accuracy.high:.0f} %); always predicting "
            f"{str(scores.majority_class)!r}: {100 * scores.majority.value:.1f} %."
        )
    return lines


def _out_of_fold_lines(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """How good a classifier is on labels that its members left out, by view and without it."""
    from hotview.estimators.out_of_fold import describe_contributions

    observed = [
        f"{name} {100 * x['accuracy']:.0f} %" for name, x in scores.items() if not x["expected"]
    ]
    lines = []
    if observed:
        n = max(x["n"] for x in scores.values() if not x["expected"])
        lines.append(f"Accuracy on {n} labels that were left out: {', '.join(observed)}.")
    for name, x in scores.items():
        if x["expected"]:
            lines.append(
                f"View {name!r} has no labels: by what the other views say about {x['n']} linked "
                f"rows, expect an accuracy of about {100 * x['accuracy']:.0f} %."
            )
    return [*lines, *describe_contributions(scores)]


def inspect(model: options.Model, json: options.Json = False, debug: options.Debug = False) -> None:
    """Describe a model: views, training rows, plan, parameters, versions."""
    from hotview.cli.models import open_model

    opened = open_model(model, device="cpu")
    federation = federation_lines(model, opened.estimator)
    facts = {"file": str(model), "bytes": model.stat().st_size}
    facts |= describe_model(opened.estimator)
    if json:
        print_json(facts)
    else:
        _print(facts, opened.estimator, federation)


def _print(facts: dict[str, Any], estimator: Any, federation: list[str]) -> None:
    from hotview.report.tables import matrix_table

    console = make_console()
    typer.echo(f"{facts['estimator']} in {facts['file']} ({facts['bytes'] / 1e6:.1f} MB)")
    headings = {"unlinked rows": "unaligned", "unlinked with label": "unaligned_labeled"}
    if not facts["trained_on"]:  # the parts of a federation do not share their row counts
        headings = {}
    rows = [
        (name, n, *(facts["trained_on"].get(key, {}).get(name, 0) for key in headings.values()))
        for name, n in facts["views"].items()
    ]
    print_table(console, ("view", "columns", *headings), rows)
    for line in (*_lines(facts), *federation, *result_lines(estimator)):
        typer.echo(line)
    names = estimator.view_names_
    if (similarity := estimator.view_similarity_) is not None:
        console.print(similarity_table(similarity, names))
        if similarity.within_classes is not None:
            console.print(similarity_table(similarity.within_classes, names, " within classes"))
    if (plan := estimator.plan_) is not None:
        W = plan.W * len(names)
        columns = names if plan.pairwise else [f"reference {k + 1}" for k in range(W.shape[1])]
        title = "The paper's plan W, rows adding up to 1"
        console.print(matrix_table(W, names, columns, title=title))
    for warning in facts["warnings"]:
        typer.echo(f"Warning at fit: {warning}")
    if command := facts["metadata"].get("command"):
        typer.echo(f"Made by: {command}")


def similarity_table(similarity: Any, names: list[str], where: str = "") -> Any:
    """Return a table of the similarities of all pairs of views.

    Parameters
    ----------
    similarity : PairSimilarity
        The similarities.
    names : list of str
        Names of the views.
    where : str, default=""
        End of its title.

    Returns
    -------
    rich.table.Table
        The table, without the similarity of a view to itself.
    """
    from hotview.report.tables import matrix_table

    values = similarity.value.copy()
    for s in range(len(names)):
        values[s, s] = float("nan")
    title = f"Similarity of views by linked rows{where}"
    return matrix_table(values, names, names, title=title, digits=2)


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    trained_on = facts["trained_on"]
    if trained_on:
        linked, labeled = trained_on["linked"], trained_on["linked_labeled"]
        yield f"Linked rows: {linked:,}, of which {labeled:,} have a label."
    if "classes" in facts:
        counts = {str(name): f": {n:,}" for name, n in trained_on.get("classes", ())}
        classes = [f"{name}{counts.get(str(name), '')}" for name in facts["classes"]]
        yield f"Classes: {', '.join(classes)}."
    changed = ", ".join(f"{name}={value}" for name, value in facts["changed_parameters"].items())
    yield f"Parameters other than the default: {changed or 'none'}."
    if versions := trained_on.get("versions"):
        yield f"Made with {', '.join(f'{name} {version}' for name, version in versions.items())}."
