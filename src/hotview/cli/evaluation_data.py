"""Rows that a model is judged by, and whether it has seen their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hotview._types import Array
from hotview.cli.models import OpenModel, Read, fingerprint
from hotview.ingest.dataset import DatasetFiles, TableDataset, read_dataset
from hotview.ingest.holdout import hold_out, keep_linked
from hotview.ingest.id_hashes import find_ids
from hotview.ingest.labels import label_array
from hotview.ingest.preprocessing import Preprocessing

__all__ = ["Judged", "labeled", "read_judged", "training_study"]


@dataclass(frozen=True)
class Judged:
    """Rows that a model is judged by.

    Parameters
    ----------
    views : dict of str to ndarray or csr_array
        Aligned rows, NaN throughout where a view does not have somebody.
    target : ndarray or None
        Their labels, None where there is none; None if there are none at all.
    ids : ndarray
        Who they are.
    seen : bool
        Whether the model was trained on them, labels included.
    remarks : list of str
        What a user should know.
    """

    views: dict[str, Any]
    target: Array | None
    ids: Array
    seen: bool
    remarks: list[str]


def read_judged(
    model: OpenModel, specs: Sequence[str], labels: str | None, id_files: Mapping[str, str]
) -> Judged:
    """Read rows to judge a model by, without those whose labels it was trained on.

    Where it was trained on all of them, they are kept, and `seen` says so.

    Parameters
    ----------
    model : OpenModel
        The model.
    specs : sequence of str
        ``name=file``, or files named after their view.
    labels : str or None
        A table of labels.
    id_files : dict of str to str
        Tables with the ids of views whose files have none.

    Returns
    -------
    Judged
        The rows.
    """
    read = model.read_people(specs, id_files)
    people = read.people
    judged = Judged(people.views, _target(model, read, labels), people.ids, False, read.remarks)
    if judged.target is None:
        return judged
    known = np.array([label is not None for label in judged.target], dtype=bool)
    seen = _seen(model, read) & known
    if not seen.any():
        return judged
    if not (known & ~seen).any():
        note = "The model was trained on these very rows and labels: what is said is too good."
        return replace(judged, seen=True, remarks=[*judged.remarks, note])
    note = (
        f"The model was trained on {seen.sum():,} of these rows with their labels; it is judged by "
        f"the other {(known & ~seen).sum():,} that have one."
    )
    kept = np.flatnonzero(~seen)
    views = {name: X[kept] for name, X in judged.views.items()}
    remarks = [*judged.remarks, note]
    return Judged(views, judged.target[kept], judged.ids[kept], False, remarks)


def _target(model: OpenModel, read: Read, labels: str | None) -> Array | None:
    """Labels, if there are any: given, in the views, or those of the fit for its files."""
    column = model.recipe.label_column
    if labels is None and _are_training_files(model, read):
        recorded = model.notes.get("tables", {}).get("--labels")
        found = None if recorded is None else _unchanged(model, **recorded)
        labels = None if found is None else str(found)
    tables = [rows.view.table for rows in read.rows.values() if rows.view is not None]
    in_views = any(table is not None and column in table.names for table in tables)
    if column is None or (labels is None and not in_views):
        return None
    return label_array(model.read_labels(read, labels))


def _seen(model: OpenModel, read: Read) -> Array:
    """Who was trained on with a label: by their ids, or, without any, by the files themselves."""
    hashes = model.notes.get("trained_ids")
    if read.people.has_ids and hashes is not None:
        return find_ids(read.people.ids, hashes)
    return np.full(len(read.people.ids), _are_training_files(model, read))


def _are_training_files(model: OpenModel, read: Read) -> bool:
    """Whether the file of every view is that of the fit, to the byte."""
    files = model.notes.get("files", {})
    return bool(files) and all(
        rows.view is not None and files.get(name, {}).get("sha256") == fingerprint(rows.view.path)
        for name, rows in read.rows.items()
    )


def training_study(model: OpenModel) -> TableDataset | None:
    """What a model was trained on, if its files are still where and what they were.

    Parameters
    ----------
    model : OpenModel
        The model.

    Returns
    -------
    TableDataset or None
        Without the rows that were held out.
    """
    notes = model.notes
    if "views" not in notes:
        return None
    paths = [_unchanged(model, facts["path"], facts["sha256"]) for facts in notes["views"]]
    tables = {name: _unchanged(model, **facts) for name, facts in notes["tables"].items()}
    if None in paths or None in tables.values():
        return None
    names = [facts["name"] for facts in notes["views"]]
    specs = [str(p) if n is None else f"{n}={p}" for n, p in zip(names, paths, strict=True)]
    recipe = Preprocessing.from_json(notes["recipe"])  # not that of new files, whose ids may differ
    files = DatasetFiles(
        specs,
        str(tables["--labels"]) if "--labels" in tables else None,
        recipe.label_column,
        recipe.id_column,
        {name: str(path) for name, path in tables.items() if name != "--labels"},
        recipe.drop,
        notes["categorical"],
        recipe.text,
        notes["marker"],
    )
    study, share = read_dataset(files), notes["hold_out"]
    if notes["linked_only"]:
        study = keep_linked(study)
    return study if share is None else hold_out(study, share).study


def _unchanged(model: OpenModel, path: str, sha256: str) -> Path | None:
    """Where a file of the fit is now, if it is as it was: here, or beside the model."""
    for folder in (Path(), model.path.parent):
        if (folder / path).is_file() and fingerprint(folder / path) == sha256:
            return folder / path
    return None


def labeled(judged: Judged) -> tuple[dict[str, Any], Array, Array]:
    """Views, labels and ids of the rows that have a label."""
    if judged.target is None:
        raise ValueError("Expected labels to judge by. Give --labels FILE and --label-column NAME.")
    rows = np.flatnonzero([label is not None for label in judged.target])
    if len(rows) == 0:
        raise ValueError("Expected labels to judge by, but no row has one. Check ids and labels.")
    views = {name: X[rows] for name, X in judged.views.items()}
    return views, judged.target[rows], judged.ids[rows]
