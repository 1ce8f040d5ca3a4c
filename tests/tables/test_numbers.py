"""Numbers as people write them: what is read, what is refused, and what stays text."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotview.data.arrow import ArrowTable
from hotview.data.numbers import NumberFormat, TextColumn, TwoReadingsError, recognize_numbers
from hotview.data.options import Options

NAN = np.nan


def recognize(cells, *, others=(), **given):
    table = ArrowTable("lab.csv", pa.table({}), "lab", Options(**given))
    return recognize_numbers(TextColumn(table, "x", cells), lambda: set(others))


def read(cells, **options):
    return recognize(cells, **options).parse(cells).tolist()


# Cells, the format that is recognized, and the numbers.
WRITTEN = {
    "decimal comma": (["1,5", "2,25", "-3"], NumberFormat(","), [1.5, 2.25, -3]),
    "decimal comma behind a zero": (["0,500", "1,250"], NumberFormat(","), [0.5, 1.25]),
    "two groups": (["142,741", "1,142,741"], NumberFormat(".", ","), [142741, 1142741]),
    "groups of points": (["1.142.741", "850"], NumberFormat(",", "."), [1142741, 850]),
    "Switzerland": (["1'050.5", "25’000"], NumberFormat(".", "'"), [1050.5, 25000]),
    "France": (["1\u202f050,5", "25\u00a0000"], NumberFormat(",", " "), [1050.5, 25000]),
    "unit of two words": (["5 per cell", "6 per cell"], NumberFormat(unit="per cell"), [5, 6]),
    "degrees": (["36.6°C", "37 °C"], NumberFormat(unit="°C"), [36.6, 37]),
    "two characters for micro": (["5 µg", "6 μg"], NumberFormat(unit="µg"), [5, 6]),
    "raised power of ten": (["5.2 ×10⁹/L", "6 ×10⁹/L"], NumberFormat(unit="×10⁹/L"), [5.2, 6]),
    "limits": (["<5", ">100", "≤ 7", ">=8", *"5678"], NumberFormat(), [5, 100, 7, 8, 5, 6, 7, 8]),
    "exponents": (["1e3 mg", "2.5E-1 mg"], NumberFormat(unit="mg"), [1000, 0.25]),
    "marks": (["5", "-", "n.a.", "?", None, "."], NumberFormat(), [5, NAN, NAN, NAN, NAN, NAN]),
}


@pytest.mark.parametrize(("cells", "format", "numbers"), WRITTEN.values(), ids=WRITTEN)
def test_ways_to_write_numbers(cells, format, numbers):
    assert recognize(cells) == format
    np.testing.assert_array_equal(format.parse(cells), numbers)


TEXT = {
    "stages": ["1A", "2B", "1B", "3"],
    "addresses": ["12 Main St", "3 Elm", "7 Oak Rd", "1 Ash Ave", "9 Fir", "2 Birch Ln", "4 Yew"],
    "pressures": ["120/80", "110/70"],
    "codes with a meaning": ["0 = no", "1 = yes"],
    "more than limits": ["<50", ">50", "<50"],
    "times": ["10:30", "11:45"],
    "nothing": [None, "-", "?"],
    "dates": ["28. März 2024"] * 3,
    "days and months": ["12 Jan", "3 May"],
}


@pytest.mark.parametrize("cells", TEXT.values(), ids=TEXT)
def test_what_only_looks_like_numbers_stays_text(cells):
    assert recognize(cells) is None


def test_a_comma_before_three_digits_may_be_either_until_others_or_the_user_decide():
    cells = ["142,741", "85,300"]
    with pytest.raises(TwoReadingsError) as caught:
        recognize(cells)
    text = str(caught.value)
    assert "lab.csv: the numbers of column 'x' can be read in two ways, such as '142,741'." in text
    assert "Pass decimal={'lab': ','} if it is 142.741" in text
    assert "thousands={'lab': ','} if it is 142741." in text
    assert read(cells, decimal=",") == read(cells, others=[","]) == [142.741, 85.3]
    assert read(cells, thousands=",") == read(cells, decimal=".") == [142741, 85300]
    assert read(cells, others=["."]) == [142741, 85300]
    with pytest.raises(TwoReadingsError):
        recognize(cells, others=[".", ","])
    with pytest.raises(TwoReadingsError) as caught:
        recognize(["1,000", "1.000"])
    text = "decimal={'lab': '.'} if it is 1000, or decimal={'lab': ','} if it is 1."
    assert text in str(caught.value)
    assert read(["1,000", "1.000"], decimal=".") == [1000, 1]
    assert read(["1,000", "1.000"], decimal=",") == [1, 1000]
    assert read(["1.250 g", "2.500 g"], thousands=".") == [1250, 2500]
    assert read(["1.250 g", "2.500 g"], decimal=",") == [1250, 2500]
    for space in (" ", "\u00a0", "\u202f"):
        assert read(["1\u202f250", "2 500"], thousands=space) == [1250, 2500]


def test_ten_groups_beside_small_numbers_are_thousands():
    groups = [f"{i},{100 + i}" for i in range(1, 11)]
    assert read([*groups, "850"])[-2:] == [10110, 850]
    # Nine; numbers with three decimals look like this, too; and a number that is not small.
    for cells in ([*groups[1:], "850"], groups * 2, [*groups, "850", "1850"]):
        with pytest.raises(TwoReadingsError):
            recognize(cells)


REFUSED = {
    "two units": (["5 mg", "6 mg", "7 g"], r"several \(cells by unit: 'mg': 2, 'g': 1\)"),
    "some without": (["5 mg", "6"], r"\(cells by unit: 'mg': 1, none: 1\)"),
    "two points": (["1.2.3", "1.2.4"], r"such as '1.2.3', but no decimal point and separator"),
    "India": (["1,00,000", "2,50,000"], r"no decimal point and separator of thousands fit"),
    "two countries": (["1,050.5", "1.050,5"], r"no decimal point and separator of thousands fit"),
    "limits": (["<5", "<5", "<5", "7"], r"3 of 4 are detection limits.*categorical=\['x'\]"),
    "answers": (["1,2", "1,2,3"], r"no decimal .*drop=\['x'\].*categorical=\['x'\]"),
}


@pytest.mark.parametrize(("cells", "message"), REFUSED.values(), ids=REFUSED)
def test_numbers_that_do_not_fit_together_are_refused(cells, message):
    with pytest.raises(ValueError, match=f"(?s)lab.csv: .*column 'x'.*{message}"):
        recognize(cells)


def test_few_words_among_numbers_are_refused_with_what_to_pass():
    cells = ["5", "6", "-", None, "7", "8", "unknown", "9", "pending", "1", "2", "3", "4"]
    message = r"but for 2 of 12 cells, the first being 'unknown' in row 7.*missing=\['unknown'\]"
    with pytest.raises(ValueError, match=message):
        recognize(cells)
    assert recognize([*cells, "a", "b"]) is None  # a fifth are words: the numbers are codes


@pytest.mark.parametrize("cell", ("5 g", "1,5", "word", "5 mg 6", "1'000 mg"))
def test_a_cell_in_another_format_is_named(cell):
    with pytest.raises(ValueError, match=f"^{cell}$"):
        NumberFormat(unit="mg").parse(["5 mg", cell])


def test_how_a_column_is_read_is_told_with_examples():
    cells = ["1.050,5 mg", "<5 mg", "<5 mg", "-", "7,5 mg"]
    assert NumberFormat(",", ".", "mg").describe(cells) == (
        "thousands separated by '.' ('1.050,5 mg' is 1050.5), decimal point ',' ('1.050,5 mg' is "
        "1050.5), unit 'mg', '<5 mg' read as the limit (2 cells), '-' missing (1 cell)"
    )
    assert NumberFormat().describe(["5", "6.5", None]) == ""


@pytest.mark.parametrize(
    "values",
    ({"decimal": ";"}, {"decimal": 3}, {"thousands": "x"}, {"unit": None}, {"thousands": "."}),
)
def test_what_is_no_format_is_refused(values):
    with pytest.raises(ValueError, match="Expected a format of numbers"):
        NumberFormat(**values)


#: Decimal point and separator of thousands.
SEPARATORS = [(".", ""), (",", ""), (".", ","), (",", "."), (".", "'"), (".", "’")]
SEPARATORS += [(d, space) for d in ".," for space in (" ", "\u00a0", "\u202f")]
UNITS = ["{}", "{} mg", "{}mg", "{}%", "{} %", "€{}", "{} €", "{} 10^9/L", "{} mmol/L"]
HUNDREDTHS = st.integers(-(10**13), 10**13)


def write(number, n_decimals, separators, minus="-"):
    """Write a whole number of 10**-n_decimals by hand."""
    decimal, thousands = separators
    whole, rest = divmod(abs(number), 10**n_decimals)
    text = f"{whole:,}".replace(",", thousands)
    text += f"{decimal}{rest:0{n_decimals}}" if n_decimals else ""
    return minus + text if number < 0 else text


@given(
    st.lists(HUNDREDTHS, min_size=1, max_size=20),
    st.sampled_from(SEPARATORS),
    st.sampled_from(UNITS),
    st.sampled_from("-−"),
    st.data(),
)
def test_numbers_in_any_format_are_read_back(numbers, separators, unit, minus, data):
    cells = [write(n, 2, separators, minus) for n in numbers]
    cells = [minus * (c[0] == minus) + unit.format(c.removeprefix(minus)) for c in cells]
    missing = data.draw(st.lists(st.sampled_from([None, "-", "n.a.", "?"]), max_size=3))
    found = recognize([*cells, *missing])
    assert found.parse(cells).tolist() == [float(f"{n}e-2") for n in numbers]
    assert np.isnan(found.parse(missing)).all()


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 3)), min_size=1, max_size=9),
    st.sampled_from([s for s in SEPARATORS if s[1] != "."]),
)
def test_numbers_are_read_as_they_were_meant_or_not_at_all(numbers, separators):
    cells = [write(n, n_decimals, separators) for n, n_decimals in numbers]
    try:
        found = recognize(cells)
    except TwoReadingsError:
        return
    expected = [float(f"{n}e-{n_decimals}") for n, n_decimals in numbers]
    assert found.parse(cells).tolist() == expected


@given(st.lists(st.text(alphabet="0123456789.,'<>-+ %€mgeE/°^", max_size=12), max_size=8))
def test_any_text_is_recognized_refused_or_left_alone(cells):
    cells = [cell.strip() or None for cell in cells]
    try:
        found = recognize(cells)
    except ValueError:
        return
    if found is not None:
        assert len(found.parse(cells)) == len(cells)
        assert isinstance(found.describe(cells), str)
        assert NumberFormat(**vars(found)) == found
