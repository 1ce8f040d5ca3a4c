"""Rows of a table: the paper's figure, ours in both settings, the difference to a control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from paper.cells import Cell, control_of
from paper.published import Figure, published_figure
from paper.statistics import TEST_TO_TRAIN, Difference, Score, mean_score, paired_difference

__all__ = ["Row", "shared_rows", "table_rows"]


@dataclass(frozen=True)
class Row:
    """One method, in percent.

    Parameters
    ----------
    name : str
        The method, and what of it was changed.
    is_control : bool
        Whether it is a plain method.
    published : Figure or None
        What the paper reports.
    scores : dict of str to Score
        Test accuracy, by settings.
    differences : dict of str to Difference
        To the control of the same settings, where there is one.

    Examples
    --------
    >>> from paper.rows import Row
    >>> Row("logistic regression", True, None).scores
    {}
    """

    name: str
    is_control: bool
    published: Figure | None
    scores: dict[str, Score] = field(default_factory=dict)
    differences: dict[str, Difference] = field(default_factory=dict)


def table_rows(summary: Mapping[str, Any], dataset: str, task: str) -> list[Row]:
    """Return the rows of a table on one dataset.

    Parameters
    ----------
    summary : mapping
        From `paper.summary.summarize`.
    dataset : str
        Which dataset.
    task : str
        Which task.

    Returns
    -------
    list of Row
        In the order of the experiment's cells.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.rows import table_rows
    >>> cell = Cell("handwritten", "semi-supervised", "HOT (11)", "robust")
    >>> cells = [{"cell": cell.to_json(), "scores": {"test": [0.9, 0.92]}}]
    >>> row, = table_rows({"cells": cells}, "handwritten", "semi-supervised")
    >>> row.published.mean, round(row.scores["robust"].mean, 1)
    (90.05, 91.0)
    """
    tests = {Cell.from_json(e["cell"]): _percent(e["scores"]["test"]) for e in summary["cells"]}
    rows: dict[Cell, Row] = {}
    for cell, values in tests.items():
        if (cell.dataset, cell.task) != (dataset, task):
            continue
        key = cell if cell.is_control else replace(cell, settings="robust")
        row = rows.setdefault(key, Row(_name(cell), cell.is_control, published_figure(cell)))
        row.scores[cell.settings] = mean_score(values)
        control = control_of(cell)
        if control in tests:
            row.differences[cell.settings] = paired_difference(
                values, tests[control], test_to_train=shared_rows(cell.dataset)
            )
    return list(rows.values())


def shared_rows(dataset: str) -> float:
    """Return the ratio of test to training rows that the intervals of a dataset need.

    Parameters
    ----------
    dataset : str
        Its name.

    Returns
    -------
    float
        1/3; 0 for synthetic views, which are drawn anew in every trial and share no row.

    Examples
    --------
    >>> from paper.rows import shared_rows
    >>> round(shared_rows("handwritten"), 3), shared_rows("synthetic")
    (0.333, 0.0)
    """
    return 0.0 if dataset == "synthetic" else TEST_TO_TRAIN


def _name(cell: Cell) -> str:
    changes = [f"{name}={value}" for name, value in cell.overrides]
    changes += [f"without {cell.without}"] * (cell.without is not None)
    return ", ".join([cell.method, *changes])


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else 100 * value for value in values]
