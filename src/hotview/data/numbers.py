"""Numbers as people write them: separators, units, detection limits, marks of missing values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np

from hotview._messages import Parameter, ParameterError, listed
from hotview._types import Array
from hotview.data.options import Options
from hotview.data.table_file import TableFile

#: Cells of a column of numbers or dates that mean "missing", besides empty cells, NA and the like.
MARKS = frozenset(("-", "--", "---", "–", "—", ".", "..", "?", "n.a.", "N.A."))

_CELL = re.compile(
    r"(?P<limit>[<>]=?|[≤≥])?\s*(?P<sign>[-+−]?)\s*(?P<currency>[$€£¥]?)\s*"
    r"(?P<digits>\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d+(?:[.,'’]\d+)*[.,]?|[.,]\d+)"
    r"(?P<exponent>[eE][-+]?\d+)?(?P<gap>\s*)(?P<unit>.*)",
    re.DOTALL,
)
#: A unit is separated by a space, or is one of these, or has a slash.
_UNIT = re.compile(
    r"(?:[x×*]\s*)?10\^?[\d⁰¹²³⁴⁵⁶⁷⁸⁹]+\s*/\s*\S+|[^\W\d_][^,;]{0,19}|[%‰°µμ/][^\d,;][^,;]{0,18}|[%‰]"
)
_CLOSE_UNIT = re.compile(
    r"[%‰°].*|.*/.*|[kcdmµμunp]?(g|l|L|m|mol|s|Hz|Pa|eq|Eq|IU|osm|OSM)|mmHg|[kK]cal|bpm|min|h|d|"
    r"(hour|day|week|month|year|yr)s?"
)
#: Behind a number, these belong to a date.
_DATE_WORD = re.compile(
    r"\d{4}|\b(jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-zé]*\.?$",
    re.IGNORECASE,
)
_DECIMALS = (".", ",")
_THOUSANDS = (None, ",", ".", "'", " ")
_SPELLINGS = str.maketrans({"\u00a0": " ", "\u202f": " ", "’": "'", "−": "-", "μ": "µ"})
_MIN_GROUPED = 10  # cells "142,741" beside cells "850" that show a separator of thousands
_MAX_UNITS = 5  # of a column whose units are to be made one
_MAX_TEXT_FRACTION = 0.2  # of the cells of a column of numbers


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    Parameters
    ----------
    decimal : str, default="."
        Decimal point.
    thousands : str or None, default=None
        Separator of thousands; a space stands for all spaces, an apostrophe for both of its forms.
    unit : str, default=""
        Unit or currency beside every number.

    Examples
    --------
    >>> NumberFormat(",", ".", "€").parse(["1.050,5 €", "<5 €", "-"])
    array([1050.5, 5. , nan])
    """

    decimal: str = "."
    thousands: str | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        known = self.decimal in _DECIMALS and self.thousands in _THOUSANDS
        if not (known and isinstance(self.unit, str) and self.decimal != self.thousands):
            raise ValueError(f"Expected a format of numbers, but got {self}.")

    def parse(self, cells: Sequence[str | None]) -> Array:
        """Return the numbers of cells, NaN where one is missing; a ValueError names a bad cell.

        A detection limit such as "<5" is read as the limit.
        """
        values = {cell: self._parse_cell(cell) for cell in dict.fromkeys(cells)}
        return np.array([values[cell] for cell in cells], dtype=np.float64)

    def _parse_cell(self, cell: str | None) -> float:
        if cell is None or cell in MARKS:
            return np.nan
        parts = _split(cell)
        value = None if parts is None else self.read(parts)
        if parts is None or value is None or parts.unit != self.unit:
            raise ValueError(cell)
        return value

    def read(self, parts: _Parts) -> float | None:
        """Return a number without its unit; None if it is not written in this format."""
        digits, decimal = parts.digits, re.escape(self.decimal)
        whole = r"\d+"
        if self.thousands is not None:
            whole += rf"|[1-9]\d{{0,2}}(?:{re.escape(self.thousands)}\d{{3}})+"
        if not re.fullmatch(rf"(?:{whole})(?:{decimal}\d*)?|{decimal}\d+", digits):
            return None
        plain = digits.replace(self.thousands or "\0", "").replace(self.decimal, ".")
        return float(f"{parts.sign}{plain}{parts.exponent}")

    @property
    def kind(self) -> str:
        """What a column of this format holds."""
        return f"numbers with the unit {self.unit!r}" if self.unit else "numbers"

    def fits(self, options: Options) -> bool:
        """Whether the format does not contradict what the user says of a file."""
        return options.decimal in (None, self.decimal) and self.decimal != options.thousands

    def recognize_again(self, column: TextColumn) -> NumberFormat | None:
        """Find how a column of another file is written, in this format if it can be."""
        try:
            # Nothing in one file speaks for either decimal point.
            return recognize_numbers(column, lambda: {".", ","})
        except TwoReadingsError as error:
            same = [f for f in error.formats if replace(f, unit=self.unit) == self]
            if not same:
                raise
            return same[0]

    def describe(self, cells: Sequence[str | None]) -> str:
        """Return how the numbers of a column are read, with counts and examples of its cells."""
        counts = Counter(cell for cell in cells if cell is not None)
        found: dict[str, list[str]] = {"thousands": [], "decimal": [], "limit": [], "mark": []}
        for cell in counts:
            parts = None if cell in MARKS else _split(cell)
            if parts is None:
                found["mark"].append(cell)
                continue
            if parts.limit:
                found["limit"].append(cell)
            if self.thousands is not None and self.thousands in parts.digits:
                found["thousands"].append(cell)
            if self.decimal != "." and self.decimal in parts.digits:
                found["decimal"].append(cell)
        texts = []
        for kind, text in (("thousands", "thousands separated by"), ("decimal", "decimal point")):
            if cells_of_kind := found[kind]:
                example, mark = cells_of_kind[0], getattr(self, kind)
                shown = example.translate(_SPELLINGS)
                texts.append(f"{text} {mark!r} ({shown!r} is {self._parse_cell(example):.10g})")
        if self.unit:
            texts.append(f"unit {self.unit!r}")
        for kind, text in (("limit", "read as the limit"), ("mark", "missing")):
            if cells_of_kind := found[kind]:
                n = sum(counts[cell] for cell in cells_of_kind)
                texts.append(f"{listed(cells_of_kind[:3])} {text} ({count_cells(n)})")
        return ", ".join(texts)


@dataclass(frozen=True)
class _Parts:
    """A cell, taken apart: limit, sign, digits with separators, exponent, and unit."""

    limit: str
    sign: str
    digits: str
    exponent: str
    unit: str


def _split(cell: str) -> _Parts | None:
    """Take a cell apart; None if it is not a number, perhaps with a unit."""
    match = _CELL.fullmatch(cell.translate(_SPELLINGS))
    if match is None:
        return None
    currency, unit, gap = match["currency"], match["unit"].strip(), match["gap"]
    if unit and not _UNIT.fullmatch(unit) and unit not in "$€£¥":
        return None
    if _DATE_WORD.search(unit):
        return None
    if unit and not gap and unit not in "$€£¥" and not _CLOSE_UNIT.fullmatch(unit):
        return None
    sign, exponent = match["sign"].replace("+", ""), match["exponent"] or ""
    return _Parts(match["limit"] or "", sign, match["digits"], exponent, currency + unit)


def count_cells(n: int) -> str:
    """Return a number of cells in words.

    Examples
    --------
    >>> count_cells(1), count_cells(1200)
    ('1 cell', '1,200 cells')
    """
    return f"{n:,} cell{'' if n == 1 else 's'}"


@dataclass(frozen=True)
class TextColumn:
    """A column of text, in which numbers or dates are recognized.

    Parameters
    ----------
    table : TableFile
        Its table, with what the user says about it.
    name : str
        Its name.
    cells : sequence of (str or None)
        Its cells.
    """

    table: TableFile
    name: str
    cells: Sequence[str | None]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often a cell occurs that is not missing and no mark of a missing one."""
        return Counter(cell for cell in self.cells if cell is not None and cell not in MARKS)

    @cached_property
    def numbers(self) -> dict[str, _Parts]:
        """Different cells that are numbers, perhaps with a unit, taken apart."""
        return {cell: parts for cell in self.counts if (parts := _split(cell)) is not None}

    @cached_property
    def grouped(self) -> list[str]:
        """Different cells with one comma or point that may separate thousands."""
        parts = self.numbers.items()
        return [cell for cell, p in parts if re.fullmatch(r"\d{1,3}[.,]\d{3}", p.digits)]

    @property
    def is_grouped(self) -> bool:
        """Whether many cells have groups of three digits and all others are below 1,000.

        Numbers with three decimals would all have a separator, or some fewer decimals.
        """
        n_grouped = sum(self.counts[cell] for cell in self.grouped)
        others = [p.digits for p in self.numbers.values() if p.digits.isdigit()]
        return n_grouped >= _MIN_GROUPED and bool(others) and all(len(x) <= 3 for x in others)

    def error(self, problem: str, remedy: str) -> ParameterError:
        """Return an error with the ways out that there always are."""
        return ParameterError(
            f"{self.table.path}: {problem}. ",
            f"{remedy}, leave the column out: {{drop}}, or treat it as categorical: "
            "{categorical}.",
            drop=[self.name],
            categorical=[self.name],
        )


def name_missing(word: str, file: str) -> list[str] | dict[str, list[str]]:
    """Return the option for a cell that means "missing"; its file is named if it has a "=".

    Examples
    --------
    >>> name_missing("unknown", "lab"), name_missing("a=b", "lab")
    (['unknown'], {'lab': ['a=b']})
    """
    return {file: [word]} if "=" in word else [word]


def recognize_numbers(
    column: TextColumn, other_decimals: Callable[[], set[str]]
) -> NumberFormat | None:
    """Find how the numbers of a column of text are written.

    Parameters
    ----------
    column : TextColumn
        The column.
    other_decimals : callable
        Returns the decimal points that other columns of the file show.

    Returns
    -------
    NumberFormat or None
        None for a column that does not hold numbers. A column that can be read in two ways, or has
        several units, or few cells that are no numbers, raises an error.
    """
    counts, numbers = column.counts, column.numbers
    n_known, n_numbers = counts.total(), sum(counts[cell] for cell in numbers)
    n_limits = sum(counts[cell] for cell, part in numbers.items() if part.limit)
    if n_limits == n_numbers or n_known - n_numbers >= _MAX_TEXT_FRACTION * n_known:
        return None
    if 2 * n_limits > n_numbers:
        raise column.error(
            f"column {column.name!r} holds numbers, but {n_limits:,} of {n_numbers:,} are "
            "detection limits such as '<5', too many to read them as the limit",
            "Replace them by numbers",
        )
    if n_numbers < n_known:
        raise _words_error(column)
    units: Counter[str] = Counter()
    for cell, part in numbers.items():
        units[part.unit] += counts[cell]
    if len(units) > _MAX_UNITS:  # addresses, say
        return None
    if len(units) > 1:
        found = ", ".join(f"{u!r}: {n:,}" if u else f"none: {n:,}" for u, n in units.items())
        raise column.error(
            f"expected one unit for all numbers of column {column.name!r}, but there are several "
            f"(cells by unit: {found})",
            "Convert them to one unit",
        )
    formats = [replace(f, unit=next(iter(units))) for f in _find_formats(column)]
    if not formats:
        raise column.error(
            f"column {column.name!r} seems to hold numbers, such as {max(numbers, key=len)!r}, but "
            "no decimal point and separator of thousands fit all of them",
            "Correct them",
        )
    if len(formats) == 1:
        return formats[0]
    others = other_decimals()
    fitting = [f for f in formats if others == {f.decimal}]
    if len(fitting) == 1:
        return fitting[0]
    fitting = [f for f in formats if f.thousands is not None]
    if len(fitting) == 1 and column.is_grouped:
        return fitting[0]
    if others <= {"."} and not any("," in part.digits for part in numbers.values()):
        for format in formats:
            if format.decimal == "." and format.thousands is None:
                return format
    raise _two_readings(column, formats)


def refuse_groups(column: TextColumn) -> None:
    """Raise for a column such as 1.050, 12.500, 850, whose points seem to separate thousands."""
    if len(column.numbers) == len(column.counts) and column.is_grouped:
        raise _two_readings(column, [NumberFormat(), NumberFormat(",", ".")])


def _words_error(column: TextColumn) -> ParameterError:
    """Return the error for a few cells that are no numbers: these are mistakes, or "missing"."""
    known = [(row, cell) for row, cell in enumerate(column.cells, start=1) if cell is not None]
    words = [(row, cell) for row, cell in known if cell not in MARKS and cell not in column.numbers]
    row, word = words[0]
    return ParameterError(
        f"{column.table.path}: column {column.name!r} holds numbers but for {len(words)} of "
        f"{len(known)} cells, the first being {word!r} in row {row}. Correct them (an empty cell "
        "is a missing value), ",
        "or, if it means that the value is missing: {missing}; or treat the column as categorical: "
        "{categorical}.",
        missing=name_missing(word, column.table.name),
        categorical=[column.name],
    )


def _find_formats(column: TextColumn) -> list[NumberFormat]:
    """Return the formats that fit all numbers and differ in what they read."""
    numbers, options = column.numbers.values(), column.table.options
    found: dict[tuple[float | None, ...], NumberFormat] = {}
    marks = set("".join(part.digits for part in numbers))
    separator = (options.thousands or "").translate(_SPELLINGS)
    for decimal, thousands in product(_DECIMALS, _THOUSANDS):
        is_given = options.decimal in (None, decimal) and decimal != separator
        is_given &= thousands is None or separator in ("", thousands)
        if not is_given or decimal == thousands or (thousands and thousands not in marks):
            continue
        candidate = NumberFormat(decimal, thousands)
        values = tuple(candidate.read(part) for part in numbers)
        if None not in values:
            found.setdefault(values, candidate)
    return list(found.values())


def sole_decimal(column: TextColumn) -> str | None:
    """Return the decimal point that cells of numbers show; None if they show none beyond doubt."""
    formats = _find_formats(column)
    if len(formats) != 1:
        return None
    decimal = formats[0].decimal
    return decimal if any(decimal in part.digits for part in column.numbers.values()) else None


class TwoReadingsError(ParameterError):
    """Error about numbers or dates that can be read in two ways, with the formats of numbers."""

    formats: Sequence[NumberFormat] = ()


def _two_readings(column: TextColumn, formats: Sequence[NumberFormat]) -> TwoReadingsError:
    """Return the error for numbers that can be read in two ways, with the option for each."""
    cell, file = column.grouped[0], column.table.name
    plain, grouped = sorted(formats, key=lambda f: f.thousands is not None)
    other = Parameter("thousands", {file: grouped.thousands})
    if plain.thousands is not None:  # in a column of "1,000" and "1.000"
        other = Parameter("decimal", {file: grouped.decimal})
    error = TwoReadingsError(
        f"{column.table.path}: the numbers of column {column.name!r} can be read in two ways, such "
        f"as {cell!r}. ",
        f"Pass {{decimal}} if it is {plain.read(column.numbers[cell]):.10g}, or {{other}} if it is "
        f"{grouped.read(column.numbers[cell]):.10g}.",
        decimal={file: plain.decimal},
        other=other,
    )
    error.formats = formats
    return error
