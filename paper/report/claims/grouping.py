"""Claims about the groups of views in the transport plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from paper.markdown import listed, percent
from paper.plans import closest, most_alike, similarity, stands_alone
from paper.report.claims.verdicts import Claim, Finding, Rule, is_the_papers
from paper.report.parts import SETTINGS_WORDS
from paper.report.plan_figures import is_pairwise
from paper.report.results import Entry, Outcome, Results

__all__ = ["GROUPED", "GROUPS", "Count", "Group", "grouping_claim"]

_CHANCE_P = 0.01


class Count(NamedTuple):
    """In how many trials something was seen.

    Parameters
    ----------
    seen, trials : int
        Trials in which it was seen, and all.
    chance : float
        Share of trials in which it would be seen if views had their names by lot.

    Examples
    --------
    >>> from paper.report.claims.grouping import GROUPED, Count
    >>> GROUPED.decide(Count(15, 20, 0.2)), GROUPED.decide(Count(4, 20, 0.2))
    (True, False)
    """

    seen: int
    trials: int
    chance: float

    @property
    def p_value(self) -> float:
        """Probability of as many or more by chance."""
        return float(binomtest(self.seen, self.trials, self.chance, "greater").pvalue)

    @property
    def highest_share(self) -> float:
        """Upper end of the exact 95 % interval of the share."""
        return float(binomtest(self.seen, self.trials).proportion_ci(0.95).high)


def _grouped(count: Count) -> bool | None:
    if count.seen >= count.trials / 2 and count.p_value < _CHANCE_P:
        return True
    return False if count.highest_share < 0.5 else None


#: For "belong together".
GROUPED = Rule(
    "holds when it is so in at least half of the trials and chance gives as many with p < "
    f"{_CHANCE_P} (binomial test); does not hold when the exact 95 % interval of the share ends "
    "below one half; cannot be told otherwise",
    _grouped,
)


@dataclass(frozen=True)
class Group:
    """A statement of the paper about some views.

    Parameters
    ----------
    words : str
        The statement: "{} is closest to {}".
    views : tuple of str
        The views.
    seen : callable
        From similarities and indices of the views to whether it is so.
    chance : callable
        From the number of views to the share of trials that chance gives.
    methods : tuple of str, default=("HOT (10)", "HOT (11)")
        Plans in which to look for it.

    Examples
    --------
    >>> from paper.report.claims.grouping import GROUPS
    >>> [group.title for group in GROUPS["handwritten"]]
    ['pix, fac and kar are the most alike of all three views', 'mor stands alone']
    """

    words: str
    views: tuple[str, ...]
    seen: Callable[[NDArray[np.float64], list[int]], bool]
    chance: Callable[[int], float]
    methods: tuple[str, ...] = ("HOT (10)", "HOT (11)")

    @property
    def title(self) -> str:
        """Return the statement with the names of the views."""
        return self.words.format(listed(self.views[:-1] or self.views), self.views[-1])


def _pair(first: str, second: str) -> Group:
    return Group(
        "{} is closest to {}",
        (first, second),
        lambda S, of: closest(S, of[0]) == of[1],
        lambda n: 1 / (n - 1),
    )


def _three(*views: str, methods: tuple[str, ...] = ("HOT (10)", "HOT (11)")) -> Group:
    named = listed(views)
    return Group(
        f"{named} are the most alike of all three views",
        views,
        most_alike,
        lambda n: 1 / comb(n, 3),
        methods,
    )


def _alone(view: str) -> Group:
    return Group("{} stands alone", (view,), lambda S, of: stands_alone(S, *of), lambda n: 1 / n)


#: What the paper names, by dataset.
GROUPS: Mapping[str, tuple[Group, ...]] = {
    "handwritten": (_three("pix", "fac", "kar"), _alone("mor")),
    "caltech7": (
        _pair("Gabor", "CENTRIST"),
        _pair("WM", "GIST"),
        _three("Gabor", "WM", "HOG", methods=("HOT (10)",)),
    ),
}


def grouping_claim(results: Results) -> Claim:
    """Count in how many trials the plans show the groups that the paper names.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per group, method and settings.

    Examples
    --------
    >>> from paper.report.claims.grouping import grouping_claim
    >>> from paper.report.results import Results
    >>> grouping_claim(Results({})).needs
    'figure5'
    """
    outcome = results.outcomes.get("figure5")
    return Claim(
        "W shows the groups that the paper names",
        "“Gabor” and “CENTRIST” belong to one cluster while “WM” and “GIST” belong to another; "
        "“the distribution of Pix on the three clusters is similar to those of Fac and KAR”; “MOR "
        "is a unique view”; with (10), “Gabor, WM, and HOG are likely to be in the same cluster”.",
        "share of trials in which it is so. A view's closest is the one with the largest weight in "
        "its row of W with (10), the one with the largest entry in its row of W Wᵀ with (11). "
        "Three are the most alike if no other three have as large a mean of these; a view stands "
        "alone if every other one has a closer neighbor. Ties do not count",
        GROUPED.words,
        tuple(_findings(outcome)) if outcome else (),
        "figure5",
    )


def _findings(outcome: Outcome) -> Iterator[Finding]:
    for dataset, about in outcome.datasets.items():
        for group in GROUPS.get(dataset, ()):
            for entry in outcome.select(dataset=dataset, overrides=()):
                if entry.plans and entry.cell.method in group.methods:
                    yield _finding(entry, group, about)


def _finding(entry: Entry, group: Group, about: Mapping[str, Any]) -> Finding:
    count = _count(entry, group, list(about["views"]))
    p = f"p = {count.p_value:.2g}" if count.p_value >= 1e-4 else "p < 0.0001"
    return Finding(
        about["label"],
        f"{group.title}: {entry.cell.method}, {SETTINGS_WORDS[entry.cell.settings]}",
        f"{count.seen} of {count.trials} trials; chance {percent(count.chance)}, {p}",
        GROUPED.decide(count),
        is_the_papers(entry.cell.dataset, about),
    )


def _count(entry: Entry, group: Group, names: list[str]) -> Count:
    pairwise, of = is_pairwise(entry), [names.index(view) for view in group.views]
    found = [group.seen(similarity(W, pairwise=pairwise), of) for W in entry.plans]
    return Count(sum(found), len(found), group.chance(len(names)))
