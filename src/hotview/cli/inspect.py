"""``hotview inspect`` and ``hotview export``: contents of a model file, and files from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotview.cli import options
from hotview.cli.options import option
from hotview.cli.runner import check_new_file, make_table, print_result

if TYPE_CHECKING:
    from rich.table import Table


PLAN_TITLE = "The paper's plan W, rows adding up to 1"


def describe_model(estimator: Any) -> dict[str, Any]:
    """Describe a model in plain values, for JSON."""
    from hotview.evaluation.record import describe_settings

    history, plan = list(estimator.history_), estimator.plan_
    similarity, common = estimator.view_similarity_, estimator.common_space_
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
        "plan": None if plan is None else {"W": plan.W.tolist(), "C": plan.C.tolist()},
        "view_similarity": None,
        "common_space": None if common is None else _plain(vars(common)),
    }
    if similarity is not None:
        within = similarity.within_classes
        values = {**vars(similarity), "within": None if within is None else within.value}
        del values["within_classes"]
        facts["view_similarity"] = _plain(values)
    if hasattr(estimator, "classes_"):
        facts["classes"] = estimator.classes_.tolist()
    return facts


def _plain(value: Any) -> Any:
    """Return what JSON has: lists in the place of arrays, and None in the place of NaN."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def federation_lines(path: Path, estimator: Any) -> list[str]:
    """Describe the federation that trained a model in sentences; no lines if none did."""
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
    """Describe the result of a fit in sentences, with its metrics on held-out rows, if any."""
    from hotview.evaluation.record import describe_views
    from hotview.preprocessing.column_scaler import KINDS

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
    from hotview.semisupervised.sentences import describe_contributions

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


def inspect(model: options.Model, json: options.Json = False) -> None:
    """Describe a model: views, training rows, plan, parameters, versions."""
    from hotview.cli.models import open_model

    estimator = open_model(model, device="cpu").estimator
    federation = federation_lines(model, estimator)
    facts = {"file": str(model), "bytes": model.stat().st_size, **describe_model(estimator)}
    print_result(facts, *_parts(facts, estimator, federation), as_json=json)


def _parts(facts: dict[str, Any], estimator: Any, federation: list[str]) -> Iterator[str | Table]:
    """What is printed about a model: lines and tables."""
    from hotview.report.tables import matrix_table
    from hotview.report.view_data import plan_matrix

    yield f"{facts['estimator']} in {facts['file']} ({facts['bytes'] / 1e6:.1f} MB)"
    headings = {"unlinked rows": "unaligned", "unlinked with label": "unaligned_labeled"}
    if not facts["trained_on"]:  # the parts of a federation do not share their row counts
        headings = {}
    rows = [
        (name, n, *(facts["trained_on"].get(key, {}).get(name, 0) for key in headings.values()))
        for name, n in facts["views"].items()
    ]
    yield make_table(("view", "columns", *headings), rows)
    yield from (*_lines(facts), *federation, *result_lines(estimator))
    names = estimator.view_names_
    if (similarity := estimator.view_similarity_) is not None:
        yield similarity_table(similarity, names)
        if similarity.within_classes is not None:
            yield similarity_table(similarity.within_classes, names, " within classes")
    if estimator.plan_ is not None:
        plan = plan_matrix(estimator, shares=True)
        yield matrix_table(plan.values, plan.rows, plan.columns, title=PLAN_TITLE)
    yield from (f"Warning at fit: {warning}" for warning in facts["warnings"])
    if command := facts["metadata"].get("command"):
        yield f"Made by: {command}"


def similarity_table(similarity: Any, names: list[str], where: str = "") -> Table:
    """Return a table of the similarities of all pairs of views."""
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


def export(
    model: options.Model,
    onnx: Annotated[Path, option("File to write (.onnx).")],
    part: Annotated[
        str, typer.Option(help="Output: predict_proba, features or common.")
    ] = "predict_proba",
    view: Annotated[str | None, option("View to encode, for features and common.")] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Export a model as ONNX: raw columns of every view in, probabilities or features out."""
    check_new_file(onnx, ".onnx", force=force)
    from hotview.cli.models import open_model
    from hotview.model import to_onnx

    to_onnx(open_model(model, device="cpu").estimator, onnx, part=part, view=view)
    size = onnx.stat().st_size
    line = f"{part} written to {onnx} ({size / 1e6:.1f} MB)"
    print_result({"out": str(onnx), "part": part, "bytes": size}, line, as_json=json)
