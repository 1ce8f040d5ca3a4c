"""The parts of a record: lists, numbers and text, which JSON can hold."""

from __future__ import annotations

import json
import math
import types
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

__all__ = [
    "Bin",
    "Change",
    "Curve",
    "Layout",
    "Learning",
    "NullFacts",
    "NumberScore",
    "PlanFacts",
    "Proportion",
    "Rank",
    "Record",
    "Rival",
    "Scores",
    "Setting",
    "Space",
    "ViewScore",
]

_FORMAT = 1


@dataclass(frozen=True)
class Proportion:
    """A share of n rows, with the ends of its 95 % interval (Wilson's)."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Change:
    """A difference between two shares of the same n rows, its standard error and 95 % interval."""

    value: float
    error: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class NullFacts:
    """The views before training, beside permuted ones: see `PermutationNull`.

    `costs` is the mean cost from every view to the others, before training.
    """

    p_value: float
    relative_cost: float
    noise: list[float]
    costs: list[float]


@dataclass(frozen=True)
class PlanFacts:
    """The plan over views, its groups, and the groups that every replica found on its own."""

    W: list[list[float]]
    C: list[list[float]]
    spread: list[list[float]] | None
    columns: list[str]
    pairwise: bool
    converged: bool
    groups: list[int]
    unclear: list[bool]
    replica_groups: list[list[int]]
    null: NullFacts | None


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation over replicas of what was recorded in the epochs."""

    name: str
    mean: list[float]
    std: list[float]


@dataclass(frozen=True)
class Learning:
    """The course of the training: `epochs` are those that are kept, of `n_epochs`."""

    n_estimators: int
    n_epochs: int
    epochs: list[int]
    terms: list[Curve]
    ranks: list[Curve]


@dataclass(frozen=True)
class Rank:
    """How many of the dimensions of the common space a view fills."""

    view: str
    mean: float
    std: float
    most: int


@dataclass(frozen=True)
class Setting:
    """A parameter, as text, and whether it differs from its default."""

    name: str
    value: str
    default: str
    changed: bool


@dataclass(frozen=True)
class ViewScore:
    """Accuracy without a view, what taking it away costs, and accuracy with nothing else."""

    view: str
    n_present: int
    without: Proportion | None
    fall: Change | None
    alone: Proportion | None


@dataclass(frozen=True)
class NumberScore:
    """Accuracy with so many views: mean, least and most over subsets."""

    n_views: int
    mean: float
    low: float
    high: float
    n_subsets: int
    n_possible: int


@dataclass(frozen=True)
class Bin:
    """Rows of similar confidence."""

    confidence: float
    accuracy: Proportion


@dataclass(frozen=True)
class Scores:
    """What a classifier makes of labeled rows.

    `confusion` has a row for every name in `truths` (the classes and, last, where there are such
    rows, all classes that were not trained on) and a column for every class.
    """

    accuracy: Proportion
    views: list[ViewScore]
    numbers: list[NumberScore]
    bins: list[Bin]
    calibration_error: float
    truths: list[str]
    confusion: list[list[int]]


@dataclass(frozen=True)
class Rival:
    """Another method on the same rows; `difference` is the model's accuracy less its own."""

    name: str
    accuracy: Proportion | None
    difference: Change | None
    reason: str = ""


@dataclass(frozen=True)
class Layout:
    """Places of all points in two dimensions, and what the axes are."""

    name: str
    axes: list[str]
    places: list[list[float]]


@dataclass(frozen=True)
class Space:
    """Points of the common space: the view, the individual and the classes of each (−1: unknown).

    `ids` are those of the individuals; `linked` tells whether one can be in several views.
    """

    layouts: list[Layout]
    views: list[int]
    individuals: list[int]
    truth: list[int]
    predicted: list[int]
    ids: list[str]
    linked: bool
    n_points: int
    reason: str = ""


@dataclass(frozen=True)
class Record:
    """Everything that a page or a figure tells of a model.

    Parameters
    ----------
    kind : str
        The class of the estimator.
    coupling : str
        What brought the views together.
    views : list of str
        Names of the views.
    columns : list of int
        How many columns each has.
    classes : list of str
        Names of the classes; those of the rows' labels where the model knows none.
    plan : PlanFacts or None
        The plan over the views.
    learning : Learning or None
        The course of the training.
    ranks : list of Rank
        The effective rank of every view at its end.
    settings : list of Setting
        Parameters, those that were changed first.
    trained_on : dict
        Rows, labels, time and versions of the fit; empty where nobody wrote them down.
    remarks : list of str or None
        Warnings of the fit; None where nobody wrote them down.
    notes : dict
        What the command line wrote down: the command, the files.
    seen : bool, default=False
        Whether the rows that were looked at had been trained on.
    rows : dict of str to int
        How many rows were looked at, by view; empty without data.
    n_labeled : int, default=0
        How many of them have a label.
    scores : Scores or None, default=None
        What a classifier makes of rows with labels.
    space : Space or None, default=None
        The common space in two dimensions.
    rivals : list of Rival or None, default=None
        Simple methods and the control; None where there was nothing to train them on.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import Record, make_record
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> record = make_record(MultiViewEncoder(max_epochs=1, random_state=0).fit(views))
    >>> record.kind, record.views[0], record.scores
    ('MultiViewEncoder', 'view_0', None)
    >>> Record.from_json(record.to_json()).to_json() == record.to_json()
    True
    """

    kind: str
    coupling: str
    views: list[str]
    columns: list[int]
    classes: list[str]
    plan: PlanFacts | None
    learning: Learning | None
    ranks: list[Rank]
    settings: list[Setting]
    trained_on: dict[str, Any]
    remarks: list[str] | None
    notes: dict[str, Any]
    seen: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    n_labeled: int = 0
    scores: Scores | None = None
    space: Space | None = None
    rivals: list[Rival] | None = None

    def to_json(self) -> str:
        """Write the record as text that `from_json` reads again.

        Returns
        -------
        str
            JSON; numbers that it has no word for are text ("nan").
        """
        return json.dumps({"format": _FORMAT, **_plain(asdict(self))}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Read a record.

        Parameters
        ----------
        text : str
            What `to_json` wrote.

        Returns
        -------
        Record
            The record.
        """
        facts = json.loads(text)
        if not isinstance(facts, dict) or facts.pop("format", None) != _FORMAT:
            raise ValueError(
                f"Expected a record in format {_FORMAT}, but it is something else. Make it again "
                "with make_record."
            )
        try:
            record: Record = _build(cls, facts)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"Expected a record that hotview wrote, but its parts do not fit ({error!r}). Make "
                "it again with make_record."
            ) from error
        return record


def _plain(value: Any) -> Any:
    """The same with numbers that JSON lacks as text."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _build(kind: Any, value: Any) -> Any:
    """A value of a type from what JSON made of it."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{name: _build(hints[name], part) for name, part in value.items()})
    if get_origin(kind) is types.UnionType:
        return None if value is None else _build(get_args(kind)[0], value)
    if get_origin(kind) is list:
        return [_build(get_args(kind)[0], part) for part in value]
    if get_origin(kind) is dict:
        return {key: _build(get_args(kind)[1], part) for key, part in value.items()}
    return value if kind is Any else _check(kind, value)


def _check(kind: Any, value: Any) -> Any:
    if kind is float and (isinstance(value, int | float) or value in ("nan", "inf", "-inf")):
        return float(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
