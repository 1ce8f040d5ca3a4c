"""Sheets of xlsx files, read by openpyxl."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from hotview._messages import ParameterError
from hotview.datasets.readers.arrow import ArrowTable
from hotview.datasets.readers.errors import did_you_mean, listed, reading
from hotview.datasets.readers.tables import as_text, header_error

__all__ = ["read_sheet"]

_KIND = "an xlsx file"


def read_sheet(
    path: Path,
    name: str = "",
    *,
    sheet: str | None = None,
    header: bool | None = None,
) -> ArrowTable:
    """Read a sheet whose first row holds the names of the columns.

    Parameters
    ----------
    path : Path
        The file.
    name : str, default=""
        Name of the file in options.
    sheet : str or None, default=None
        Name of the sheet; None for a file of one sheet.
    header : bool or None, default=None
        Whether the first row holds names; None refuses a first row of numbers.

    Returns
    -------
    ArrowTable
        Its rows. Formulas have the values that were stored with them.
    """
    import pyarrow as pa

    rows = _read_cells(path, name, sheet, values=True)
    if any(cell is None for row in rows for cell in row):
        _refuse_formulas(path, rows, _read_cells(path, name, sheet, values=False))
    names, rows = _name_columns(path, _trim(path, rows), header)
    columns = list(zip(*rows, strict=True))
    # A column without a name and without cells is only a gap between others.
    kept = [j for j, column in enumerate(columns) if names[j] or any(x is not None for x in column)]
    with reading(path, _KIND):
        arrays = [pa.array(_as_column(columns[j])) for j in kept]
    opened = ArrowTable(path, pa.table(arrays, names=[names[j] for j in kept]), name=name)
    opened.saved_index = [column for column in opened.names if not column]
    return opened


def _read_cells(path: Path, name: str, sheet: str | None, *, values: bool) -> list[list[Any]]:
    """Return the cells of a sheet."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ImportError(
            f'Reading {path} needs openpyxl. Run pip install "hotview[excel]", or save the sheet '
            "as csv."
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like, which are not read
        with reading(path, _KIND):
            book = load_workbook(path, read_only=True, data_only=values)
        try:
            chosen = _choose_sheet(path, name, sheet, book.sheetnames)
            with reading(path, _KIND):
                cells = book[chosen].iter_rows(values_only=True)
                return [[_clean(cell) for cell in row] for row in cells]
        finally:
            book.close()


def _clean(cell: Any) -> Any:
    return None if isinstance(cell, str) and not cell.strip() else cell


def _choose_sheet(path: Path, name: str, sheet: str | None, sheets: list[str]) -> str:
    if sheet is None and len(sheets) == 1:
        return sheets[0]
    if sheet is None:
        raise ParameterError(
            f"{path} has {len(sheets)} sheets: {listed(sheets)}. ",
            "Choose one: {sheet}.",
            sheet={name: sheets[0]},
        )
    if sheet not in sheets:
        raise ValueError(f"{path} has no sheet {sheet!r}.{did_you_mean(sheet, sheets)}")
    return sheet


def _refuse_formulas(path: Path, rows: list[list[Any]], formulas: list[list[Any]]) -> None:
    """Raise if a formula has no stored value: it would seem to be a missing one."""
    for i, (row, stored) in enumerate(zip(rows, formulas, strict=False)):
        for cell, formula in zip(row, stored, strict=False):
            if cell is None and formula is not None:
                text = getattr(formula, "text", formula)  # of an array formula
                raise ValueError(
                    f"{path}: the formula {text!r} in row {i + 1} has no stored value. Open the "
                    "file in a spreadsheet program and save it, which computes the values."
                )


def _trim(path: Path, rows: list[list[Any]]) -> list[list[Any]]:
    """Return the cells of a sheet without empty rows and columns at its end."""
    used = [i for i, row in enumerate(rows) if any(cell is not None for cell in row)]
    if not used or used[-1] == 0:
        raise ValueError(f"{path}: expected a sheet with a row of names and rows below.")
    rows = rows[: used[-1] + 1]
    width = max(j + 1 for row in rows for j, cell in enumerate(row) if cell is not None)
    return [[*row[:width], *[None] * (width - len(row))] for row in rows]


def _name_columns(
    path: Path, rows: list[list[Any]], header: bool | None
) -> tuple[list[str], list[list[Any]]]:
    """Return the names of columns, and the rows below."""
    if header is False:
        return [f"column_{j}" for j in range(len(rows[0]))], rows
    first = [cell for cell in rows[0] if cell is not None]
    if len(first) < min(2, len(rows[0])):
        found = f"it has the one cell {first[0]!r}" if first else "it is empty"
        raise ValueError(
            f"{path}: expected names of columns in the first row of the sheet, but {found}. Remove "
            "the rows above the names."
        )
    if header is None and all(isinstance(cell, int | float) for cell in first):
        raise header_error(path, "row", map(str, first))
    return ["" if cell is None else str(cell).strip() for cell in rows[0]], rows[1:]


def _as_column(cells: Sequence[Any]) -> list[Any]:
    """Return cells of one type: numbers, truth values or dates, or else text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    if len(kinds) <= 1 or kinds <= {date, datetime}:
        return list(cells)
    return [None if cell is None else as_text(cell) for cell in cells]
