"""The log of runs: command, machine and duration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["append_run", "read_runs"]

_FILE = "runs.jsonl"


def append_run(out: Path, run: dict[str, Any]) -> Path:
    """Note a run.

    Parameters
    ----------
    out : Path
        The folder of all results.
    run : dict of str to object
        What to note.

    Returns
    -------
    Path
        The file of all notes, a line each.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from paper.runs import append_run, read_runs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for jobs in (1, 2):
    ...         _ = append_run(Path(folder), {"jobs": jobs})
    ...     read_runs(Path(folder))
    [{'jobs': 1}, {'jobs': 2}]
    """
    path = out / "paper" / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(run, ensure_ascii=False)}\n")
    return path


def read_runs(out: Path) -> list[dict[str, Any]]:
    """Read the notes of all runs.

    Parameters
    ----------
    out : Path
        The folder of all results.

    Returns
    -------
    list of dict
        In the order of the runs.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.runs import read_runs
    >>> read_runs(Path("nowhere"))
    []
    """
    path = out / "paper" / _FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]
