"""Models and the files that go into them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotview.datasets.people.columns import Column, ViewColumns
from hotview.datasets.people.labels import labels_by_id, read_labels
from hotview.datasets.people.opening import open_table, open_views
from hotview.datasets.people.recipe import People, Recipe, ViewRows, gather_people, read_rows
from hotview.estimators import MultiViewClassifier
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
    recipe : Recipe
        How files are read for it.
    """

    path: Path
    estimator: Any
    recipe: Recipe

    @property
    def notes(self) -> Mapping[str, Any]:
        """What `hotview fit` noted; nothing for a model from Python."""
        notes: Mapping[str, Any] = self.estimator.notes_
        return notes

    def check_classifies(self) -> None:
        """Refuse a model that knows no classes."""
        if not isinstance(self.estimator, MultiViewClassifier):
            raise ValueError(
                f"{self.path} was trained without labels, so it can only transform. Fit it with "
                "--labels and --label-column to predict."
            )

    def read_rows(self, specs: Sequence[str], id_files: Mapping[str, str]) -> dict[str, ViewRows]:
        """Rows of every view that is given, as they are in its file."""
        return read_rows(self.recipe, specs, id_files)

    def read_people(self, specs: Sequence[str], id_files: Mapping[str, str]) -> Read:
        """Individuals with all their views that are given."""
        rows = self.read_rows(specs, id_files)
        remarks = [remark for view in rows.values() for remark in view.remarks]
        return Read(gather_people(rows), remarks)

    def read_labels(self, people: People, specs: Sequence[str], path: str | None) -> list[Any]:
        """The label of each of them, None where there is none."""
        column = self.recipe.label_column
        if column is None:
            raise ValueError("Say which column holds the labels: --label-column.")
        as_text = self.estimator.classes_.dtype.kind in "UO"
        how = {"as_text": as_text}
        if path is None:
            return self._own_labels(people, specs, column, as_text)
        table = open_table(path, self.recipe.options)
        if people.has_ids:
            assert self.recipe.id_column is not None
            by_id = labels_by_id(table, self.recipe.id_column, column, **how)
            return [by_id.get(key) for key in people.ids]
        labels = read_labels(table, column, **how)
        if len(labels) != len(people.ids):
            raise ValueError(
                f"Expected a label for each of the {len(people.ids)} rows, but {path} has "
                f"{len(labels)}. Without ids, row i of the labels belongs to row i of the views."
            )
        return labels

    def _own_labels(
        self, people: People, specs: Sequence[str], column: str, as_text: bool
    ) -> list[Any]:
        opened = open_views(specs, self.recipe.options)
        tables = [v for v in opened if v.table is not None and column in v.table.names]
        if not tables:
            raise ValueError(f"No view has a column {column!r} of labels. Give --labels FILE.")
        found: dict[Any, Any] = {}
        for view in tables:
            assert view.table is not None
            labels = read_labels(view.table, column, as_text=as_text)
            keys: Sequence[Any] = range(1, len(labels) + 1)
            if people.has_ids:
                assert self.recipe.id_column is not None
                keys = view.table.read_text([self.recipe.id_column])[0]
            found |= {k: y for k, y in zip(keys, labels, strict=True) if y is not None}
        return [found.get(key) for key in people.ids]


@dataclass(frozen=True)
class Read:
    """Individuals, and what a user should know about how they were read."""

    people: People
    remarks: list[str]


def open_model(
    path: Path,
    *,
    device: str = "auto",
    id_column: str | None = None,
    label_column: str | None = None,
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

    Returns
    -------
    OpenModel
        The model.
    """
    estimator = load_model(path, device=device)
    facts = estimator.notes_.get("recipe")
    recipe = _plain_recipe(estimator) if facts is None else Recipe.from_json(facts)
    if id_column is not None:
        recipe = replace(recipe, id_column=id_column)
    if label_column is not None:
        recipe = replace(recipe, label_column=label_column)
    return OpenModel(path, estimator, recipe)


def _plain_recipe(estimator: Any) -> Recipe:
    """Of a model that was fitted in Python: its columns as they are."""
    views = {}
    for name, (n_columns, names) in estimator._shapes.items():
        columns = None if names is None else tuple(Column(column) for column in names)
        views[name] = ViewColumns(columns, n_columns)
    return Recipe(views)


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
