"""Dates in columns of text, read as days since the first one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import numpy as np

from hotview._messages import Parameter, ParameterError
from hotview._types import Array
from hotview.data.numbers import MARKS, TextColumn, TwoReadingsError, count_cells, name_missing
from hotview.data.options import DATE_ORDERS, Options

_TIME = (
    r"(?:(?:T|,?\s+)(?P<h>\d{1,2}):(?P<min>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d{1,9}))?)?"
    r"(?:\s?(?P<half>[AP])\.?M\.?)?)?"
)
_ZONE = r"\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_YEAR_FIRST = re.compile(
    rf"(?P<y>\d{{4}})[-/.](?P<a>\d{{1,2}})[-/.](?P<b>\d{{1,2}}){_TIME}{_ZONE}", re.IGNORECASE
)
_YEAR_LAST = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<mark>[-/.])(?P<b>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}){_TIME}{_ZONE}",
    re.IGNORECASE,
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_ENDINGS = ["uary", "ruary", "ch", "il", "", "e", "y", "ust", "t|tember", "ober", "ember", "ember"]
_NAMES = "|".join(f"{m}(?:{end})?" for m, end in zip(_MONTHS, _ENDINGS, strict=True))
_NAMED = re.compile(
    rf"(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?[-\s.]+)?(?P<name>{_NAMES})\.?"
    rf"(?:[-\s]+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?)?[-\s,]+(?P<y>\d{{4}}){_TIME}{_ZONE}",
    re.IGNORECASE,
)
_SHORT_YEAR = re.compile(
    rf"\d{{1,2}}([-/.\s])(?:\d{{1,2}}|{_NAMES})\1\d\d(?:[T,\s]+\d.*)?", re.IGNORECASE
)
_LIKE_DATE = re.compile(
    r"(?:.*\D)?(?:\d{1,2}\D{1,12}(?:19|20)\d\d|(?:19|20)\d\d[-/. ]\d{1,2})(?:\D.*)?", re.DOTALL
)
_MAX_TEXT_FRACTION = 0.2  # of the cells of a column of dates


@dataclass(frozen=True)
class DateFormat:
    """How the dates of a column are written and counted.

    Parameters
    ----------
    origin : str
        The day from which days are counted, as ``"2024-01-31"``.
    order : {"day-first", "month-first"} or None, default=None
        Order of day and month; None where all dates say it themselves.

    Examples
    --------
    >>> DateFormat("2024-01-31").parse(["2024-02-01", "2024-02-01 12:00", None])
    array([1. , 1.5, nan])
    """

    origin: str
    order: str | None = None

    def __post_init__(self) -> None:
        datetime.fromisoformat(self.origin)
        if self.order not in (None, *DATE_ORDERS):
            raise ValueError(f"Expected the order of dates to be known, but it is {self.order!r}.")

    def parse(self, cells: Sequence[str | None]) -> Array:
        """Return days since the origin, NaN for a missing cell; a ValueError names a bad cell."""
        start = datetime.fromisoformat(self.origin).replace(tzinfo=UTC)
        days = {
            cell: np.nan
            if cell is None or cell in MARKS
            else (_read_date(cell, self.order) - start) / timedelta(days=1)
            for cell in dict.fromkeys(cells)
        }
        return np.array([days[cell] for cell in cells], dtype=np.float64)

    kind: ClassVar[str] = "dates"

    def fits(self, options: Options) -> bool:
        """Whether the format does not contradict what the user says of a file."""
        return None in (options.dates, self.order) or options.dates == self.order

    def recognize_again(self, column: TextColumn) -> DateFormat | None:
        """Find how a column of another file is written, counted from the same day."""
        found = recognize_dates(column)
        return None if found is None else replace(found, origin=self.origin)

    def describe(self, cells: Sequence[str | None]) -> str:
        """Return how the dates of a column are read."""
        n_marks = sum(cell in MARKS for cell in cells)
        text = f"dates, read as days since {self.origin}"
        text += "" if self.order is None else f" ({self.order.replace('-', ' ')})"
        return text + (f", {count_cells(n_marks)} missing" if n_marks else "")


def recognize_dates(column: TextColumn) -> DateFormat | None:
    """Find how the dates of a column of text are written.

    Parameters
    ----------
    column : TextColumn
        The column.

    Returns
    -------
    DateFormat or None
        None for a column that does not hold dates. Dates that can be read in two ways, have years
        of two digits or do not exist raise an error, as do few cells that are no dates.
    """
    counts, file = column.counts, column.table.name
    dates = [cell for cell in counts if _match(cell)]
    short = [cell for cell in counts if _SHORT_YEAR.fullmatch(cell)]
    n_known, n_dates = counts.total(), sum(counts[cell] for cell in (*dates, *short))
    if n_dates == 0 or n_known - n_dates >= _MAX_TEXT_FRACTION * n_known:
        return None
    if short:
        text = f"dates with years of two digits, such as {short[0]!r}"
        raise _error(column, text, "Write four")
    if n_dates < n_known:
        word = next(cell for cell in counts if not _match(cell))
        text = f"dates but for {count_cells(n_known - n_dates)}, such as {word!r}"
        raise _error(column, text, "Correct them", name_missing(word, file))
    order = column.table.options.dates or _find_order(column, dates)
    for cell in dates:
        try:
            _read_date(cell, order)
        except ValueError:
            text = f"the date {cell!r}, which does not exist"
            text += f" if dates are {order.replace('-', ' ')}" if order else ""
            raise _error(column, text, "Correct it", [cell]) from None
    first = min(_read_date(cell, order) for cell in dates)
    ambiguous = any(_is_ambiguous(cell) for cell in dates)
    return DateFormat(first.date().isoformat(), order if ambiguous else None)


def resembles_dates(cells: Sequence[str]) -> bool:
    """Whether most cells have a year beside other numbers, in whatever spelling.

    Examples
    --------
    >>> resembles_dates(["3. März 2024", "01/2024"]), resembles_dates(["P-2024", "main street 7"])
    (True, False)
    """
    return 2 * sum(_LIKE_DATE.fullmatch(cell) is not None for cell in cells) > len(cells)


def _error(column: TextColumn, what: str, remedy: str, missing: Any = None) -> Exception:
    may_miss = "" if missing is None else ", or, if it means that the date is missing: {missing}"
    return ParameterError(
        f"{column.table.path}: column {column.name!r} holds {what}. ",
        f"{remedy}{may_miss}, or leave the column out: {{drop}}.",
        missing=missing,
        drop=[column.name],
    )


def _match(cell: str) -> re.Match[str] | None:
    for pattern in (_YEAR_FIRST, _YEAR_LAST, _NAMED):
        match = pattern.fullmatch(cell)
        if match and (pattern is not _NAMED or bool(match["d1"]) != bool(match["d2"])):
            return match
    return None


def _is_ambiguous(cell: str) -> bool:
    """Whether the order of day and month is a matter of convention; points say day first."""
    match = _YEAR_LAST.fullmatch(cell)
    return match is not None and match["mark"] != "."


def _find_order(column: TextColumn, dates: Iterable[str]) -> str | None:
    """Return the order that the dates of a column show; raise if they show none."""
    cells = [cell for cell in dates if _is_ambiguous(cell)]
    pairs = [(int(m["a"]), int(m["b"])) for c in cells if (m := _YEAR_LAST.fullmatch(c))]
    shown = (any(a > 12 for a, _ in pairs), any(b > 12 for _, b in pairs))
    orders = [order for order, is_shown in zip(DATE_ORDERS, shown, strict=True) if is_shown]
    if not cells or len(orders) == 1:
        return orders[0] if orders else None
    found = "some have the day first and some the month" if orders else "day or month may be first"
    raise TwoReadingsError(
        f"{column.table.path}: the dates of column {column.name!r}, such as {cells[0]!r}, can be "
        f"read in two ways: {found}. ",
        "Write them as 2024-01-31, leave the column out: {drop}"
        + ("." if orders else ", or pass {day_first} or {month_first}."),
        drop=[column.name],
        day_first=Parameter("dates", {column.table.name: DATE_ORDERS[0]}),
        month_first=Parameter("dates", {column.table.name: DATE_ORDERS[1]}),
    )


def _read_date(cell: str, order: str | None) -> datetime:
    """Return a date in UTC; a ValueError if it does not exist."""
    match = _match(cell)
    if match is None:
        raise ValueError(cell)
    parts = match.groupdict()
    if "name" in parts:
        month = _MONTHS.index(parts["name"][:3].lower()) + 1
        day = int(parts["d1"] or parts["d2"])
    elif match.re is _YEAR_FIRST:
        month, day = int(parts["a"]), int(parts["b"])
    else:
        day, month = int(parts["a"]), int(parts["b"])
        if parts["mark"] != "." and order is None:
            raise ValueError(cell)
        if parts["mark"] != "." and order == "month-first":
            day, month = month, day
    hour, minute, second = (int(parts[name] or 0) for name in ("h", "min", "s"))
    if parts["half"] is not None:
        if not 1 <= hour <= 12:
            raise ValueError(cell)
        hour = hour % 12 + 12 * (parts["half"] in "pP")
    fraction = int((parts["f"] or "0").ljust(6, "0")[:6])
    zone, text = UTC, parts["zone"]
    try:
        if text not in (None, "Z"):
            offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
            zone = timezone(-offset if text[0] == "-" else offset)
        return datetime(int(parts["y"]), month, day, hour, minute, second, fraction, tzinfo=zone)
    except ValueError:
        raise ValueError(cell) from None
