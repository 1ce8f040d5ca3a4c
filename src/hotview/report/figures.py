"""Figures for papers, pages and notebooks: each function draws a model, or its record.

Functions draw on `ax`, or on new axes of pyplot, and return them; those that need rows take them
beside the model: ``plot_plan(model)``, ``plot_confusion(model, Xs, y)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hotview._files import atomic_write, check_output_path
from hotview.report.score_figures import (
    plot_calibration,
    plot_column_importance,
    plot_confusion,
    plot_importance,
    plot_number_of_views,
)
from hotview.report.view_figures import (
    plot_graph,
    plot_learning,
    plot_matrix,
    plot_plan,
    plot_similarity,
    plot_space,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "check_picture_path",
    "new_figure",
    "plot_calibration",
    "plot_column_importance",
    "plot_confusion",
    "plot_graph",
    "plot_importance",
    "plot_learning",
    "plot_matrix",
    "plot_number_of_views",
    "plot_plan",
    "plot_similarity",
    "plot_space",
    "save_figure",
]

_SUFFIXES = (".pdf", ".png", ".svg")
#: Without random ids and dates the same figure gives the same bytes.
_SALT = "hotview"
_METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


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

    path = check_picture_path(path)
    kind = path.suffix.lstrip(".").lower()
    with atomic_write(path) as draft, rc_context({"svg.hashsalt": _SALT}):
        figure.savefig(draft, format=kind, dpi=150, metadata=_METADATA[kind])
    return path


def check_picture_path(path: str | Path) -> Path:
    """Check that a figure can be saved to a path.

    Parameters
    ----------
    path : str or Path
        Path of the figure.

    Returns
    -------
    Path
        The same path.

    Examples
    --------
    >>> from hotview.report.figures import check_picture_path
    >>> check_picture_path("plan.txt")
    Traceback (most recent call last):
    ValueError: plan.txt must end in .pdf, .png or .svg, got '.txt'.
    """
    return check_output_path(path, _SUFFIXES)
