"""The result files of `python -m paper run`, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paper.catalog import EXPERIMENTS
from paper.cells import Cell
from paper.report.results import Entry, Outcome, Results
from paper.runs import read_runs
from paper.summary import FORMAT

__all__ = ["BENCHES", "read_outcome", "read_results"]

#: Records of the speed that the page shows, and what they must hold.
BENCHES: Mapping[str, tuple[str, ...]] = {
    "ground_distances": ("contestants", "cases", "n_views", "dimension"),
    "replicas": (),
    "sliced_against_exact": ("costs", "partners", "training"),
}


def read_results(folder: str | Path) -> Results:
    """Read the result files of a folder, and what lies beside it.

    Parameters
    ----------
    folder : str or Path
        Where `python -m paper run` wrote them; ``bench`` beside it holds the records of the speed.

    Returns
    -------
    Results
        What there is.

    Examples
    --------
    >>> import tempfile
    >>> from paper.report.load_results import read_results
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_results(folder)
    Results(outcomes={}, benches={}, runs=())
    """
    folder = Path(folder)
    for path in sorted(folder.glob("*.json")):
        if path.stem not in EXPERIMENTS:
            raise ValueError(f"{path} is none of {', '.join(EXPERIMENTS)}; move it away.")
    paths = (folder / f"{name}.json" for name in EXPERIMENTS)
    outcomes = {path.stem: read_outcome(path) for path in paths if path.exists()}
    benches = (folder.parent / "bench" / f"{name}.json" for name in BENCHES)
    found = {path.stem: _read_bench(path) for path in benches if path.exists()}
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
    >>> from paper.report.load_results import read_outcome
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table2.json"
    ...     _ = path.write_text('{"format": 7}')
    ...     read_outcome(path)
    Traceback (most recent call last):
    ValueError: .../table2.json is not a result file of `python -m paper run table2`: ...
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


def _read_bench(path: Path) -> dict[str, Any]:
    record = _read(path)
    for key in BENCHES[path.stem]:
        if key not in record:
            raise ValueError(f"{path} has no {key!r}; benchmarks/{path.stem}.py writes it anew.")
    return record


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
    if np.array(record.get("Ws", [[[]]]), dtype=float).ndim != 3:
        raise ValueError(f"the plans Ws of {cell.id} are not matrices")
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
        f"{path} is not a result file of `python -m paper run {path.stem}`: {why}. "
        "Move it away, or have it written again."
    )
