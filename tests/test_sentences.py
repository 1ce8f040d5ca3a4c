"""Sentences that compare are those of the result files, and follow where these change."""

import re
import sys
from pathlib import Path

import pytest

from paper.statistics import Difference

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BENCHMARKS = str(ROOT / "benchmarks")
#: tables without scores of methods, which chose nothing
OTHERS = """
federated-faults federated-flower fuzz growth intervals larger memory model-files mutants
paper-training precision predict predict-all predict-latency ranks replicas runs
similarity-time sinkhorn situations-short sizes sliced sliced-gpu start-up targets
"""


@pytest.fixture(scope="module")
def sentences():
    sys.path.insert(0, BENCHMARKS)
    try:
        import sentences

        yield sentences
    finally:
        sys.path.remove(BENCHMARKS)


def test_every_sentence_has_a_place_and_rests_on_numbers(sentences):
    texts = [page.read_text() for page in PAGES]
    for name in sentences.SENTENCES:
        assert any(f"<!-- sentence:{name} -->" in text for text in texts), f"no place for {name}"
        text, found = sentences.make(name)
        assert found.files or name == "sinkhorn-order", name
        assert re.search(r"\d", text) is None or found.numbers, name
        for path in found.files:
            assert list((ROOT / "results").glob(path)), path


def test_every_place_has_a_sentence_and_an_end(sentences):
    for page in PAGES:
        text = page.read_text()
        for name in re.findall(r"<!-- sentence:([\w-]+) -->", text):
            assert name in sentences.SENTENCES, f"{page.name}: {name}"
            assert f"<!-- /sentence:{name} -->" in text, f"{page.name}: {name} has no end"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_agree_with_their_numbers(sentences, page):
    text = page.read_text()
    assert sentences.fill(text) == text, f"{page.name}: run make bench-tables"


def test_a_sentence_that_was_changed_by_hand_is_found(sentences):
    text = (ROOT / "README.md").read_text()
    assert "level with" in text
    wrong = text.replace("level with", "ahead of")
    assert sentences.fill(wrong) == text != wrong


def test_verdicts_follow_the_intervals(sentences):
    evidence = sys.modules["evidence"]
    ahead, level, behind = (Difference(m, m - 1, m + 1, 20) for m in (2.0, 0.5, -2.0))
    assert [evidence.side(d) for d in (ahead, level, behind)] == ["above", "around", "below"]
    text = evidence.by_verdict({"a": behind, "b": level, "c": ahead})
    order = [text.index(word) for word in ("ahead of it on c", "level with it on b", "behind it")]
    assert order == sorted(order)
    assert "no measurable difference" in evidence.trend(evidence.count_sides([level]))
    assert "costs accuracy, where" in evidence.trend(evidence.count_sides([level, behind]))
    both = evidence.trend(evidence.count_sides([behind, behind, ahead]))
    assert "costs accuracy more often" in both
    assert "of 3 intervals, 1 lie above 0, 2 below, 0 hold 0" in both


def test_it_is_said_of_every_table_of_scores_what_chose_what():
    said = (ROOT / "docs" / "readings.md").read_text().split("## What chose what")[1]
    for page in PAGES:
        if page.name == "README.md":
            continue
        anchor = ""
        for line in page.read_text().splitlines():
            if heading := re.match(r"##+ (.*)", line):
                anchor = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            table = re.match(r"<!-- table:([\w-]+) -->", line)
            if table and table[1] not in OTHERS.split():
                where = f"{page.relative_to(ROOT / 'docs').as_posix()}#{anchor}"
                assert f"({where})" in said, f"{table[1]}: {where} is not in readings.md"
