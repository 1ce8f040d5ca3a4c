"""Parts of the page: text, the pictures it shows, and how its numbers are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paper.markdown import ABSENT, number, section, signed
from paper.statistics import Difference, Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "SETTINGS_WORDS",
    "Part",
    "join_parts",
    "missing_words",
    "not_run",
    "picture",
    "written_difference",
    "written_score",
]

#: How a column of ours is headed.
SETTINGS_WORDS: Mapping[str, str] = {"paper": "the paper's settings", "robust": "robust settings"}


@dataclass(frozen=True)
class Part:
    """Text, and the pictures that it shows.

    Parameters
    ----------
    text : str
        Markdown; `picture` writes the place of a picture.
    pictures : mapping of str to callable, default={}
        Name of a file to what draws it.

    Examples
    --------
    >>> from paper.report.parts import Part
    >>> Part("Nothing to see.").pictures
    {}
    """

    text: str
    pictures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)


def join_parts(title: str, parts: Iterable[Part], level: int = 2) -> Part:
    """Put parts under one heading.

    Parameters
    ----------
    title : str
        The heading.
    parts : iterable of Part
        What stands below it.
    level : int, default=2
        Depth of the heading.

    Returns
    -------
    Part
        All text and all pictures.

    Examples
    --------
    >>> from paper.report.parts import Part, join_parts
    >>> join_parts("Tables", [Part("One."), Part("Two.")]).text.split()
    ['##', 'Tables', 'One.', 'Two.']
    """
    parts = list(parts)
    pictures = {name: draw for part in parts for name, draw in part.pictures.items()}
    return Part(section(title, *(part.text for part in parts), level=level), pictures)


def picture(name: str, says: str) -> str:
    """Write the place of a picture; its folder is put in when the page is made.

    Parameters
    ----------
    name : str
        Its file.
    says : str
        What it shows, for those who cannot see it.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> from paper.report.parts import picture
    >>> picture("figure2.svg", "Plans")
    '![Plans]({pictures}/figure2.svg)'
    """
    return f"![{says}]({{pictures}}/{name})"


def not_run(experiment: str) -> str:
    """Say that an experiment was not run, and how to run it.

    Parameters
    ----------
    experiment : str
        Its name.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> from paper.report.parts import not_run
    >>> not_run("table2")
    'Not run; `python -m paper run table2` runs it.'
    """
    return f"Not run; `python -m paper run {experiment}` runs it."


def missing_words(n: int) -> str:
    """Say that trials are missing, if they are.

    Parameters
    ----------
    n : int
        How many.

    Returns
    -------
    str
        What to put behind a name.

    Examples
    --------
    >>> from paper.report.parts import missing_words
    >>> missing_words(0), missing_words(1), missing_words(2)
    ('', ' (1 trial missing)', ' (2 trials missing)')
    """
    return f" ({n} {'trial' if n == 1 else 'trials'} missing)" if n else ""


def written_score(score: Score | tuple[float, float] | None) -> str:
    """Write a mean and its standard deviation.

    Parameters
    ----------
    score : Score or (mean, std) or None
        In percent.

    Returns
    -------
    str
        Mean ± standard deviation; a dash for None.

    Examples
    --------
    >>> from paper.report.parts import written_score
    >>> written_score((87.36, 1.43)), written_score(None)
    ('87.4 ± 1.4', '–')
    """
    if score is None:
        return ABSENT
    mean, std = (score.mean, score.std) if isinstance(score, Score) else score
    return number(mean) if math.isnan(std) else f"{number(mean)} ± {number(std)}"


def written_difference(difference: Difference | None, digits: int = 2) -> str:
    """Write a difference with its interval, bold where the interval excludes zero.

    Parameters
    ----------
    difference : Difference or None
        The difference.
    digits : int, default=2
        Decimals.

    Returns
    -------
    str
        Mean and interval; a dash for None.

    Examples
    --------
    >>> from paper.statistics import Difference
    >>> from paper.report.parts import written_difference
    >>> written_difference(Difference(0.5, 0.25, 0.75, 20))
    '**+0.50** [+0.25, +0.75]'
    """
    if difference is None or math.isnan(difference.mean):
        return ABSENT
    mean = signed(difference.mean, digits)
    if math.isinf(difference.low):
        return f"{mean} (one trial)"
    strong = f"**{mean}**" if difference.excludes_zero else mean
    return f"{strong} [{signed(difference.low, digits)}, {signed(difference.high, digits)}]"
