"""The result files of `hotview reproduce`, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotview.experiments.catalog import EXPERIMENTS
from hotview.experiments.cells import Cell
from hotview.experiments.runs import read_runs
from hotview.experiments.statistics import Difference, Score, mean_score, paired_difference
from hotview.experiments.summary import FORMAT

__all__ = ["Entry", "Outcome", "Results", "difference", "read_outcome", "read_results"]

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
        All that the file says about it: ``W``, ``W_std``, ``Ws``, ….

    Examples
    --------
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.report.reproduction.results import Entry
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
    def plans(self) -> list[Any]:
        """The plan of every trial that has one."""
        return [W for W in self.record.get("Ws") or () if W is not None]


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
        All that the file says: ``versions``, ``devices``, ``trainings``, ….

    Examples
    --------
    >>> from hotview.report.reproduction.results import Outcome
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
        """Entries whose cells have the values wanted; None where ``split`` is not said."""
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
    >>> from hotview.report.reproduction.results import Results
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
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.report.reproduction.results import Entry, difference
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> a, b = (Entry(cell, {"test": scores}) for scores in ((90.0, 91.0), (89.0, 90.0)))
    >>> difference(a, b)
    Difference(mean=1.0, low=1.0, high=1.0, n=2)
    """
    if ours is None or control is None or not (kind in ours.scores and kind in control.scores):
        return None
    return paired_difference(ours.scores[kind], control.scores[kind])


def read_results(folder: str | Path) -> Results:
    """Read the result files of a folder, and what lies beside it.

    Parameters
    ----------
    folder : str or Path
        Where `hotview reproduce` wrote them; ``bench`` beside it holds the records of the speed.

    Returns
    -------
    Results
        What there is.

    Examples
    --------
    >>> import tempfile
    >>> from hotview.report.reproduction.results import read_results
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_results(folder)
    Results(outcomes={}, benches={}, runs=())
    """
    folder = Path(folder)
    paths = (folder / f"{name}.json" for name in EXPERIMENTS)
    outcomes = {path.stem: read_outcome(path) for path in paths if path.exists()}
    benches = folder.parent / "bench"
    names = ("ground_distances", "replicas")
    found = {n: _read(path) for n in names if (path := benches / f"{n}.json").exists()}
    return Results(outcomes, found, _runs(folder))


def read_outcome(path: str | Path) -> Outcome:
    """Read a result file.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Outcome
        What it holds.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.report.reproduction.results import read_outcome
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table2.json"
    ...     _ = path.write_text('{"format": 7}')
    ...     read_outcome(path)
    Traceback (most recent call last):
    ValueError: .../table2.json is not a result file of `hotview reproduce table2`: ...
    """
    path = Path(path)
    record = _read(path)
    try:
        if record["format"] != FORMAT:
            raise ValueError(f"its format is {record['format']!r}, and {FORMAT} can be read")
        if record["experiment"] != path.stem:
            raise ValueError(f"it holds {record['experiment']!r}")
        return _outcome(record)
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise _foreign(path, f"{e} is missing" if isinstance(e, KeyError) else str(e)) from e


def _outcome(record: dict[str, Any]) -> Outcome:
    entries = [_entry(entry, record["trials"]) for entry in record["cells"]]
    for entry in entries:
        if "label" not in record["datasets"][entry.cell.dataset]:
            raise ValueError(f"{entry.cell.dataset} has no label")
    by_cell = {entry.cell.essence: entry for entry in entries}
    return Outcome(
        record["experiment"], record["title"], record["trials"], record["datasets"], by_cell, record
    )


def _entry(record: dict[str, Any], trials: int) -> Entry:
    cell = Cell.from_json(record["cell"])
    scores = {kind: tuple(_in_percent(x) for x in xs) for kind, xs in record["scores"].items()}
    if "test" not in scores:
        raise ValueError(f"{cell.id} has no test scores")
    for kind, values in scores.items():
        if len(values) != trials:
            raise ValueError(f"{cell.id} has {len(values)} {kind} scores of {trials} trials")
    return Entry(cell, scores, record.get("missing", 0), record)


def _in_percent(score: float | None) -> float | None:
    if score is None:
        return None
    if not 0 <= score <= 1:
        raise ValueError(f"an accuracy must lie between 0 and 1, got {score}")
    return 100 * score


def _runs(folder: Path) -> tuple[Mapping[str, Any], ...]:
    if folder.name != "paper":  # the notes lie there and nowhere else
        return ()
    try:
        return tuple(read_runs(folder.parent))
    except ValueError as e:
        raise ValueError(f"the notes of runs in {folder} cannot be read: {e}") from e


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise _foreign(path, f"it is not JSON ({e})") from e
    if not isinstance(record, dict):
        raise _foreign(path, "it holds no object")
    return record


def _foreign(path: Path, why: str) -> ValueError:
    return ValueError(
        f"{path} is not a result file of `hotview reproduce {path.stem}`: {why}. "
        "Move it away, or have it written again."
    )
