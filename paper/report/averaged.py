"""Table 2 with both readings of L in (3): summed over the labeled rows, and averaged."""

from __future__ import annotations

from paper.cells import Cell
from paper.markdown import section, table
from paper.models import TRAINED
from paper.published import published_figure
from paper.report.parts import Part, join_parts, not_run, written_difference, written_score
from paper.report.results import Outcome, Results, difference

__all__ = ["averaged_part"]

_WORDS = """Equation (3) sums L over the labeled rows, and the coupling over all rows; the table \
above has both sums. Our first reading averaged L, which multiplies the weights γ and τ of the \
other terms by the number of labeled rows. Differences are of the averaged to the summed L, on the \
same splits."""
_HEADER = ("method", "paper", "L summed", "L averaged", "difference")


def averaged_part(results: Results) -> Part:
    """Lay out both readings of L, dataset by dataset.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Part
        A table per dataset.

    Examples
    --------
    >>> from paper.report.averaged import averaged_part
    >>> from paper.report.results import Results
    >>> averaged_part(Results({})).text.splitlines()[-1]
    'Not run; `python -m paper run averaged` runs it.'
    """
    title, outcome = "Table 2 with L averaged", results.outcomes.get("averaged")
    if outcome is None:
        return join_parts(title, [Part(not_run("averaged"))])
    sections = [
        section(data["label"], _table(outcome, name), level=3)
        for name, data in outcome.datasets.items()
    ]
    return join_parts(title, map(Part, [_WORDS, *sections]))


def _table(outcome: Outcome, dataset: str) -> str:
    """The rows of one dataset."""
    rows = []
    for name in TRAINED:
        summed = outcome.entries.get(Cell(dataset, "semi-supervised", name, "paper"))
        averaged = next(
            (
                entry
                for cell, entry in outcome.entries.items()
                if (cell.dataset, cell.method) == (dataset, name) and cell.overrides
            ),
            None,
        )
        if summed is not None and averaged is not None:
            rows.append(
                [
                    name,
                    written_score(published_figure(summed.cell)),
                    written_score(summed.score()),
                    written_score(averaged.score()),
                    written_difference(difference(averaged, summed)),
                ]
            )
    return table(_HEADER, rows)
