"""Sheets of xlsx files, read by openpyxl."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from hotview._messages import ParameterError
from hotview.datasets.readers.arrow import ArrowTable
from hotview.datasets.readers.errors import did_you_mean, listed, reading

__all__ = ["read_sheet"]

_KIND = "an xlsx file"


def read_sheet(
    path: Path, name: str = "", *, sheet: str | None = None, missing: Sequence[str] = ()
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
    missing : sequence of str, default=()
        Cells that mean "missing", besides the usual ones.

    Returns
    -------
    ArrowTable
        Its rows. Formulas have the values that were stored with them.
    """
    rows = _read_cells(path, name, sheet, values=True)
    if any(cell is None for row in rows[1:] for cell in row):
        _refuse_formulas(path, rows, _read_cells(path, name, sheet, values=False))
    names, columns = _name_columns(path, rows), list(zip(*rows[1:], strict=True))
    table = {n: _as_column(cells) for n, cells in zip(names, columns, strict=True)}
    return ArrowTable(path, _make_table(path, names, table), name=name, missing=missing)


def _read_cells(path: Path, name: str, sheet: str | None, *, values: bool) -> list[list[Any]]:
    """Return the cells of a sheet without empty rows and columns at its end."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ImportError(
            f'Reading {path} needs openpyxl. Run pip install "hotview[excel]", or save the sheet '
            "as csv."
        ) from error
    with reading(path, _KIND):
        book = load_workbook(path, read_only=True, data_only=values)
    try:
        chosen = _choose_sheet(path, name, sheet, book.sheetnames)
        with reading(path, _KIND):
            rows = [
                [_clean(cell) for cell in row] for row in book[chosen].iter_rows(values_only=True)
            ]
    finally:
        book.close()
    while rows and not any(cell is not None for cell in rows[-1]):
        rows.pop()
    width = max(
        (j + 1 for row in rows for j, cell in enumerate(row) if cell is not None), default=0
    )
    if len(rows) < 2:
        raise ValueError(
            f"{path}: expected sheet {chosen!r} to have a row of names and rows below."
        )
    return [[*row[:width], *[None] * (width - len(row))] for row in rows]


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
            if cell is None and isinstance(formula, str) and formula.startswith("="):
                raise ValueError(
                    f"{path}: the formula {formula!r} in row {i + 1} has no stored value. Open the "
                    "file in a spreadsheet program and save it, which computes the values."
                )


def _name_columns(path: Path, rows: list[list[Any]]) -> list[str]:
    """Return the names of columns in the first row."""
    if len(rows[0]) > 1 and sum(cell is not None for cell in rows[0]) == 1:
        raise ValueError(
            f"{path}: expected names of columns in the first row of the sheet, but it has the one "
            f"cell {rows[0][0]!r}. Remove the rows above the names."
        )
    return ["" if cell is None else str(cell).strip() for cell in rows[0]]


def _make_table(path: Path, names: list[str], columns: dict[str, list[Any]]) -> Any:
    import pyarrow as pa

    from hotview.datasets.readers.tables import refuse_duplicates

    refuse_duplicates(path, names)
    with reading(path, _KIND):
        return pa.table(columns)


def _as_column(cells: Sequence[Any]) -> list[Any]:
    """Return cells of one type: numbers, truth values or dates, or else text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    if len(kinds) == 1 or kinds <= {date, datetime}:
        return list(cells)
    return [None if cell is None else _as_text(cell) for cell in cells]


def _as_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
