"""Items run wherever joblib runs them.

Workers train and score; records come back and are written here, so that those on other machines
need no folder in common with this one.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paper.environment import default_jobs
from paper.records import Record, write_record
from paper.runner import run_cell
from paper.schedule import Item

__all__ = ["Done", "count_workers", "run_item", "run_items"]

# Trainings count the warnings of their process, and set its number of threads.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Done:
    """An item that was run.

    Parameters
    ----------
    item : Item
        What was run.
    error : str or None, default=None
        What went wrong, if anything did; trials that went well are written all the same.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.schedule import Item
    >>> from paper.workers import Done
    >>> Done(Item(Cell("msrc", "unsupervised", "HOT (11)", "paper"), (0, 1))).error is None
    True
    """

    item: Item
    error: str | None = None


def count_workers(jobs: int | None = None) -> int:
    """Count how many items run at once.

    Parameters
    ----------
    jobs : int or None, default=None
        Number of processes; None takes that of joblib's `parallel_config`, and where it has
        nothing one per core.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> from joblib import parallel_config
    >>> from paper.workers import count_workers
    >>> with parallel_config(n_jobs=3):
    ...     count_workers(), count_workers(2)
    (3, 2)
    """
    from joblib import effective_n_jobs  # type: ignore[import-untyped]
    from joblib.parallel import get_active_backend  # type: ignore[import-untyped]

    backend, n_jobs = get_active_backend()
    if jobs is None and n_jobs is None and backend.supports_inner_max_num_threads:
        return default_jobs()
    return int(effective_n_jobs(jobs))


def run_items(
    items: Sequence[Item],
    out: Path,
    *,
    jobs: int | None = None,
    device: str = "cpu",
    data: Path | None = None,
) -> Iterator[Done]:
    """Run items, write their records, and yield each item when it is done.

    Parameters
    ----------
    items : sequence of Item
        What to run, in this order.
    out : Path
        The folder of all results.
    jobs : int or None, default=None
        Number of processes, as scikit-learn's `n_jobs`: 1 runs in this one, None takes what
        joblib's `parallel_config`, else 1. A backend that it names runs the
        items, on other machines too.
    device : str, default="cpu"
        Where to train networks.
    data : Path or None, default=None
        A folder or file with the data that are not in the package; every machine reads its own.

    Yields
    ------
    Done
        In the order in which they end.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.workers import run_items
    >>> list(run_items([], Path("nowhere")))
    []
    """
    found = None if data is None else data.absolute()  # workers may be in another folder
    calls = [(item, device, found, os.getpid()) for item in items]
    for outcome in _run_calls(calls, jobs):
        yield _write(outcome, out)


def run_item(item: Item, out: Path, device: str = "cpu", data: Path | None = None) -> Done:
    """Run an item and write its records.

    Parameters
    ----------
    item : Item
        What to run.
    out : Path
        The folder of all results.
    device : str, default="cpu"
        Where to train networks.
    data : Path or None, default=None
        A folder or file with the data that are not in the package.

    Returns
    -------
    Done
        With what went wrong, if anything did: one cell must not stop all others.

    Examples
    --------
    >>> from pathlib import Path
    >>> from paper.cells import Cell
    >>> from paper.schedule import Item
    >>> from paper.workers import run_item
    >>> cell = Cell("handwritten", "-", "logistic regression", "-", without="hand")
    >>> run_item(Item(cell, (0,)), Path("nowhere")).error
    "ValueError: handwritten has no view 'hand' to leave out. (data.py:...)"
    """
    return _write(_train(item, device, data), out)


@dataclass(frozen=True)
class _Outcome:
    """What came of an item: records, and what went wrong if anything did."""

    item: Item
    records: tuple[Record, ...]
    error: str | None = None


def _run_calls(calls: Sequence[Any], jobs: int | None) -> Iterator[_Outcome]:
    """Call workers, and yield their results as they arrive."""
    if not calls:
        return
    from joblib import Parallel, delayed, effective_n_jobs, parallel_config
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend()
    # joblib's own processes would each begin with a thread per core.
    own = backend.supports_inner_max_num_threads
    tasks = [delayed(_train_in_worker)(*call) for call in calls]
    with parallel_config("loky", inner_max_num_threads=1) if own else nullcontext():
        n = min(effective_n_jobs(jobs), len(tasks))
        how = "generator_unordered" if backend.supports_return_generator else "list"
        parallel = Parallel(n, return_as=how, batch_size=1)
    # A backend that returns results only when all are done gets a few items at a time.
    at_once = len(tasks) if backend.supports_return_generator else n
    for start in range(0, len(tasks), at_once):
        yield from parallel(tasks[start : start + at_once])


def _train_in_worker(item: Item, device: str, data: Path | None, caller: int) -> _Outcome:
    in_main_thread = threading.current_thread() is threading.main_thread()
    if os.getpid() != caller and in_main_thread:
        # A terminal sends Ctrl-C to all processes; the first one ends the others.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _one_at_a_time:
        return _train(item, device, data)


def _train(item: Item, device: str, data: Path | None) -> _Outcome:
    try:
        return _Outcome(item, tuple(run_cell(item.cell, item.trials, device, data)))
    except FloatingPointError as error:
        if len(item.trials) == 1:
            return _Outcome(item, (), f"trial {item.trials[0]}: {error}")
        # One training that diverged must not cost the others theirs.
        alone = [_train(Item(item.cell, (trial,)), device, data) for trial in item.trials]
        failed = [outcome.error for outcome in alone if outcome.error is not None]
        records = tuple(record for outcome in alone for record in outcome.records)
        return _Outcome(item, records, "; ".join(failed) or None)
    except Exception as error:
        return _Outcome(item, (), _describe(error))


def _write(outcome: _Outcome, out: Path) -> Done:
    try:
        for record in outcome.records:
            write_record(out, outcome.item.cell, record)
    except Exception as error:
        return Done(outcome.item, _describe(error))
    return Done(outcome.item, outcome.error)


def _describe(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
