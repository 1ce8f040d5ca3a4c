"""Figures for papers and pages. Every function draws on the `ax` it is given and returns it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hotview._files import check_output_path, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_picture_path", "new_figure", "plot_matrix", "save_figure"]

_SUFFIXES = (".pdf", ".png", ".svg")
#: What fits below a panel without the names touching each other.
_CHARACTERS_BELOW = 40
#: Share of the scale of the colors from which on a cell is dark.
_DARK = 0.6
#: The same figure gives the same bytes: no random ids, no date.
_SALT = "hotview"
_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def new_figure(n_panels: int = 1, *, panel_size: float = 4.8) -> tuple[Figure, list[Axes]]:
    """Make a figure with panels side by side, without touching pyplot's global state.

    Parameters
    ----------
    n_panels : int, default=1
        Number of panels.
    panel_size : float, default=4.8
        Width of a panel in inches; a little less is its height, for the colors' scale.

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


def plot_matrix(
    values: ArrayLike,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    ax: Axes,
    title: str = "",
    cmap: str = "Blues",
    digits: int = 3,
    spread: ArrayLike | None = None,
    largest: float | None = None,
) -> Axes:
    """Draw a matrix as a heat map, with its numbers in the cells.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
        Numbers to show; NaN leaves a blank cell.
    row_names : sequence of str
        One name per row.
    column_names : sequence of str
        One name per column.
    ax : matplotlib.axes.Axes
        Where to draw.
    title : str, default=""
        Heading of the panel.
    cmap : str, default="Blues"
        Name of a colormap.
    digits : int, default=3
        Decimals to show.
    spread : array-like of shape (rows, columns) or None, default=None
        Standard deviations, to show below the numbers.
    largest : float or None, default=None
        Where the scale of the colors ends; the largest of the values if it is not given.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

    Examples
    --------
    >>> from hotview.report.figures import new_figure, plot_matrix
    >>> figure, (ax,) = new_figure()
    >>> plot_matrix([[0.5, 0.0], [0.0, 0.5]], ["a", "b"], ["a", "b"], ax=ax) is ax
    True
    """
    matrix = np.asarray(values, dtype=float)
    spreads = None if spread is None else np.asarray(spread, dtype=float)
    top = float(np.nanmax(matrix)) if largest is None else largest
    image = ax.imshow(matrix, cmap=cmap, vmin=0, vmax=top)
    ax.set_xticks(range(len(column_names)), column_names, **_slant(column_names))
    ax.set_yticks(range(len(row_names)), row_names)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize="medium")
    for (i, j), x in np.ndenumerate(matrix):
        if not np.isnan(x):
            color = "white" if x > _DARK * top else "black"
            text = (
                f"{x:.{digits}f}" if spreads is None else _stacked(x, float(spreads[i, j]), digits)
            )
            ax.text(j, i, text, ha="center", va="center", fontsize="small", color=color)
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    return ax


def _slant(names: Sequence[str]) -> dict[str, Any]:
    """Long names stand aslant, so that they do not touch."""
    if max(map(len, names)) * len(names) <= _CHARACTERS_BELOW:
        return {}
    return {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}


def _stacked(x: float, std: float, digits: int) -> str:
    return f"{x:.{digits}f}\n±{std:.{digits}f}"


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Save a figure whole or not at all: it is drawn beside `path`, then moved into place.

    The same figure gives the same bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or Path
        Where to; the suffix chooses the format (png, svg, pdf).

    Returns
    -------
    Path
        Where it is.

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

    path = check_picture_path(path)
    kind = path.suffix.lstrip(".").lower()
    with whole_file(path) as draft, rc_context({"svg.hashsalt": _SALT}):
        figure.savefig(draft, format=kind, dpi=150, metadata=_UNDATED[kind])
    return path


def check_picture_path(path: str | Path) -> Path:
    """Refuse a path that no picture can be saved to.

    Parameters
    ----------
    path : str or Path
        Where a picture is to go.

    Returns
    -------
    Path
        The same.

    Examples
    --------
    >>> from hotview.report.figures import check_picture_path
    >>> check_picture_path("plan.txt")
    Traceback (most recent call last):
    ValueError: plan.txt must end in .pdf, .png or .svg, got '.txt'.
    """
    return check_output_path(path, _SUFFIXES)
