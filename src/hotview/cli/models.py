"""Model files, and rows that are read for a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hotview._messages import ParameterError
from hotview._types import Array
from hotview.cli.input_summary import check_cells
from hotview.cli.single_cells import BatchCorrector
from hotview.datasets.files import file_stem
from hotview.datasets.linking import IdMatcher, object_array
from hotview.datasets.options import Options
from hotview.estimators import MultiViewClassifier
from hotview.estimators.parameters import impute_of
from hotview.ingest.columns import ViewColumns
from hotview.ingest.dataset import CELL_NAMES, DatasetFiles, read_dataset
from hotview.ingest.labels import (
    LabelSource,
    find_groups,
    find_labels,
    list_group_tables,
    match_classes,
    merge_labels,
)
from hotview.ingest.preprocessing import (
    AlignedRows,
    Preprocessing,
    TableRows,
    align_views,
    match_ids,
    match_rows,
    read_rows,
)
from hotview.ingest.table_dataset import TableDataset, find_ids, keep_linked, split_holdout
from hotview.ingest.tables import open_table, read_batches
from hotview.omics.counts import warn_of_other_values
from hotview.omics.settings import read_settings
from hotview.persistence import load_model
from hotview.training.drift import DriftReport

__all__ = [
    "EvaluationRows",
    "ModelInput",
    "OpenModel",
    "file_sha256",
    "labeled_rows",
    "open_model",
    "read_evaluation_rows",
    "read_training",
    "read_training_dataset",
]


@dataclass(frozen=True)
class ModelInput:
    """Aligned rows, the rows of each file, and notes for the user about these."""

    aligned: AlignedRows
    rows: dict[str, TableRows]
    notes: list[str]


@dataclass(frozen=True)
class OpenModel:
    """A loaded model with the preprocessing of its files.

    Parameters
    ----------
    path : Path
        The model file.
    estimator : MultiViewClassifier or MultiViewEncoder
        The model.
    preprocessing : Preprocessing
        How files are read for it.
    """

    path: Path
    estimator: Any
    preprocessing: Preprocessing

    def check_classifies(self) -> None:
        """Raise if the model is not a classifier."""
        if not isinstance(self.estimator, MultiViewClassifier):
            raise ValueError(
                f"{self.path} was trained without labels, so it can only transform. Fit it with "
                "--labels and --label-column to predict."
            )

    def read_rows(self, specs: Sequence[str], id_files: Mapping[str, str]) -> dict[str, TableRows]:
        """Return the rows of every given view, in the order of its file."""
        rows = read_rows(self.preprocessing, specs, id_files)
        views = {name: view.X for name, view in rows.items()}
        warn_of_other_values(read_settings(self.estimator).get("counts", {}), views)
        return {name: self._correct(name, view) for name, view in rows.items()}

    def _correct(self, name: str, rows: TableRows) -> TableRows:
        """Return rows of a view without the offsets of their batches."""
        found, column = (self.estimator._batch_offsets or {}).get(name), self.batch_column
        if found is None or rows.view is None or column is None:
            return rows
        batches = read_batches(rows.view, column)
        if batches is None:
            raise ParameterError(
                f"Expected view {name!r} to have the batches of its rows in {column!r}, as at fit, "
                f"but {rows.view.path} has no such column. Add it."
            )
        return replace(rows, X=found.correct(rows.X, batches, name))

    @property
    def batch_column(self) -> str | None:
        """Column of batches."""
        column = read_settings(self.estimator).get("batch_key")
        return self.preprocessing.batch_column or column

    def read_input(self, specs: Sequence[str], id_files: Mapping[str, str]) -> ModelInput:
        """Return the rows of all given views, aligned."""
        rows = match_rows(self.read_rows(specs, id_files), self.preprocessing)
        aligned = align_views(rows)
        impute = impute_of(self.estimator.impute, self.estimator.view_names_)
        check_cells(aligned, self.preprocessing, impute)
        return ModelInput(aligned, rows, [note for view in rows.values() for note in view.notes])

    def check_drift(self, views: Mapping[str, Any]) -> DriftReport | None:
        """Compare rows with those of the fit; None if the model does not know their ranges."""
        return self.estimator.check_drift(views) if self.estimator._ranges else None

    def read_labels(self, given: ModelInput, path: str | None) -> list[Any]:
        """Return the label of each aligned row, None where there is none."""
        column = self.preprocessing.label_column
        if column is None:
            raise ValueError("Expected a column of labels. Pass --label-column.")
        table = None if path is None else open_table(path, self.preprocessing.options)
        ids = {name: rows.ids for name, rows in given.rows.items()}
        matcher = self.preprocessing.make_matcher(ids)
        source = LabelSource(table, column, self.preprocessing.id_column, matcher=matcher)
        aligned = given.aligned
        if table is not None and aligned.has_ids:
            match_ids(ids, self.preprocessing, {str(path): source.read_ids()})
        if table is not None and not aligned.has_ids:
            cells = source.read(table)
        else:
            views = [rows.view for rows in given.rows.values() if rows.view is not None]
            labels = find_labels(source, views, ids)
            by_row = {n: dict(enumerate(c, start=1)) for n, c in labels.by_view.items()}
            by_key = labels.by_id if aligned.has_ids else merge_labels(by_row)
            cells = [by_key.get(key) for key in aligned.ids.tolist()]
        if len(cells) != len(aligned.ids):
            raise ValueError(
                f"Expected a label for each of the {len(aligned.ids)} rows, but {path} has "
                f"{len(cells)}. Without ids, row i of the labels belongs to row i of the views."
            )
        return match_classes(cells, self.estimator.classes_)

    def find_unchanged(self, path: str, sha256: str) -> Path | None:
        """Return where a file of the fit is now, beside the model if not here; None if changed."""
        for folder in (Path(), self.path.parent):
            if (folder / path).is_file() and file_sha256(folder / path) == sha256:
                return folder / path
        return None

    def are_training_files(self, given: ModelInput) -> bool:
        """Return whether the file of every view is that of the fit, byte for byte."""
        files = self.estimator.metadata_.get("files", {})  # none for a model from Python
        return bool(files) and all(
            rows.view is not None
            and files.get(name, {}).get("sha256") == file_sha256(rows.view.path)
            for name, rows in given.rows.items()
        )


def open_model(
    path: Path,
    *,
    device: str = "auto",
    id_column: str | None = None,
    label_column: str | None = None,
    match_ids: Sequence[str] | None = None,
    text: Mapping[str, Any] | None = None,
    tables: Iterable[str | None] = (),
) -> OpenModel:
    """Load a model and the preprocessing of its files.

    Parameters
    ----------
    path : Path
        The model file.
    device : str, default="auto"
        Device to compute on.
    id_column, label_column : str or None, default=None
        Columns to use instead of those of the fit.
    match_ids : sequence of str or None, default=None
        Differences between ids to ignore instead of those of the fit.
    text : dict of str to object, or None, default=None
        Format of files, where it differs from the fit.
    tables : iterable of (str or None)
        Files of labels and ids, if any, whose format may be given, too.

    Returns
    -------
    OpenModel
        The model.
    """
    estimator = load_model(path, device=device)
    values = estimator.metadata_.get("preprocessing")
    if values is None:  # fitted in Python
        stored = _preprocessing_of_cells(estimator)
    else:
        try:
            stored = Preprocessing.from_json(values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"Expected {path} to hold the preprocessing of its files, but it is not valid. Fit "
                "the model again."
            ) from error
    Options(**(text or {})).check_names([*stored.views, *map(file_stem, filter(None, tables))])
    preprocessing = replace(
        stored,
        text=_merge_formats(stored.text, text or {}),
        id_column=id_column or stored.id_column,
        label_column=label_column or stored.label_column,
        match_ids=tuple(match_ids or stored.match_ids),
    )
    return OpenModel(path, estimator, preprocessing)


def _preprocessing_of_cells(estimator: Any) -> Preprocessing:
    """Return how files are read for a model from Python."""
    settings = read_settings(estimator)
    if not settings:
        return Preprocessing(estimator.columns_)
    columns = dict(estimator.columns_)
    for name, found in (estimator._batch_offsets or {}).items():
        if found is not None and found.scaler is not None:
            columns[name] = ViewColumns(None, found.scaler.n_columns)
    text = {option: settings[option] for option in ("obsm", "layer") if settings.get(option)}
    return Preprocessing(columns, CELL_NAMES, text=text)


def _merge_formats(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the formats of the fit with those of new files; other files keep theirs."""
    merged = {**stored, **given}
    for name, own in given.items():
        if isinstance(own, Mapping) and (old := stored.get(name)) is not None:
            merged[name] = {**(old if isinstance(old, Mapping) else {"": old}), **own}
    return merged


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class EvaluationRows:
    """Rows to evaluate a model on.

    Parameters
    ----------
    views : dict of str to ndarray or csr_array
        Aligned rows, NaN throughout where an individual is absent from a view.
    target : ndarray or None
        Their labels, None where there is none; None if there are none at all.
    ids : ndarray
        Ids of the rows.
    seen : bool
        Whether the model was trained on them, labels included.
    notes : list of str
        Notes for the user.
    groups : ndarray or None, default=None
        Persons of the rows, by the column of the fit; the id of a row without one.
    """

    views: dict[str, Any]
    target: Array | None
    ids: Array
    seen: bool
    notes: list[str]
    groups: Array | None = None

    def take(self, rows: Array) -> EvaluationRows:
        """Return some of the rows."""
        assert self.target is not None
        return replace(
            self,
            views={name: X[rows] for name, X in self.views.items()},
            target=self.target[rows],
            ids=self.ids[rows],
            groups=None if self.groups is None else self.groups[rows],
        )


def read_evaluation_rows(
    model: OpenModel, specs: Sequence[str], labels: str | None, id_files: Mapping[str, str]
) -> EvaluationRows:
    """Read rows to evaluate a model on, without those whose labels it was trained on.

    If it was trained on all of them, they are kept, and `seen` is True.

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
    EvaluationRows
        The rows.
    """
    given = model.read_input(specs, id_files)
    labels = _find_labels_file(model, given, labels)
    aligned, target = given.aligned, _find_target(model, given, labels)
    drift = model.check_drift(aligned.views)
    notes = [*given.notes, *(drift.summary() if drift else ())]
    rows = EvaluationRows(aligned.views, target, aligned.ids, False, notes)
    if target is None:
        return rows
    labeled = np.array([label is not None for label in target], dtype=bool)
    seen = _find_seen(model, given)
    if (hashes := model.estimator.metadata_.get("trained_groups")) is not None:
        groups = _find_groups(model, given, labels, id_files)
        if groups is None:
            note = f"No table has the column {model.preprocessing.group_column!r} of the fit: "
            note += "other rows of persons that the model was trained on are not recognized."
            rows = replace(rows, notes=[*rows.notes, note])
        else:
            known = np.array([group is not None for group in groups], dtype=bool)
            seen |= known & _match_hashes(model, groups, hashes)
            units = np.where(known, np.array(groups, dtype=object), aligned.ids.astype(object))
            rows = replace(rows, groups=units)
    seen &= labeled
    n_seen, n_new = int(seen.sum()), int((labeled & ~seen).sum())
    if n_seen == 0:
        return rows
    if n_new == 0:
        rows = replace(rows, seen=True)
        note = "these rows and labels: these metrics are optimistically biased."
    else:
        rows = rows.take(np.flatnonzero(~seen))
        note = f"{n_seen:,} of these rows; it is evaluated on the other {n_new:,} with labels."
    return replace(rows, notes=[*rows.notes, f"The model was trained on {note}"])


def _find_labels_file(model: OpenModel, given: ModelInput, labels: str | None) -> str | None:
    """Return the given table of labels, or that of the fit for its own files."""
    if labels is None and model.are_training_files(given):
        stored = model.estimator.metadata_.get("labels")
        path = None if stored is None else model.find_unchanged(**stored)
        return None if path is None else str(path)
    return labels


def _find_target(model: OpenModel, given: ModelInput, labels: str | None) -> Array | None:
    """Return labels from a table, or from the views."""
    column = model.preprocessing.label_column
    if column is None:
        return None
    tables = [rows.view.label_table for rows in given.rows.values() if rows.view is not None]
    if labels is None and not any(t is not None and column in t.names for t in tables):
        return None
    return object_array(model.read_labels(given, labels))


def _find_seen(model: OpenModel, given: ModelInput) -> Array:
    """Return which rows were trained on with a label, by id, or by file if there are no ids."""
    metadata = model.estimator.metadata_
    hashes = metadata.get("trained_ids")
    if given.aligned.has_ids and hashes is not None:
        return _match_hashes(model, given.aligned.ids, hashes, metadata.get("hashed_without", ()))
    return np.full(len(given.aligned.ids), model.are_training_files(given))


def _match_hashes(
    model: OpenModel, keys: Sequence[object] | Array, hashes: Any, differences: Any = ()
) -> Array:
    """Return which ids or groups are among the hashed ones of a model, whatever the spelling."""
    try:
        simplify = IdMatcher(tuple(differences)).simplify
        return find_ids([key if key is None else simplify(str(key)) for key in keys], hashes)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {model.path} to hold the salted hashes of its ids, but they are not "
            "valid. Fit the model again."
        ) from error


def _find_groups(
    model: OpenModel, given: ModelInput, labels: str | None, id_files: Mapping[str, str]
) -> list[str | None] | None:
    """Return the group of each aligned row; None if no table has the column of the fit."""
    column, aligned = model.preprocessing.group_column, given.aligned
    if column is None:
        return None
    views = [rows.view for rows in given.rows.values() if rows.view is not None]
    ids = {name: rows.ids for name, rows in given.rows.items()}
    tables = list_group_tables(views, ids, id_files, labels, model.preprocessing)
    if (cells := find_groups(column, tables)) is None:
        return None
    by_row = {name: dict(enumerate(part, start=1)) for name, part in cells.by_view.items()}
    by_key = cells.by_id if aligned.has_ids else merge_labels(by_row, what="group")
    return [by_key.get(key) for key in aligned.ids.tolist()]


def read_training_dataset(model: OpenModel) -> TableDataset | None:
    """Return the training data of a model, if its files are still in place and unchanged.

    Parameters
    ----------
    model : OpenModel
        The model.

    Returns
    -------
    TableDataset or None
        Without the rows that were held out.
    """
    metadata = model.estimator.metadata_
    if "views" not in metadata:
        return None
    views, ids, labels = metadata["views"], metadata["ids"], metadata["labels"]
    paths = {}
    for file in (*views, *ids.values(), *filter(None, [labels])):
        paths[file["path"]] = model.find_unchanged(file["path"], file["sha256"])
    if None in paths.values():
        return None
    preprocessing = Preprocessing.from_json(metadata["preprocessing"])  # not that of new files
    prefixes = ["" if file["name"] is None else f"{file['name']}=" for file in views]
    files = DatasetFiles(
        [f"{p}{paths[file['path']]}" for p, file in zip(prefixes, views, strict=True)],
        None if labels is None else str(paths[labels["path"]]),
        preprocessing.label_column,
        preprocessing.id_column,
        {name: str(paths[file["path"]]) for name, file in ids.items()},
        preprocessing.drop,
        metadata["categorical"],
        preprocessing.text,
        metadata["unlabeled_marker"],
        preprocessing.group_column,
        preprocessing.match_ids,
        preprocessing.batch_column,
    )
    corrector = BatchCorrector(dict(model.estimator._batch_offsets or {}))
    dataset, fraction = read_dataset(files, corrector), metadata["hold_out"]
    if metadata["linked_only"]:
        dataset = keep_linked(dataset)
    return dataset if fraction is None else split_holdout(dataset, fraction).training


def read_training(model: OpenModel) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the arguments of a model's fit to train baselines with, or a note without them."""
    dataset = read_training_dataset(model)
    if dataset is not None:
        return dataset.fit_arguments, []
    note = "Only the majority class is compared: the files of the fit are not here, unchanged."
    return None, [note]


def labeled_rows(rows: EvaluationRows) -> EvaluationRows:
    """Return the rows that have a label.

    Parameters
    ----------
    rows : EvaluationRows
        All rows.

    Returns
    -------
    EvaluationRows
        At least one row.
    """
    if rows.target is None:
        raise ValueError(
            "Expected labels to evaluate on. Give --labels FILE and --label-column NAME."
        )
    labeled = np.flatnonzero([label is not None for label in rows.target])
    if len(labeled) == 0:
        raise ValueError("Expected labels to evaluate on, but no row has one. Check the ids.")
    return rows.take(labeled)
