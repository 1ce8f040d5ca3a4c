"""From what a user passes to rows that can be trained on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from hotview._types import IntArray
from hotview._validation import Table
from hotview.estimators.labels import Labels
from hotview.training.batches import TrainingRows
from hotview.training.columns import Scan, scan_tables
from hotview.training.rows import ViewRows

__all__ = ["Reading", "Source", "gather_rows", "read_source"]


@dataclass(frozen=True)
class Source:
    """The user's tables of all views.

    Parameters
    ----------
    names : list of str
        The views.
    linked : dict of str to Table
        Tables whose row i is one individual in all views; empty, or one per view.
    unaligned : dict of str to Table
        Tables of other individuals, of some or all views.
    """

    names: list[str]
    linked: Mapping[str, Table]
    unaligned: Mapping[str, Table]

    @property
    def n_linked(self) -> int:
        """Rows of the linked tables."""
        return next((table.n_rows for table in self.linked.values()), 0)

    def tables(self, name: str) -> list[Table]:
        """The tables of one view, linked rows first."""
        return [tables[name] for tables in (self.linked, self.unaligned) if name in tables]


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
    source: Source, *, standardize: bool, impute: str | None, device: torch.device
) -> Reading:
    """Look at the rows of every view once, and number those that hold anything."""
    scans = {
        name: scan_tables(name, source.tables(name), standardize=standardize, impute=impute)
        for name in source.names
    }
    views = [
        ViewRows(source.tables(name), scans[name].columns, device, scans[name].present, often=True)
        for name in source.names
    ]
    return Reading(scans, views)


def gather_rows(source: Source, reading: Reading, labels: Labels | None) -> TrainingRows:
    """Find who is in all views, and whose class is known.

    A linked row that is NaN throughout a view is absent from it: it counts as an unaligned row of
    the views that have it, and keeps its label there.
    """
    scans, views = reading.scans, reading.views
    if not source.linked:
        return TrainingRows(views, np.empty((0, len(views)), dtype=np.int64))
    places = np.stack([_places(scans[name], source.n_linked) for name in source.names], axis=1)
    _check_somewhere(places)
    complete = (places >= 0).all(axis=1)
    if labels is None:
        return TrainingRows(views, places[complete])
    own = [
        _own_rows(source, scans, labels, name, np.where(complete, -1, places[:, s]))
        for s, name in enumerate(source.names)
    ]
    return TrainingRows(
        views,
        places[complete],
        labels.linked[complete],
        [rows for rows, _ in own],
        [target for _, target in own],
    )


def _places(scan: Scan, n_linked: int) -> IntArray:
    """Number of every linked row among the view's rows, −1 where it is absent."""
    places = np.full(n_linked, -1, dtype=np.int64)
    places[scan.present[0]] = np.arange(len(scan.present[0]))
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
        n_before = len(scans[name].present[0])
        present = scans[name].present[1]
        codes = labels.unaligned[name][present]
        rows.append(n_before + np.flatnonzero(codes >= 0))
        target.append(codes[codes >= 0])
    return np.concatenate(rows), np.concatenate(target)
