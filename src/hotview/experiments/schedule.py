"""Work in pieces of about a minute, the longest first, in as many processes as are wanted."""

from __future__ import annotations

import math
import signal
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotview.experiments.building import parameters_of
from hotview.experiments.cells import Cell
from hotview.experiments.paper import SETTINGS
from hotview.experiments.records import write_record
from hotview.experiments.runner import run_cell

__all__ = [
    "Done",
    "Item",
    "expected_seconds",
    "make_items",
    "run_item",
    "run_items",
]

# Trials that are trained together. They do not depend on the number of processes, so that neither
# do the last bits of a result.
_TOGETHER_CPU, _TOGETHER_CUDA, _TOGETHER_CONTROL = 10, 20, 4

#: Rows and columns of the datasets, from which it is guessed how long a training takes.
_SHAPES = {
    "handwritten": (2000, 649),
    "caltech7": (1474, 3766),
    "caltech20": (2386, 3766),
    "msrc": (210, 1622),
    "synthetic": (2000, 120),
}
_CUDA_SPEED = 50.0  # times that of one core, with many trials at once
_HIDDEN = 128


@dataclass(frozen=True)
class Item:
    """Some trials of a cell, which are run together by one process.

    Parameters
    ----------
    cell : Cell
        What to train on what.
    trials : tuple of int
        Numbers of the trials.

    Examples
    --------
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.experiments.schedule import Item
    >>> Item(Cell("msrc", "unsupervised", "HOT (11)", "paper"), (0, 1)).trials
    (0, 1)
    """

    cell: Cell
    trials: tuple[int, ...]


@dataclass(frozen=True)
class Done:
    """An item that was run.

    Parameters
    ----------
    item : Item
        What was run.
    error : str or None, default=None
        What went wrong, if anything did; then nothing was written.

    Examples
    --------
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.experiments.schedule import Done, Item
    >>> Done(Item(Cell("msrc", "unsupervised", "HOT (11)", "paper"), (0, 1))).error is None
    True
    """

    item: Item
    error: str | None = None


def expected_seconds(cell: Cell, device: str = "cpu") -> float:
    """Guess how long one trial of a cell takes, to order the work and to tell the time left.

    Parameters
    ----------
    cell : Cell
        What to train on what.
    device : str, default="cpu"
        Where to.

    Returns
    -------
    float
        Seconds on a core of a common machine.

    Examples
    --------
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.experiments.schedule import expected_seconds
    >>> seconds = expected_seconds(Cell("handwritten", "unsupervised", "HOT (11)", "paper"))
    >>> 1 < seconds < 20
    True
    """
    rows, columns = _SHAPES[cell.dataset]
    if cell.is_control:
        few = cell.method.startswith("logistic regression")
        return rows * columns * (5e-8 if few else 3e-7)
    given = {**SETTINGS, "coupling": "hot-reference", **parameters_of(cell)}
    batch = min(given["batch_size"], 0.6 * rows)
    steps = given["max_epochs"] * math.ceil(0.6 * rows / batch)
    regularized = given.get("view_regularizer") != "none"  # by decoders, or by neighbors
    products = 3 * batch * columns * _HIDDEN * (1 + regularized)
    overhead = 0.002 if given["coupling"] == "none" else 0.008
    return float(steps * (overhead + products / 1e10)) / _speed(device)


def make_items(missing: Mapping[Cell, Sequence[int]], device: str = "cpu") -> list[Item]:
    """Cut the missing trials into items, the longest first.

    Parameters
    ----------
    missing : mapping of Cell to sequence of int
        Trials to run.
    device : str, default="cpu"
        Where to train: on a GPU more trials are trained together.

    Returns
    -------
    list of Item
        All of them.

    Examples
    --------
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.experiments.schedule import make_items
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> [item.trials for item in make_items({cell: (3, 4, 11)})]
    [(3, 4), (11,)]
    """
    items = []
    for cell, trials in missing.items():
        size = _TOGETHER_CONTROL if cell.is_control else _together(device)
        for group in sorted({trial // size for trial in trials}):
            items.append(Item(cell, tuple(t for t in trials if t // size == group)))
    return sorted(items, key=lambda i: -len(i.trials) * expected_seconds(i.cell, device))


def run_items(
    items: Sequence[Item],
    out: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    data: Path | None = None,
) -> Iterator[Done]:
    """Run items and write their records, and tell of each as it is done.

    Parameters
    ----------
    items : sequence of Item
        What to run, in this order.
    out : Path
        The folder of all results.
    jobs : int, default=1
        Number of processes; 1 runs in this one.
    device : str, default="cpu"
        Where to train networks.
    data : Path or None, default=None
        A folder or file with the data that are not in the package.

    Yields
    ------
    Done
        In the order in which they end.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hotview.experiments.schedule import run_items
    >>> list(run_items([], Path("nowhere")))
    []
    """
    if jobs == 1 or len(items) < 2:
        for item in items:
            yield run_item(item, out, device, data)
        return
    from joblib import Parallel, delayed, parallel_config  # type: ignore[import-untyped]

    with parallel_config("loky", inner_max_num_threads=1):
        parallel = Parallel(min(jobs, len(items)), return_as="generator_unordered", batch_size=1)
    yield from parallel(delayed(_run_in_worker)(item, out, device, data) for item in items)


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
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.experiments.schedule import Item, run_item
    >>> cell = Cell("handwritten", "-", "logistic regression", "-", without="hand")
    >>> run_item(Item(cell, (0,)), Path("nowhere")).error
    "ValueError: handwritten has no view 'hand' to leave out. (data.py:...)"
    """
    try:
        for record in run_cell(item.cell, item.trials, device, data):
            write_record(out, item.cell, record)
    except FloatingPointError as error:
        if len(item.trials) == 1:
            return Done(item, f"trial {item.trials[0]}: {error}")
        # One training that diverged must not cost the others theirs.
        alone = [run_item(Item(item.cell, (trial,)), out, device, data) for trial in item.trials]
        failed = [done.error for done in alone if done.error is not None]
        return Done(item, "; ".join(failed) or None)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return Done(item, f"{type(error).__name__}: {error} ({place})")
    return Done(item)


def _run_in_worker(item: Item, out: Path, device: str, data: Path | None) -> Done:
    # A terminal sends Ctrl-C to all processes; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return run_item(item, out, device, data)


def _together(device: str) -> int:
    return _TOGETHER_CUDA if device.startswith("cuda") else _TOGETHER_CPU


def _speed(device: str) -> float:
    return _CUDA_SPEED if device.startswith("cuda") else 1.0
