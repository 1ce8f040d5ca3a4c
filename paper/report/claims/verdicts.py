"""Rules that decide whether a claim holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paper.published import PUBLISHED
from paper.statistics import Difference

__all__ = [
    "ADDS",
    "HARMLESS",
    "MARGIN",
    "VERDICTS",
    "Claim",
    "Finding",
    "Rule",
    "is_the_papers",
]

#: Percentage points that are too few to matter.
MARGIN = 0.5

#: Possible verdicts on a claim.
VERDICTS = ("holds", "does not hold", "not on our data", "cannot be told")


@dataclass(frozen=True)
class Rule:
    """When a claim holds.

    Parameters
    ----------
    words : str
        The rule, for the page.
    decide : callable
        Maps the measurement to True (it holds), False (it does not) or None (cannot be told).

    Examples
    --------
    >>> from paper.statistics import Difference
    >>> from paper.report.claims.verdicts import ADDS
    >>> ADDS.decide(Difference(1.0, 0.2, 1.8, 20)), ADDS.decide(Difference(0.0, -0.2, 0.2, 20))
    (True, False)
    """

    words: str
    decide: Callable[[Any], bool | None]


@dataclass(frozen=True)
class Finding:
    """What was measured on one dataset, in one way.

    Parameters
    ----------
    data : str
        Label of the dataset.
    how : str
        Settings and method, which distinguish it from the other findings.
    number : str
        What was measured, written out.
    holds : bool or None
        Verdict of the rule; None if it cannot be told.
    own : bool, default=True
        Whether these are the paper's own data. On others a claim of the paper cannot fail, but
        only not be seen.

    Examples
    --------
    >>> from paper.report.claims.verdicts import Finding
    >>> Finding("Handwritten", "", "−1", False).verdict
    'does not hold'
    >>> Finding("Caltech7 (re-extracted)", "", "−1", False, own=False).verdict
    'not on our data'
    """

    data: str
    how: str
    number: str
    holds: bool | None
    own: bool = True

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        if self.holds is None:
            return VERDICTS[3]
        return VERDICTS[0] if self.holds else VERDICTS[1] if self.own else VERDICTS[2]


@dataclass(frozen=True)
class Claim:
    """A statement, how it was tested, and what came out.

    Parameters
    ----------
    title : str
        The statement, short.
    quote : str
        Statement of the paper.
    measured : str
        What was measured.
    rule : str
        When it holds, in words.
    findings : tuple of Finding
        One per dataset and way.
    needs : str
        The experiment that it takes.

    Examples
    --------
    >>> from paper.report.claims.verdicts import Claim
    >>> Claim("W is sparse", "…", "entropy of rows", "below 0.5", (), "figure5").findings
    ()
    """

    title: str
    quote: str
    measured: str
    rule: str
    findings: tuple[Finding, ...]
    needs: str


def is_the_papers(dataset: str, about: Mapping[str, Any]) -> bool:
    """Say whether a dataset is one of the paper's, number by number.

    Parameters
    ----------
    dataset : str
        Its name.
    about : mapping
        Its description in the file; a remark in brackets marks data that are not the paper's.

    Returns
    -------
    bool
        Whether its results can be held against the paper's.

    Examples
    --------
    >>> from paper.report.claims.verdicts import is_the_papers
    >>> is_the_papers("caltech7", {"label": "Caltech7 (re-extracted)"})
    False
    """
    return dataset in PUBLISHED["unsupervised"] and "(" not in about["label"]


def _adds(d: Difference) -> bool | None:
    return True if d.low > 0 else False if d.high < MARGIN else None


def _does_no_harm(d: Difference) -> bool | None:
    return True if d.low > -MARGIN else False if d.high < 0 else None


#: For "is better".
ADDS = Rule(
    "holds when the whole 95 % interval lies above zero; does not hold when it reaches zero and "
    f"ends below +{MARGIN} points; cannot be told otherwise",
    _adds,
)

#: For "is not worse".
HARMLESS = Rule(
    f"holds when the whole 95 % interval lies above −{MARGIN} points; does not hold when it lies "
    "below zero and reaches further down; cannot be told otherwise",
    _does_no_harm,
)
