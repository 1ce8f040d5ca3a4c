"""Synthetic views with planted groups, which the paper announces and does not show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.cells import TASKS
from paper.markdown import percent, section, table
from paper.plans import closest, similarity
from paper.report.accuracy import accuracy_table
from paper.report.parts import SETTINGS_WORDS, Part, join_parts, not_run
from paper.report.plan_figures import is_pairwise
from paper.report.results import Entry, Outcome, Results

__all__ = ["share_in_group", "synthetic_part"]

_TITLE = "Synthetic views"


def synthetic_part(results: Results) -> Part:
    """Show accuracies on synthetic views, and whether their groups were found.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Part
        A table per task, and one of the groups.

    Examples
    --------
    >>> from paper.report.results import Results
    >>> from paper.report.synthetic import synthetic_part
    >>> synthetic_part(Results({})).text.splitlines()[-1]
    'Not run; `python -m paper run synthetic` runs it.'
    """
    outcome = results.outcomes.get("synthetic")
    if outcome is None:
        return join_parts(_TITLE, [Part(not_run("synthetic"))])
    parts = [
        section(task.capitalize(), accuracy_table(outcome, dataset, task), level=3)
        for dataset in outcome.datasets
        for task in TASKS
    ]
    return join_parts(_TITLE, map(Part, [_about(outcome), *parts, *_groups(outcome)]))


def share_in_group(W: Any, groups: Sequence[int], *, pairwise: bool) -> float:
    """Count views whose closest view is of their own group.

    Parameters
    ----------
    W : array-like of shape (S, S) or (S, K)
        A plan.
    groups : sequence of int
        The group of every view.
    pairwise : bool
        Whether the plan is of views to views.

    Returns
    -------
    float
        Their share.

    Examples
    --------
    >>> from paper.report.synthetic import share_in_group
    >>> W = [[0.25, 0.0], [0.25, 0.0], [0.0, 0.25], [0.0, 0.25]]
    >>> share_in_group(W, [0, 0, 1, 1], pairwise=False)
    1.0
    """
    alike = similarity(W, pairwise=pairwise)
    found = [closest(alike, s) for s in range(len(groups))]
    right = [t is not None and groups[t] == group for t, group in zip(found, groups, strict=True)]
    return float(np.mean(right))


def _about(outcome: Outcome) -> str:
    (about, *_) = outcome.datasets.values()
    views, groups = about.get("views", {}), about.get("groups", ())
    return (
        f"{len(views)} views in {len(set(groups))} planted groups, {about.get('classes')} classes, "
        f"{about.get('rows')} rows, drawn anew in every trial. Views of a group show the same "
        "individuals through rotations of their own, with noise."
    )


def _groups(outcome: Outcome) -> list[str]:
    """Whether plans show the planted groups, and how often chance would."""
    rows = [
        _row(entry, about["groups"])
        for dataset, about in outcome.datasets.items()
        if about.get("groups")
        for entry in outcome.select(dataset=dataset, task="unsupervised")
        if entry.plans and entry.cell.method in ("HOT (10)", "HOT (11)")
    ]
    if not rows:
        return []
    header = ["method", "how", "views whose closest is of their group", "by chance", "all found"]
    return [section("Groups found", table(header, rows, words=2), level=3)]


def _row(entry: Entry, groups: Sequence[int]) -> list[str]:
    shares = [share_in_group(W, groups, pairwise=is_pairwise(entry)) for W in entry.plans]
    mates = np.mean([list(groups).count(group) - 1 for group in groups])
    changed = [f"{name} = {value}" for name, value in entry.cell.overrides]
    return [
        entry.cell.method,
        ", ".join([SETTINGS_WORDS[entry.cell.settings], *changed]),
        percent(float(np.mean(shares))),
        percent(float(mates) / (len(groups) - 1)),
        f"{sum(share == 1 for share in shares)} of {len(shares)} trials",
    ]
