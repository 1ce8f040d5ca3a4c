"""Claims about hyper-parameters: robustness, and the best values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from paper.markdown import number
from paper.report.claims.verdicts import Claim, Finding, Rule, is_the_papers
from paper.report.parts import SETTINGS_WORDS, written_difference
from paper.report.results import Results, difference
from paper.report.sweeps import LETTERS, Sweep, find_sweeps
from paper.statistics import Difference, Score

__all__ = ["BEST", "ROBUST", "Lead", "Spread", "best_claim", "robustness_claim", "spread_of"]


class Spread(NamedTuple):
    """How far means lie apart, beside how far trials do.

    Parameters
    ----------
    width : float
        Largest mean − smallest mean.
    std : float
        Standard deviation over the splits, where the paper stands.

    Examples
    --------
    >>> from paper.report.claims.robustness import ROBUST, Spread
    >>> ROBUST.decide(Spread(0.8, 2.5)), ROBUST.decide(Spread(8.0, 2.5))
    (True, False)
    """

    width: float
    std: float


class Lead(NamedTuple):
    """How far a value is ahead of the best of the others.

    Parameters
    ----------
    rival : float
        The best of the others.
    gain : Difference
        What the value has more than it, with an interval.

    Examples
    --------
    >>> from paper.statistics import Difference
    >>> from paper.report.claims.robustness import BEST, Lead
    >>> BEST.decide(Lead(5, Difference(0.1, -0.5, 0.7, 20))) is None
    True
    """

    rival: float
    gain: Difference


def _robust(spread: Spread) -> bool | None:
    return spread.width <= spread.std if math.isfinite(spread.width + spread.std) else None


def _best(lead: Lead) -> bool | None:
    return lead.gain.mean > 0 if lead.gain.excludes_zero else None


#: For "is robust to".
ROBUST = Rule(
    "holds when the means over the grid lie no further apart than one standard deviation over the "
    "splits at the paper's value; does not hold otherwise",
    _robust,
)

#: For "is the best value".
BEST = Rule(
    "holds when the value is ahead of the best of the others, does not hold when it is behind it, "
    "with a 95 % interval that excludes zero; cannot be told otherwise. The best of the others is "
    "picked by the same scores, which flatters it",
    _best,
)


def spread_of(scores: Sequence[Score], usual: Score) -> Spread:
    """Measure how far means lie apart.

    Parameters
    ----------
    scores : sequence of Score
        Of all values of a parameter.
    usual : Score
        At the paper's value.

    Returns
    -------
    Spread
        Beside the standard deviation over the splits.

    Examples
    --------
    >>> from paper.statistics import Score
    >>> from paper.report.claims.robustness import spread_of
    >>> spread_of([Score(80.0, 2.0, 20), Score(83.0, 1.0, 20)], Score(80.0, 2.0, 20))
    Spread(width=3.0, std=2.0)
    """
    means = [score.mean for score in scores]
    return Spread(max(means) - min(means), usual.std)


def robustness_claim(results: Results) -> Claim:
    """Measure how much each parameter of figures 3 and 4 matters.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per parameter and settings.

    Examples
    --------
    >>> from paper.report.claims.robustness import robustness_claim
    >>> from paper.report.results import Results
    >>> robustness_claim(Results({})).findings
    ()
    """
    return Claim(
        "The method is robust to its parameters",
        "Performance “is relatively robust to the change of these two hyperparameters”, batch size "
        "and projections; “our method is robust to the number of clusters we set”.",
        "largest − smallest mean accuracy over the grid, beside the standard deviation over splits",
        ROBUST.words,
        tuple(_spreads(results, _all_sweeps(results))),
        "figure3",
    )


def best_claim(results: Results) -> Claim:
    """Ask whether K = 3, α = 0.01 and τ = 0.01 are the best values.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per parameter and settings.

    Examples
    --------
    >>> from paper.report.claims.robustness import best_claim
    >>> from paper.report.results import Results
    >>> best_claim(Results({})).title
    'K = 3, α = 0.01 and τ = 0.01 are the best values'
    """
    named = ("coupling__n_references", "coupling__orthogonality_weight", "view_regularizer__weight")
    sweeps = (sweep for sweep in _all_sweeps(results) if sweep.parameter in named)
    return Claim(
        "K = 3, α = 0.01 and τ = 0.01 are the best values",
        "“The best performance is achieved when K = 3”; “when α and τ are set to be 0.01 our "
        "method can achieve encouraging performance”.",
        "accuracy at the paper's value − accuracy at the best of the others, percentage points",
        BEST.words,
        tuple(_leads(results, sweeps)),
        "figure3",
    )


def _all_sweeps(results: Results) -> list[Sweep]:
    return [sweep for figure in ("figure3", "figure4") for sweep in find_sweeps(results, figure)]


def _spreads(results: Results, sweeps: Iterable[Sweep]) -> Iterator[Finding]:
    for sweep in sweeps:
        usual = sweep.points.get(sweep.marked)
        if usual and len(sweep.points) > 1:
            scores = {value: entry.score() for value, entry in sweep.points.items()}
            spread = spread_of(list(scores.values()), usual.score())
            low, high = (f(scores, key=lambda v: scores[v].mean) for f in (min, max))
            text = (
                f"{number(spread.width)} ({number(scores[low].mean)} at {low:g}, "
                f"{number(scores[high].mean)} at {high:g}); std {number(spread.std)}"
            )
            yield _finding(results, sweep, text, ROBUST.decide(spread))


def _leads(results: Results, sweeps: Iterable[Sweep]) -> Iterator[Finding]:
    for sweep in sweeps:
        others = {value: e for value, e in sweep.points.items() if value != sweep.marked}
        usual = sweep.points.get(sweep.marked)
        if usual and others:
            rival = max(others, key=lambda value: others[value].score().mean)
            gain = difference(usual, others[rival])
            if gain:
                text = f"{written_difference(gain)} to {rival:g}"
                yield _finding(results, sweep, text, BEST.decide(Lead(rival, gain)))


def _finding(results: Results, sweep: Sweep, text: str, holds: bool | None) -> Finding:
    dataset = next(iter(sweep.points.values())).cell.dataset
    about = results.outcomes[sweep.figure].datasets[dataset]
    how = f"{LETTERS[sweep.parameter]}, {SETTINGS_WORDS[sweep.settings]}"
    return Finding(about["label"], how, text, holds, is_the_papers(dataset, about))
