"""The work of ``hotview fit``: read and describe files, train, save the model, print the result."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from hotview._messages import ParameterError, did_you_mean, listed
from hotview._processes import all_gather_arrays, on_rank_zero
from hotview.cli.fit import FitJob
from hotview.cli.inspect import result_lines
from hotview.cli.models import count_missing, file_sha256
from hotview.cli.options import spread_methods
from hotview.cli.runner import (
    INTERRUPTED,
    UsageError,
    as_usage,
    make_table,
    print_json,
    print_notes,
    print_parts,
    print_result,
    with_flags,
)
from hotview.data.columns import RULE
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.checkpointing import lock_output
from hotview.estimators.diagnostics import was_interrupted
from hotview.evaluation import assess
from hotview.evaluation.assessment import class_counts
from hotview.losses.specifications import as_coupling, as_regularizer
from hotview.model.parameters import check_parameters, impute_of, pick_processes
from hotview.omics.fit import best_entry, describe_counts, holds_counts, warn_of_chance_links
from hotview.tables.dataset import read_dataset
from hotview.tables.files import OpenView, split_name
from hotview.tables.preprocessing import AlignedRows
from hotview.tables.table_dataset import (
    TableDataset,
    hash_ids,
    keep_linked,
    split_holdout,
)

_LISTED = 4
#: Functions that turn a name into the specification object whose settings can be changed.
_SPECIFICATIONS: dict[str, Callable[[Any], Any]] = {
    "coupling": as_coupling,
    "view_regularizer": as_regularizer,
}


def run_fit(job: FitJob, write_config: Callable[[], str | None] = lambda: None) -> int:
    """Train a model on files: 0, or 130 if Ctrl-C ended it, whose model is saved nevertheless.

    Once the files have been read, `write_config` writes the configuration that repeats the fit, if
    asked for, and returns a sentence that says so.
    """
    processes = pick_processes({"device": "auto", **job.parameters})
    out = None if job.dry_run else job.out
    with processes, lock_output(out):
        return _fit(job, write_config)


def _fit(job: FitJob, write_config: Callable[[], str | None]) -> int:
    if not job.dry_run:
        job.check_output()  # before the work, not after it
    with as_usage():
        job.files.check()
        paired = job.coupling is not None and as_coupling(job.coupling).needs_alignment
    dataset, held_out = _read(job, paired=paired)
    estimator = make_estimator(dataset, job.parameters)
    with as_usage():
        check_parameters(estimator.get_params(deep=False))
        impute = impute_of(estimator.impute, list(dataset.rows))
    summary = describe_dataset(dataset, type(estimator).__name__, held_out)
    written = on_rank_zero(write_config)
    if not job.json:
        print_parts(*describe_summary(summary))
        print_notes(summary["notes"])
        print_parts(*filter(None, [written]))
    elif job.dry_run:
        print_json(summary)
    if job.dry_run:
        job.check_output()
    check_missing(summary, impute)
    arguments = dataset.fit_arguments
    if isinstance(estimator, MultiViewEncoder):
        arguments = dataset.encoder_arguments(paired=paired)
    if job.dry_run:
        estimator._check_fit(**arguments, resume=job.resume)
        return 0
    resume = job.resume
    if estimator.checkpoint is not None:  # torchrun may have restarted the fit on some node
        n_restarts = np.array([int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))])
        resume |= bool(np.concatenate(all_gather_arrays(n_restarts)).any())
    estimator.fit(**arguments, resume=resume)
    estimator.model_.batch_offsets = dataset.offsets
    if any(view.obs is not None for view in dataset.opened):
        warn_of_chance_links(estimator)
    # A process that ends before the model is saved would count as lost.
    return on_rank_zero(lambda: _finish(job, estimator, dataset, summary, held_out))


def _read(job: FitJob, *, paired: bool) -> tuple[TableDataset, AlignedRows | None]:
    if job.hold_out is not None and not 0 < job.hold_out < 1:
        raise UsageError(f"Expected --hold-out between 0 and 1, but it is {job.hold_out:g}.")
    dataset = read_dataset(job.files, use_labels=job.hold_out is None)
    if job.linked_only:
        dataset = keep_linked(dataset)
    elif paired and (dataset.unaligned or not dataset.is_complete.all()):
        raise UsageError(
            f"--coupling {job.coupling} needs rows that are linked in all views, but "
            "there are others. Leave these out with --linked-only."
        )
    if job.hold_out is None:
        return dataset, None
    return split_holdout(dataset, job.hold_out)


def make_estimator(dataset: TableDataset, parameters: Mapping[str, Any]) -> Any:
    """Return the estimator for a dataset: a classifier if there are labels, else an encoder."""
    estimator: Any = MultiViewEncoder()
    if dataset.has_labels:
        estimator = MultiViewClassifier(unlabeled_marker=None)  # which the dataset holds
    known = estimator.get_params(deep=False)
    settings = {"verbose": sys.stderr.isatty(), **parameters}
    if "impute" in parameters:
        settings["impute"] = spread_methods(parameters["impute"], dataset.rows)
    for name in parameters:
        owner, nested, _ = name.partition("__")
        if owner not in known and owner in MultiViewClassifier().get_params(deep=False):
            raise UsageError(
                f"The parameter {owner} is for classifiers, but no row has a label. Give --labels "
                "and --label-column, or leave it out."
            )
        if owner not in known:
            hint = did_you_mean(owner, known)
            raise UsageError(f"--set names an unknown parameter {owner!r}.{hint}")
        if nested and owner not in _SPECIFICATIONS:
            raise UsageError(f"The parameter {owner} has no settings of its own.")
        if nested:
            settings[owner] = _SPECIFICATIONS[owner](settings.get(owner, known[owner]))
    with as_usage():
        return estimator.set_params(**settings)


def _finish(
    job: FitJob,
    estimator: Any,
    dataset: TableDataset,
    summary: dict[str, Any],
    held_out: AlignedRows | None,
) -> int:
    """Save the model, evaluate it on held-out rows and print the result."""
    assert job.out is not None
    out, interrupted = job.out, was_interrupted(estimator.fit_warnings_)
    if interrupted and out.exists():  # a partial model does not replace a complete one
        out = out.with_name(f"{out.stem}-interrupted.hotview")
    estimator.metadata_ = _metadata(job, summary, dataset)
    estimator.save(out)
    scores = None
    if held_out is not None and held_out.target is not None:
        P, prior = estimator.predict_proba(held_out.views), class_counts(estimator)
        scores = assess(held_out.target, P, estimator.classes_, prior=prior)
    result = {
        "model": str(out),
        "seconds": estimator.trained_on_["seconds"],
        "held_out": None if scores is None else scores.to_json(),
        "interrupted": interrupted,
        "warnings": list(estimator.fit_warnings_),
    }
    print_result(
        summary | result,
        *result_lines(estimator, scores),
        f"Model saved to {out}",
        f"Next: hotview report {shlex.quote(str(out))} -o report.html",
        as_json=job.json,
    )
    return INTERRUPTED if interrupted else 0


def _metadata(job: FitJob, summary: dict[str, Any], dataset: TableDataset) -> dict[str, Any]:
    """Return what a model stores about its files: how to read others, and which they were."""
    files, views = job.files, [split_name(spec) for spec in job.files.views]
    cells = {view.name: view for view in dataset.opened if view.obs is not None}
    styles = [view.obs.styles.get(files.label_column or "") for view in cells.values() if view.obs]
    omics = {
        "counts": {name: holds_counts(view.X) for name, view in cells.items()},
        "batch_key": files.batch_column,
        "label": next((style for style in styles if style), {}),
    }
    paths = [path for _, path in views] + [*files.ids.values(), *filter(None, [files.labels])]
    sha256 = {path: file_sha256(path) for path in paths}
    by_file = {str(Path(path)): {"path": path, "sha256": x} for path, x in sha256.items()}
    return {
        **({"omics": omics} if cells else {}),
        "command": shlex.join(["hotview", *sys.argv[1:]]),
        "preprocessing": summary["preprocessing"],
        "files": {view["name"]: by_file[view["file"]] for view in summary["views"]},
        "dataset": json.loads(json.dumps({**asdict(files), "views": views})),  # tuples are lists
        "sha256": sha256,
        "hold_out": job.hold_out,
        "linked_only": job.linked_only,
        "trained_ids": hash_ids(dataset.labeled_ids),
        "hashed_without": list(dataset.hashed_without),
        "trained_groups": None if dataset.groups is None else hash_ids(dataset.labeled_groups),
    }


def describe_dataset(
    dataset: TableDataset, estimator: str, held_out: AlignedRows | None
) -> dict[str, Any]:
    """Describe a dataset in plain values for JSON; processes count missing cells together."""
    counts = dataset.label_counts
    labels = sorted(counts, key=lambda label: (isinstance(label, str), label))
    return {
        "estimator": estimator,
        "views": [_describe_view(view, dataset) for view in dataset.opened],
        "linked_rows": len(dataset.ids),
        "linked_in_all_views": int(dataset.is_complete.sum()),
        "links": [[*pair, n] for pair, n in dataset.links.items()],
        "linked_rows_with_label": sum(label is not None for label in dataset.target),
        "rows_held_out": 0 if held_out is None else len(held_out.ids),
        "labels": [[label, counts[label]] for label in labels],
        "labeled_groups": len(dataset.labeled_groups),
        "notes": [with_flags(note) for note in dataset.notes],
        "preprocessing": dataset.preprocessing.to_json(),
    }


def _describe_view(view: OpenView, dataset: TableDataset) -> dict[str, Any]:
    columns = dataset.preprocessing.views[view.name]
    used = [column.name for column in columns.columns or ()]
    names = [] if view.table is None else view.table.names
    unaligned = dataset.unaligned.get(view.name)
    target = dataset.unaligned_target.get(view.name, ())
    counts = None
    if view.obs is not None:
        choice = shlex.quote(f"{view.name}={best_entry(view.obs.obsm)}")
        counts = describe_counts(view.name, view.X, f"--obsm {choice}")
    return {
        "name": view.name,
        "file": str(view.path),
        "rows": int(dataset.rows[view.name].shape[0]),
        "columns": columns.n_columns,
        "linked_rows": int(dataset.present[view.name].sum()),
        "categorical": {c.name: list(c.categories or ()) for c in columns.categorical},
        "formats": dataset.formats.get(view.name, {}),
        "left_out": [name for name in names if name not in used],
        "counts": counts,
        "missing": count_missing(dataset.rows[view.name], columns),
        "unaligned_rows": 0 if unaligned is None else int(unaligned.shape[0]),
        "unaligned_rows_with_label": sum(label is not None for label in target),
    }


def describe_summary(summary: Mapping[str, Any]) -> Iterator[str | Table]:
    """Describe a dataset from `describe_dataset` in tables and lines."""
    headings = ("view", "file", "rows", "columns", "linked", "unlinked", "unlinked with label")
    counts = ("linked_rows", "unaligned_rows", "unaligned_rows_with_label")
    keys, views = ("name", "file", "rows", "columns", *counts), summary["views"]
    rows = [[view[key] for key in keys] for view in views]
    yield make_table(headings, rows, title="Input data", n_text=2)
    in_all = ""
    if len(views) > 2 and summary["linked_rows"]:
        names = [view["name"] for view in views]
        links = {frozenset(pair): n for *pair, n in summary["links"]}
        rows = [
            [a, *("" if j < i else links[frozenset((a, b))] for j, b in enumerate(names[1:]))]
            for i, a in enumerate(names[:-1])  # every pair once
        ]
        yield make_table(("", *names[1:]), rows, title="Linked rows by pair")
        in_all = f" in two views or more ({summary['linked_in_all_views']:,} in all)"
    yield (
        f"Linked rows: {summary['linked_rows']:,}{in_all}, of which "
        f"{summary['linked_rows_with_label']:,} have a label."
    )
    if summary["rows_held_out"]:
        yield f"Held out to evaluate the model: {summary['rows_held_out']:,} more linked rows."
    if summary["labels"]:
        yield f"Labels: {', '.join(f'{label}: {n:,}' for label, n in summary['labels'])}."
        if summary["labeled_groups"]:
            yield f"These labels are of {summary['labeled_groups']:,} groups of rows."
    else:
        yield "No labels: a MultiViewEncoder is trained, which does not predict."
    for view in views:
        if view["counts"] is not None:
            yield view["counts"]
    missing = {v["name"]: [f"{c} ({n:,})" for c, n in v["missing"].items()] for v in views}
    left_out = {v["name"]: v["left_out"] for v in views}
    for heading, columns in (("Missing cells", missing), ("Columns left out", left_out)):
        if any(columns.values()):
            parts = [f"{name}: {_first(names)}" for name, names in columns.items() if names]
            yield f"{heading}: {'; '.join(parts)}."
    for view in views:
        for column, text in view["formats"].items():
            yield f"{view['name']}: column {column!r}: {text}."
    categorical = [
        f"{view['name']}: {name} ({len(values)}: {_first(values)})"
        for view in views
        for name, values in view["categorical"].items()
    ]
    if categorical:
        yield f"Categorical columns: {'; '.join(categorical)}."
        yield RULE


def _first(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")


def check_missing(summary: Mapping[str, Any], impute: Mapping[str, str | None]) -> None:
    """Raise if cells are missing in a dataset from `describe_dataset`, and not imputed."""
    for view in summary["views"]:
        empty = [name for name, n in view["missing"].items() if n >= view["rows"]]
        if empty:
            text = f"{view['file']}: no cell of {listed(empty)} has a value. "
            raise ParameterError(text, "Pass {drop}.", drop=empty)
        if view["missing"] and impute[view["name"]] is None:
            columns = _first([f"{name!r} ({n})" for name, n in view["missing"].items()])
            raise ParameterError(
                f"{view['file']}: cells are missing in {columns}. Fill them with the median of ",
                "their column: {impute}; or leave columns out: {drop}.",
                impute={view["name"]: "median"},
            )
