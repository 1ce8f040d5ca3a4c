"""Claims about the ground distance: sliced instead of exact assignment or Sinkhorn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paper.report.claims.verdicts import HARMLESS, Claim, Finding, Rule
from paper.report.parts import written_difference
from paper.report.results import Results
from paper.statistics import paired_difference

__all__ = ["BOUNDED", "CHEAPER", "bound_claim", "cost_claim", "exact_claim"]

_RIVALS = {"Wasserstein": ("assignment", "emd2"), "Sinkhorn": ("sinkhorn", "sinkhorn_log")}
_SLICED = {"sliced_3": "3 iid directions", "sliced_50": "50 orthogonal directions"}
_EXACT_COUPLINGS = ("exact", "exact, over d")


def _all_above_one(ratios: Sequence[float]) -> bool | None:
    return min(ratios) > 1 if ratios else None


def _at_most_one(share: float) -> bool | None:
    return share <= 1


#: For "costs less".
CHEAPER = Rule(
    "holds when it takes less time at every size that was measured; does not hold otherwise",
    _all_above_one,
)

#: For "is a lower bound".
BOUNDED = Rule("holds when the largest share is at most 1; does not hold otherwise", _at_most_one)


def cost_claim(results: Results) -> Claim:
    """Ask whether sliced costs take less time, at all sizes.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per rival and number of directions.

    Examples
    --------
    >>> from paper.report.claims.distances import cost_claim
    >>> from paper.report.results import Results
    >>> cost_claim(Results({})).findings
    ()
    """
    cases = results.benches.get("ground_distances", {}).get("cases", ())
    return Claim(
        "Sliced distances cost less than Wasserstein and Sinkhorn",
        "With the sliced distance the costs take O(S K M N) operations, with Wasserstein "
        "O(S K N³), with Sinkhorn O(S K J N²).",
        "their time over ours for C and its gradient, the faster of two implementations each; all "
        "N, K and J of the table above",
        CHEAPER.words,
        tuple(_ratios(cases)) if cases else (),
        "benchmarks/ground_distances.py",
    )


def _ratios(cases: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for rival, names in _RIVALS.items():
        for sliced, words in _SLICED.items():
            ms = [case["ms"] for case in cases]
            ratios = [min(m[name] for name in names) / m[sliced] for m in ms]
            text = f"{_times(min(ratios))} to {_times(max(ratios))} times"
            how = f"{rival} against {words}"
            yield Finding("random clouds", how, text, CHEAPER.decide(ratios))


def bound_claim(results: Results) -> Claim:
    """Ask whether sliced costs lie below exact ones, and how far.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        One finding.

    Examples
    --------
    >>> from paper.report.claims.distances import bound_claim
    >>> from paper.report.results import Results
    >>> checks = {"n": 400, "d_times_sliced_over_exact": [0.04, 0.6]}
    >>> bench = {"dimension": 10, "checks": checks}
    >>> bound_claim(Results({}, {"ground_distances": bench})).findings[0].number
    '0.004 to 0.06'
    """
    bench = results.benches.get("ground_distances", {})
    shares = bench.get("checks", {}).get("d_times_sliced_over_exact", ())
    findings = []
    if shares:
        low, high = (share / bench["dimension"] for share in shares)
        text, holds = f"{low:.2g} to {high:.2g}", BOUNDED.decide(high)
        how = f"N = {bench['checks']['n']}, 50 orthogonal directions"
        findings.append(Finding("random clouds", how, text, holds))
    return Claim(
        "The sliced distance is a lower bound of the exact one",
        "Proposition 1: the cost of the best assignment is at least the sliced distance.",
        "sliced over exact cost, smallest and largest over pairs of clouds (their dimension times "
        "this would be 1 if all of the difference showed in every direction)",
        BOUNDED.words,
        tuple(findings),
        "benchmarks/ground_distances.py",
    )


def exact_claim(results: Results) -> Claim:
    """Ask whether training with sliced matching is as good as with exact assignment.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Claim
        A finding per number of directions and scale of the exact cost.

    Examples
    --------
    >>> from paper.report.claims.distances import exact_claim
    >>> from paper.report.results import Results
    >>> exact_claim(Results({})).findings
    ()
    """
    models = results.benches.get("sliced_against_exact", {}).get("training", {}).get("models", {})
    return Claim(
        "Sliced matching stands in for exact assignment",
        "The assignment of (4) and (5) is replaced by the sliced distance of (7).",
        "accuracy of (8) with sliced costs − accuracy with exact assignment in every step, "
        "semi-supervised, the paper's settings, percentage points; “over d”: exact costs divided "
        "by the dimension, which is the scale of sliced ones",
        HARMLESS.words,
        tuple(_against_exact(models)),
        "benchmarks/sliced_against_exact.py",
    )


def _against_exact(models: Mapping[str, Any]) -> Iterator[Finding]:
    scores = {name: _percent(model["accuracy"]["by_split"]) for name, model in models.items()}
    for sliced in (name for name in scores if name.startswith("sliced")):
        for exact in (name for name in _EXACT_COUPLINGS if name in scores):
            gain = paired_difference(scores[sliced], scores[exact])
            text, holds = written_difference(gain), HARMLESS.decide(gain)
            yield Finding("Handwritten", f"{sliced} − {exact}", text, holds)


def _times(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,.12g}"


def _percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]
