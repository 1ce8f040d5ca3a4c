"""The datasets of the experiments, by name, and their splits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from hotview._types import Array, IntArray
from hotview.datasets import load_handwritten, make_views, read_views, unalign
from paper.caltech import load_caltech
from paper.cells import DATASETS, Cell

__all__ = ["HOW_TO_PASS", "Dataset", "find_datasets", "load_dataset", "split_dataset"]

HOW_TO_PASS = (
    "Pass --data PATH, a folder that holds Caltech101-7.mat and Caltech101-20.mat, or "
    "caltech101_reextracted.npz, and msrc_v1.npz, or one of these files."
)

#: What makes the synthetic views: three groups, as many as the paper has references, of two.
#: The distance of the classes was chosen by what logistic regression reaches on 60 labeled rows.
SYNTHETIC: Mapping[str, Any] = MappingProxyType(
    {"n_views": 6, "n_groups": 3, "n_classes": 10, "class_sep": 1.5}
)
_SYNTHETIC_ROWS = 2000

_MSRC = "msrc_v1.npz"

_KEPT_SPLITS, _KEPT_DATASETS = 20, 64  # by a process; synthetic ones are small and many


@dataclass(frozen=True)
class Dataset:
    """Aligned, labeled views, and where they are from.

    Parameters
    ----------
    name : str
        One of `paper.cells.DATASETS`.
    label : str
        Its name in tables, with a remark if the data are not the paper's own.
    views : dict of str to ndarray
        Row i is the same individual in all of them.
    target : ndarray
        The classes.
    groups : tuple of int or None, default=None
        The planted group of every view, where there is one.

    Examples
    --------
    >>> from paper.data import load_dataset
    >>> digits = load_dataset("handwritten")
    >>> digits.label, digits.describe()["rows"]
    ('Handwritten', 2000)
    """

    name: str
    label: str
    views: dict[str, Array]
    target: IntArray
    groups: tuple[int, ...] | None = None

    def describe(self) -> dict[str, Any]:
        """What a record keeps of it: label, sizes and a fingerprint of every number in it."""
        what: dict[str, Any] = {
            "label": self.label,
            "rows": len(self.target),
            "views": {name: X.shape[1] for name, X in self.views.items()},
            "classes": len(np.unique(self.target)),
            "fingerprint": self.fingerprint,
        }
        return what if self.groups is None else {**what, "groups": list(self.groups)}

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that differ when any number differs."""
        found = hashlib.sha256()
        for array in (*self.views.values(), self.target):
            found.update(f"{array.shape} {array.dtype}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()[:12]


def load_dataset(name: str, data: Path | None = None, trial: int = 0) -> Dataset:
    """Load a dataset once per process.

    Parameters
    ----------
    name : str
        One of `paper.cells.DATASETS`.
    data : Path or None, default=None
        A folder or file with what is not in the package.
    trial : int, default=0
        Synthetic views are drawn anew in every trial.

    Returns
    -------
    Dataset
        Views and classes.

    Examples
    --------
    >>> from paper.data import load_dataset
    >>> load_dataset("msrc")
    Traceback (most recent call last):
    FileNotFoundError: It is not in the package. Pass --data PATH...
    """
    return _load(name, data, trial if name == "synthetic" else 0)


def find_datasets(
    data: Path | None, names: Sequence[str] = DATASETS
) -> tuple[list[str], dict[str, str]]:
    """Say which datasets are at hand.

    Parameters
    ----------
    data : Path or None
        A folder or file with what is not in the package.
    names : sequence of str, default=all
        Which to look for.

    Returns
    -------
    list of str, dict of str to str
        Those that can be loaded, and why the others cannot.

    Examples
    --------
    >>> from paper.data import find_datasets
    >>> found, missing = find_datasets(None)
    >>> found, list(missing)
    (['handwritten', 'synthetic'], ['caltech7', 'caltech20', 'msrc'])
    """
    missing = {}
    for name in names:
        try:
            load_dataset(name, data)
        except (OSError, ValueError) as error:
            missing[name] = str(error)
    return [name for name in names if name not in missing], missing


def split_dataset(cell: Cell, data: Path | None, trial: int, *, keep: bool = False) -> Bunch:
    """Take a dataset apart as `hotview.datasets.unalign` does, for one trial of a cell.

    Parameters
    ----------
    cell : Cell
        Says which dataset, which view is left out, and whether the split is the trial's own.
    data : Path or None
        A folder or file with what is not in the package.
    trial : int
        Seed of the split, unless the cell fixes it.
    keep : bool, default=False
        Whether to keep it for the next cell: that takes memory, and saves time only where
        training takes less than splitting.

    Returns
    -------
    Bunch
        As of `unalign`, and `train_target`, the classes of the linked and then the paired rows.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.data import split_dataset
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper", without="mor")
    >>> list(split_dataset(cell, None, 0).linked)
    ['pix', 'fou', 'fac', 'zer', 'kar']
    """
    make = _split if keep else _split.__wrapped__
    split = make(cell.dataset, data, trial if cell.split is None else cell.split, trial)
    if cell.without is None:
        return split
    if cell.without not in split.linked:
        raise ValueError(f"{cell.dataset} has no view {cell.without!r} to leave out.")
    return Bunch(**{key: _leave_out(part, cell.without) for key, part in split.items()})


def _leave_out(part: Any, view: str) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: X for name, X in part.items() if name != view}


@lru_cache(maxsize=_KEPT_SPLITS)
def _split(name: str, data: Path | None, seed: int, trial: int) -> Bunch:
    dataset = load_dataset(name, data, trial)
    split = unalign(dataset.views, dataset.target, random_state=seed)
    return Bunch(train_target=dataset.target[split.split.train], **split)


@lru_cache(maxsize=_KEPT_DATASETS)
def _load(name: str, data: Path | None, trial: int) -> Dataset:
    return _LOADERS[name](data, trial)


def _handwritten(data: Path | None, trial: int) -> Dataset:
    found = load_handwritten()
    return Dataset("handwritten", "Handwritten", found.views, found.target)


def _caltech(n_classes: int, data: Path | None) -> Dataset:
    name = f"caltech{n_classes}"
    found = load_caltech(n_classes, _given(data))
    if found.source == "Caltech (re-extracted)":
        remark = " (re-extracted)"
    else:
        remark = "" if found.verified else " (not the published file)"
    return Dataset(name, f"Caltech{n_classes}{remark}", found.views, found.target)


def _msrc(data: Path | None, trial: int) -> Dataset:
    path = _given(data)
    file = path / _MSRC if path.is_dir() else path
    if file.name != _MSRC or not file.is_file():
        raise FileNotFoundError(f"No {_MSRC} at {path}. {HOW_TO_PASS}")
    views = {name: np.asarray(X) for name, X in read_views(file).items() if name != "y"}
    with np.load(file, allow_pickle=False) as stored:
        if "y" not in stored:
            raise ValueError(f"Expected {file} to hold the classes as 'y', but it has none.")
        return Dataset("msrc", "MSRC-v1", views, stored["y"])


def _synthetic(data: Path | None, trial: int) -> Dataset:
    made = make_views(_SYNTHETIC_ROWS, labeled=1.0, random_state=trial, **SYNTHETIC)
    groups = tuple(int(group) for group in made.view_groups)
    return Dataset("synthetic", "Synthetic", made.linked, made.linked_target, groups)


def _given(data: Path | None) -> Path:
    if data is None:
        raise FileNotFoundError(f"It is not in the package. {HOW_TO_PASS}")
    return data


_LOADERS: Mapping[str, Callable[[Path | None, int], Dataset]] = {
    "handwritten": _handwritten,
    "caltech7": lambda data, trial: _caltech(7, data),
    "caltech20": lambda data, trial: _caltech(20, data),
    "msrc": _msrc,
    "synthetic": _synthetic,
}
