"""The paper's tables and figures, and what ours add, as lists of cells.

All grids are fixed beforehand: no value was chosen by a test result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from paper.cells import DATASETS, SETTINGS_NAMES, TASKS, Cell
from paper.models import CONTROLS, DEFAULT, ROBUST, SETTINGS, TRAINED

__all__ = ["EXPERIMENTS", "GRIDS", "VIEWS", "Experiment", "value_of"]

_PAIRWISE, _REFERENCE = "HOT (10)", "HOT (11)"

#: The views that table 4 takes away.
VIEWS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "caltech7": ("Gabor", "WM", "CENTRIST", "HOG", "GIST", "LBP"),
        "handwritten": ("pix", "fou", "fac", "zer", "kar", "mor"),
    }
)

#: Linked rows with a label, 5 % of the training rows.
_N_LABELED = MappingProxyType({"handwritten": 60, "caltech7": 44, "caltech20": 72, "msrc": 6})

_DECADES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)

#: What figures 3 and 4 vary: by figure, parameter → the row that feels it, and the values. The
#: view weight acts only where there is a view regularizer.
GRIDS: Mapping[str, Mapping[str, tuple[str, tuple[float, ...]]]] = MappingProxyType(
    {
        "figure3": {
            "batch_size": (_REFERENCE, (50, 100, 200, 400, 800, 1200)),
            "coupling__n_projections": (_REFERENCE, (1, 2, 3, 5, 10, 20, 50)),
            "coupling__n_references": (_REFERENCE, (1, 2, 3, 4, 5, 6)),
        },
        "figure4": {
            "coupling__orthogonality_weight": (_REFERENCE, _DECADES),
            "view_regularizer__weight": (f"{_REFERENCE} + AE", _DECADES),
            "coupling__weight": (_REFERENCE, _DECADES),
        },
    }
)

#: Directions with which the stability of W is compared: the paper's, and two orthogonal sets.
_DIRECTIONS = ((3, "iid"), (10, "orthogonal"), (50, "orthogonal"))

#: What lets planted groups be found (see examples/planted_groups.py): columns in one unit, and as
#: many dimensions as a group has factors.
_FOR_GROUPS = (("n_components", 4), ("preprocessing", "none"))


@dataclass(frozen=True)
class Experiment:
    """A table, a figure or a group of claims.

    Parameters
    ----------
    name : str
        What it is called on the command line, and its file.
    title : str
        What it shows.
    datasets : tuple of str
        What it is run on.
    make : callable
        Its cells on one dataset.
    keeps_plans : bool, default=False
        Whether its file holds the plan of every trial, beside their mean.

    Examples
    --------
    >>> from paper.catalog import EXPERIMENTS
    >>> figure = EXPERIMENTS["figure2"]
    >>> [cell.id for cell in figure.cells(["handwritten"])]
    ['handwritten_unsupervised_hot-11_paper', 'handwritten_unsupervised_hot-11_robust']
    """

    name: str
    title: str
    datasets: tuple[str, ...]
    make: Callable[[str], Iterator[Cell]]
    keeps_plans: bool = False

    def cells(self, datasets: Sequence[str]) -> tuple[Cell, ...]:
        """Its cells on those of its datasets that are given, each once."""
        kept = [name for name in self.datasets if name in datasets]
        return tuple(dict.fromkeys(cell for name in kept for cell in self.make(name)))


def value_of(cell: Cell, parameter: str) -> Any:
    """Return what a parameter that the figures vary is in a cell.

    Parameters
    ----------
    cell : Cell
        The cell.
    parameter : str
        A parameter of `GRIDS`.

    Returns
    -------
    object
        Its override, else the value of the settings.

    Examples
    --------
    >>> from paper.catalog import value_of
    >>> from paper.cells import Cell
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "robust")
    >>> value_of(cell, "coupling__n_projections")
    50
    """
    settings = SETTINGS if cell.settings == "paper" else ROBUST[cell.task]
    return dict(cell.overrides).get(parameter, settings[parameter])


def _controls(dataset: str, task: str) -> Iterator[Cell]:
    yield from (Cell(dataset, task, name, "-") for name in CONTROLS)


def _rows(dataset: str, task: str) -> Iterator[Cell]:
    """All rows of a table: the paper's and the controls without coupling, in both settings."""
    for settings in SETTINGS_NAMES:
        yield from (Cell(dataset, task, name, settings) for name in TRAINED)


def _table2(dataset: str) -> Iterator[Cell]:
    yield from _rows(dataset, "semi-supervised")
    for overrides in ((), (("coupling", "none"),)):
        yield Cell(dataset, "semi-supervised", DEFAULT, "robust", overrides=overrides)
    yield from _controls(dataset, "semi-supervised")


def _averaged(dataset: str) -> Iterator[Cell]:
    """Table 2 in the paper's settings with L averaged over the labeled rows, not summed.

    Adam does not change with the size of the loss, so that the other weights are multiplied.
    """
    n, weights = _N_LABELED[dataset], ("coupling__weight", "view_regularizer__weight")
    overrides = tuple((name, n * SETTINGS[name]) for name in weights)
    for name in TRAINED:
        yield Cell(dataset, "semi-supervised", name, "paper", overrides=overrides)
        yield Cell(dataset, "semi-supervised", name, "paper")


def _table3(dataset: str) -> Iterator[Cell]:
    yield from _rows(dataset, "unsupervised")
    yield from _controls(dataset, "unsupervised")


def _table4(dataset: str) -> Iterator[Cell]:
    methods = [(_REFERENCE, settings) for settings in SETTINGS_NAMES]
    for method, settings in (*methods, ("PCA + logistic regression", "-")):
        for view in (None, *VIEWS[dataset]):
            yield Cell(dataset, "unsupervised", method, settings, without=view)


def _figure2(dataset: str) -> Iterator[Cell]:
    yield from (Cell(dataset, "unsupervised", _REFERENCE, s) for s in SETTINGS_NAMES)


def _figure5(dataset: str) -> Iterator[Cell]:
    for settings in SETTINGS_NAMES:
        yield from (
            Cell(dataset, "unsupervised", name, settings) for name in (_PAIRWISE, _REFERENCE)
        )


def _curves(figure: str, task: str, dataset: str) -> Iterator[Cell]:
    """Points of a figure; those that change nothing are the cell of the table."""
    for settings in SETTINGS_NAMES:
        for parameter, (method, values) in GRIDS[figure].items():
            usual = Cell(dataset, task, method, settings)
            for value in values:
                same = value == value_of(usual, parameter)
                override = () if same else ((parameter, value),)
                yield Cell(dataset, task, method, settings, overrides=override)


def _figure3(dataset: str) -> Iterator[Cell]:
    return _curves("figure3", "unsupervised", dataset)


def _figure4(dataset: str) -> Iterator[Cell]:
    return _curves("figure4", "semi-supervised", dataset)


def _claims(dataset: str) -> Iterator[Cell]:
    """The constraint relaxed and met exactly; then the plans of one split over many trainings."""
    for task in TASKS:
        for settings in SETTINGS_NAMES:
            for method in (_PAIRWISE, _REFERENCE):
                for overrides in ((), (("coupling__orthogonality_weight", math.inf),)):
                    yield Cell(dataset, task, method, settings, overrides=overrides)
    for method in (_PAIRWISE, _REFERENCE):
        for settings in SETTINGS_NAMES:
            # Ours has one kind of direction to be judged by: its own.
            for n, kind in _DIRECTIONS if settings == "paper" else _DIRECTIONS[-1:]:
                directions = (("coupling__n_projections", n), ("coupling__projections", kind))
                yield Cell(dataset, "unsupervised", method, settings, None, directions, split=0)


def _synthetic(dataset: str) -> Iterator[Cell]:
    yield from _table2(dataset)
    yield from _table3(dataset)
    for settings in SETTINGS_NAMES:
        for method in (_PAIRWISE, _REFERENCE):
            yield Cell(dataset, "unsupervised", method, settings, overrides=_FOR_GROUPS)


_REAL = DATASETS[:-1]

#: All experiments, by name, in the order of the paper.
EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            Experiment("table2", "Accuracy with a few labels", _REAL, _table2),
            Experiment("averaged", "Table 2 with L averaged, not summed", _REAL, _averaged),
            Experiment("table3", "Accuracy on frozen features", _REAL, _table3),
            Experiment("table4", "Accuracy without a view", tuple(VIEWS), _table4),
            Experiment("figure2", "Transport plans of HOT (11)", tuple(VIEWS), _figure2, True),
            Experiment(
                "figure3",
                "Accuracy against batch size, projections and K, unsupervised",
                ("handwritten",),
                _figure3,
            ),
            Experiment(
                "figure4",
                "Accuracy against α, τ and γ, semi-supervised",
                ("handwritten",),
                _figure4,
            ),
            Experiment("figure5", "Transport plans of both HOT forms", _REAL, _figure5, True),
            Experiment(
                "claims",
                "The constraint met exactly, and the stability of the plan",
                ("handwritten",),
                _claims,
                True,
            ),
            Experiment(
                "synthetic", "Synthetic views with planted groups", ("synthetic",), _synthetic, True
            ),
        )
    }
)
