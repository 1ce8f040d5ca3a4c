"""Models and the files that go into them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotview.cli.missing import check_cells
from hotview.estimators import MultiViewClassifier
from hotview.ingest.columns import Column, ViewColumns
from hotview.ingest.labels import LabelSource, find_labels, match_classes, merge_labels
from hotview.ingest.preprocessing import (
    AlignedRows,
    Preprocessing,
    TableRows,
    align_views,
    read_rows,
)
from hotview.ingest.tables import open_table
from hotview.persistence import load_model

__all__ = ["OpenModel", "fingerprint", "open_model"]

_BLOCK = 2**20


@dataclass(frozen=True)
class OpenModel:
    """A model with the recipe by which its files are read.

    Parameters
    ----------
    path : Path
        Its file.
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.
    recipe : Preprocessing
        How files are read for it.
    """

    path: Path
    estimator: Any
    recipe: Preprocessing

    @property
    def notes(self) -> Mapping[str, Any]:
        """What `hotview fit` noted; nothing for a model from Python."""
        notes: Mapping[str, Any] = self.estimator.metadata_
        return notes

    def check_classifies(self) -> None:
        """Refuse a model that knows no classes."""
        if not isinstance(self.estimator, MultiViewClassifier):
            raise ValueError(
                f"{self.path} was trained without labels, so it can only transform. Fit it with "
                "--labels and --label-column to predict."
            )

    def read_rows(self, specs: Sequence[str], id_files: Mapping[str, str]) -> dict[str, TableRows]:
        """Rows of every view that is given, as they are in its file."""
        return read_rows(self.recipe, specs, id_files)

    def read_people(self, specs: Sequence[str], id_files: Mapping[str, str]) -> Read:
        """Individuals with all their views that are given."""
        rows = self.read_rows(specs, id_files)
        remarks = [remark for view in rows.values() for remark in view.remarks]
        people = align_views(rows)
        check_cells(people, self.recipe, self.estimator.impute)
        return Read(people, rows, remarks)

    def read_labels(self, read: Read, path: str | None) -> list[Any]:
        """The label of each of them, None where there is none."""
        column = self.recipe.label_column
        if column is None:
            raise ValueError("Say which column holds the labels: --label-column.")
        table = None if path is None else open_table(path, self.recipe.options)
        source = LabelSource(table, column, self.recipe.id_column)
        people = read.people
        if table is not None and not people.has_ids:
            cells = source.read(table)
        else:
            views = [rows.view for rows in read.rows.values() if rows.view is not None]
            found = find_labels(source, views, {n: rows.ids for n, rows in read.rows.items()})
            by_place = {n: dict(enumerate(c, start=1)) for n, c in found.by_view.items()}
            by_key = found.by_id if people.has_ids else merge_labels(by_place)
            cells = [by_key.get(key) for key in people.ids.tolist()]
        if len(cells) != len(people.ids):
            raise ValueError(
                f"Expected a label for each of the {len(people.ids)} rows, but {path} has "
                f"{len(cells)}. Without ids, row i of the labels belongs to row i of the views."
            )
        return match_classes(cells, self.estimator.classes_)


@dataclass(frozen=True)
class Read:
    """Individuals, the rows they come from, and what a user should know about these."""

    people: AlignedRows
    rows: dict[str, TableRows]
    remarks: list[str]


def open_model(
    path: Path,
    *,
    device: str = "auto",
    id_column: str | None = None,
    label_column: str | None = None,
    text: Mapping[str, Any] | None = None,
) -> OpenModel:
    """Load a model, and find out how files are read for it.

    Parameters
    ----------
    path : Path
        Its file.
    device : str, default="auto"
        Where it is to compute.
    id_column, label_column : str or None, default=None
        Columns to use instead of those of the fit.
    text : dict of str to object, or None, default=None
        How text tables are written, where it is not as at the fit.

    Returns
    -------
    OpenModel
        The model.
    """
    estimator = load_model(path, device=device)
    facts = estimator.metadata_.get("recipe")
    recipe = _plain_recipe(estimator) if facts is None else _recipe(path, facts)
    recipe = replace(recipe, text={**recipe.text, **(text or {})})
    if id_column is not None:
        recipe = replace(recipe, id_column=id_column)
    if label_column is not None:
        recipe = replace(recipe, label_column=label_column)
    return OpenModel(path, estimator, recipe)


def _recipe(path: Path, facts: Any) -> Preprocessing:
    try:
        return Preprocessing.from_json(facts)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {path} to say how its files were read, but what it says cannot be "
            "understood. Fit the model again."
        ) from error


def _plain_recipe(estimator: Any) -> Preprocessing:
    """Of a model that was fitted in Python: its columns as they are."""
    views = {}
    for name, (n_columns, names) in estimator._shapes.items():
        columns = None if names is None else tuple(Column(column) for column in names)
        views[name] = ViewColumns(columns, n_columns)
    return Preprocessing(views)


def fingerprint(path: str | Path) -> str:
    """SHA-256 of a file, by which it is known again.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
