"""Dates as people write them: days since the first one, or a refusal."""

import json
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotview.data.arrow import ArrowTable
from hotview.data.dates import DateFormat, recognize_dates
from hotview.data.numbers import TextColumn
from hotview.data.options import Options

NAN = np.nan
DAY = timedelta(days=1)


def recognize(cells, order=None):
    table = ArrowTable("lab.csv", pa.table({}), "lab", Options(dates=order))
    return recognize_dates(TextColumn(table, "seen", cells))


def read(cells, order=None):
    return recognize(cells, order).parse(cells).tolist()


# All of these are 31 January and 1 March 2024.
WRITTEN = {
    "ISO": ["2024-01-31", "2024-03-01"],
    "slashes": ["2024/1/31", "2024/3/1"],
    "with zone": ["2024-01-31T00:00:00Z", "2024-03-01 02:00+02:00"],
    "zone without colon": ["2024-01-31 00:00:00+0000", "2024-02-29 19:00:00-0500"],
    "Germany": ["31.01.2024", "1.3.2024"],
    "America": ["01/31/2024", "03/01/2024"],
    "dashes": ["31-01-2024", "01-03-2024"],
    "names first": ["Jan 31, 2024", "March 1 2024"],
    "capitals": ["31 JAN 2024", "1. Mar. 2024"],
    "several ways": ["31.1.2024", "2024-03-01"],
    "halves of days": ["1/31/2024 12:00 AM", "3/1/2024 12:00:00 a.m."],
    "comma before time": ["31.01.2024, 00:00", "01.03.2024  00:00"],
    "ordinals": ["31st January 2024", "March 1st, 2024"],
}


@pytest.mark.parametrize("cells", WRITTEN.values(), ids=WRITTEN)
def test_ways_to_write_the_same_dates(cells):
    assert read(cells) == [0, 30]
    assert recognize(cells).origin == "2024-01-31"


def test_time_and_zone_are_parts_of_a_day():
    cells = ["2024-01-31T06:00:00Z", "2024-01-31 12:30:15.5", "2024-01-31T12:00+05:30", None, "-"]
    expected = [0.25, (12 * 3600 + 30 * 60 + 15.5) / 86400, 6.5 / 24, NAN, NAN]
    np.testing.assert_allclose(read(cells), expected, rtol=1e-12)
    cells = ["1/31/2024 9:00 AM", "1/31/2024 12:30 pm", "1/31/2024 11:15PM"]
    expected = [9 / 24, 12.5 / 24, 23.25 / 24]
    np.testing.assert_allclose(read(cells), expected, rtol=1e-12)
    assert read(["9 Sept 2023", "10 Sep. 2023"]) == [0, 1]


MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
PATTERNS = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%b %d, %Y", "%d-%b-%Y"]


@given(st.lists(MOMENTS, min_size=1), st.sampled_from(PATTERNS))
def test_days_are_those_of_datetime(moments, pattern):
    days = [moment.replace(hour=0, minute=0, second=0, microsecond=0) for moment in moments]
    cells = [f"{day:%d}".join(pattern.split("%d")) for day in days]
    cells = [
        cell.replace("%Y", f"{day.year:04}")
        .replace("%m", f"{day:%m}")
        .replace("%B", f"{day:%B}")
        .replace("%b", f"{day:%b}")
        for cell, day in zip(cells, days, strict=True)
    ]
    assert read(cells) == [(day - min(days)) / DAY for day in days]


@given(st.lists(MOMENTS, min_size=1), st.integers(-14 * 60, 14 * 60))
def test_moments_are_those_of_datetime(moments, minutes):
    zone = timezone(timedelta(minutes=minutes))
    aware = [moment.replace(tzinfo=zone) for moment in moments]
    found = recognize([moment.isoformat() for moment in aware])
    start = datetime.fromisoformat(found.origin).replace(tzinfo=UTC)
    expected = [(moment - start) / DAY for moment in aware]
    assert found.parse([moment.isoformat() for moment in aware]).tolist() == expected


def test_day_or_month_first_is_refused_with_both_options():
    with pytest.raises(ValueError, match="two ways: day or month may be first") as caught:
        recognize(["03/04/2024", "05/07/2024"])
    assert "dates={'lab': 'day-first'} or dates={'lab': 'month-first'}" in str(caught.value)
    days = (datetime(2024, 7, 5) - datetime(2024, 4, 3)).days
    assert read(["03/04/2024", "05/07/2024"], "day-first") == [0, days]
    days = (datetime(2024, 5, 7) - datetime(2024, 3, 4)).days
    assert read(["03/04/2024", "05/07/2024"], "month-first") == [0, days]
    with pytest.raises(ValueError, match="'25/04/2024', which does not exist if dates are month f"):
        recognize(["25/04/2024", "03/04/2024"], "month-first")
    for cell, order, days in (("25/04/2024", "day-first", 22), ("04/25/2024", "month-first", 52)):
        assert read(["03/04/2024", cell]) == [0, days]  # one date shows the order of all
        assert recognize(["03/04/2024", cell]).order == order
    assert recognize(["03.04.2024", "05.06.2024"]).order is None  # points: the day is first
    assert read(["03.04.2024", "2024-04-03"]) == [0, 0]


REFUSED = {
    "both orders": (["25/04/2024", "04/25/2024"], r"some have the day first and some the month"),
    "short years": (["31.12.23", "01.01.24"], r"years of two digits, such as '31.12.23'"),
    "no such half": (["1/31/2024 13:05 PM"], r"'1/31/2024 13:05 PM', which does not exist"),
    "no such day": (["2024-02-30", "2024-01-01"], r"the date '2024-02-30', which does not exist"),
    "no such hour": (["2024-01-01 24:30"], r"'2024-01-01 24:30', which does not exist"),
    "zeros": (["0000-00-00", "2024-01-01"], r"does not exist.*missing=\['0000-00-00'\]"),
    "few words": (["2024-01-01"] * 9 + ["soon"], r"dates but for 1 cell, such as 'soon'.*missing"),
}


@pytest.mark.parametrize(("cells", "message"), REFUSED.values(), ids=REFUSED)
def test_dates_that_cannot_be_read_are_refused(cells, message):
    with pytest.raises(ValueError, match=rf"lab.csv: .*column 'seen'.*{message}.*drop=\['seen'\]"):
        recognize(cells)


@pytest.mark.parametrize(
    "cells",
    (
        *(["1.5", "2"], ["2024"], ["10:30"], ["v1.2.3"], ["Jan 2024"]),
        *(["5 Jan 6 2024"], ["ill"], [None, "-"], ["120/80/60"]),
        *([f"5 {word} 2024", f"6 {word} 2024"] for word in ("marraskuuta", "marble", "mai")),
    ),
)
def test_what_is_no_date_is_left_alone(cells):
    assert recognize(cells) is None


def test_formats_survive_json_and_what_does_not_fit_is_refused():
    format = DateFormat("2024-01-31", "month-first")
    assert DateFormat(**json.loads(json.dumps(vars(format)))) == format
    text = DateFormat("2024-01-31", "day-first").describe(["31/01/2024", "-", "?"])
    assert text == "dates, read as days since 2024-01-31 (day first), 2 cells missing"
    for cell in ("2024-02-30", "word", "31.12.24", "5", "03/04/2024"):
        with pytest.raises(ValueError, match=f"^{cell}$"):
            DateFormat("2024-01-01").parse(["2024-01-02", cell])
    for values in ({"origin": "soon"}, {"origin": "2024-01-31", "order": "year-first"}):
        with pytest.raises(ValueError, match=r"soon|year-first"):
            DateFormat(**values)
