"""Sentences of the README and the docs that compare, computed from the result files.

    python benchmarks/sentences.py [--numbers]

lists every sentence with the pages that it stands on and the files, and with ``--numbers`` all
numbers, that it rests on. ``readme_tables.py`` writes them: a sentence stands between
``<!-- sentence:NAME -->`` and ``<!-- /sentence:NAME -->``, on lines of its own or in a line.
Verdicts follow from intervals: *ahead of* and *behind* where the interval of the difference does
not hold 0, *level with* where it does, which does not say that two are equal.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from functools import cache

import common_space_sentences  # noqa: F401 registers its sentences
import default_sentences  # noqa: F401 likewise
import paper_sentences  # noqa: F401 likewise
from evidence import ROOT, SENTENCES, Evidence

WIDTH = 110
_PLACE = re.compile(r"<!-- sentence:([\w-]+) -->(.*?)<!-- /sentence:\1 -->", re.DOTALL)


def make(name: str) -> tuple[str, Evidence]:
    """A sentence, and what it rests on."""
    evidence = Evidence()
    return SENTENCES[name](evidence), evidence


@cache
def _text(name: str) -> str:
    return make(name)[0]


def fill(text: str) -> str:
    """Put every sentence that a text has a place for into it."""

    def place(match: re.Match[str]) -> str:
        start, end = f"<!-- sentence:{match[1]} -->", f"<!-- /sentence:{match[1]} -->"
        found = _text(match[1])
        if match[2].startswith("\n"):
            return f"{start}\n{_wrap(found)}\n{end}"
        line = text[text.rfind("\n", 0, match.start()) + 1 :]
        indent = "  " if re.match(r"\s*- |  ", line) else ""
        return f"{start}{_wrap(found, indent)}{end}"

    return _PLACE.sub(place, text)


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def main() -> None:
    """List all sentences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", action="store_true", help="list the numbers of each, too")
    show_numbers = parser.parse_args().numbers
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {page.relative_to(ROOT).as_posix(): page.read_text() for page in pages}
    for name in SENTENCES:
        text, evidence = make(name)
        where = [page for page, on in texts.items() if f"<!-- sentence:{name} -->" in on]
        print(f"{name}\n  on: {', '.join(where) or 'no page'}")
        print(f"  from: {', '.join(f'results/{path}' for path in evidence.files)}")
        print(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  "))
        for what, number in evidence.numbers.items() if show_numbers else ():
            print(f"    {what}: {number}")
        print()


if __name__ == "__main__":
    main()
