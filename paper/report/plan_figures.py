"""Figures 2 and 5: the transport plans, averaged over the trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hotview.report.figures import new_figure, plot_matrix
from hotview.report.plans import match_columns
from paper.markdown import section
from paper.models import TRAINED
from paper.report.parts import SETTINGS_WORDS, Part, join_parts, not_run, picture
from paper.report.results import Entry, Outcome, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_plans", "is_pairwise", "plans_part"]

_TITLES = {"figure2": "Figure 2: the plans of HOT (11)", "figure5": "Figure 5: the plans of both"}

_WORDS = """Mean over the trials, and below it the standard deviation; every row of a plan was \
divided by its sum, so that 1 is all of a view's weight. References have no order: the columns of \
each trial's plan were matched to those of the most typical trial, which makes even noise look \
sharper than it is. How far plans of different trainings agree is measured below, without such \
matching."""


def plans_part(results: Results, experiment: str) -> Part:
    """Show the plans of figure 2 or 5, dataset by dataset.

    Parameters
    ----------
    results : Results
        All results.
    experiment : str
        ``"figure2"`` or ``"figure5"``.

    Returns
    -------
    Part
        A picture per dataset and settings.

    Examples
    --------
    >>> from paper.report.plan_figures import plans_part
    >>> from paper.report.results import Results
    >>> plans_part(Results({}), "figure2").text.splitlines()[-1]
    'Not run; `python -m paper run figure2` runs it.'
    """
    title, outcome = _TITLES[experiment], results.outcomes.get(experiment)
    if outcome is None:
        return join_parts(title, [Part(not_run(experiment))])
    parts = (_dataset_part(outcome, dataset) for dataset in outcome.datasets)
    return join_parts(title, [Part(_WORDS), *parts])


def is_pairwise(entry: Entry) -> bool:
    """Say whether the plan of an entry is of views to views.

    Parameters
    ----------
    entry : Entry
        An entry with plans.

    Returns
    -------
    bool
        False where it is of views to references.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.report.plan_figures import is_pairwise
    >>> from paper.report.results import Entry
    >>> is_pairwise(Entry(Cell("msrc", "unsupervised", "HOT (10)", "paper"), {}))
    True
    """
    return TRAINED[entry.cell.method].coupling == "hot-pairwise"


def draw_plans(entries: Sequence[Entry], views: Sequence[str]) -> Figure:
    """Draw the mean plans of some entries side by side.

    Parameters
    ----------
    entries : sequence of Entry
        Entries with plans.
    views : sequence of str
        Names of the views.

    Returns
    -------
    matplotlib.figure.Figure
        A panel per entry.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.report.plan_figures import draw_plans
    >>> from paper.report.results import Entry
    >>> cell = Cell("msrc", "unsupervised", "HOT (11)", "paper")
    >>> entry = Entry(cell, {}, record={"Ws": [[[0.5, 0.0], [0.0, 0.5]]]})
    >>> len(draw_plans([entry], ["a", "b"]).axes)  # with the scale of the colors
    2
    """
    figure, axes = new_figure(len(entries), panel_size=5.4)
    for entry, ax in zip(entries, axes, strict=True):
        _draw_plan(entry, views, ax)
    return figure


def _draw_plan(entry: Entry, views: Sequence[str], ax: Axes) -> None:
    pairwise = is_pairwise(entry)
    plans = np.array(entry.plans, dtype=float) if pairwise else match_columns(entry.plans)
    shares = plans / plans.sum(2, keepdims=True)
    mean, std = shares.mean(0), shares.std(0, ddof=min(1, len(shares) - 1))
    if pairwise:
        np.fill_diagonal(mean, np.nan)
    columns = views if pairwise else [f"G{k + 1}" for k in range(mean.shape[1])]
    title = f"{entry.cell.method}, {SETTINGS_WORDS[entry.cell.settings]}"
    plot_matrix(mean, views, columns, ax=ax, title=title, digits=2, std=std, largest=1)
    if not pairwise:
        ax.set_aspect("auto")


def _dataset_part(outcome: Outcome, dataset: str) -> Part:
    views = list(outcome.datasets[dataset].get("views", ()))  # none where nothing was run
    label, drawings = outcome.label(dataset), dict(_drawings(outcome, dataset, views))
    shown = "\n\n".join(picture(name, f"Plans on {label}") for name in drawings)
    return Part(section(label, shown, level=3), drawings)


def _drawings(
    outcome: Outcome, dataset: str, views: list[str]
) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """Figure 2 has one method, and shows both settings in one picture; figure 5 in two."""
    with_plans = [entry for entry in outcome.select(dataset=dataset) if entry.plans]
    name = f"{outcome.name}-{dataset}"
    if outcome.name == "figure2" and with_plans:
        yield f"{name}.svg", partial(draw_plans, with_plans, views)
        return
    for settings in SETTINGS_WORDS:
        if chosen := [entry for entry in with_plans if entry.cell.settings == settings]:
            yield f"{name}-{settings}.svg", partial(draw_plans, chosen, views)
