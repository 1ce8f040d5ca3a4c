"""Plot a score against a parameter, beside a control that does not depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_curve"]

_LINE, _BAND, _MARK = "#1f5fa8", "#9a9a9a", "#c2410c"


def plot_curve(
    values: Sequence[str],
    scores: Sequence[ArrayLike],
    *,
    ax: Axes,
    label: str = "",
    control: tuple[str, ArrayLike] | None = None,
    marked: tuple[str, str] | None = None,
    title: str = "",
) -> Axes:
    """Draw mean ± standard deviation of scores at each value of a parameter.

    Parameters
    ----------
    values : sequence of str
        Values of the parameter, in order; they are spaced evenly.
    scores : sequence of array-like
        Scores of the trials at each value; NaN are left out.
    ax : matplotlib.axes.Axes
        Where to draw.
    label : str, default=""
        Name of the curve.
    control : tuple of str and array-like, optional
        Name and scores of a control: a line at its mean, in a band of its standard deviation.
    marked : tuple of str and str, optional
        What a mark means, and the value to mark, if it is there.
    title : str, default=""
        Name of the parameter.

    Returns
    -------
    matplotlib.axes.Axes
        The `ax` given.

    Examples
    --------
    >>> from paper.report.curves import plot_curve
    >>> from hotview.report.figures import new_figure
    >>> figure, (ax,) = new_figure()
    >>> plot_curve(["1", "3"], [[0.8, 0.9], [0.9, 0.9]], ax=ax, marked=("usual", "3")) is ax
    True
    """
    if control:
        _draw_band(ax, *control)
    if marked:
        _draw_mark(ax, values, *marked)
    means, stds = np.array([_mean_and_std(s) for s in scores]).T
    ax.errorbar(
        range(len(values)), means, stds, color=_LINE, marker="o", markersize=4.5, capsize=3,
        linewidth=1.4, elinewidth=1, zorder=3, label=label or None,
    )  # fmt: skip
    ax.set_xticks(range(len(values)), values)
    ax.set_xlim(-0.5, len(values) - 0.5)
    ax.set_title(title, fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _draw_band(ax: Axes, name: str, scores: ArrayLike) -> None:
    mean, std = _mean_and_std(scores)
    ax.axhspan(mean - std, mean + std, color=_BAND, alpha=0.2, linewidth=0)
    ax.axhline(mean, color=_BAND, linestyle="--", linewidth=1.2, label=name)


def _draw_mark(ax: Axes, values: Sequence[str], name: str, value: str) -> None:
    if value in values:
        at = values.index(value)
        ax.axvline(at, color=_MARK, linestyle=":", linewidth=1.2, zorder=0.5, label=name)


def _mean_and_std(scores: ArrayLike) -> tuple[float, float]:
    x: NDArray[np.float64] = np.asarray(scores, dtype=float)
    x = x[~np.isnan(x)]
    return float(x.mean()), float(x.std(ddof=1)) if x.size > 1 else 0.0
