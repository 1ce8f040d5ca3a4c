"""Finished, missing and unreadable records of an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from paper.cells import Cell
from paper.data import load_dataset
from paper.estimators import make_estimator, plain_parameters
from paper.records import ForeignRecordError, Record, own_parameters, read_record

__all__ = ["Inventory", "take_inventory"]


@dataclass(frozen=True)
class Inventory:
    """State of the records of some cells.

    Parameters
    ----------
    missing : mapping of Cell to tuple of int
        Trials to run; cells of which nothing is missing are not listed.
    n_finished : int
        Number of records that are there.
    foreign : tuple of str
        Files that stand where a record should be, and what is wrong with each.
    n_stale : int, default=0
        Number of records that were made with other parameters and are among the missing.

    Examples
    --------
    >>> from paper.inventory import Inventory
    >>> Inventory({}, 20, ()).n_missing
    0
    """

    missing: Mapping[Cell, tuple[int, ...]]
    n_finished: int
    foreign: tuple[str, ...]
    n_stale: int = 0

    @property
    def n_missing(self) -> int:
        """Number of trials to run, over all cells."""
        return sum(len(trials) for trials in self.missing.values())


def take_inventory(
    out: Path, cells: Iterable[Cell], trials: int, data: Path | None = None, *, again: bool = False
) -> Inventory:
    """Look which records of some cells are there.

    Parameters
    ----------
    out : Path
        The folder of all results.
    cells : iterable of Cell
        Cells of the same essence count once.
    trials : int
        Number of trials of every cell.
    data : Path or None, default=None
        A folder or file with the data that are not in the package; records of other data are
        foreign.
    again : bool, default=False
        Whether finished trials are to be run again, too. Foreign files never are.

    Returns
    -------
    Inventory
        What is missing, finished and foreign.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.cells import Cell
    >>> from paper.inventory import take_inventory
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> take_inventory(Path("nowhere"), [cell, cell], 3).n_missing
    3
    """
    missing: dict[Cell, tuple[int, ...]] = {}
    n_finished, n_stale, foreign = 0, 0, []
    for cell in dict.fromkeys(cell.essence for cell in cells):
        for trial in range(trials):
            fingerprint = load_dataset(cell.dataset, data, trial).fingerprint
            try:
                record = read_record(out, cell, trial, fingerprint)
            except ForeignRecordError as error:
                foreign.append(str(error))
                continue
            stale = record is not None and _is_stale(cell, record)
            finished = record is not None and not stale
            n_finished, n_stale = n_finished + finished, n_stale + stale
            if again or not finished:
                missing[cell] = (*missing.get(cell, ()), trial)
    return Inventory(missing, n_finished, tuple(foreign), n_stale)


def _is_stale(cell: Cell, record: Record) -> bool:
    """Whether a record is of other parameters than the cell has now, as after a new default."""
    return not cell.is_control and own_parameters(record.get("parameters", {})) != _parameters(cell)


@cache
def _parameters(cell: Cell) -> str:
    return own_parameters(plain_parameters(make_estimator(cell, 0)))
