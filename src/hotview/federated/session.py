"""What all sides of a training share: names, classes, and in the end plan and fusion weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._codec import require, shorten
from hotview._validation.tables import can_be_saved
from hotview.federated.messages import check_json
from hotview.federated.settings import Settings
from hotview.semisupervised.fusion import LogOpinionPool

__all__ = [
    "MAX_VALUE",
    "ROUNDING",
    "SentHead",
    "SentPlan",
    "SentPool",
    "Session",
    "SpentPrivacy",
    "check_classes",
    "check_known",
    "check_names",
    "check_numbers",
]

MAX_VALUE = 1e6  # latents have variances below 1, and scores are logarithms
ROUNDING = 1e-5  # relative error of numbers that rounding explains
_MAX_COST = 4 * MAX_VALUE**2  # between quantiles of this size
_MAX_NAMES, _MAX_CLASSES, _MAX_LINKED = 1000, 1000, 2**24


@dataclass(frozen=True)
class Session:
    """Facts of a training that are fixed before its first round, checked.

    Parameters
    ----------
    id : str
        Id of the training, which its messages carry.
    n_linked : int
        Number of linked rows.
    classes : list
        Classes of the labels; empty without a label holder.
    """

    id: str
    n_linked: int
    classes: list[Any]

    def __post_init__(self) -> None:
        n = self.n_linked
        require(n <= _MAX_LINKED, f"it has {n} linked rows, more than {_MAX_LINKED}")
        check_classes(self.classes)


@dataclass(frozen=True)
class SentPlan:
    """The last plan W and its costs C, over the views `names`."""

    names: list[str]
    W: list[list[float]]
    C: list[list[float]]

    def check(self, names: Sequence[str], settings: Settings) -> None:
        """Raise an error unless it is a plan over some of these names."""
        check_known(self.names, names)
        n, pairwise = len(self.names), settings.coupling == "hot-pairwise"
        shape = (n, n if pairwise else settings.n_references)
        check_numbers("plan", self.W, shape, 0, 1 + ROUNDING)
        check_numbers("plan", self.C, shape, -_MAX_COST, _MAX_COST)
        require(all(sum(row) > 0 for row in self.W), "its plan has a row of zeros")


@dataclass(frozen=True)
class SentPool:
    """Fusion weights of the views `names`, as in `LogOpinionPool`."""

    names: list[str]
    complete: list[float]
    partial: list[float]
    power: float

    def check(self, names: Sequence[str]) -> None:
        """Raise an error unless these are weights of some of these names."""
        check_known(self.names, names)
        pool = LogOpinionPool(tuple(self.complete), tuple(self.partial), self.power)
        pool.check(len(self.names))


@dataclass(frozen=True)
class SentHead:
    """A joint head of the concatenated features of the views `names`."""

    names: list[str]
    weight: list[list[float]]
    bias: list[float]

    def check(self, names: Sequence[str], settings: Settings, n_classes: int) -> None:
        """Raise an error unless it is a head of some of these names."""
        check_known(self.names, names)
        shape = (n_classes, len(self.names) * settings.encoder_dim)
        check_numbers("joint head", self.weight, shape, -MAX_VALUE, MAX_VALUE)
        check_numbers("joint head", [self.bias], (1, n_classes), -MAX_VALUE, MAX_VALUE)


@dataclass(frozen=True)
class SpentPrivacy:
    """ε and δ of a client."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require(min(self.epsilon, self.delta) >= 0, "its privacy cannot be negative")


def check_names(names: Sequence[Any]) -> None:
    """Check the names of organizations, which are names of views, too.

    Parameters
    ----------
    names : sequence of str
        The names.

    Examples
    --------
    >>> from hotview.federated.session import check_names
    >>> check_names(["clinical", "clinical"])
    Traceback (most recent call last):
    ValueError: Expected distinct names of organizations, but 'clinical' is there twice.
    """
    require(len(names) <= _MAX_NAMES, f"Expected at most {_MAX_NAMES} names, not {len(names)}.")
    for i, name in enumerate(names):
        fits = isinstance(name, str) and name != "" and can_be_saved(name)
        require(fits, f"Expected names of organizations, but there is {shorten(name)}.")
        problem = f"Expected distinct names of organizations, but {name!r} is there twice."
        require(name not in names[:i], problem)


def check_known(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise an error unless names are distinct and known."""
    fits = 0 < len(names) == len(set(names)) and set(names) <= set(known)
    require(fits, f"its names cannot be {shorten(list(names))}")


def check_classes(classes: list[Any]) -> None:
    """Raise an error unless there are none, or classes of one type that a model can have."""
    problem = f"it has {len(classes)} classes, more than {_MAX_CLASSES}"
    require(len(classes) <= _MAX_CLASSES, problem)
    require(len(classes) != 1, f"two classes or more are needed, not {shorten(classes)}")
    check_json(classes)
    kinds = {*map(type, classes)}
    fits = len(kinds) <= 1 and kinds <= {str, int, float, bool}
    fits = fits and (str in kinds or all(abs(x) < 2**63 for x in classes))
    fits = fits and np.unique(classes).tolist() == classes  # numpy cuts off NULs at the end
    require(fits, "its classes are not distinct texts or numbers of one type, sorted")


def check_numbers(
    name: str, rows: list[list[float]], shape: tuple[int, int], least: float, largest: float
) -> None:
    """Raise an error unless rows are of a shape, and their numbers in a range."""
    fits = len(rows) == shape[0] and all(len(row) == shape[1] for row in rows)
    require(fits, f"its {name} is not of {shape[0]} × {shape[1]} numbers")
    inside = all(least <= x <= largest for row in rows for x in row)
    require(inside, f"its {name} is not of numbers from {least:g} to {largest:g}")
