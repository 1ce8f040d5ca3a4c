"""Formulas as SVG at build time, so that a page needs no script and follows its text's color."""

from __future__ import annotations

import re
from html import escape
from itertools import cycle

from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.path import Path
from matplotlib.textpath import TextPath

__all__ = ["formula"]

_LETTERS = {
    "α": r"\alpha ",
    "β": r"\beta ",
    "γ": r"\gamma ",
    "θ": r"\theta ",
    "λ": r"\lambda ",
    "τ": r"\tau ",
    "∝": r"\propto ",
    "‖": r"\Vert ",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "…": r"\ldots ",
    r"\tfrac": r"\frac",
}
_FONT = FontProperties(math_fontfamily="stix", size=16)
_COMMANDS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


def formula(latex: str, *, display: bool = False) -> str:
    """An ``<svg>`` of one formula.

    Parameters
    ----------
    latex : str
        The formula, without dollar signs.
    display : bool, default=False
        Whether it stands on a line of its own.

    Returns
    -------
    str
        HTML.
    """
    text = f"${_for_mathtext(latex, display=display)}$"
    width, _, depth, *_ = MathTextParser("path").parse(text, prop=_FONT)
    outline = TextPath((0, 0), text, prop=_FONT)
    box = outline.get_extents()
    top, bottom = box.y1 + 1, min(box.y0, -depth) - 1
    em = 0.9 * _FONT.get_size_in_points()  # letters of its font are small
    svg = (
        f'<svg class="formula" role="img" aria-label="{escape(latex)}" '
        f'viewBox="0 {-top:.1f} {width:.1f} {top - bottom:.1f}" '
        f'style="width:{width / em:.2f}em;vertical-align:{bottom / em:.2f}em">'
        f'<path fill="currentColor" d="{_svg_path(outline)}"/></svg>'
    )
    return f'<div class="formula">{svg}</div>' if display else svg


def _for_mathtext(latex: str, *, display: bool) -> str:
    """The same in the part of LaTeX that matplotlib knows."""
    for there, here in _LETTERS.items():
        latex = latex.replace(there, here)
    latex = re.sub(r"\\frac(\w)(\w)", r"\\frac{\1}{\2}", " ".join(latex.split()))
    latex = latex.replace(r"\sum", r"\,\sum")
    if display:
        latex = latex.replace(r"\frac", r"\dfrac")
    sides = cycle((r"\left", r"\right"))  # brackets that grow come in pairs
    return re.sub(r"\\[bB]igg?(?![a-z])", lambda _: next(sides), latex)


def _svg_path(path: Path) -> str:
    parts = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        if code == Path.CLOSEPOLY:
            parts.append("Z")
        else:
            pairs = zip(points[::2], points[1::2], strict=True)
            parts.append(_COMMANDS[code] + " ".join(f"{x:.1f},{-y:.1f}" for x, y in pairs))
    return "".join(parts)
