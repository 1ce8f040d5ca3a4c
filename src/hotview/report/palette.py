"""Colors of views and of classes, for people of any color vision, on light and on dark."""

from __future__ import annotations

__all__ = ["CLASS_COLORS", "VIEW_COLORS", "style_variables"]

#: Of views: on light, on dark. After Okabe and Ito.
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

#: Of classes, which are never shown beside views. After Tol.
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


def style_variables() -> str:
    """The colors as variables of a style sheet.

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
