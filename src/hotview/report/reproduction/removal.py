"""Table 4: what is lost when a view is taken away, and whether a plain method loses the same."""

from __future__ import annotations

from dataclasses import replace

from hotview.experiments.catalog import VIEWS
from hotview.experiments.cells import SETTINGS_NAMES, Cell, control_of
from hotview.experiments.published import published_figure
from hotview.report.markdown import section, table
from hotview.report.reproduction.parts import (
    SETTINGS_WORDS,
    Part,
    join_parts,
    missing_words,
    not_run,
    written_difference,
    written_score,
)
from hotview.report.reproduction.results import Outcome, Results, difference

__all__ = ["METHOD", "PLAIN", "removal_part", "removal_table"]

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
    >>> from hotview.report.reproduction.removal import removal_part
    >>> from hotview.report.reproduction.results import Results
    >>> removal_part(Results({})).text.splitlines()[-1]
    'Not run; `hotview reproduce table4` runs it.'
    """
    title, outcome = "Table 4: a view removed", results.outcomes.get("table4")
    if outcome is None:
        return join_parts(title, [Part(not_run("table4"))])
    words = Part(
        f"{METHOD}, unsupervised. Differences are to all views, on the same splits; beside them "
        f"what {PLAIN}, which knows no transport, loses with the same view."
    )
    sections = (
        Part(section(outcome.label(name), removal_table(outcome, name), level=3))
        for name in outcome.datasets
    )
    return join_parts(title, [words, *sections])


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
    >>> from hotview.experiments.cells import Cell
    >>> from hotview.report.reproduction.removal import removal_table
    >>> from hotview.report.reproduction.results import Entry, Outcome
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper", without="mor")
    >>> outcome = Outcome("table4", "", 2, {}, {cell: Entry(cell, {"test": (80.0, 82.0)})})
    >>> print(removal_table(outcome, "handwritten").splitlines()[-1])
    | mor | 79.3 ± 2.6 | 81.0 ± 1.4 | – | – | – | – | – |
    """
    rows = [_row(outcome, dataset, view) for view in (None, *VIEWS[dataset])]
    return table(_HEADER, [row for row in rows if row])


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
