"""From what a user passes to rows that can be trained on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from hotview._types import Array, IntArray, Views
from hotview._validation import ViewTable, check_aligned_tables, check_known_tables, check_tables
from hotview.estimators.inference import Fusion
from hotview.estimators.labels import Labels
from hotview.losses import Coupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.semisupervised.fusion import OutOfFold
from hotview.semisupervised.predictors import ViewPredictors
from hotview.training.batches import TrainingRows
from hotview.training.columns import Columns, Scan, n_present, scan_tables
from hotview.training.process_group import ProcessGroup
from hotview.training.recorder import History
from hotview.training.rows import ViewRows
from hotview.training.view_plan import ViewPlan

__all__ = [
    "FitInputs",
    "FitResult",
    "Reading",
    "Source",
    "Validation",
    "check_source",
    "gather_rows",
    "read_source",
]


@dataclass(frozen=True)
class Source:
    """The user's tables of all views.

    Parameters
    ----------
    names : list of str
        The views.
    linked : dict of str to ViewTable
        Tables whose row i is one individual in all views; empty, or one per view.
    unaligned : dict of str to ViewTable
        Tables of other individuals, of some or all views.
    """

    names: list[str]
    linked: Mapping[str, ViewTable]
    unaligned: Mapping[str, ViewTable]

    @property
    def n_linked(self) -> int:
        """Rows of the linked tables."""
        return next((table.n_rows for table in self.linked.values()), 0)

    @property
    def shapes(self) -> dict[str, tuple[int, tuple[str, ...] | None]]:
        """Number of columns of every view, and their names where known."""
        first = {name: self.tables(name)[0] for name in self.names}
        return {name: (table.n_columns, table.columns) for name, table in first.items()}

    def tables(self, name: str) -> list[ViewTable]:
        """The tables of one view, linked rows first."""
        return [tables[name] for tables in (self.linked, self.unaligned) if name in tables]


def check_source(Xs: Views | None, y: Any, unaligned: Views | None) -> Source:
    """Check the tables that a classifier's `fit` got.

    Parameters
    ----------
    Xs : views or None
        Linked rows; None where there are none.
    y : object
        Their labels, whose index is looked at; None without linked rows.
    unaligned : views or None
        Other rows of some views, or, without linked rows, of all.

    Returns
    -------
    Source
        The tables.
    """
    if isinstance(unaligned, Sized) and len(unaligned) == 0:
        unaligned = None
    if Xs is None:
        if y is not None or unaligned is None:
            raise ValueError(
                "Expected linked rows Xs and their labels y, or None for both and all rows in "
                "unaligned, with labels in unaligned_y; but Xs is None and "
                + ("y is not. " if y is not None else "unaligned is empty. ")
                + "Pass fit(None, None, unaligned=views, unaligned_y={view: labels})."
            )
        others = check_tables(unaligned, at_least=2)
        return Source(list(others), {}, others)
    _check_some_linked(Xs)
    linked = check_tables(Xs, aligned=True, at_least=2)
    check_aligned_tables(linked, y)
    source = Source(list(linked), linked, {})
    if unaligned is None:
        return source
    return replace(source, unaligned=check_known_tables(unaligned, source.names, source.shapes))


def _check_some_linked(Xs: Any) -> None:
    """Say what linked rows are for, before a table without rows is called an empty view."""
    tables = list(Xs.values()) if isinstance(Xs, Mapping) else Xs
    if not isinstance(tables, list | tuple) or not tables:
        return
    if all(getattr(table, "shape", (1,))[:1] == (0,) for table in tables):
        raise ValueError(
            "Expected linked rows, the same individuals in all views, but every view of Xs has 0 "
            "rows. Link some; or, if every view has labels of its own, pass fit(None, None, "
            "unaligned=views, unaligned_y={view: labels})."
        )


@dataclass(frozen=True)
class Reading:
    """What was seen in the tables of all views, and their rows, ready to be taken.

    Parameters
    ----------
    scans : dict of str to Scan
        What was seen in every view.
    views : list of ViewRows
        Their rows.
    kept : dict
        What was found out about the rows since, for fits of the same tables.
    """

    scans: dict[str, Scan]
    views: list[ViewRows]
    kept: dict[Hashable, Any] = field(default_factory=dict)


def read_source(
    source: Source,
    *,
    standardize: bool,
    impute: str | None,
    device: torch.device,
    ranks: ProcessGroup | None = None,
) -> Reading:
    """Look at the rows of every view once, and number those that hold anything."""
    how: dict[str, Any] = {"standardize": standardize, "impute": impute, "ranks": ranks}
    scans = {name: scan_tables(name, source.tables(name), **how) for name in source.names}
    views = [
        ViewRows(
            source.tables(name),
            scans[name].columns,
            device,
            scans[name].present,
            often=True,
            ranks=ranks,
        )
        for name in source.names
    ]
    return Reading(scans, views)


def gather_rows(source: Source, reading: Reading, labels: Labels | None) -> TrainingRows:
    """Find who is in all views, and whose class is known.

    A linked row that is NaN throughout a view is absent from it: it counts as an unaligned row of
    the views that have it, and keeps its label there.
    """
    scans, views = reading.scans, reading.views
    places = _all_places(source, scans)
    complete = (places >= 0).all(axis=1)
    is_everywhere = bool(complete.all())  # and then nothing is copied: there may be many rows
    if not is_everywhere:
        _check_somewhere(places)
    aligned = places if is_everywhere else places[complete]
    if labels is None:
        return TrainingRows(views, aligned)
    own = [
        _own_rows(source, scans, labels, name, np.where(complete, -1, places[:, s]))
        for s, name in enumerate(source.names)
    ]
    return TrainingRows(
        views,
        aligned,
        labels.linked if is_everywhere else labels.linked[complete],
        [rows for rows, _ in own],
        [target for _, target in own],
    )


def _all_places(source: Source, scans: Mapping[str, Scan]) -> IntArray:
    """Number of every linked row among the rows of every view, −1 where it is absent."""
    linked = [scans[name] for name in source.names] if source.linked else []
    if all(scan.present[0] is None for scan in linked):  # the same number in all
        return np.broadcast_to(np.arange(source.n_linked)[:, None], (source.n_linked, len(scans)))
    return np.stack([_places(scan, source.n_linked) for scan in linked], axis=1)


def _places(scan: Scan, n_linked: int) -> IntArray:
    """Number of every linked row among the view's rows, −1 where it is absent."""
    present = scan.present[0]
    if present is None:
        return np.arange(n_linked)
    places = np.full(n_linked, -1, dtype=np.int64)
    places[present] = np.arange(len(present))
    return places


def _check_somewhere(places: IntArray) -> None:
    nowhere = np.flatnonzero((places < 0).all(axis=1))
    if len(nowhere) > 0:
        raise ValueError(
            f"Expected every linked row to have at least one view, but {len(nowhere)} are NaN "
            f"throughout all of them, the first being row {nowhere[0]}. Leave these rows out."
        )


def _own_rows(
    source: Source,
    scans: Mapping[str, Scan],
    labels: Labels,
    name: str,
    incomplete: IntArray,
) -> tuple[IntArray, IntArray]:
    """Rows of one view with a label that cannot teach the joint head, and their classes."""
    here = np.flatnonzero((incomplete >= 0) & (labels.linked >= 0))
    rows, target = [incomplete[here]], [labels.linked[here]]
    if name in labels.unaligned:
        *linked, present = scans[name].present
        n_before = sum(map(n_present, source.tables(name), linked))
        codes = labels.unaligned[name]
        codes = codes if present is None else codes[present]
        rows.append(n_before + np.flatnonzero(codes >= 0))
        target.append(codes[codes >= 0])
    return np.concatenate(rows), np.concatenate(target)


@dataclass(frozen=True)
class Validation:
    """Aligned rows whose score is recorded after every epoch.

    Parameters
    ----------
    tables : dict of str to ViewTable
        Some or all views.
    target : ndarray of int64
        The true classes; −1 for a class that training does not know.
    rows : ndarray of int64 or None, default=None
        Which rows of the tables; None takes all.
    """

    tables: Mapping[str, ViewTable]
    target: IntArray
    rows: IntArray | None = None


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves behind."""

    network: MultiViewNetwork
    coupling: Coupling
    columns: dict[str, Columns]
    history: History
    plan: ViewPlan | None
    batch_size: int
    fusion: Fusion | None
    judge: ViewPredictors | None = None
    held: OutOfFold | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class FitInputs:
    """One fit: checked tables, labels and parameters.

    Parameters
    ----------
    source : Source
        The user's tables.
    labels : Labels or None
        Classes of the rows; None trains encoders alone.
    parameters : dict of str to object
        The estimator's parameters.
    weigh_classes : callable
        Weights of the classes, from the labels that are learned from.
    validation : Validation or None
        Rows to score after every epoch.
    held : ndarray of int64
        Linked rows whose labels this fit does not see, and judges in the end.
    replica : int, default=0
        Which of several fits of one estimator it is.
    """

    source: Source
    labels: Labels | None
    parameters: Mapping[str, Any]
    weigh_classes: Callable[[Labels], Array | None] = lambda labels: None
    validation: Validation | None = None
    held: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    replica: int = 0
