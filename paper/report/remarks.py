"""What went on during training that the numbers do not show: warnings, mixed parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from paper.markdown import listed, number, table
from paper.report.accuracy import TABLES
from paper.report.parts import SETTINGS_WORDS, Part, join_parts
from paper.report.results import Entry, Results

__all__ = ["remarks_part"]

_WORDS = """Warnings of the trainings of tables 2 and 3, over all data; how many a training had on \
average where there were any."""


def remarks_part(results: Results) -> Part:
    """List the warnings of trainings, and cells whose trials had different parameters.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Part
        Nothing if there were none.

    Examples
    --------
    >>> from paper.report.remarks import remarks_part
    >>> from paper.report.results import Results
    >>> remarks_part(Results({})).text
    ''
    """
    rows = list(_warnings(results))
    header = ["warning", "task", "settings", "rows", "per training"]
    blocks = [f"{_WORDS}\n\n{table(header, rows, words=4)}"] * bool(rows) + [_mixed(results)]
    if not any(blocks):
        return Part("")
    return join_parts("Warnings", map(Part, blocks))


def _warnings(results: Results) -> Iterator[list[str]]:
    counts: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(dict)
    for entry in _entries(results):
        for text, n in entry.record.get("warnings", {}).items():
            key = (text, entry.cell.task, entry.cell.settings)
            counts[key].setdefault(entry.cell.method, []).append(n / max(entry.score().n, 1))
    for (text, task, settings), by_method in counts.items():
        every = [n for numbers in by_method.values() for n in numbers]
        mean = number(sum(every) / len(every))
        yield [f"{text}…", task, SETTINGS_WORDS.get(settings, "–"), listed(list(by_method)), mean]


def _entries(results: Results) -> Iterator[Entry]:
    for name in TABLES:
        if outcome := results.outcomes.get(name):
            yield from outcome.entries.values()


def _mixed(results: Results) -> str:
    cells = {
        entry.cell.id: None
        for outcome in results.outcomes.values()
        for entry in outcome.entries.values()
        if entry.record.get("mixed_parameters")
    }
    if not cells:
        return ""
    return (
        f"The trials of {listed(list(cells))} were run with different parameters, before and after "
        "a change of the code: run them again with `python -m paper run … --again`."
    )
