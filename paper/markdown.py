"""Markdown tables, and the format of means, differences and shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hotview.report.tables import ABSENT, number, signed

__all__ = ["ABSENT", "listed", "number", "percent", "section", "signed", "table"]


def percent(x: float) -> str:
    """Write a share as a whole number of percent.

    Parameters
    ----------
    x : float
        The share, from 0 to 1.

    Returns
    -------
    str
        The share in percent.

    Examples
    --------
    >>> from paper.markdown import percent
    >>> percent(0.55)
    '55 %'
    """
    return ABSENT if np.isnan(x) else f"{100 * x:.0f} %"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Join words as in a sentence.

    Parameters
    ----------
    words : sequence of str
        The words.
    last : str, default="and"
        What stands before the last one.

    Returns
    -------
    str
        The words; "none" where there are none.

    Examples
    --------
    >>> from paper.markdown import listed
    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', 'none')
    """
    *most, end = words or ("none",)
    return f"{', '.join(most)} {last} {end}" if most else end


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Lay out a table.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : iterable of sequences of str
        Cells; a bar inside a cell is escaped.
    words : int, default=1
        How many of the first columns are words, and aligned left; numbers are aligned right.

    Returns
    -------
    str
        The table, without a last newline.

    Examples
    --------
    >>> from paper.markdown import table
    >>> print(table(["view", "accuracy"], [["pix", "0.9"]]))
    | view | accuracy |
    |---|--:|
    | pix | 0.9 |
    """
    rules = ["---"] * words + ["--:"] * (len(header) - words)
    lines = [list(header), *(list(row) for row in rows)]
    if ragged := [line for line in lines if len(line) != len(header)]:
        raise ValueError(f"a row must have {len(header)} cells, got {ragged[0]}.")
    laid = ["| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines]
    return "\n".join([laid[0], f"|{'|'.join(rules)}|", *laid[1:]])


def section(title: str, *blocks: str, level: int = 2) -> str:
    """Put blocks under a heading, with blank lines between; empty blocks are left out.

    Parameters
    ----------
    title : str
        The heading.
    *blocks : str
        Paragraphs, tables, sections.
    level : int, default=2
        Depth of the heading.

    Returns
    -------
    str
        The section.

    Examples
    --------
    >>> from paper.markdown import section
    >>> print(section("Results", "They are good.", ""))
    ## Results
    <BLANKLINE>
    They are good.
    """
    return "\n\n".join([f"{'#' * level} {title}", *(block for block in blocks if block)])
