"""Colors and shapes of views and classes, distinguishable with any color vision."""

from __future__ import annotations

__all__ = ["CLASS_COLORS", "VIEW_COLORS", "style_variables", "view_style"]

#: Colors of views on a light and on a dark background, after Okabe and Ito.
VIEW_COLORS = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#f08a45"),
    ("#009e73", "#35c796"),
    ("#b0578d", "#e39ac4"),
    ("#a07800", "#e3c04a"),
    ("#333333", "#ededed"),
    ("#6b4fa0", "#b59ee6"),
    ("#4aa5dc", "#a9d8f7"),
)

#: Colors of classes, which never share a legend with views, after Tol.
CLASS_COLORS = (
    ("#4477aa", "#77aadd"),
    ("#ee6677", "#ff8f9c"),
    ("#228833", "#58c26b"),
    ("#b39b00", "#e5d04f"),
    ("#3aa6c4", "#7fd6ea"),
    ("#aa3377", "#df77b2"),
    ("#7f7f7f", "#bbbbbb"),
    ("#cc6a1f", "#f0a060"),
    ("#332288", "#a49ae8"),
    ("#117a6b", "#4cc2ae"),
)

_SHAPES = ("circle", "square", "triangle")


def view_style(view: int) -> tuple[int, str]:
    """Return the style of a view, the same in every chart.

    Parameters
    ----------
    view : int
        Index of the view.

    Returns
    -------
    color : int
        Index of its color in ``VIEW_COLORS``; colors repeat after the last.
    shape : {"circle", "square", "triangle"}
        Shape of its marks, which differs where colors repeat.

    Examples
    --------
    >>> from hotview.report.palette import view_style
    >>> view_style(0), view_style(8)
    ((0, 'circle'), (0, 'square'))
    """
    n = len(VIEW_COLORS)
    return view % n, _SHAPES[view // n % len(_SHAPES)]


def style_variables() -> str:
    """Return the colors as variables of a style sheet.

    Returns
    -------
    str
        A rule for ``:root``.

    Examples
    --------
    >>> from hotview.report.palette import style_variables
    >>> style_variables().splitlines()[1]
    '  --view-0: light-dark(#0072b2, #56b4e9);'
    """
    lines = [
        f"  --{kind}-{k}: light-dark({light}, {dark});"
        for kind, colors in (("view", VIEW_COLORS), ("class", CLASS_COLORS))
        for k, (light, dark) in enumerate(colors)
    ]
    return "\n".join([":root {", *lines, "}"])
