"""Sliced matching against exact assignment, on latents of several kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paper.markdown import ABSENT, number, table
from paper.report.parts import Part, join_parts
from paper.report.results import Results

__all__ = ["exact_part"]

_TITLE = "Sliced matching against exact assignment"
_PARTNERS = {"exact_individual": "same individual", "exact_class": "same class"}


def exact_part(results: Results) -> Part:
    """Compare sliced with exact costs, and the partners of the exact assignment.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Part
        A table; nothing if it was not measured.

    Examples
    --------
    >>> from paper.report.exact_matching import exact_part
    >>> from paper.report.results import Results
    >>> exact_part(Results({})).text
    ''
    """
    bench = results.benches.get("sliced_against_exact")
    if not bench:
        return Part("")
    sliced = _directions(bench)
    header = ["latents", *(f"correlation, {name}" for name in sliced), *_partner_header(bench)]
    rows = (
        [name, *_correlations(found, sliced), *_partners(bench["partners"].get(name, {}))]
        for name, found in bench["costs"].items()
    )
    words = (
        f"{bench.get('data', 'Handwritten')}. Correlation of sliced with exact costs over the "
        "pairs of views (± over draws of the directions), and the share of rows, not seen in "
        "training, whose exact partner is the same individual or of the same class."
    )
    return join_parts(_TITLE, [Part(words), Part(table(header, rows))])


def _directions(bench: Mapping[str, Any]) -> list[str]:
    first: Mapping[str, Any] = next(iter(bench["costs"].values()), {})
    return [name for name, found in first.items() if "pearson" in found]


def _correlations(found: Mapping[str, Any], sliced: list[str]) -> Iterator[str]:
    for name in sliced:
        r = found[name]["pearson"]
        yield f"{number(r['mean'], 2)} ± {number(r['spread_over_draws'], 2)}"


def _partner_header(bench: Mapping[str, Any]) -> Iterator[str]:
    chances = bench.get("chance", {})
    for key, words in _PARTNERS.items():
        chance = chances.get(key.removeprefix("exact_"))
        yield words if chance is None else f"{words} (chance {number(100 * chance)} %)"


def _partners(found: Mapping[str, Any]) -> Iterator[str]:
    unseen = found.get("validation", {})
    for key in _PARTNERS:
        yield f"{number(100 * unseen[key]['mean'])} %" if key in unseen else ABSENT
