"""Table 4: what is lost when a view is taken away, and whether a plain method loses the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scipy.stats import spearmanr

from paper.catalog import VIEWS
from paper.cells import SETTINGS_NAMES, Cell, control_of
from paper.markdown import listed, number, section, table
from paper.published import published_figure
from paper.report.parts import (
    SETTINGS_WORDS,
    Part,
    join_parts,
    missing_words,
    not_run,
    written_difference,
    written_score,
)
from paper.report.results import Outcome, Results, difference
from paper.statistics import Difference

__all__ = ["METHOD", "PLAIN", "rank_correlation", "removal_part", "removal_table"]

#: What the paper takes views from, and the plain method beside it.
METHOD, PLAIN = "HOT (11)", "PCA + logistic regression"

_HEADER = (
    "removed",
    "paper",
    *(f"{w}{words}" for words in SETTINGS_WORDS.values() for w in ("ours, ", "to all views, ")),
    PLAIN,
    "to all views",
)


def removal_part(results: Results) -> Part:
    """Lay out table 4, dataset by dataset.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Part
        A section per dataset.

    Examples
    --------
    >>> from paper.report.view_removal import removal_part
    >>> from paper.report.results import Results
    >>> removal_part(Results({})).text.splitlines()[-1]
    'Not run; `python -m paper run table4` runs it.'
    """
    title, outcome = "Table 4: a view removed", results.outcomes.get("table4")
    if outcome is None:
        return join_parts(title, [Part(not_run("table4"))])
    words = Part(
        f"{METHOD}, unsupervised. Differences are to all views, on the same splits; beside them "
        f"what {PLAIN}, which knows no transport, loses with the same view."
    )
    return join_parts(title, [words, *(_dataset_part(outcome, name) for name in outcome.datasets)])


def removal_table(outcome: Outcome, dataset: str) -> str:
    """Lay out one dataset.

    Parameters
    ----------
    outcome : Outcome
        Table 4.
    dataset : str
        Its dataset.

    Returns
    -------
    str
        A row for all views, and one per view removed.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.report.view_removal import removal_table
    >>> from paper.report.results import Entry, Outcome
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper", without="mor")
    >>> outcome = Outcome("table4", "", 2, {}, {cell: Entry(cell, {"test": (80.0, 82.0)})})
    >>> print(removal_table(outcome, "handwritten").splitlines()[-1])
    | mor | 79.3 ± 2.6 | 81.0 ± 1.4 | – | – | – | – | – |
    """
    rows = [_row(outcome, dataset, view) for view in (None, *VIEWS[dataset])]
    return table(_HEADER, [row for row in rows if row])


def _dataset_part(outcome: Outcome, dataset: str) -> Part:
    said = " ".join(_sentence(outcome, dataset, settings) for settings in SETTINGS_NAMES).strip()
    return Part(section(outcome.label(dataset), removal_table(outcome, dataset), said, level=3))


def _sentence(outcome: Outcome, dataset: str, settings: str) -> str:
    """Which views are missed, and whether a plain method misses the same."""
    ours = _losses(outcome, Cell(dataset, "unsupervised", METHOD, settings))
    plain = _losses(outcome, Cell(dataset, "unsupervised", PLAIN, "-"))
    if not ours:
        return ""
    missed = listed([view for view, lost in ours.items() if lost.high < 0])
    text = f"With {SETTINGS_WORDS[settings]}, removals that hurt (interval below zero): {missed}"
    if len(ours) < 3 or ours.keys() != plain.keys():
        return f"{text}."
    order = rank_correlation([x.mean for x in ours.values()], [x.mean for x in plain.values()])
    return f"{text}; rank correlation with what {PLAIN} loses: {number(order, 2)}."


def _losses(outcome: Outcome, cell: Cell) -> dict[str, Difference]:
    lost = {}
    for view in VIEWS[cell.dataset]:
        found = difference(outcome.find(replace(cell, without=view)), outcome.find(cell))
        if found and found.n:
            lost[view] = found
    return lost


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation.

    Parameters
    ----------
    first, second : sequence of float
        The numbers.

    Returns
    -------
    float
        The correlation; 0 if all numbers of a list are equal.

    Examples
    --------
    >>> from paper.report.view_removal import rank_correlation
    >>> rank_correlation([1.0, 2.0, 3.0], [10.0, 20.0, 15.0])
    0.5
    """
    if 1 in (len(set(first)), len(set(second))):
        return 0.0
    return float(spearmanr(first, second).statistic)


def _row(outcome: Outcome, dataset: str, view: str | None) -> list[str] | None:
    cell = Cell(dataset, "unsupervised", METHOD, "paper", without=view)
    plain = Cell(dataset, "unsupervised", PLAIN, "-", without=view)
    cells = [*(replace(cell, settings=settings) for settings in SETTINGS_NAMES), plain]
    found = [entry for c in cells if (entry := outcome.find(c))]
    if not found:
        return None
    name = f"{view or 'none'}{missing_words(max(entry.missing for entry in found))}"
    ours = (text for c in cells for text in _scored(outcome, c))
    return [name, written_score(published_figure(cell)), *ours]


def _scored(outcome: Outcome, cell: Cell) -> list[str]:
    entry = outcome.find(cell)
    control = control_of(cell) if cell.without else None
    lost = difference(entry, outcome.find(control))
    return [written_score(entry.score() if entry else None), written_difference(lost)]
