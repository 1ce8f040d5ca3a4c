"""Rows that a model is judged by, and whether it has seen them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotview._types import Array
from hotview.cli.models import OpenModel, fingerprint
from hotview.datasets.people.holding_out import hold_out
from hotview.datasets.people.labels import label_array
from hotview.datasets.people.opening import split_name
from hotview.datasets.people.recipe import Recipe
from hotview.datasets.people.study import Files, Study, read_study

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
        Whether the model was trained on them.
    study : Study or None
        What it was trained on, where that is still there.
    remarks : list of str
        What a user should know.
    """

    views: dict[str, Any]
    target: Array | None
    ids: Array
    seen: bool
    study: Study | None
    remarks: list[str]


def read_judged(
    model: OpenModel, specs: Sequence[str], labels: str | None, id_files: Mapping[str, str]
) -> Judged:
    """Read rows to judge a model by; of the files of its fit, only those that were held out.

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
    study = training_study(model)
    trained_on = _are_training_files(model, specs)
    share = model.notes.get("hold_out")
    if trained_on and share is not None and study is not None:
        held = hold_out(study, share)
        names = {name for name, _ in map(_named, specs)}
        views = {name: X for name, X in held.views.items() if name in names}
        note = f"These are the files of the fit: judged by the {len(held.ids)} rows held out."
        return Judged(views, held.target, held.ids, False, held.study, [note])
    read = model.read_people(specs, id_files)
    target = None
    if model.recipe.label_column is not None:
        target = label_array(model.read_labels(read.people, specs, labels))
    remarks = [*read.remarks, *_overlap(study, read.people.ids, trained_on)]
    people = read.people
    return Judged(people.views, target, people.ids, trained_on, study, remarks)


def _named(spec: str) -> tuple[str, str]:
    name, path = split_name(spec)
    return name or Path(path).name.split(".")[0], path


def _are_training_files(model: OpenModel, specs: Sequence[str]) -> bool:
    """Whether all of the files are among those of the fit, to the byte."""
    known = {facts["sha256"] for facts in model.notes.get("files", {}).values()}
    return bool(known) and all(fingerprint(path) in known for _, path in map(_named, specs))


def _overlap(study: Study | None, ids: Array, trained_on: bool) -> list[str]:
    if study is None or trained_on or study.recipe.id_column is None:
        return []
    known = {key for key, label in zip(study.ids, study.target, strict=True) if label is not None}
    both = known & set(ids.tolist())
    if not both:
        return []
    return [
        f"{len(both)} of these {len(ids)} ids are among the labeled rows of the fit: what is said "
        "of accuracy is too good. Leave them out."
    ]


def training_study(model: OpenModel) -> Study | None:
    """What a model was trained on, if its files are still where and what they were.

    Parameters
    ----------
    model : OpenModel
        The model.

    Returns
    -------
    Study or None
        With the rows that were held out, if any were.
    """
    notes = model.notes
    files = notes.get("files", {})
    if not files or not all(_is_unchanged(**facts) for facts in files.values()):
        return None
    recipe = Recipe.from_json(notes["recipe"])  # not that of new files, whose ids may differ
    return read_study(
        Files(
            notes["views"],
            notes["labels"],
            recipe.label_column,
            recipe.id_column,
            notes["ids"],
            recipe.drop,
            notes["categorical"],
            recipe.text,
        )
    )


def _is_unchanged(path: str, sha256: str) -> bool:
    return Path(path).is_file() and fingerprint(path) == sha256


def labeled(judged: Judged) -> tuple[dict[str, Any], Array, Array]:
    """Views, labels and ids of the rows that have a label."""
    if judged.target is None:
        raise ValueError("Expected labels to judge by. Give --labels FILE and --label-column NAME.")
    rows = np.flatnonzero([label is not None for label in judged.target])
    if len(rows) == 0:
        raise ValueError("Expected labels to judge by, but no row has one. Check ids and labels.")
    views = {name: X[rows] for name, X in judged.views.items()}
    return views, np.array(judged.target[rows].tolist()), judged.ids[rows]
