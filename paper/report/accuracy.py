"""Tables 2 and 3: every row of the paper, beside the controls that it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from paper.cells import Cell
from paper.markdown import ABSENT, listed, section, table
from paper.models import CONTROLS, DEFAULT, MODELS, UNCOUPLED
from paper.report.parts import (
    SETTINGS_WORDS,
    Part,
    join_parts,
    missing_words,
    not_run,
    written_difference,
    written_score,
)
from paper.report.results import Outcome, Results
from paper.rows import Row, table_rows

__all__ = ["TABLES", "accuracy_part", "accuracy_table", "coupling_counts", "matched_rows"]

#: Experiment → its task.
TABLES: Mapping[str, str] = {"table2": "semi-supervised", "table3": "unsupervised"}

_HEADER = (
    "method",
    "paper",
    *(
        f"{start}{words}"
        for words in SETTINGS_WORDS.values()
        for start in ("ours, ", "over no coupling, ")
    ),
)
_RULE = ["*controls; the plain ones have no settings*", *[""] * (len(_HEADER) - 1)]
_OF_THE_PAPER = tuple(model.name for model in MODELS)
_DEFAULT_UNCOUPLED = f"{DEFAULT}, coupling=none"
#: Kinds of scores that explain the first one.
_KINDS = {
    "test": "plain",
    "standardized": "standardized",
    "unpenalized": "no penalty",
    "labels_20": "20 % labels",
    "all_labels": "all labels",
}
#: What stands below the line.
_BELOW = (*(model.name for model in UNCOUPLED), _DEFAULT_UNCOUPLED, DEFAULT, *CONTROLS)

_EXPLANATION = """A second table says why the numbers are what they are. All but *plain* are with \
features standardized before the classifier: *standardized* with the same labels, *no penalty* \
with next to no penalty on the classifier's weights, *20 % labels* with four times as many, *all \
labels* with those of all training rows. Where *standardized* is far above *plain*, the scale of \
the features held the classifier back; where more labels are far above that, their number did; \
where nothing is, the features lack the classes."""


def accuracy_part(results: Results, experiment: str) -> Part:
    """Lay out table 2 or 3, dataset by dataset.

    Parameters
    ----------
    results : Results
        All results.
    experiment : str
        One of `TABLES`.

    Returns
    -------
    Part
        A section per dataset.

    Examples
    --------
    >>> from paper.report.accuracy import accuracy_part
    >>> from paper.report.results import Results
    >>> accuracy_part(Results({}), "table2").text.splitlines()[-1]
    'Not run; `python -m paper run table2` runs it.'
    """
    title = f"Table {experiment[-1]}: {TABLES[experiment]}"
    outcome = results.outcomes.get(experiment)
    if outcome is None:
        return join_parts(title, [Part(not_run(experiment))])
    sections = (_dataset_section(outcome, name, TABLES[experiment]) for name in outcome.datasets)
    words = _EXPLANATION if experiment == "table3" else ""
    return join_parts(title, map(Part, [words, *sections]))


def accuracy_table(outcome: Outcome, dataset: str, task: str) -> str:
    """Lay out one dataset: the paper's number, ours, and the difference to no coupling.

    Parameters
    ----------
    outcome : Outcome
        Table 2, 3 or the synthetic views.
    dataset : str
        Its dataset.
    task : str
        With labels or without.

    Returns
    -------
    str
        The paper's rows; below a line the controls.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.report.accuracy import accuracy_table
    >>> from paper.report.results import Outcome
    >>> cell = Cell("handwritten", "semi-supervised", "SW (8)", "paper")
    >>> record = {"cells": [{"cell": cell.to_json(), "scores": {"test": [0.9, 0.92]}}]}
    >>> outcome = Outcome("table2", "", 2, {}, {}, record)
    >>> print(accuracy_table(outcome, "handwritten", "semi-supervised").splitlines()[2])
    | SW (8) | 88.6 ± 3.3 | 91.0 ± 1.4 | – | – | – |
    """
    rows = {row.name: row for row in table_rows(outcome.record, dataset, task)}
    above, below = (
        [_cells(rows[name], outcome.trials) for name in names if name in rows]
        for names in (_OF_THE_PAPER, _BELOW)
    )
    return table(_HEADER, [*above, *([_RULE] if below else []), *below])


def _cells(row: Row, trials: int) -> list[str]:
    lacking = trials - min(score.n for score in row.scores.values())
    name = f"{row.name}{missing_words(lacking)}"
    if row.is_control:
        return [name, ABSENT, written_score(row.scores["-"]), ABSENT, ABSENT, ABSENT]
    ours = (
        text
        for settings in SETTINGS_WORDS
        for text in (
            written_score(row.scores.get(settings)),
            written_difference(row.differences.get(settings)),
        )
    )
    return [name, written_score(row.published), *ours]


def matched_rows(rows: Iterable[Row]) -> tuple[list[str], list[str], list[str]]:
    """Compare rows, in the paper's settings, with what the paper reports.

    Parameters
    ----------
    rows : iterable of Row
        From `paper.rows.table_rows`.

    Returns
    -------
    within, above, below : list of str
        Rows whose mean is within one standard deviation of the paper's mean, further above it,
        and further below it.

    Examples
    --------
    >>> from paper.published import Figure
    >>> from paper.rows import Row
    >>> from paper.statistics import Score
    >>> from paper.report.accuracy import matched_rows
    >>> matched_rows([Row("SW (8)", False, Figure(88.6, 3.3), {"paper": Score(86.0, 3.0, 20)})])
    (['SW (8)'], [], [])
    """
    within: list[str] = []
    above: list[str] = []
    below: list[str] = []
    for row in rows:
        if row.published and "paper" in row.scores and row.scores["paper"].n > 0:
            gap = row.scores["paper"].mean - row.published.mean
            side = within if abs(gap) <= row.published.std else above if gap > 0 else below
            side.append(row.name)
    return within, above, below


def coupling_counts(rows: Iterable[Row], settings: str) -> tuple[list[str], list[str], list[str]]:
    """Sort the paper's rows by what their coupling adds over none.

    Parameters
    ----------
    rows : iterable of Row
        From `paper.rows.table_rows`.
    settings : str
        The paper's or the robust ones.

    Returns
    -------
    above, below, around : list of str
        Rows whose interval lies above zero, lies below it, or holds it.

    Examples
    --------
    >>> from paper.rows import Row
    >>> from paper.statistics import Difference
    >>> from paper.report.accuracy import coupling_counts
    >>> gain = Difference(1.0, 0.5, 1.5, 20)
    >>> coupling_counts([Row("SW (8)", False, None, {}, {"paper": gain})], "paper")
    (['SW (8)'], [], [])
    """
    above: list[str] = []
    below: list[str] = []
    around: list[str] = []
    for row in rows:
        if row.name in _OF_THE_PAPER and settings in row.differences:
            gain = row.differences[settings]
            if gain.n < 2:  # too few for an interval
                continue
            side = above if gain.low > 0 else below if gain.high < 0 else around
            side.append(row.name)
    return above, below, around


def _dataset_section(outcome: Outcome, dataset: str, task: str) -> str:
    rows = table_rows(outcome.record, dataset, task)
    return section(
        outcome.label(dataset),
        accuracy_table(outcome, dataset, task),
        _matched(rows),
        " ".join(_added(rows, settings) for settings in SETTINGS_WORDS).strip(),
        _explanation(outcome, dataset) if task == "unsupervised" else "",
        level=3,
    )


def _matched(rows: list[Row]) -> str:
    within, above, below = matched_rows(rows)
    n = len(within + above + below)
    if n == 0:
        return ""
    rest = "".join(
        f"; {listed(names)} {'is' if len(names) == 1 else 'are'} further {side}"
        for side, names in (("above", above), ("below", below))
        if names
    )
    return (
        f"With the paper's settings, {len(within)} of {n} rows are within one standard deviation "
        f"of the paper's mean, on either side{rest}."
    )


def _added(rows: list[Row], settings: str) -> str:
    """What the couplings add, in words."""
    above, below, around = coupling_counts(rows, settings)
    if not above + below + around:
        return ""
    named = [f" ({listed(names)})" if names else "" for names in (above, below)]
    return (
        f"With {SETTINGS_WORDS[settings]}, the interval of what the coupling adds lies above zero "
        f"in {len(above)} of {len(above + below + around)} rows{named[0]}, and below in "
        f"{len(below)}{named[1]}."
    )


def _explanation(outcome: Outcome, dataset: str) -> str:
    """Scores of the same features with other classifiers."""
    header = ["method", *(f"{n}, {w}" for w in SETTINGS_WORDS.values() for n in _KINDS.values())]
    names = [model.name for model in (*MODELS, *UNCOUPLED)]
    rows = [[name, *_explained(outcome, dataset, name)] for name in names]
    kept = [row for row in rows if set(row[1:]) != {ABSENT}]
    return table(header, kept) if kept else ""


def _explained(outcome: Outcome, dataset: str, method: str) -> Iterator[str]:
    for settings in SETTINGS_WORDS:
        entry = outcome.find(Cell(dataset, "unsupervised", method, settings))
        yield from (written_score(entry.score(kind) if entry else None) for kind in _KINDS)
