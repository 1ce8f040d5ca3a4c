"""All claims, and their section of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paper.markdown import ABSENT, listed, section, table
from paper.report.claims.contrasts import (
    CONTRASTS,
    contrast_claim,
    relaxation_claim,
)
from paper.report.claims.distances import bound_claim, cost_claim, exact_claim
from paper.report.claims.grouping import grouping_claim
from paper.report.claims.losses import LOSSES, equal_loss_claim, loss_claim
from paper.report.claims.plan_quality import density_claim, stability_claim
from paper.report.claims.robustness import best_claim, robustness_claim
from paper.report.claims.verdicts import VERDICTS, Claim
from paper.report.parts import Part, join_parts
from paper.report.results import Results

__all__ = ["claims_part", "list_claims", "overview", "written_claim"]

_WORDS = """Every statement of the paper that its evaluation rests on, and some that it leaves \
unsaid. A verdict follows from the rule that stands beside it. “Does not hold” is said of the \
paper's own data only; elsewhere it is “not on our data”. Intervals of differences in accuracy \
allow for the rows that trials share ([how](readings.md#intervals)); those of plans take trainings \
for independent. The rules on accuracies and plans were written before there were results, for the \
narrower intervals of Student; that weights which differ by less than files can show are ties was \
settled after a look at three trials, and the rules on ground distances with their times at hand."""


def list_claims(results: Results) -> list[Claim]:
    """Test all claims.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    list of Claim
        In the order of the page.

    Examples
    --------
    >>> from paper.report.claims.listing import list_claims
    >>> from paper.report.results import Results
    >>> list_claims(Results({}))[0].title
    'HOT is better than SW, semi-supervised'
    """
    return [
        *(contrast_claim(results, contrast) for contrast in CONTRASTS),
        relaxation_claim(results),
        robustness_claim(results),
        best_claim(results),
        grouping_claim(results),
        density_claim(results),
        stability_claim(results),
        *(loss_claim(results, loss) for loss in LOSSES),
        equal_loss_claim(results),
        cost_claim(results),
        bound_claim(results),
        exact_claim(results),
    ]


def claims_part(claims: Sequence[Claim]) -> Part:
    """Lay out all claims.

    Parameters
    ----------
    claims : sequence of Claim
        From `list_claims`.

    Returns
    -------
    Part
        A section per claim.

    Examples
    --------
    >>> from paper.report.claims.listing import claims_part, list_claims
    >>> from paper.report.results import Results
    >>> claims_part(list_claims(Results({}))).text.splitlines()[0]
    '## Claims'
    """
    return join_parts("Claims", [Part(_WORDS), *(Part(written_claim(claim)) for claim in claims)])


def written_claim(claim: Claim) -> str:
    """Render one claim: the paper's statement, the measurement, the rule, the verdicts.

    Parameters
    ----------
    claim : Claim
        The claim.

    Returns
    -------
    str
        A section.

    Examples
    --------
    >>> from paper.report.claims.listing import written_claim
    >>> from paper.report.claims.verdicts import Claim, Finding
    >>> finding = Finding("Handwritten", "HOT (10)", "0.3", True)
    >>> claim = Claim("W is sparse", "It is.", "entropy", "holds below 0.5", (finding,), "figure5")
    >>> print(written_claim(claim).splitlines()[-1])
    | Handwritten | HOT (10) | 0.3 | **holds** |
    """
    rows = [[f.data, f.how, f.number, f"**{f.verdict}**"] for f in claim.findings]
    laid = table(["data", "how", "measured", "verdict"], rows, words=2) if rows else _how(claim)
    measured = f"*Measured*: {claim.measured}. *Rule*: {claim.rule}."
    return section(claim.title, f"> {claim.quote}", measured, laid, level=3)


def overview(claims: Sequence[Claim]) -> str:
    """Count the verdicts of every claim.

    Parameters
    ----------
    claims : sequence of Claim
        From `list_claims`.

    Returns
    -------
    str
        A table.

    Examples
    --------
    >>> from paper.report.claims.listing import overview
    >>> from paper.report.claims.verdicts import Claim, Finding
    >>> finding = Finding("Handwritten", "HOT (10)", "0.3", True)
    >>> claim = Claim("W is sparse", "It is.", "entropy", "holds below 0.5", (finding,), "figure5")
    >>> print(overview([claim]).splitlines()[-1])
    | [W is sparse](#w-is-sparse) | 1 | 0 | 0 | 0 | Handwritten |
    """
    rows = ([_link(claim.title), *_counts(claim), _where(claim)] for claim in claims)
    return table(["claim", *VERDICTS, "holds on"], rows)


def _counts(claim: Claim) -> list[str]:
    counts = Counter(finding.verdict for finding in claim.findings)
    return [str(counts[verdict]) if claim.findings else ABSENT for verdict in VERDICTS]


def _where(claim: Claim) -> str:
    """Datasets on which every finding holds."""
    if not claim.findings:
        return "not run"
    held = {f.data: True for f in claim.findings}
    for finding in claim.findings:
        held[finding.data] &= finding.holds is True
    return listed([data for data, all_hold in held.items() if all_hold], "and")


def _link(title: str) -> str:
    """A heading's address as GitHub makes it."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return f"[{title}](#{kept.replace(' ', '-')})"


def _how(claim: Claim) -> str:
    script = claim.needs.endswith(".py")
    command = f"python {claim.needs}" if script else f"python -m paper run {claim.needs}"
    return f"Not run; `{command}` runs it."
