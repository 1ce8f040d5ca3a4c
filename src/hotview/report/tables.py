"""Tables for the terminal, and numbers as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from rich.table import Table
from rich.text import Text

__all__ = ["ABSENT", "compact", "matrix_table", "number", "signed"]

#: Shown in place of a missing number.
ABSENT = "–"


def matrix_table(
    values: ArrayLike,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    title: str,
    digits: int = 3,
    highlight: str = "max",
) -> Table:
    """Make a table of a matrix with named rows and columns, each row's extreme in bold.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
        Values; NaN is shown as a dot.
    row_names : sequence of str
        One name per row.
    column_names : sequence of str
        One name per column.
    title : str
        Title of the table.
    digits : int, default=3
        Number of decimals.
    highlight : {"max", "min"}, default="max"
        Which entry of each row is in bold.

    Returns
    -------
    rich.table.Table
        Table for ``rich.print``.

    Examples
    --------
    >>> import rich
    >>> from hotview.report.tables import matrix_table
    >>> table = matrix_table([[0.5, 0.0]], ["pix"], ["view 1", "view 2"], title="W", digits=1)
    >>> table.row_count, [str(c.header) for c in table.columns]
    (1, ['', 'view 1', 'view 2'])
    """
    matrix = np.asarray(values, dtype=float)
    heading = Text(title, no_wrap=True, overflow="ignore")  # which may be wider than the table
    table = Table(title=heading, title_justify="left", title_style="bold")
    table.add_column("", style="cyan")
    for name in column_names:
        table.add_column(Text(name), justify="right", no_wrap=True, min_width=digits + 2)
    for name, row in zip(row_names, matrix, strict=True):
        best = np.nanmax(row) if highlight == "max" else np.nanmin(row)
        cells = [
            Text("·" if np.isnan(x) else f"{x:.{digits}f}", style="bold" if x == best else "")
            for x in row
        ]
        table.add_row(Text(name), *cells)
    return table


def number(x: float, digits: int = 1) -> str:
    """Format a number with a true minus sign, and without negative zeros.

    Parameters
    ----------
    x : float
        The number; NaN gives a dash.
    digits : int, default=1
        Number of decimals.

    Returns
    -------
    str
        The formatted number.

    Examples
    --------
    >>> from hotview.report.tables import number
    >>> number(-1.25, 2), number(-0.01), number(float("nan"))
    ('−1.25', '0.0', '–')
    """
    if np.isnan(x):
        return ABSENT
    text = f"{abs(x):.{digits}f}"
    return f"−{text}" if x < 0 and float(text) else text


def compact(x: float) -> str:
    """Format a number with at most three significant digits and a true minus sign.

    Parameters
    ----------
    x : float
        The number.

    Returns
    -------
    str
        The formatted number.

    Examples
    --------
    >>> from hotview.report.tables import compact
    >>> compact(-0.05), compact(20.0)
    ('−0.05', '20')
    """
    return f"{x:.3g}".replace("-", "−")


def signed(x: float, digits: int = 1) -> str:
    """Format a difference with its sign.

    Parameters
    ----------
    x : float
        The difference.
    digits : int, default=1
        Number of decimals.

    Returns
    -------
    str
        The formatted difference.

    Examples
    --------
    >>> from hotview.report.tables import signed
    >>> signed(0.25, 2), signed(-3.0), signed(-0.01)
    ('+0.25', '−3.0', '0.0')
    """
    text = number(x, digits)
    return f"+{text}" if x > 0 and float(text) else text
