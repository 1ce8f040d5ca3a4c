"""Claims that one kind of row is better than another, on the same splits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from paper.cells import SETTINGS_NAMES, TASKS, Cell
from paper.report.accuracy import TABLES
from paper.report.claims.verdicts import (
    ADDS,
    HARMLESS,
    Claim,
    Finding,
    Rule,
    is_the_papers,
)
from paper.report.parts import SETTINGS_WORDS, written_difference
from paper.report.results import (
    Entry,
    Outcome,
    Results,
    Scores,
    compare,
    difference,
)
from paper.rows import shared_rows

__all__ = ["CONTRASTS", "Contrast", "contrast_claim", "mean_by_trial", "relaxation_claim"]

_CCA = ("LSCCA", "DGCCA", "AECCA")
_SW = ("SW (8)", "SW (9)", "SW (8) + AE", "SW (9) + AE")
_HOT = ("HOT (10)", "HOT (11)", "HOT (10) + AE", "HOT (11) + AE")
_SEMI, _UNSUPERVISED = TASKS
_TABLE_OF = {task: table for table, task in TABLES.items()}


@dataclass(frozen=True)
class Contrast:
    """Pairs of rows, the first of which is claimed to be better.

    Parameters
    ----------
    title, quote : str
        The claim, and the paper's statement.
    rule : Rule
        When it holds.
    better, worse : tuple of str
        Rows of the tables, paired in this order.
    task : str
        Of the better ones.
    other_task : str, optional
        Of the worse ones, if another.

    Examples
    --------
    >>> from paper.report.claims.contrasts import CONTRASTS
    >>> CONTRASTS[0].title
    'HOT is better than SW, semi-supervised'
    """

    title: str
    quote: str
    rule: Rule
    better: tuple[str, ...]
    worse: tuple[str, ...]
    task: str
    other_task: str | None = None


def _uncoupled(rows: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"no coupling{' + AE' * row.endswith('AE')}" for row in rows)


def _for_both_tasks(
    title: str, quote: str, rule: Rule, better: tuple[str, ...], worse: tuple[str, ...]
) -> Iterator[Contrast]:
    for task in TASKS:
        yield Contrast(f"{title}, {task}", quote, rule, better, worse, task)


#: (8) is LSCCA, (9) DGCCA, and (8) + AE AECCA, with another distance: these are compared.
CONTRASTS: tuple[Contrast, ...] = (
    *_for_both_tasks(
        "HOT is better than SW",
        "“Applying our hierarchical optimal transport model generally achieves higher accuracy "
        "than applying sliced Wasserstein distance directly.”",
        ADDS,
        _HOT,
        _SW,
    ),
    *_for_both_tasks(
        "SW without alignment is as good as CCA with it",
        "“Our methods and their variants apply unaligned training data but achieve at least "
        "comparable performance.”",
        HARMLESS,
        _SW[:3],
        _CCA,
    ),
    *_for_both_tasks(
        "HOT without alignment is better than CCA with it",
        "“The proposed approach consistently outperforms many strong baseline models.”",
        ADDS,
        _HOT[:3],
        _CCA,
    ),
    *_for_both_tasks(
        "HOT is better than no coupling",
        "The paper has no such row; all it says of its coupling rests on this.",
        ADDS,
        _HOT,
        _uncoupled(_HOT),
    ),
    *_for_both_tasks(
        "SW is better than no coupling",
        "The paper has no such row.",
        ADDS,
        _SW,
        _uncoupled(_SW),
    ),
    Contrast(
        "Autoencoders improve the accuracy, semi-supervised",
        "The reconstruction loss “helps further improve the classification accuracy”.",
        ADDS,
        ("AECCA", *_SW[2:], *_HOT[2:]),
        ("LSCCA", *_SW[:2], *_HOT[:2]),
        _SEMI,
    ),
    Contrast(
        "References are better than pairs, unsupervised",
        "“Those depending on pairwise comparisons between views suffer from the degradation of "
        "performance as well, while those learning clusters of views explicitly retain high "
        "classification accuracy.”",
        ADDS,
        ("SW (9)", "HOT (11)", "SW (9) + AE", "HOT (11) + AE"),
        ("SW (8)", "HOT (10)", "SW (8) + AE", "HOT (10) + AE"),
        _UNSUPERVISED,
    ),
    Contrast(
        "CCA loses without labels in the objective",
        "“The performance of the baselines drops precipitously in this setting”, the unsupervised "
        "one.",
        ADDS,
        _CCA,
        _CCA,
        _SEMI,
        _UNSUPERVISED,
    ),
)


def contrast_claim(results: Results, contrast: Contrast) -> Claim:
    """Measure a contrast on all datasets, in both settings.

    Parameters
    ----------
    results : Results
        All results.
    contrast : Contrast
        What to compare.

    Returns
    -------
    Claim
        What came out.

    Examples
    --------
    >>> from paper.report.claims.contrasts import CONTRASTS, contrast_claim
    >>> from paper.report.results import Results
    >>> contrast_claim(Results({}), CONTRASTS[0]).needs
    'table2'
    """
    pairs = zip(contrast.better, contrast.worse, strict=True)
    named = ", ".join(f"{a} − {b}" for a, b in pairs)
    tasks = f", {contrast.task} − {contrast.other_task}" if contrast.other_task else ""
    tables = [_TABLE_OF[task] for task in (contrast.task, contrast.other_task) if task]
    outcome = results.outcomes.get(tables[0])
    return Claim(
        contrast.title,
        contrast.quote,
        f"mean over {named}{tasks}, percentage points",
        contrast.rule.words,
        tuple(_findings(results, outcome, contrast)) if outcome else (),
        next((table for table in tables if table not in results.outcomes), tables[0]),
    )


def _findings(results: Results, outcome: Outcome, contrast: Contrast) -> Iterator[Finding]:
    other = _TABLE_OF[contrast.other_task or contrast.task]
    for dataset, settings in product(outcome.datasets, SETTINGS_NAMES):
        ours = _entries(results, outcome.name, dataset, settings, contrast.better)
        theirs = _entries(results, other, dataset, settings, contrast.worse)
        if ours and theirs:
            gain = compare(
                mean_by_trial(ours), mean_by_trial(theirs), test_to_train=shared_rows(dataset)
            )
            yield Finding(
                outcome.label(dataset),
                SETTINGS_WORDS[settings],
                written_difference(gain),
                contrast.rule.decide(gain),
                is_the_papers(dataset, outcome.datasets[dataset]),
            )


def _entries(
    results: Results, table: str, dataset: str, settings: str, rows: Sequence[str]
) -> list[Entry]:
    """The entries of some rows; none unless all are there."""
    cells = (Cell(dataset, TABLES[table], row, settings) for row in rows)
    found = [results.find(table, cell) for cell in cells]
    kept = [entry for entry in found if entry is not None]
    return kept if len(kept) == len(rows) else []


def mean_by_trial(entries: Sequence[Entry]) -> Scores:
    """Average the test scores of several entries, trial by trial.

    Parameters
    ----------
    entries : sequence of Entry
        Entries with the same trials.

    Returns
    -------
    tuple of float or None
        One per trial; None where any of them is missing.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.report.claims.contrasts import mean_by_trial
    >>> from paper.report.results import Entry
    >>> cell = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    >>> mean_by_trial([Entry(cell, {"test": (80.0, 90.0)}), Entry(cell, {"test": (90.0, None)})])
    (85.0, None)
    """
    trials = zip(*(entry.scores["test"] for entry in entries), strict=False)
    return tuple(_mean(scores) for scores in trials)


def _mean(scores: Sequence[float | None]) -> float | None:
    there = [score for score in scores if score is not None]
    return float(np.mean(there)) if len(there) == len(scores) else None


def relaxation_claim(results: Results) -> Claim:
    """Compare the relaxed constraint with the constraint met exactly.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        What came out.

    Examples
    --------
    >>> from paper.report.claims.contrasts import relaxation_claim
    >>> from paper.report.results import Results
    >>> relaxation_claim(Results({})).findings
    ()
    """
    outcome = results.outcomes.get("claims")
    return Claim(
        "Relaxing the constraint does no harm",
        "“We find that this relaxation does not do harm to the learning results.”",
        "accuracy with the penalty α − accuracy with the constraint met exactly, percentage points",
        HARMLESS.words,
        tuple(_relaxed(outcome)) if outcome else (),
        "claims",
    )


def _relaxed(outcome: Outcome) -> Iterator[Finding]:
    for exact in outcome.select(overrides=(("coupling__orthogonality_weight", float("inf")),)):
        cell = exact.cell
        if gain := difference(outcome.find(replace(cell, overrides=())), exact):
            yield Finding(
                outcome.label(cell.dataset),
                f"{cell.method}, {cell.task}, {SETTINGS_WORDS[cell.settings]}",
                written_difference(gain),
                HARMLESS.decide(gain),
                is_the_papers(cell.dataset, outcome.datasets[cell.dataset]),
            )
