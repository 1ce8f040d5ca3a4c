from paper.report.claims.listing import (
    claims_part,
    list_claims,
    overview,
    written_claim,
)
from paper.report.claims.verdicts import VERDICTS, Claim, Finding
from paper.report.results import Results


def claim(*findings):
    return Claim("A claim", "It is so.", "how much", "holds if much", findings, "table2")


def test_every_claim_has_words_a_rule_and_a_number(results):
    for found in list_claims(results):
        for words in (found.title, found.says, found.measured, found.rule):
            assert words
        assert "holds" in found.rule
        assert all(f.number and f.verdict in VERDICTS for f in found.findings)


def test_titles_differ(results):
    titles = [found.title for found in list_claims(results)]
    assert len(set(titles)) == len(titles)


def test_what_was_not_run_says_how_to():
    text = claims_part(list_claims(Results({}))).text
    assert "Not run; `python -m paper run table2` runs it." in text
    assert "Not run; `python benchmarks/ground_distances.py` runs it." in text


def test_a_claim_shows_its_rule_beside_the_verdicts():
    text = written_claim(claim(Finding("Handwritten", "HOT (11)", "+1", None)))
    assert "*Measured*: how much. *Rule*: holds if much." in text
    assert text.endswith("| Handwritten | HOT (11) | +1 | **cannot be told** |")


def test_the_overview_counts():
    found = claim(
        Finding("Handwritten", "a", "", True),
        Finding("Handwritten", "b", "", True),
        Finding("MSRC-v1", "a", "", True, own=False),
        Finding("MSRC-v1", "b", "", False, own=False),
        Finding("Caltech7", "b", "", None),
    )
    assert (
        overview([found]).splitlines()[-1]
        == "| [A claim](#a-claim) | 3 | 0 | 1 | 1 | Handwritten |"
    )
    assert overview([claim()]).splitlines()[-1].endswith("| – | – | – | – | not run |")
