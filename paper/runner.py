"""Fit all trials of a cell together, and score them."""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils import Bunch

from paper.cells import Cell
from paper.data import load_dataset, split_dataset
from paper.environment import device_name, gpu_lock, one_thread, versions
from paper.estimators import fit_arguments, make_estimator, plain_parameters
from paper.json_files import plain
from paper.records import Record
from paper.scoring import control_scores, score_classifier, score_encoder

if TYPE_CHECKING:
    from hotview.estimators.base import MultiViewEstimator
    from hotview.training.trainer import History

__all__ = ["counted_warnings", "run_cell"]

_TEXT = 40  # characters that identify a warning

_RANK = "effective_rank_"
_N_GROUPS = 3  # of views in plans between pairs, as many as references


def run_cell(
    cell: Cell, trials: Sequence[int], device: str = "cpu", data: Path | None = None
) -> list[Record]:
    """Run some trials of a cell.

    Trial t has the split ``unalign(..., random_state=t)``, unless the cell fixes it, and the
    estimator's ``random_state=t``.

    Parameters
    ----------
    cell : Cell
        What to train on what.
    trials : sequence of int
        Numbers of the trials; they are trained together.
    device : str, default="cpu"
        Where to train networks; controls always run on the CPU.
    data : Path or None, default=None
        A folder or file with the data that are not in the package.

    Returns
    -------
    list of dict
        A record per trial, in that order. Warnings cannot be told apart between trainings that
        run together, so that each record has its share of them.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.runner import run_cell
    >>> few = (("max_epochs", 2),)
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper", overrides=few)
    >>> record, = run_cell(cell, [0])
    >>> record["trial"], record["history"]["epochs"], list(record["scores"])
    (0, 2, ['test', 'validation', 'standardized', 'unpenalized', 'labels_20', 'all_labels'])
    """
    with one_thread():
        run = _run_control if cell.is_control else _run_together
        return run(cell.essence, trials, device, data)


@contextmanager
def counted_warnings() -> Iterator[Counter[str]]:
    """Keep warnings from being shown, and count them when the block is left.

    Yields
    ------
    Counter of str
        Category and first characters of every warning.

    Raises
    ------
    KeyboardInterrupt
        A training was interrupted: estimators say so in a warning, and half a training is no
        result here.

    Examples
    --------
    >>> import warnings
    >>> from paper.runner import counted_warnings
    >>> with counted_warnings() as counts:
    ...     warnings.warn("careful")
    >>> counts
    Counter({'UserWarning: careful': 1})
    """
    counts: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("error", message="Training was interrupted")
        try:
            yield counts
        except UserWarning as interrupted:
            raise KeyboardInterrupt from interrupted
    counts.update(f"{w.category.__name__}: {_start(str(w.message))}" for w in caught)


def _start(text: str) -> str:
    """The first words of a warning, without the names and numbers that differ between trials."""
    return re.sub(r"'[^']*'|[\d.]*\d[\w.]*", "…", re.split("[(:]", text)[0])[:_TEXT].strip()


def _run_control(cell: Cell, trials: Sequence[int], device: str, data: Path | None) -> list[Record]:
    records = []
    for trial in trials:
        split = split_dataset(cell, data, trial)
        start = time.perf_counter()
        with counted_warnings() as counts:
            scores = control_scores(cell.method, split)
        seconds = time.perf_counter() - start
        head = _head(cell, trial, "cpu", data, split)
        records.append({**head, **_outcome(scores, seconds, counts)})
    return records


def _run_together(
    cell: Cell, trials: Sequence[int], device: str, data: Path | None
) -> list[Record]:
    from hotview.estimators.base import fit_batched

    on_gpu = device.startswith("cuda")
    splits = [split_dataset(cell, data, trial, keep=on_gpu) for trial in trials]
    models = [make_estimator(cell, trial, device) for trial in trials]
    fits = [(m, fit_arguments(cell, split)) for m, split in zip(models, splits, strict=True)]
    start = time.perf_counter()
    with counted_warnings() as counts:
        fit_batched(fits, view_tests=False, training=gpu_lock(device))
    seconds = (time.perf_counter() - start) / len(trials)
    share = {text: n / len(trials) for text, n in counts.items()}
    score = score_encoder if cell.task == "unsupervised" else score_classifier
    return [
        {
            **_head(cell, trial, device, data, split),
            "parameters": plain_parameters(model),
            **_outcome(score(model, split), seconds, share),
            **_found(model),
        }
        for trial, model, split in zip(trials, models, splits, strict=True)
    ]


def _head(cell: Cell, trial: int, device: str, data: Path | None, split: Bunch) -> Record:
    """What was run, on what, with what."""
    dataset = load_dataset(cell.dataset, data, trial).describe()
    return {
        "trial": trial,
        "seed": trial,
        "split": trial if cell.split is None else cell.split,
        "dataset": {**dataset, "labeled": len(split.target)},
        "versions": versions(),
        "device": device_name(device),
    }


def _outcome(scores: dict[str, float], seconds: float, counts: Any) -> Record:
    return {
        "seconds": round(seconds, 4),
        "scores": plain(scores),
        "warnings": plain(dict(sorted(counts.items()))),
    }


def _found(model: MultiViewEstimator) -> Record:
    """The plan over the views, where there is one, and how training went."""
    found: Record = {"history": _summary(model.history_)}
    if (plan := model.plan_) is not None:
        found["W"], found["C"] = plain(plan.W), plain(plan.C)
        n_groups = min(_N_GROUPS, len(plan.W)) if plan.pairwise else None
        found["view_labels"] = plain(plan.view_labels(n_groups).labels)
    return found


def _summary(history: History) -> Record:
    """First and last loss with its terms, and the last effective ranks."""
    terms = [n for n in history.names if not n.startswith(("epoch", "seconds", _RANK))]
    first, last = history[0], history[-1]
    return {
        "epochs": len(history),
        "first": {name: _significant(first[name]) for name in terms if name in first},
        "last": {name: _significant(last[name]) for name in terms if name in last},
        "effective_ranks": {
            name.removeprefix(_RANK): round(rank, 3)
            for name, rank in last.items()
            if name.startswith(_RANK)
        },
    }


def _significant(value: float) -> Any:
    return plain(float(f"{value:.6g}"), 12)
