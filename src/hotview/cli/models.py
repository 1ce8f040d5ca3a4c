"""Model files, and rows that are read for a model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hotview._messages import ParameterError, listed
from hotview._processes import all_gather_arrays, rank, shard_of_rank, world_size
from hotview._types import Array
from hotview.cli.options import ModelFiles, Scoring, files_by_view
from hotview.data.columns import ViewColumns
from hotview.data.linking import IdMatcher, object_array
from hotview.data.options import Options
from hotview.estimators import MultiViewClassifier
from hotview.model import load_model
from hotview.model.parameters import impute_of
from hotview.omics.fit import read_settings, warn_of_other_values
from hotview.preprocessing.drift import DriftReport
from hotview.tables.dataset import CELL_NAMES, DatasetFiles, read_dataset
from hotview.tables.files import OpenView, file_stem, open_table
from hotview.tables.labels import (
    LabelCells,
    LabelSource,
    find_groups,
    find_labels,
    list_group_tables,
    match_classes,
    merge_labels,
    read_batches,
)
from hotview.tables.preprocessing import (
    AlignedRows,
    Preprocessing,
    TableRows,
    align_views,
    match_ids,
    match_rows,
    read_rows,
)
from hotview.tables.table_dataset import find_ids, keep_linked, split_holdout

_CHUNK = 100_000  # rows


@dataclass(frozen=True)
class ModelInput:
    """Aligned rows, the rows of each file, and how they differ from those of the fit, if known."""

    aligned: AlignedRows
    rows: dict[str, TableRows]
    drift: DriftReport | None

    @property
    def ids(self) -> dict[str, list[str | None] | None]:
        """Ids of the rows of each file, if it has any."""
        return {name: rows.ids for name, rows in self.rows.items()}

    @property
    def opened(self) -> list[OpenView]:
        """The files."""
        return [rows.view for rows in self.rows.values() if rows.view is not None]

    @property
    def notes(self) -> list[str]:
        """Notes for the user about the files and their values."""
        return list_notes(self.rows, self.drift)


def list_notes(rows: Mapping[str, TableRows], drift: DriftReport | None) -> list[str]:
    """Return notes for the user about files and their values."""
    notes = [note for view in rows.values() for note in view.notes]
    return notes if drift is None else [*notes, *drift.summary()]


@dataclass(frozen=True)
class OpenModel:
    """A loaded model, how files are read for it, and tables with the ids of some views."""

    path: Path
    estimator: Any
    preprocessing: Preprocessing
    id_files: Mapping[str, str] = field(default_factory=dict)

    def check_classifies(self) -> None:
        """Raise if the model is not a classifier."""
        if not isinstance(self.estimator, MultiViewClassifier):
            raise ValueError(
                f"{self.path} was trained without labels, so it can only transform. Fit it with "
                "--labels and --label-column to predict."
            )

    def read_rows(self, specs: Sequence[str]) -> dict[str, TableRows]:
        """Return the rows of every given view, in the order of its file, without batches."""
        rows = read_rows(self.preprocessing, specs, self.id_files)
        warn_of_other_values(self.estimator, {name: view.X for name, view in rows.items()})
        column = self.preprocessing.batch_column
        column = column or read_settings(self.estimator).get("batch_key")
        for name, offsets in self.estimator.model_.batch_offsets.items():
            if name not in rows or rows[name].view is None or column is None:
                continue
            view = rows[name].view
            assert view is not None
            if (batches := read_batches(view, column)) is None:
                raise ParameterError(
                    f"Expected view {name!r} to have the batches of its rows in {column!r}, as at "
                    f"fit, but {view.path} has no such column. Add it."
                )
            rows[name] = replace(rows[name], X=offsets.correct(rows[name].X, batches, name))
        return rows

    def read_input(self, specs: Sequence[str]) -> ModelInput:
        """Return the rows of all given views, aligned."""
        rows = match_rows(self.read_rows(specs), self.preprocessing)
        aligned = align_views(rows)
        impute = impute_of(self.estimator.impute, self.estimator.view_names_)
        check_cells(aligned, self.preprocessing, impute)
        return ModelInput(aligned, rows, self.check_drift(aligned.views))

    def check_drift(self, views: Mapping[str, Any]) -> DriftReport | None:
        """Compare rows with those of the fit; None if the model does not know their ranges."""
        known = all(view.ranges is not None for view in self.estimator.model_.views)
        return self.estimator.check_drift(views) if known else None

    def read_labels(self, given: ModelInput, path: str | None) -> Array | None:
        """Return the label of each aligned row from a table or the views; None without labels."""
        column, aligned = self.preprocessing.label_column, given.aligned
        tables = [view.label_table for view in given.opened]
        in_views = any(table is not None and column in table.names for table in tables)
        if column is None or (path is None and not in_views):
            return None
        table = None if path is None else open_table(path, self.preprocessing.options)
        matcher = self.preprocessing.make_matcher(given.ids)
        source = LabelSource(table, column, self.preprocessing.id_column, matcher=matcher)
        if table is not None and not aligned.has_ids:
            cells = source.read(table)
        else:
            if table is not None:
                match_ids(given.ids, self.preprocessing, {str(path): source.read_ids()})
            cells = _of_aligned(find_labels(source, given.opened, given.ids), aligned, "label")
        if len(cells) != len(aligned.ids):
            raise ValueError(
                f"Expected a label for each of the {len(aligned.ids)} rows, but {path} has "
                f"{len(cells)}. Without ids, row i of the labels belongs to row i of the views."
            )
        return object_array(match_classes(cells, self.estimator.classes_))

    def read_groups(self, given: ModelInput, labels: str | None) -> Array | None:
        """Return the group of each aligned row; None if no table has the column of the fit."""
        column = self.preprocessing.group_column
        if column is None:
            return None
        files = (given.opened, given.ids, self.id_files, labels)
        cells = find_groups(column, list_group_tables(*files, self.preprocessing))
        return None if cells is None else object_array(_of_aligned(cells, given.aligned, "group"))

    def find_unchanged(self, path: str) -> Path | None:
        """Return where a file of the fit is now, beside the model if not here; None if changed."""
        sha256 = self.estimator.metadata_["sha256"][path]
        for folder in (Path(), self.path.parent):
            if (folder / path).is_file() and file_sha256(folder / path) == sha256:
                return folder / path
        return None

    def are_training_files(self, given: ModelInput) -> bool:
        """Return whether the file of every view is that of the fit, byte for byte."""
        files = self.estimator.metadata_.get("files", {})  # none for a model from Python
        return bool(files) and all(
            files.get(view.name, {}).get("sha256") == file_sha256(view.path)
            for view in given.opened
        )

    def are_hashed(self, keys: Sequence[object] | Array, hashes: Any, without: Any) -> Array:
        """Return which ids or groups are among hashed ones, whose spelling lacks differences."""
        try:
            simplify = IdMatcher(tuple(without)).simplify
            return find_ids([key if key is None else simplify(str(key)) for key in keys], hashes)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"Expected {self.path} to hold the salted hashes of its ids, but they are not "
                "valid. Fit the model again."
            ) from error


def _of_aligned(cells: LabelCells, aligned: AlignedRows, what: str) -> list[str | None]:
    """Return the label or group of each aligned row, by its id or its number."""
    by_row = {name: dict(enumerate(own, start=1)) for name, own in cells.by_view.items()}
    by_key = cells.by_id if aligned.has_ids else merge_labels(by_row, what=what)
    return [by_key.get(key) for key in aligned.ids.tolist()]


def open_model(
    path: Path,
    files: ModelFiles | None = None,
    scoring: Scoring | None = None,
    *,
    device: str = "auto",
) -> OpenModel:
    """Load a model, and how its files are read where other files do not differ from them."""
    files, scoring = files or ModelFiles(), scoring or Scoring()
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
    text, id_files = files.text or {}, files_by_view(files.ids)
    tables = map(file_stem, filter(None, (*id_files.values(), scoring.labels)))
    Options(**text).check_names([*stored.views, *tables])
    preprocessing = replace(
        stored,
        text=_merge_formats(stored.text, text),
        id_column=files.id_column or stored.id_column,
        label_column=scoring.label_column or stored.label_column,
        match_ids=tuple(files.match_ids or stored.match_ids),
    )
    return OpenModel(path, estimator, preprocessing, id_files)


def _preprocessing_of_cells(estimator: Any) -> Preprocessing:
    """Return how files are read for a model from Python."""
    settings = read_settings(estimator)
    if not settings:
        return Preprocessing(estimator.columns_)
    columns = dict(estimator.columns_)
    for name, found in estimator.model_.batch_offsets.items():
        if found.scaler is not None:
            columns[name] = ViewColumns(None, found.scaler.n_columns)
    text = {option: settings[option] for option in ("obsm", "layer") if settings.get(option)}
    return Preprocessing(columns, id_column=CELL_NAMES, text=text)


def _merge_formats(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the formats of the fit with those of new files; other files keep theirs."""
    merged = {**stored, **given}
    for name, own in given.items():
        if isinstance(own, Mapping) and (old := stored.get(name)) is not None:
            merged[name] = {**(old if isinstance(old, Mapping) else {"": old}), **own}
    return merged


def file_sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file: 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class EvaluationRows(AlignedRows):
    """Rows to evaluate a model on.

    Parameters
    ----------
    notes : list of str
        Notes for the user.
    seen : bool, default=False
        Whether the model was trained on them, labels included.
    """

    notes: list[str] = field(default_factory=list)
    seen: bool = False

    def take_labeled(self) -> EvaluationRows:
        """Return the rows that have a label, at least one."""
        if self.target is None:
            raise ValueError(
                "Expected labels to evaluate on. Give --labels FILE and --label-column NAME."
            )
        if not self.is_labeled.any():
            raise ValueError("Expected labels to evaluate on, but no row has one. Check the ids.")
        return self.take(np.flatnonzero(self.is_labeled))


def read_evaluation_rows(
    model: OpenModel, specs: Sequence[str], labels: str | None
) -> EvaluationRows:
    """Read rows to evaluate a model on, without those whose labels it was trained on.

    If it was trained on all of them, they are kept, and `seen` is True.
    """
    given, metadata = model.read_input(specs), model.estimator.metadata_
    if labels is None and model.are_training_files(given):
        stored = metadata.get("dataset", {}).get("labels")
        path = None if stored is None else model.find_unchanged(stored)
        labels = None if path is None else str(path)
    ids, notes = given.aligned.ids, given.notes
    target = model.read_labels(given, labels)
    rows = EvaluationRows(**{**vars(given.aligned), "target": target}, notes=notes)
    if rows.target is None:
        return rows
    if given.aligned.has_ids and (hashes := metadata.get("trained_ids")) is not None:
        seen = model.are_hashed(ids, hashes, metadata.get("hashed_without", ()))
    else:
        seen = np.full(len(ids), model.are_training_files(given))
    if (hashes := metadata.get("trained_groups")) is not None:
        groups = model.read_groups(given, labels)
        if groups is None:
            note = f"No table has the column {model.preprocessing.group_column!r} of the fit: "
            note += "other rows of persons that the model was trained on are not recognized."
            notes.append(note)
        else:
            known = np.array([group is not None for group in groups], dtype=bool)
            seen |= known & model.are_hashed(groups, hashes, ())
            rows = replace(rows, groups=np.where(known, groups, ids.astype(object)))
    seen &= rows.is_labeled
    n_seen, n_new = int(seen.sum()), int((rows.is_labeled & ~seen).sum())
    if n_seen == 0:
        return rows
    if n_new == 0:
        rows = replace(rows, seen=True)
        note = "these rows and labels: these metrics are optimistically biased."
    else:
        rows = rows.take(np.flatnonzero(~seen))
        note = f"{n_seen:,} of these rows; it is evaluated on the other {n_new:,} with labels."
    notes.append(f"The model was trained on {note}")
    return rows


def read_training(model: OpenModel) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the arguments of a model's fit to train baselines with, or None and a note.

    Its files have to be still in place and unchanged. Rows that were held out are left out.
    """
    note = "Only the majority class is compared: the files of the fit are not here, unchanged."
    metadata = model.estimator.metadata_
    paths = {path: model.find_unchanged(path) for path in metadata.get("sha256", ())}
    if not paths or None in paths.values():
        return None, [note]
    given = dict(metadata["dataset"])
    given["views"] = [f"{name}={paths[p]}" if name else f"{paths[p]}" for name, p in given["views"]]
    given["ids"] = {name: str(paths[path]) for name, path in given["ids"].items()}
    given["labels"] = None if given["labels"] is None else str(paths[given["labels"]])
    files = DatasetFiles(**given)
    dataset = read_dataset(files, model.estimator.model_.batch_offsets)
    if metadata["linked_only"]:
        dataset = keep_linked(dataset)
    if metadata["hold_out"] is not None:
        dataset, _ = split_holdout(dataset, metadata["hold_out"])
    return dataset.fit_arguments, []


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
