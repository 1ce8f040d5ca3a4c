"""Record files, one per cell and trial: path, content and validation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from paper.cells import Cell
from paper.json_files import write_json

__all__ = [
    "FORMAT",
    "ForeignRecordError",
    "Record",
    "own_parameters",
    "read_record",
    "record_path",
    "write_record",
]

#: What a record begins with.
FORMAT = "hotview-record-1"

Record: TypeAlias = dict[str, Any]

_PER_TRIAL = ("random_state", "device", "verbose")

#: Parameters that older records lack, and what leaves everything as it was before.
_LATER = {"pseudo_labels": False, "fusion": "average"}


class ForeignRecordError(ValueError):
    """A file stands where a record should be, and is not that record.

    Examples
    --------
    >>> from paper.records import ForeignRecordError
    >>> issubclass(ForeignRecordError, ValueError)
    True
    """


def record_path(out: Path, cell: Cell, trial: int) -> Path:
    """Return where the record of a trial is.

    Parameters
    ----------
    out : Path
        The folder of all results.
    cell : Cell
        What was trained on what.
    trial : int
        Number of the trial.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.cells import Cell
    >>> from paper.records import record_path
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> record_path(Path("results"), cell, 7).as_posix()
    'results/records/handwritten_unsupervised_hot-11_paper/trial-007.json'
    """
    return out / "records" / cell.id / f"trial-{trial:03d}.json"


def write_record(out: Path, cell: Cell, record: Record) -> Path:
    """Write a record, whole or not at all.

    Parameters
    ----------
    out : Path
        The folder of all results.
    cell : Cell
        What was trained on what.
    record : dict
        What came out; format and cell are put in front.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from paper.cells import Cell
    >>> from paper.records import read_record, write_record
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_record(Path(folder), cell, {"trial": 0, "scores": {"test": 0.9}})
    ...     read_record(Path(folder), cell, 0)["scores"]
    {'test': 0.9}
    """
    path = record_path(out, cell, record["trial"])
    write_json(path, {"format": FORMAT, "cell": cell.essence.to_json(), **record})
    return path


def read_record(out: Path, cell: Cell, trial: int, fingerprint: str | None = None) -> Record | None:
    """Read the record of a trial.

    Parameters
    ----------
    out : Path
        The folder of all results.
    cell : Cell
        What was trained on what.
    trial : int
        Number of the trial.
    fingerprint : str or None, default=None
        Of the data that it has to be from; None takes any.

    Returns
    -------
    dict or None
        None where there is no file.

    Raises
    ------
    ForeignRecordError
        The file is not a record of this cell and trial.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.cells import Cell
    >>> from paper.records import read_record
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> read_record(Path("nowhere"), cell, 0) is None
    True
    """
    path = record_path(out, cell, trial)
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ForeignRecordError(f"{path} cannot be read as a record ({error})") from error
    for problem in _problems(record, cell, trial, fingerprint):
        raise ForeignRecordError(f"{path} {problem}")
    return dict(record)


def _problems(record: Any, cell: Cell, trial: int, fingerprint: str | None) -> Iterator[str]:
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        found = record.get("format") if isinstance(record, dict) else type(record).__name__
        yield f"is not a record of this format: expected {FORMAT!r}, but got {found!r}"
        return
    if (record.get("cell"), record.get("trial")) != (cell.essence.to_json(), trial):
        yield "is the record of another cell or trial"
    dataset = record.get("dataset")
    made_from = dataset.get("fingerprint") if isinstance(dataset, dict) else None
    if fingerprint is not None and made_from != fingerprint:
        yield f"is from other data: expected fingerprint {fingerprint}, but got {made_from}"
    if not isinstance(record.get("scores"), dict):
        yield "has no scores"


def own_parameters(parameters: Mapping[str, Any]) -> str:
    """Return the parameters of an estimator in which the trials of a cell must be equal.

    Parameters
    ----------
    parameters : mapping of str to object
        All of them.

    Returns
    -------
    str
        For comparison.

    Examples
    --------
    >>> from paper.records import own_parameters
    >>> own_parameters({"n_references": 3, "random_state": 7})
    "[('n_references', 3)]"
    """
    own = {k: v for k, v in parameters.items() if k not in _PER_TRIAL}
    return str(sorted((k, v) for k, v in own.items() if k not in _LATER or v != _LATER[k]))
