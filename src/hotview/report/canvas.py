"""What figures and the page are made of: colors; axes, heat maps, dots, and files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hotview._files import atomic_write, check_output_path
from hotview.report.chart_data import DotChart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACCENT, SECOND, SOFT = "#1f5fa8", "#c98a00", "#59636e"
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
_MARKERS = {"circle": "o", "square": "s", "triangle": "^"}
#: Column names with more characters in total are slanted, so that they do not overlap.
_MAX_CHARACTERS = 40
_DARK = 0.6  # fraction of the color scale above which text is white
_SUFFIXES = (".pdf", ".png", ".svg")
#: Without random ids and dates the same figure gives the same bytes.
_SALT = "hotview"
_METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


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
    >>> from hotview.report.canvas import view_style
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
    >>> from hotview.report.canvas import style_variables
    >>> style_variables().splitlines()[1]
    '  --view-0: light-dark(#0072b2, #56b4e9);'
    """
    lines = [
        f"  --{kind}-{k}: light-dark({light}, {dark});"
        for kind, colors in (("view", VIEW_COLORS), ("class", CLASS_COLORS))
        for k, (light, dark) in enumerate(colors)
    ]
    return "\n".join([":root {", *lines, "}"])


def new_axes(height: float = 4.1) -> Axes:
    """Return the axes of a new figure of pyplot, which notebooks show."""
    import matplotlib.pyplot as plt

    axes: Axes = plt.subplots(figsize=(4.8, height), layout="constrained")[1]
    return axes


def new_figure(n_panels: int = 1, *, panel_size: float = 4.8) -> tuple[Figure, list[Axes]]:
    """Make a figure with panels in a row, without pyplot's global state.

    Parameters
    ----------
    n_panels : int, default=1
        Number of panels.
    panel_size : float, default=4.8
        Width of a panel in inches; its height is 0.85 of that.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The figure.
    axes : list of matplotlib.axes.Axes
        Its panels, from left to right.

    Examples
    --------
    >>> from hotview.report.figures import new_figure
    >>> figure, axes = new_figure(2)
    >>> len(axes)
    2
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(n_panels * panel_size, 0.85 * panel_size), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, n_panels)))


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Save a figure atomically: it is written to a temporary file, then moved into place.

    The same figure gives the same bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or Path
        Path of the file; the suffix selects the format (png, svg, pdf).

    Returns
    -------
    Path
        The path.

    Examples
    --------
    >>> import tempfile
    >>> from hotview.report.figures import new_figure, save_figure
    >>> figure, _ = new_figure()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(figure, f"{folder}/empty.png").name
    'empty.png'
    """
    from matplotlib import rc_context

    path = check_output_path(path, _SUFFIXES)
    kind = path.suffix.lstrip(".").lower()
    with atomic_write(path) as draft, rc_context({"svg.hashsalt": _SALT}):
        figure.savefig(draft, format=kind, dpi=150, metadata=_METADATA[kind])
    return path


def plot_matrix(
    values: ArrayLike,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    ax: Axes | None = None,
    title: str = "",
    cmap: str = "Blues",
    digits: int = 3,
    std: ArrayLike | None = None,
    largest: float | None = None,
) -> Axes:
    """Draw a matrix as a heat map, with its values in the cells.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
        Values; NaN leaves a blank cell.
    row_names : sequence of str
        One name per row.
    column_names : sequence of str
        One name per column.
    ax : matplotlib.axes.Axes or None, default=None
        Axes to draw on; None makes new ones.
    title : str, default=""
        Title of the axes.
    cmap : str, default="Blues"
        Name of a colormap.
    digits : int, default=3
        Number of decimals.
    std : array-like of shape (rows, columns) or None, default=None
        Standard deviations, shown below the values.
    largest : float or None, default=None
        Upper end of the color scale; the largest value by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from hotview.report.figures import new_figure, plot_matrix
    >>> figure, (ax,) = new_figure()
    >>> plot_matrix([[0.5, 0.0], [0.0, 0.5]], ["a", "b"], ["a", "b"], ax=ax) is ax
    True
    """
    ax = new_axes() if ax is None else ax
    matrix = np.asarray(values, dtype=float)
    stds = None if std is None else np.asarray(std, dtype=float)
    top = float(np.nanmax(matrix)) if largest is None else largest
    image = ax.imshow(matrix, cmap=cmap, vmin=0, vmax=top)
    ax.set_xticks(range(len(column_names)), column_names)
    if max(map(len, column_names)) * len(column_names) > _MAX_CHARACTERS:
        for tick in ax.get_xticklabels():
            tick.set(rotation=35, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(row_names)), row_names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize="medium")
    for (i, j), x in np.ndenumerate(matrix):
        if not np.isnan(x):
            color = "white" if x > _DARK * top else "black"
            below = "" if stds is None else f"\n±{stds[i, j]:.{digits}f}"
            text = f"{x:.{digits}f}{below}"
            ax.text(j, i, text, ha="center", va="center", fontsize="small", color=color)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return ax


def draw_dots(ax: Axes, chart: DotChart) -> None:
    """Draw dots with their intervals, one below the other."""
    for i, dot in enumerate(chart.dots):
        color = ACCENT if dot.view is None else view_look(dot.view)[0]
        if chart.bars:
            ax.barh(i, dot.value, color=color, alpha=0.35, height=0.6)
        ax.plot([dot.low, dot.high], [i, i], color=SOFT, zorder=1)
        face = "white" if dot.is_hollow else color
        ax.plot(dot.value, i, "o", markerfacecolor=face, markeredgecolor=color, zorder=2)
        if not math.isnan(dot.second):
            ax.plot(dot.second, i, "D", markersize=4, color=SECOND, zorder=3)
    if chart.reference is not None:
        ax.axvline(chart.reference, color=SOFT, linestyle="--", linewidth=1)
    ax.set_yticks(range(len(chart.dots)), [dot.name for dot in chart.dots])
    ax.set_ylim(len(chart.dots) - 0.5, -0.5)
    ax.set_xlabel(chart.title)
    ax.spines[["top", "right"]].set_visible(False)


def view_look(view: int) -> tuple[str, str]:
    """Return color and marker of a view."""
    color, shape = view_style(view)
    return VIEW_COLORS[color][0], _MARKERS[shape]
