"""Summarize records in one small file per experiment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hotview._types import Array
from paper.catalog import Experiment
from paper.cells import Cell
from paper.json_files import plain, write_json
from paper.records import (
    ForeignRecordError,
    Record,
    own_parameters,
    read_record,
    record_path,
)

__all__ = ["FORMAT", "count_lost", "read_cell", "summarize", "summary_path", "write_summary"]

#: Of the files.
FORMAT = 1

#: From a cell and the number of a trial; None where the data are not at hand.
Fingerprint = Callable[[Cell, int], str | None]


def summary_path(out: Path, experiment: str) -> Path:
    """Return where the file of an experiment is.

    Parameters
    ----------
    out : Path
        The folder of all results.
    experiment : str
        Its name.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.summary import summary_path
    >>> summary_path(Path("results"), "table2").as_posix()
    'results/paper/table2.json'
    """
    return out / "paper" / f"{experiment}.json"


def write_summary(
    experiment: Experiment,
    out: Path,
    trials: int,
    wanted: Collection[Cell],
    fingerprint: Fingerprint | None = None,
) -> dict[str, Any]:
    """Write the file of an experiment, and return what it holds.

    Parameters
    ----------
    experiment : Experiment
        Which one.
    out : Path
        The folder of all results.
    trials : int
        Number of trials that were wanted.
    wanted : collection of Cell
        Cells that are to be in it even if they have no records.
    fingerprint : callable or None, default=None
        The fingerprint that records of a cell's trial must have; None takes any.

    Returns
    -------
    dict of str to object
        From `summarize`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from paper.catalog import EXPERIMENTS
    >>> from paper.summary import write_summary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_summary(EXPERIMENTS["table2"], Path(folder), 20, ())["trainings"]
    0
    """
    summary = summarize(experiment, out, trials, wanted, fingerprint)
    write_json(summary_path(out, experiment.name), summary)
    return summary


def summarize(
    experiment: Experiment,
    out: Path,
    trials: int,
    wanted: Collection[Cell],
    fingerprint: Fingerprint | None = None,
) -> dict[str, Any]:
    """Gather the records of an experiment, of this run and of earlier ones.

    Parameters
    ----------
    experiment : Experiment
        Which one.
    out : Path
        The folder of all results.
    trials : int
        Number of trials that were wanted; where there are records of more, all are taken.
    wanted : collection of Cell
        Cells that are to be in it even if they have no records.
    fingerprint : callable or None, default=None
        The fingerprint that records of a cell's trial must have; None takes any.

    Returns
    -------
    dict of str to object
        Scores by trial, None where one is missing; mean and spread of the plans; sizes of the
        data; versions, devices and seconds.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.catalog import EXPERIMENTS
    >>> from paper.summary import summarize
    >>> table = EXPERIMENTS["table2"]
    >>> summary = summarize(table, Path("nowhere"), 2, table.cells(["handwritten"])[:1])
    >>> summary["cells"][0]["scores"], summary["cells"][0]["missing"]
    ({'test': [None, None]}, 2)
    """
    cells = experiment.cells(experiment.datasets)
    found = {cell: read_cell(out, cell, fingerprint) for cell in cells}
    kept = {cell: records for cell, records in found.items() if records or cell in wanted}
    _check_same_data(kept)
    trials = max([trials, *(max(records) + 1 for records in kept.values() if records)])
    # A control that two tasks share was run once.
    unique = {cell.essence: list(records.values()) for cell, records in kept.items()}
    trained = [r for cell, records in unique.items() if not cell.is_control for r in records]
    everything = [record for records in unique.values() for record in records]
    return {
        "format": FORMAT,
        "experiment": experiment.name,
        "title": experiment.title,
        "trials": trials,
        "datasets": _datasets(kept),
        "versions": _versions(everything),
        "devices": sorted({record["device"] for record in everything}),
        "trainings": len(trained),
        "seconds_of_training": round(sum(record["seconds"] for record in trained), 1),
        "cells": [
            _entry(cell, records, trials, experiment.keeps_plans) for cell, records in kept.items()
        ],
    }


def read_cell(out: Path, cell: Cell, fingerprint: Fingerprint | None = None) -> dict[int, Record]:
    """Read all records of a cell; what is not one, or is of other data, is passed over.

    Parameters
    ----------
    out : Path
        The folder of all results.
    cell : Cell
        Which one.
    fingerprint : callable or None, default=None
        The fingerprint that records of a cell's trial must have; None takes any.

    Returns
    -------
    dict of int to dict
        Records by trial, in order.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.cells import Cell
    >>> from paper.summary import read_cell
    >>> read_cell(Path("nowhere"), Cell("msrc", "unsupervised", "HOT (11)", "paper"))
    {}
    """
    files = record_path(out, cell, 0).parent.glob("trial-[0-9]*.json")
    numbers = (file.stem.removeprefix("trial-") for file in files)
    records = {}
    for trial in sorted(int(number) for number in numbers if number.isdecimal()):
        try:
            expected = None if fingerprint is None else fingerprint(cell, trial)
            record = read_record(out, cell, trial, expected)
        except ForeignRecordError:
            continue
        if record is not None:
            records[trial] = record
    return records


def count_lost(experiment: str, out: Path, trials: int, wanted: Collection[Cell]) -> int:
    """Count results in a file that would not be in it if it were written after a run.

    Parameters
    ----------
    experiment : str
        Name of the experiment.
    out : Path
        The folder of all results.
    trials : int
        Trials that the run makes.
    wanted : collection of Cell
        Cells that the run makes.

    Returns
    -------
    int
        Scores of trials that are neither made again nor recorded.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.summary import count_lost
    >>> count_lost("table2", Path("nowhere"), 20, ())
    0
    """
    path = summary_path(out, experiment)
    if not path.exists():
        return 0
    lost = 0
    for entry in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        cell = Cell.from_json(entry["cell"])
        there = {t for t, score in enumerate(entry["scores"]["test"]) if score is not None}
        kept = set(range(trials)) if cell in wanted else set()
        missing = there - kept
        lost += len(missing - read_cell(out, cell).keys()) if missing else 0
    return lost


def _check_same_data(kept: dict[Cell, dict[int, Record]]) -> None:
    """Refuse records of different data under one name; synthetic ones are drawn in every trial."""
    found: dict[str, set[str]] = {}
    for cell, records in kept.items():
        about = [record["dataset"] for record in records.values()]
        prints = {a["fingerprint"] for a in about if "groups" not in a and "fingerprint" in a}
        found.setdefault(cell.dataset, set()).update(prints)
    mixed = [name for name, prints in found.items() if len(prints) > 1]
    if mixed:
        raise ValueError(
            f"Expected all records of {', '.join(mixed)} to be of the same data, but they are of "
            "different ones. Pass --data, or keep them in folders of their own (--out)."
        )


def _datasets(kept: dict[Cell, dict[int, Record]]) -> dict[str, Any]:
    """Label and sizes of every dataset, from a record of all its views."""
    found: dict[str, Any] = {}
    for cell, records in kept.items():
        found.setdefault(cell.dataset, {"label": cell.dataset})
        if records and "rows" not in found[cell.dataset]:
            found[cell.dataset] = next(iter(records.values()))["dataset"]
    return found


def _versions(records: Iterable[Record]) -> dict[str, str]:
    every: dict[str, dict[str, None]] = {}
    for record in records:
        for name, version in record["versions"].items():
            every.setdefault(name, {})[version] = None
    return {name: ", ".join(sorted(found)) for name, found in every.items()}


def _entry(
    cell: Cell, records: dict[int, Record], trials: int, keeps_plans: bool
) -> dict[str, Any]:
    entry: dict[str, Any] = {"cell": cell.to_json()}
    if len(records) < trials:
        entry["missing"] = trials - len(records)
    kinds = dict.fromkeys(["test", *(kind for r in records.values() for kind in r["scores"])])
    entry["scores"] = {
        kind: [records[t]["scores"].get(kind) if t in records else None for t in range(trials)]
        for kind in kinds
    }
    if records:
        every = list(records.values())
        entry["seconds"] = round(float(np.mean([record["seconds"] for record in every])), 4)
        entry |= _plans([r for r in every if "W" in r], keeps_plans)
        entry |= _remarks(every)
    return entry


def _plans(records: list[Record], keeps_plans: bool) -> dict[str, Any]:
    if not records:
        return {}
    Ws = np.array([record["W"] for record in records], dtype=float)
    found = {"Ws": plain(Ws, 4)} if keeps_plans else {}
    if not _is_pairwise(Ws):  # references have no order in which they could be averaged
        return found
    C = np.array([record["C"] for record in records], dtype=float)
    return {"W": plain(Ws.mean(0)), "W_std": plain(Ws.std(0)), "C": plain(C.mean(0)), **found}


def _is_pairwise(Ws: Array) -> bool:
    """Whether plans are between views: then none goes to itself."""
    return Ws.shape[1] == Ws.shape[2] and not Ws.diagonal(axis1=1, axis2=2).any()


def _remarks(records: list[Record]) -> dict[str, Any]:
    """Warnings, and whether the trials were run with different parameters."""
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(record["warnings"])
    found: dict[str, Any] = {}
    if counts:
        found["warnings"] = {text: round(n, 2) for text, n in sorted(counts.items())}
    if len({own_parameters(record.get("parameters", {})) for record in records}) > 1:
        found["mixed_parameters"] = True
    return found
