"""HTML and SVG as text that is safe by construction: what is not markup is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["Markup", "join", "numbers", "table", "tag"]

_VOID = ("meta", "input", "br", "line", "rect", "circle", "path")
_CONTROLS = {c: "\N{REPLACEMENT CHARACTER}" for c in range(32) if c not in (9, 10, 13)}


class Markup(str):
    """Text that is markup already; any other text is escaped before it is put into a page.

    Examples
    --------
    >>> from hotview.report.page.markup import Markup, tag
    >>> tag("p", "1 < 2", Markup("<br>"))
    '<p>1 &lt; 2<br></p>'
    """

    __slots__ = ()


def _safe(text: str | float) -> str:
    if isinstance(text, Markup):
        return text
    if isinstance(text, float):  # short, and the same on every machine
        return f"{text:.2f}".rstrip("0").rstrip(".")
    # A lone surrogate, as file names can have, cannot be written as UTF-8.
    clean = str(text).encode("utf-8", "replace").decode("utf-8").translate(_CONTROLS)
    return escape(clean)


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Put parts together, each escaped unless it is markup.

    Parameters
    ----------
    parts : iterable of str
        The parts.
    between : str, default=""
        What stands between them.

    Returns
    -------
    Markup
        All of them.

    Examples
    --------
    >>> from hotview.report.page.markup import join, tag
    >>> join([tag("b", "a"), "&"], ", ")
    '<b>a</b>, &amp;'
    """
    return Markup(_safe(between).join(map(_safe, parts)))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """Make an element; text and attributes are escaped.

    Parameters
    ----------
    name : str
        Name of the element.
    *children : str
        What is inside: markup, or text.
    **attributes : str, float, bool or None
        Attributes; underscores stand for hyphens and one at the end is dropped (``class_``). None
        and False leave an attribute out.

    Returns
    -------
    Markup
        The element.

    Examples
    --------
    >>> from hotview.report.page.markup import tag
    >>> tag("td", '<script>"', class_="a & b", aria_hidden="true")
    '<td class="a &amp; b" aria-hidden="true">&lt;script&gt;&quot;</td>'
    """
    there = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items()}
    said = "".join(
        f" {key}" if value is True else f' {key}="{_safe(value)}"'
        for key, value in there.items()
        if value is not None and value is not False
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{said}/>" if name in _VOID[3:] else f"<{name}{said}>")
    return Markup(f"<{name}{said}>{join(children)}</{name}>")


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, words: int = 1
) -> Markup:
    """Lay out a table that scrolls by itself where it is too wide.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : iterable of sequences of str
        Cells; the first of a row names it.
    caption : str
        What it is a table of.
    words : int, default=1
        How many of the first columns are words; numbers are aligned right.

    Returns
    -------
    Markup
        The table.

    Examples
    --------
    >>> from hotview.report.page.markup import table
    >>> '<th scope="row">pix</th>' in table(["view", "n"], [["pix", "3"]], caption="Rows")
    True
    """
    head = [tag("th", name, scope="col", class_=_kind(j, words)) for j, name in enumerate(header)]
    body = [tag("tr", *(_cell(j, cell, words) for j, cell in enumerate(row))) for row in rows]
    inside = tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
    )
    return tag("div", inside, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(j: int, cell: str, words: int) -> Markup:
    if j == 0:
        return tag("th", cell, scope="row")
    return tag("td", cell, class_=_kind(j, words))


def _kind(j: int, words: int) -> str | None:
    return None if j < words else "number"


def numbers(inside: Markup, title: str = "The numbers") -> Markup:
    """Fold a table away, below the chart that it is the text of.

    Parameters
    ----------
    inside : Markup
        The table.
    title : str, default="The numbers"
        What to click on.

    Returns
    -------
    Markup
        The folded table.

    Examples
    --------
    >>> from hotview.report.page.markup import numbers, tag
    >>> numbers(tag("p", "1"))
    '<details class="numbers"><summary>The numbers</summary><p>1</p></details>'
    """
    return tag("details", tag("summary", title), inside, class_="numbers")
