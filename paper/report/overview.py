"""Opening of the page: how it was made, and a summary of the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paper.markdown import listed, number, section
from paper.models import CONTROLS
from paper.report.accuracy import TABLES, coupling_counts, matched_rows
from paper.report.claims.listing import overview
from paper.report.claims.verdicts import VERDICTS, Claim, is_the_papers
from paper.report.parts import SETTINGS_WORDS, Part
from paper.report.results import Outcome, Results
from paper.rows import table_rows

__all__ = ["opening_part"]

_TITLE = "The paper, run again"

_WHAT = """Luo, Xu and Carin, “Hierarchical Optimal Transport for Robust Multi-View Learning” \
(2020): every table and figure of its evaluation, with the controls that it leaves out. This page \
is made from the files in `results/` by `python -m paper report`, which computes every number and \
every verdict on it; `python -m paper run all` writes the files."""

_PROTOCOL = """Each trial splits the rows 60/20/20 into training, validation and test. 5 % of the \
training rows are aligned and labeled; the others have no label and are shuffled in every view on \
their own, except for LSCCA, DGCCA and AECCA, which get them aligned. Columns are standardized on \
the training rows. Semi-supervised: the labels are in the objective. Unsupervised: encoders are \
trained without labels, then a logistic regression on their frozen features with the same 5 %. \
All methods have the same splits, so that differences are taken split by split: *difference \
[95 % interval]*, bold where the interval excludes zero. Intervals are those of Nadeau and Bengio: \
splits share rows ([how wide, and why](readings.md#intervals)); synthetic views are drawn anew in \
every trial and have Student's. *The paper's settings* are its objective and its numbers, where it \
can be read in two ways [as listed](readings.md); *robust settings* are this library's own for the \
same networks, chosen on the same datasets ([what chose what](readings.md#what-chose-what)). *No \
coupling* is the same network with the same settings and no term between views. Accuracies are of \
test rows, in percent, mean ± standard deviation over the trials; validation rows chose nothing \
within a trial. The best plain method of a dataset, above, is chosen on its test rows."""


def opening_part(results: Results, claims: Sequence[Claim]) -> Part:
    """Say how the page was made, and what came out.

    Parameters
    ----------
    results : Results
        All results.
    claims : sequence of Claim
        All claims, with their verdicts.

    Returns
    -------
    Part
        The beginning of the page.

    Examples
    --------
    >>> from paper.report.overview import opening_part
    >>> from paper.report.results import Results
    >>> opening_part(Results({}), []).text.splitlines()[0]
    '# The paper, run again'
    """
    outcomes = list(results.outcomes.values())
    found = "\n".join(f"- {line}" for line in _lines(results, claims))
    blocks = [_WHAT, _data(outcomes), _made_with(outcomes)]
    short = section("In short", found, overview(claims) if claims else "")
    protocol = section("Protocol", _PROTOCOL)
    return Part(section(_TITLE, *blocks, short, protocol, level=1))


def _data(outcomes: Iterable[Outcome]) -> str:
    """What the data are, and which of them are not the paper's."""
    about = {name: a for outcome in outcomes for name, a in outcome.datasets.items()}
    if not about:
        return ""
    sizes = listed([_size(a) for a in about.values()])
    others = [a["label"] for name, a in about.items() if not is_the_papers(name, a)]
    remark = (
        f" {listed(others)} {'is' if len(others) == 1 else 'are'} not the paper's data, number by "
        "number: what is re-extracted comes from the same images, with the descriptors computed "
        "again. The paper's figures stand beside them and cannot be compared one by one."
    )
    return f"Data: {sizes}.{remark if others else ''}"


def _size(about: Mapping[str, Any]) -> str:
    if "rows" not in about:
        return str(about["label"])
    views = len(about["views"])
    return f"{about['label']} ({about['rows']} rows, {views} views, {about['classes']} classes)"


def _made_with(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return "Nothing was run yet; `python -m paper run all` runs everything."
    trials = sorted({outcome.trials for outcome in outcomes})
    devices = dict.fromkeys(d for o in outcomes for d in o.record.get("devices", ()))
    versions: dict[str, dict[str, None]] = {}
    for outcome in outcomes:
        for name, version in outcome.record.get("versions", {}).items():
            versions.setdefault(name, {}).update(dict.fromkeys(version.split(", ")))
    with_ = ", ".join(f"{name} {' and '.join(found)}" for name, found in versions.items())
    return (
        f"Trials: {listed([str(n) for n in trials])}. Machine: {listed(list(devices))}. "
        f"Versions: {with_}."
    )


def _lines(results: Results, claims: Sequence[Claim]) -> Iterator[str]:
    for name, task in TABLES.items():
        if outcome := results.outcomes.get(name):
            yield from _matched(outcome, task)
            yield from _added(outcome, task)
            yield from _controls(outcome, task)
    verdicts = Counter(f.verdict for claim in claims for f in claim.findings)
    if verdicts:
        counts = listed([f"{verdicts[v]} “{v}”" for v in VERDICTS])
        yield f"Of {sum(verdicts.values())} verdicts on {len(claims)} claims: {counts}."


def _matched(outcome: Outcome, task: str) -> Iterator[str]:
    for dataset, about in outcome.datasets.items():
        if is_the_papers(dataset, about):
            rows = table_rows(outcome.record, dataset, task)
            sides = [len(names) for names in matched_rows(rows)]
            if sum(sides):
                yield (
                    f"{about['label']}, {task}: {sides[0]} of {sum(sides)} rows are within one "
                    f"standard deviation of the paper's mean; {sides[1]} are further above it, "
                    f"{sides[2]} further below."
                )


def _added(outcome: Outcome, task: str) -> Iterator[str]:
    for settings, words in SETTINGS_WORDS.items():
        sides = [0, 0, 0]
        for dataset in outcome.datasets:
            counts = coupling_counts(table_rows(outcome.record, dataset, task), settings)
            sides = [n + len(names) for n, names in zip(sides, counts, strict=True)]
        if sum(sides):
            yield (
                f"What coupling adds over none, {task}, {words}: of {sum(sides)} rows over all "
                f"data, {sides[0]} have an interval above zero, {sides[1]} below, {sides[2]} "
                "around it."
            )


def _controls(outcome: Outcome, task: str) -> Iterator[str]:
    """The best of the plain methods that have no more labels than the others."""
    fair = CONTROLS[:-1]
    for dataset in outcome.datasets:
        rows = table_rows(outcome.record, dataset, task)
        plain = [row for row in rows if row.name in fair and row.scores["-"].n > 0]
        trained = [
            (row, s) for row in rows if row.published for s in row.scores if row.scores[s].n > 0
        ]
        if plain and trained:
            best = max(plain, key=lambda row: row.scores["-"].mean)
            row, settings = max(trained, key=lambda pair: pair[0].scores[pair[1]].mean)
            yield (
                f"{outcome.label(dataset)}, {task}: the best of the paper's rows is {row.name} "
                f"({SETTINGS_WORDS[settings]}) with {number(row.scores[settings].mean)}, the best "
                f"plain method {best.name} with {number(best.scores['-'].mean)}."
            )
