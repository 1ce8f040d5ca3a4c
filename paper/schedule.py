"""Work items of about a minute, the longest first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paper.cells import Cell
from paper.estimators import parameters_of
from paper.models import SETTINGS

__all__ = ["Item", "expected_seconds", "make_items"]

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
    >>> from paper.cells import Cell
    >>> from paper.schedule import Item
    >>> Item(Cell("msrc", "unsupervised", "HOT (11)", "paper"), (0, 1)).trials
    (0, 1)
    """

    cell: Cell
    trials: tuple[int, ...]


def expected_seconds(cell: Cell, device: str = "cpu") -> float:
    """Estimate the seconds of one trial of a cell, to order the work and show the time left.

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
    >>> from paper.cells import Cell
    >>> from paper.schedule import expected_seconds
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
    >>> from paper.cells import Cell
    >>> from paper.schedule import make_items
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


def _together(device: str) -> int:
    return _TOGETHER_CUDA if device.startswith("cuda") else _TOGETHER_CPU


def _speed(device: str) -> float:
    return _CUDA_SPEED if device.startswith("cuda") else 1.0
