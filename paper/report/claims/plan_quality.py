"""Claims about the plans: their sparsity, and their stability between trainings."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from paper.markdown import number
from paper.plans import correlations, row_entropy
from paper.report.claims.verdicts import Claim, Finding, Rule, is_the_papers
from paper.report.parts import SETTINGS_WORDS, written_difference
from paper.report.plan_figures import is_pairwise
from paper.report.results import Entry, Outcome, Results
from paper.statistics import Difference, paired_difference

__all__ = ["DENSER", "STABLE", "density_claim", "mean_correlation", "stability_claim", "welch"]

_ENTROPY, _HALF = 0.05, 0.5


def _denser(d: Difference) -> bool | None:
    return True if d.low > 0 else False if d.high < _ENTROPY else None


def _stable(d: Difference) -> bool | None:
    return True if d.low > _HALF else False if d.high < _HALF else None


#: For "dense on Caltech20".
DENSER = Rule(
    "holds when the whole 95 % interval of the difference lies above zero; does not hold when it "
    f"reaches zero and ends below {_ENTROPY}; cannot be told otherwise",
    _denser,
)

#: For "another training gives the same W".
STABLE = Rule(
    f"holds when the whole 95 % interval (jackknife over the trials) lies above {_HALF}; does not "
    f"hold when it lies below {_HALF}; cannot be told otherwise. Noise has 0, equal plans have 1",
    _stable,
)


def welch(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Compare two samples that are not paired.

    Parameters
    ----------
    first, second : sequence of float
        The samples.

    Returns
    -------
    Difference
        Mean of the first − mean of the second, with Welch's 95 % interval.

    Examples
    --------
    >>> from paper.report.claims.plan_quality import welch
    >>> welch([1.0, 1.0], [0.5, 0.5])
    Difference(mean=0.5, low=0.5, high=0.5, n=2)
    """
    n, gap = min(len(first), len(second)), float(np.mean(first) - np.mean(second))
    if n < 2:
        return Difference(gap, -math.inf, math.inf, n)
    if np.ptp(first) == np.ptp(second) == 0:
        return Difference(gap, gap, gap, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a constant sample loses precision
        low, high = ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return Difference(gap, float(low), float(high), n)


def mean_correlation(table: NDArray[np.float64]) -> Difference:
    """Average the correlations of all pairs of plans, with a jackknife interval over the plans.

    Parameters
    ----------
    table : array of shape (n, n)
        From `paper.plans.correlations`.

    Returns
    -------
    Difference
        Mean and 95 % interval.

    Examples
    --------
    >>> import numpy as np
    >>> from paper.report.claims.plan_quality import mean_correlation
    >>> mean_correlation(np.full((4, 4), 0.5))
    Difference(mean=0.5, low=0.5, high=0.5, n=4)
    """
    n, pairs = len(table), np.triu_indices(len(table), k=1)
    mean = float(table[pairs].mean())
    if n < 3:
        return Difference(mean, -math.inf, math.inf, n)
    without = [np.delete(np.delete(table, i, 0), i, 1) for i in range(n)]
    rest = np.triu_indices(n - 1, k=1)
    pseudo = [n * mean - (n - 1) * float(t[rest].mean()) for t in without]
    found = paired_difference(pseudo, [0.0] * n, test_to_train=0.0)  # of plans, not of test rows
    shift = mean - found.mean  # zero but for rounding
    return Difference(mean, found.low + shift, found.high + shift, n)


def density_claim(results: Results) -> Claim:
    """Compare how dense the plans are on few and on many classes.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per small dataset, method and settings.

    Examples
    --------
    >>> from paper.report.claims.plan_quality import density_claim
    >>> from paper.report.results import Results
    >>> density_claim(Results({})).findings
    ()
    """
    outcome = results.outcomes.get("figure5")
    return Claim(
        "W is sparse on small problems and dense on Caltech20",
        "“For the simple tasks (e.g., the Caltech7 and the Handwritten), our methods can learn "
        "sparse optimal transport matrices”; for Caltech20 they “are often dense”.",
        "entropy of W's rows, from 0 (one place takes all) to 1 (all alike): Caltech20 − the other",
        DENSER.words,
        tuple(_denser_findings(outcome)) if outcome else (),
        "figure5",
    )


def _denser_findings(outcome: Outcome) -> Iterator[Finding]:
    large = {_way(e): e for e in outcome.select(dataset="caltech20") if e.plans}
    for dataset in ("handwritten", "caltech7"):
        for entry in outcome.select(dataset=dataset):
            if entry.plans and (other := large.get(_way(entry))):
                many, few = _entropies(other), _entropies(entry)
                gap = welch(many, few)
                means = f"{number(float(np.mean(many)), 2)} − {number(float(np.mean(few)), 2)}"
                yield Finding(
                    outcome.label(dataset),
                    _words(entry),
                    f"{means} = {written_difference(gap)}",
                    DENSER.decide(gap),
                    all(is_the_papers(d, outcome.datasets[d]) for d in ("caltech20", dataset)),
                )


def _entropies(entry: Entry) -> list[float]:
    return [row_entropy(W, pairwise=is_pairwise(entry)) for W in entry.plans]


def _way(entry: Entry) -> tuple[str, str]:
    return entry.cell.method, entry.cell.settings


def _words(entry: Entry) -> str:
    return f"{entry.cell.method}, {SETTINGS_WORDS[entry.cell.settings]}"


def stability_claim(results: Results) -> Claim:
    """Measure whether another training gives the same plan.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per set of directions on one split, and per dataset over the splits.

    Examples
    --------
    >>> from paper.report.claims.plan_quality import stability_claim
    >>> from paper.report.results import Results
    >>> stability_claim(Results({})).needs
    'claims'
    """
    findings = [_stable_finding(outcome, entry) for outcome, entry in _with_several_plans(results)]
    return Claim(
        "Another training gives the same W",
        "“The clustering structure of views learned by this method is reasonable”; the paper does "
        "not say whether another training finds the same.",
        "mean correlation, over pairs of trainings, of what their plans say about pairs of views "
        "(W with (10), W Wᵀ with (11)); a plan that is flat to the digits that files keep counts 0",
        STABLE.words,
        tuple(findings),
        "claims",
    )


def _with_several_plans(results: Results) -> Iterator[tuple[Outcome, Entry]]:
    """Trainings on one split, from the claims; trainings on many splits, from figure 5."""
    chosen: dict[str, dict[str, Any]] = {"claims": {"split": 0}, "figure5": {"overrides": ()}}
    for name, wanted in chosen.items():
        if outcome := results.outcomes.get(name):
            yield from ((outcome, e) for e in outcome.select(**wanted) if len(e.plans) > 1)


def _stable_finding(outcome: Outcome, entry: Entry) -> Finding:
    found = mean_correlation(correlations(entry.plans, pairwise=is_pairwise(entry)))
    directions = dict(entry.cell.overrides)
    where = (
        "between splits"
        if entry.cell.split is None
        else (
            f"one split, M = {directions['coupling__n_projections']} "
            f"{directions['coupling__projections']}"
        )
    )
    interval = f"[{number(found.low, 2)}, {number(found.high, 2)}]"
    return Finding(
        outcome.label(entry.cell.dataset),
        f"{_words(entry)}, {where}",
        f"{number(found.mean, 2)} {interval if found.n > 2 else ''}".strip(),
        STABLE.decide(found),
        is_the_papers(entry.cell.dataset, outcome.datasets[entry.cell.dataset]),
    )
