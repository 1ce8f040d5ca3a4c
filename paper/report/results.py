"""Results of experiments, their cells, and comparisons between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paper.cells import Cell
from paper.rows import shared_rows
from paper.statistics import TEST_TO_TRAIN, Difference, Score, mean_score, paired_difference

__all__ = [
    "Entry",
    "Outcome",
    "Results",
    "Scores",
    "compare",
    "difference",
]

#: One per trial, None where it is missing.
Scores = tuple[float | None, ...]


@dataclass(frozen=True)
class Entry:
    """All trials of one cell.

    Parameters
    ----------
    cell : Cell
        What was trained on what.
    scores : mapping of str to tuple of float or None
        Accuracies by kind, one per trial, in percent; None where a trial is missing.
    missing : int, default=0
        Number of trials that are missing.
    record : mapping, default={}
        Content of the file for it: ``W``, ``W_std``, ``Ws``, ….

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.report.results import Entry
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> Entry(cell, {"test": (80.0, None, 90.0)}).score().mean
    85.0
    """

    cell: Cell
    scores: Mapping[str, Scores]
    missing: int = 0
    record: Mapping[str, Any] = field(default_factory=dict)

    def score(self, kind: str = "test") -> Score:
        """Mean, standard deviation and number of trials of one kind of score."""
        return mean_score(self.scores.get(kind, ()))

    @property
    def plans(self) -> list[NDArray[np.float64]]:
        """The plan of every trial that has one, without holes."""
        given = (np.array(W, dtype=float) for W in self.record.get("Ws", ()))
        return [W for W in given if np.isfinite(W).all()]


@dataclass(frozen=True)
class Outcome:
    """One table, figure or group of claims.

    Parameters
    ----------
    name, title : str
        What it is called in the files and on the page.
    trials : int
        Number of trials of every cell.
    datasets : mapping
        Name of a dataset to its label, rows, views and classes.
    entries : mapping of Cell to Entry
        What was found, in the order of the file.
    record : mapping, default={}
        Content of the file: ``versions``, ``devices``, ``trainings``, ….

    Examples
    --------
    >>> from paper.report.results import Outcome
    >>> Outcome("table2", "Accuracy", 20, {"caltech7": {"label": "Caltech7"}}, {}).trials
    20
    """

    name: str
    title: str
    trials: int
    datasets: Mapping[str, Mapping[str, Any]]
    entries: Mapping[Cell, Entry]
    record: Mapping[str, Any] = field(default_factory=dict)

    def find(self, cell: Cell | None) -> Entry | None:
        """The entry of a cell of the same essence."""
        return None if cell is None else self.entries.get(cell.essence)

    def select(self, **wanted: Any) -> list[Entry]:
        """Return the entries whose cells have the given values; ``split`` defaults to None."""
        wanted = {"split": None, **wanted}
        return [
            entry
            for entry in self.entries.values()
            if all(getattr(entry.cell, name) == value for name, value in wanted.items())
        ]

    def label(self, dataset: str) -> str:
        """What to call a dataset."""
        return str(self.datasets[dataset]["label"])


@dataclass(frozen=True)
class Results:
    """All that the page is made from.

    Parameters
    ----------
    outcomes : mapping of str to Outcome
        The experiments that were run.
    benches : mapping of str to mapping, default={}
        Records of the speed, by file.
    runs : sequence of mappings, default=()
        When, where and how long the experiments ran.

    Examples
    --------
    >>> from paper.report.results import Results
    >>> Results({}).find("table2", None) is None
    True
    """

    outcomes: Mapping[str, Outcome]
    benches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    runs: tuple[Mapping[str, Any], ...] = ()

    def find(self, experiment: str, cell: Cell | None) -> Entry | None:
        """The entry of a cell, if the experiment was run and has it."""
        outcome = self.outcomes.get(experiment)
        return outcome.find(cell) if outcome else None


def difference(ours: Entry | None, control: Entry | None, kind: str = "test") -> Difference | None:
    """Compare two entries on the same splits.

    Parameters
    ----------
    ours, control : Entry or None
        What to compare.
    kind : str, default="test"
        Which of their scores.

    Returns
    -------
    Difference or None
        Ours − control in percentage points, with its 95 % interval; None if either is lacking.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.report.results import Entry, difference
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> a, b = (Entry(cell, {"test": scores}) for scores in ((90.0, 91.0), (89.0, 90.0)))
    >>> difference(a, b)
    Difference(mean=1.0, low=1.0, high=1.0, n=2)
    """
    if ours is None or control is None or not (kind in ours.scores and kind in control.scores):
        return None
    ratio = shared_rows(ours.cell.dataset)
    return compare(ours.scores[kind], control.scores[kind], test_to_train=ratio)


def compare(ours: Scores, control: Scores, *, test_to_train: float = TEST_TO_TRAIN) -> Difference:
    """Compare scores trial by trial, as far as both go.

    Parameters
    ----------
    ours, control : tuple of float or None
        One per trial; trials of the same number have the same split.
    test_to_train : float, default=1/3
        Test rows to training rows of a trial; 0 for trials that share no row.

    Returns
    -------
    Difference
        Ours − control, with its 95 % interval.

    Examples
    --------
    >>> from paper.report.results import compare
    >>> compare((90.0, 91.0, 92.0), (89.0, 90.0)).n
    2
    """
    n = min(len(ours), len(control))
    return paired_difference(ours[:n], control[:n], test_to_train=test_to_train)
