"""Summary of a dataset before training, and checks for missing cells."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from rich.console import Console
from scipy import sparse

from hotview._types import Array
from hotview.cli.runner import print_notes, print_table, with_flags
from hotview.cli.single_cells import name_counts
from hotview.datasets.readers.errors import listed
from hotview.ingest.columns import RULE, ViewColumns
from hotview.ingest.preprocessing import AlignedRows, Preprocessing
from hotview.ingest.table_dataset import HoldoutSplit, TableDataset
from hotview.ingest.tables import OpenView
from hotview.training.process_group import ProcessGroup, shard_of_rank

__all__ = ["check_cells", "check_missing", "count_missing", "describe_dataset", "print_dataset"]

_LISTED = 4
_CHUNK = 100_000  # rows


def describe_dataset(
    dataset: TableDataset,
    estimator: str,
    split: HoldoutSplit | None,
    process_group: ProcessGroup | None = None,
) -> dict[str, Any]:
    """Describe a dataset in plain values.

    Parameters
    ----------
    dataset : TableDataset
        The rows to train on.
    estimator : str
        Class of the estimator.
    split : HoldoutSplit or None
        The rows that are held out.
    process_group : ProcessGroup or None, default=None
        The processes that train together; None is this one alone.

    Returns
    -------
    dict
        Values for JSON.
    """
    counts = dataset.label_counts
    labels = sorted(counts, key=lambda label: (isinstance(label, str), label))
    return {
        "estimator": estimator,
        "views": [_describe_view(view, dataset, process_group) for view in dataset.opened],
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


def _describe_view(
    view: OpenView, dataset: TableDataset, process_group: ProcessGroup | None
) -> dict[str, Any]:
    columns = dataset.preprocessing.views[view.name]
    used = [column.name for column in columns.columns or ()]
    names = [] if view.table is None else view.table.names
    unaligned = dataset.unaligned.get(view.name)
    target = dataset.unaligned_target.get(view.name, ())
    return {
        "name": view.name,
        "file": str(view.path),
        "rows": int(dataset.rows[view.name].shape[0]),
        "columns": columns.n_columns,
        "linked_rows": int(dataset.present[view.name].sum()),
        "categorical": {c.name: list(c.categories or ()) for c in columns.categorical},
        "formats": dataset.formats.get(view.name, {}),
        "left_out": [name for name in names if name not in used],
        "counts": None if view.X is None else name_counts(view, view.X),
        "missing": count_missing(dataset.rows[view.name], columns, process_group),
        "unaligned_rows": 0 if unaligned is None else int(unaligned.shape[0]),
        "unaligned_rows_with_label": sum(label is not None for label in target),
    }


def print_dataset(summary: Mapping[str, Any], console: Console) -> None:
    """Print a dataset's summary.

    Parameters
    ----------
    summary : dict
        The return value of `describe_dataset`.
    console : Console
        Where to print.
    """
    headings = ("view", "file", "rows", "columns", "linked", "unlinked", "unlinked with label")
    rows = []
    for view in summary["views"]:
        counts = ("rows", "columns", "linked_rows", "unaligned_rows", "unaligned_rows_with_label")
        rows.append((view["name"], view["file"], *(view[count] for count in counts)))
    print_table(console, headings, rows, title="Input data", n_text=2)
    if len(rows) > 2 and summary["linked_rows"]:
        _print_links(summary, console)
    for line in _summary_lines(summary):
        console.print(line, highlight=False, markup=False)
    print_notes(summary["notes"])


def _print_links(summary: Mapping[str, Any], console: Console) -> None:
    """Print the number of linked rows of every pair of views."""
    names = [view["name"] for view in summary["views"]]
    links = {frozenset(pair): n for *pair, n in summary["links"]}
    rows = [
        (a, *("" if j < i else links[frozenset((a, b))] for j, b in enumerate(names[1:])))
        for i, a in enumerate(names[:-1])  # every pair once
    ]
    print_table(console, ("", *names[1:]), rows, title="Linked rows by pair")


def _summary_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    in_all = ""
    if len(summary["views"]) > 2 and summary["linked_rows"]:
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
    views = summary["views"]
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
    """Raise if cells are missing and not imputed.

    Parameters
    ----------
    summary : dict
        The return value of `describe_dataset`.
    impute : dict of str to (str or None)
        How missing cells of every view are imputed.
    """
    for view in summary["views"]:
        empty = [name for name, n in view["missing"].items() if n >= view["rows"]]
        if empty:
            drop = " ".join(f"--drop {shlex.quote(name)}" for name in empty)
            raise ValueError(
                f"{view['file']}: no cell of {listed(empty)} has a value. Pass {drop}."
            )
        if view["missing"] and impute[view["name"]] is None:
            columns = _first([f"{name!r} ({n})" for name, n in view["missing"].items()])
            raise ValueError(
                f"{view['file']}: cells are missing in {columns}. Fill them with the median of "
                f"their column: {_flag(view['name'])}; or leave columns out: --drop."
            )


def _flag(name: str) -> str:
    return f"--impute {shlex.quote(f'{name}=median')}"


def count_missing(
    X: Any, columns: ViewColumns, process_group: ProcessGroup | None = None
) -> dict[str, int]:
    """Count the missing cells of every column, in rows that are not missing as a whole.

    Parameters
    ----------
    X : ndarray or csr_array
        Rows of a view.
    columns : ViewColumns
        Its columns.
    process_group : ProcessGroup or None, default=None
        The processes that count together, each in its own rows; None is this one alone.

    Returns
    -------
    dict of str to int
        Columns with missing cells.
    """
    process_group, counts = (
        process_group or ProcessGroup(),
        np.zeros(X.shape[1], dtype=np.int64),
    )
    own = shard_of_rank(
        0 if sparse.issparse(X) else X.shape[0], process_group.rank, process_group.world_size
    )
    for start in range(own.start, own.stop, _CHUNK):
        missing = np.isnan(X[start : min(start + _CHUNK, own.stop)])
        counts += missing[~missing.all(axis=1)].sum(axis=0)
    counts = np.sum(process_group.all_gather_arrays(counts), axis=0)
    if not counts.any():  # as of a view that is reduced already
        return {}
    return {name: int(n) for name, n in zip(columns.source_names, counts, strict=True) if n > 0}


def check_cells(
    rows: AlignedRows, preprocessing: Preprocessing, impute: Mapping[str, str | None]
) -> None:
    """Raise if cells are missing and not imputed, or if rows are empty in all views.

    Parameters
    ----------
    rows : AlignedRows
        The rows of all views.
    preprocessing : Preprocessing
        The columns of all views.
    impute : dict of str to (str or None)
        How missing cells of every view are imputed.
    """
    known = np.zeros(len(rows.ids), dtype=bool)
    for name, X in rows.views.items():
        known |= rows.present[name] & ~_is_empty(X)
        if impute[name] is None and (missing := count_missing(X, preprocessing.views[name])):
            raise ValueError(
                f"Cells of view {name!r} are missing, in {listed(missing)}. Fill them in, or fit "
                f"the model with {_flag(name)}."
            )
    if not known.all():
        empty = [str(key) for key in rows.ids[~known]]
        raise ValueError(
            f"Expected every row to have a value in some view, but {len(empty)} of "
            f"{len(rows.ids)} are empty: {listed(empty)}. Leave these rows out."
        )


def _is_empty(X: Any) -> Array:
    n_rows = X.shape[0]
    if sparse.issparse(X):
        return np.zeros(n_rows, dtype=bool)
    parts = [np.isnan(X[i : i + _CHUNK]).all(axis=1) for i in range(0, n_rows, _CHUNK)]
    return np.concatenate(parts)
