"""One cell of a table, or point of a figure: what is trained on what, as data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from paper.models import CONTROLS, DEFAULT, TRAINED

__all__ = ["DATASETS", "SETTINGS_NAMES", "TASKS", "Cell", "control_of"]

#: What can be trained on.
DATASETS = ("handwritten", "caltech7", "caltech20", "msrc", "synthetic")

#: With a few labels in the objective, or with none and a classifier on the frozen features.
TASKS = ("semi-supervised", "unsupervised")

#: The paper's settings literally, and the defaults of our estimators.
SETTINGS_NAMES = ("paper", "robust")

#: Today's names of parameters in result files that were written before they were renamed.
_RENAMED = {"view_weight": "regularizer_weight"}


@dataclass(frozen=True)
class Cell:
    """What one number of a table is the accuracy of, over all trials.

    Parameters
    ----------
    dataset : str
        One of `DATASETS`.
    task : str
        One of `TASKS`; ``"-"`` in records of controls, which know none.
    method : str
        A row of the paper, ``"no coupling"``, ``"no coupling + AE"``, ``"hotview default"`` or
        one of the controls.
    settings : str
        ``"paper"``, ``"robust"``, or ``"-"`` for controls.
    without : str or None, default=None
        A view that is left out.
    overrides : tuple of (str, value) pairs, default=()
        Parameters of the estimator that differ from the settings.
    split : int or None, default=None
        Seed of the split in all trials; None splits anew in every trial.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11) + AE", "paper", without="mor")
    >>> cell.id
    'handwritten_unsupervised_hot-11-ae_paper_without-mor'
    >>> Cell.from_json(cell.to_json()) == cell
    True
    """

    dataset: str
    task: str
    method: str
    settings: str
    without: str | None = None
    overrides: tuple[tuple[str, Any], ...] = ()
    split: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "overrides", tuple(sorted(self.overrides)))
        _check("dataset", self.dataset, DATASETS)
        _check("task", self.task, (*TASKS, "-") if self.is_control else TASKS)
        _check("method", self.method, (*TRAINED, DEFAULT, *CONTROLS))
        _check("settings", self.settings, ("-",) if self.is_control else SETTINGS_NAMES)
        if self.method == DEFAULT and (self.task, self.settings) != ("semi-supervised", "robust"):
            raise ValueError(f"{DEFAULT!r} is semi-supervised and robust, got {self}.")

    @property
    def is_control(self) -> bool:
        """Whether it is a plain method, which trains no networks."""
        return self.method in CONTROLS

    @property
    def essence(self) -> Cell:
        """The same without what does not change its numbers: a control knows no task."""
        return replace(self, task="-") if self.is_control else self

    @property
    def id(self) -> str:
        """A readable name, good for a file, that only cells of the same essence share."""
        parts = [self.dataset, self.essence.task, _slug(self.method), self.settings]
        parts += [f"without-{_slug(self.without)}"] * (self.without is not None)
        parts += [f"{name}={value}" for name, value in self.overrides]
        parts += [f"split-{self.split}"] * (self.split is not None)
        return "_".join(part for part in parts if part != "-")

    def to_json(self) -> dict[str, Any]:
        """The fields that are not empty: the overrides are an object, infinity is ``"inf"``."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given["overrides"] = {name: _plain(value) for name, value in self.overrides}
        return {name: value for name, value in given.items() if value not in (None, {})}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Cell:
        """The cell that `to_json` wrote."""
        overrides = tuple(
            (_RENAMED.get(name, name), math.inf if value == "inf" else value)
            for name, value in given.get("overrides", {}).items()
        )
        return cls(**{**given, "overrides": overrides})


def control_of(cell: Cell) -> Cell | None:
    """Return the cell that differs from this one in nothing but what is being tested.

    Parameters
    ----------
    cell : Cell
        What is tested: a view that was left out, parameters that were changed, or else the
        coupling.

    Returns
    -------
    Cell or None
        All views; the settings unchanged; or no coupling. None for what is a control itself.

    Examples
    --------
    >>> from paper.cells import Cell, control_of
    >>> control_of(Cell("handwritten", "unsupervised", "HOT (11) + AE", "paper")).method
    'no coupling + AE'
    """
    if cell.without is not None:
        return replace(cell, without=None)
    if cell.is_control or ("coupling", "none") in cell.overrides:
        return None
    if cell.overrides:
        return replace(cell, overrides=())
    if cell.method == DEFAULT:
        return replace(cell, overrides=(("coupling", "none"),))
    model = TRAINED[cell.method]
    if model.coupling == "none":
        return None
    suffix = " + AE" if model.view_regularizer == "autoencoder" else ""
    return replace(cell, method=f"no coupling{suffix}")


def _check(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"Expected {name} to be one of {', '.join(choices)}, but got {value!r}.")


def _slug(text: str | None) -> str:
    return re.sub("[^a-z0-9]+", "-", str(text).lower()).strip("-")


def _plain(value: Any) -> Any:
    return "inf" if value == math.inf else value
