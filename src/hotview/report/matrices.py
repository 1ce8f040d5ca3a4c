"""A matrix as a heat map, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_matrix"]

#: What fits below a panel without the names touching each other.
_CHARACTERS_BELOW = 40
#: Proportion of the scale of the colors from which on a cell is dark.
_DARK = 0.6


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
