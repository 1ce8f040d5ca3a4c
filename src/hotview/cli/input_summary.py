"""Summary of a dataset before training, and checks for missing cells."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from rich.table import Table
from scipy import sparse

from hotview._messages import ParameterError, listed
from hotview._processes import all_gather_arrays, rank, shard_of_rank, world_size
from hotview._types import Array
from hotview.cli.runner import make_table, with_flags
from hotview.data.columns import RULE, ViewColumns
from hotview.omics.fit import best_entry, describe_counts
from hotview.tables.files import OpenView
from hotview.tables.preprocessing import AlignedRows, Preprocessing
from hotview.tables.table_dataset import HoldoutSplit, TableDataset

_LISTED = 4
_CHUNK = 100_000  # rows


def describe_dataset(
    dataset: TableDataset, estimator: str, split: HoldoutSplit | None
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
        "rows_held_out": 0 if split is None else len(split.ids),
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


def count_missing(X: Any, columns: ViewColumns) -> dict[str, int]:
    """Count the missing cells of every column, in rows that are not missing as a whole.

    Several processes count together, each in its own rows.
    """
    counts = np.zeros(X.shape[1], dtype=np.int64)
    own = shard_of_rank(0 if sparse.issparse(X) else X.shape[0], rank(), world_size())
    for start in range(own.start, own.stop, _CHUNK):
        missing = np.isnan(X[start : min(start + _CHUNK, own.stop)])
        counts += missing[~missing.all(axis=1)].sum(axis=0)
    counts = np.sum(all_gather_arrays(counts), axis=0)
    if not counts.any():  # as of a view that is reduced already
        return {}
    return {name: int(n) for name, n in zip(columns.source_names, counts, strict=True) if n > 0}


def has_values(X: Any) -> Array:
    """Return whether each row has a value."""
    n_rows = X.shape[0]
    if sparse.issparse(X):
        return np.ones(n_rows, dtype=bool)
    parts = [~np.isnan(X[i : i + _CHUNK]).all(axis=1) for i in range(0, n_rows, _CHUNK)]
    return np.concatenate(parts)


def check_cells(
    rows: AlignedRows, preprocessing: Preprocessing, impute: Mapping[str, str | None]
) -> None:
    """Raise if cells are missing and not imputed, or if rows are empty in all views."""
    known = np.zeros(len(rows.ids), dtype=bool)
    for name, X in rows.views.items():
        known |= rows.present[name] & has_values(X)
        if impute[name] is None and (missing := count_missing(X, preprocessing.views[name])):
            text = f"Cells of view {name!r} are missing, in {listed(missing)}. "
            remedy = "Fill them in, or fit the model with {impute}."
            raise ParameterError(text, remedy, impute={name: "median"})
    if not known.all():
        empty = [str(key) for key in rows.ids[~known]]
        raise ValueError(
            f"Expected every row to have a value in some view, but {len(empty)} of "
            f"{len(rows.ids)} are empty: {listed(empty)}. Leave these rows out."
        )
