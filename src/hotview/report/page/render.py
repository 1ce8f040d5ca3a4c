"""Jinja environment of the page."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hotview.report.canvas import view_style
from hotview.report.page.sentences import describe_baseline, unbroken
from hotview.report.tables import ABSENT, format_interval, number, percent, points, signed

#: Corners of the marks that are not circles, in half widths.
_CORNERS = {
    "diamond": ((0, -1), (1, 0), (0, 1), (-1, 0)),
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
}


def render(template: str, **data: Any) -> Markup:
    """Render a template of the page; text in `data` is escaped unless it is Markup.

    Parameters
    ----------
    template : str
        File name of the template.
    **data : Any
        Variables of the template.

    Returns
    -------
    Markup
        HTML or SVG.

    Examples
    --------
    >>> from hotview.report.page.render import render
    >>> render("view_graph.svg", size=(9, 9), label="<a>", edges=[], nodes=[], arcs=[]).strip()
    Markup('<svg viewBox="0 0 9 9" role="img" aria-label="&lt;a&gt;" class="chart"></svg>')
    """
    return Markup(_environment().get_template(template).render(data))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hotview.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shorten_float,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= {
        "interval": format_interval,
        "interval_below": interval_below,
        "is_finite": math.isfinite,
        "number": number,
        "percent": percent,
        "points": points,
        "short": lambda x: ABSENT if math.isnan(x) else f"{x:.4g}",
        "signed_points": lambda x: signed(100 * x),
        "thousands": "{:,}".format,
        "unbroken": unbroken,
    }
    environment.globals |= {
        "describe_baseline": describe_baseline,
        "mark_path": mark_path,
        "shorten": shorten,
        "view_style": view_style,
    }
    return environment


def interval_below(cell: str) -> str | Markup:
    """Return a number with the interval that follows it in parentheses on a line of its own."""
    value, parenthesis, interval = cell.rpartition(" (")
    if not parenthesis:
        return cell
    return Markup("{} <small>({}</small>").format(value, interval)


def shorten_float(value: Any) -> Any:
    """Return a coordinate with at most two decimals, the same on every machine."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value


def mark_path(shape: str, x: float, y: float, size: float) -> str:
    """Return the outline of a mark around a point."""
    corners = [f"{x + size * a:.1f} {y + size * b:.1f}" for a, b in _CORNERS[shape]]
    return f"M{' L'.join(corners)}Z"


def shorten(text: str, n: int) -> str:
    """Return a name with its middle left out if it has more than n characters.

    Examples
    --------
    >>> from hotview.report.page.render import shorten
    >>> shorten("morphological", 6), shorten("pix", 6)
    ('mor…al', 'pix')
    """
    if len(text) <= n:
        return text
    end = (n - 1) // 2  # names often differ at their end
    return f"{text[: n - 1 - end]}…{text[-end:]}"
