"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from rich.table import Table
from rich.text import Text

__all__ = ["matrix_table"]


def matrix_table(
    values: ArrayLike,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    title: str,
    digits: int = 3,
    highlight: str = "max",
) -> Table:
    """Lay out a matrix with names on both sides, each row's extreme in bold.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
        Numbers to show; NaN is shown as a dot.
    row_names : sequence of str
        One name per row.
    column_names : sequence of str
        One name per column.
    title : str
        Heading of the table.
    digits : int, default=3
        Decimals to show.
    highlight : {"max", "min"}, default="max"
        Which entry of each row stands out.

    Returns
    -------
    rich.table.Table
        For ``rich.print``.

    Examples
    --------
    >>> import rich
    >>> from hotview.report.tables import matrix_table
    >>> table = matrix_table([[0.5, 0.0]], ["pix"], ["G_0", "G_1"], title="W", digits=1)
    >>> table.row_count, [str(c.header) for c in table.columns]
    (1, ['', 'G_0', 'G_1'])
    """
    matrix = np.asarray(values, dtype=float)
    table = Table(title=Text(title), title_justify="left", title_style="bold")
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
